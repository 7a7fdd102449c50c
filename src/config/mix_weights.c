/* See options.h: weights of a mix, as whole numbers. */
#include "base/number.h"
#include "config/options.h"

#include <inttypes.h>
#include <string.h>

enum { WEIGHT_DIGITS = 9 };
#define LARGEST_WEIGHT (UINT64_C(1) << 31)

/* A decimal number, exactly: digits / 10^decimals. */
struct weight {
    uint64_t digits;
    int decimals;
    bool has_point;
};

static bool parse_weight(const char *text, struct weight *ret_weight)
{
    struct weight weight = {0};
    int count = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '.' && !weight.has_point) {
            weight.has_point = true;
            continue;
        }
        if (*c < '0' || *c > '9')
            return false;
        weight.digits = weight.digits * 10 + (uint64_t)(*c - '0');
        weight.decimals += weight.has_point;
        count += count > 0 || *c != '0' || weight.has_point;
        if (count > 2 * WEIGHT_DIGITS || weight.decimals > WEIGHT_DIGITS)
            return false;
    }
    *ret_weight = weight;
    return text[strspn(text, ".")] != '\0';
}

static enum status refuse_weight(const char *where, const struct mix_weight *weight, bool may_be_0,
                                 struct error *err)
{
    const char *wrong = weight->text[0] == '-' ? "negative"
                        : may_be_0             ? "no decimal number"
                                               : "no positive decimal number";
    if (!*weight->text)
        return error_set(err, STATUS_INVALID,
                         "%s: '%s' has no weight, and others have: give each source one, or none "
                         "if mix.schedule has weights for step 0",
                         where, weight->name);
    return error_set(err, STATUS_INVALID,
                     "%s: the weight '%.80s' of '%s' is %s: write a whole number, or at most %d "
                     "digits behind the point",
                     where, weight->text, weight->name, wrong, WEIGHT_DIGITS);
}

static uint64_t power_of_ten(int exponent)
{
    uint64_t power = 1;
    for (; exponent > 0; exponent--)
        power *= 10;
    return power;
}

/* Weights with a point sum to 1, but for a millionth: 0.333333 three times. */
static enum status check_sum(const char *where, const uint64_t *weights, uint32_t count,
                             uint64_t one, struct error *err)
{
    unsigned __int128 sum = 0, millionth = 1000000;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    unsigned __int128 apart = sum > one ? sum - one : one - sum;
    if (apart * millionth <= one)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: the weights sum to %.9g, not to 1: write fractions that sum to 1, or "
                     "whole numbers, whose ratio counts",
                     where, (double)sum / (double)one);
}

/* Reduces the weights to a ratio without common divisor. */
static enum status settle_ratio(const char *where, const struct mix_weight *weights, uint32_t count,
                                uint64_t *ratio, struct error *err)
{
    uint64_t divisor = 0;
    for (uint32_t i = 0; i < count; i++)
        divisor = greatest_common_divisor(divisor, ratio[i]);
    if (divisor == 0)
        return error_set(err, STATUS_INVALID,
                         "%s: all weights are 0: give at least one source a weight", where);
    for (uint32_t i = 0; i < count; i++) {
        ratio[i] /= divisor;
        if (ratio[i] > LARGEST_WEIGHT)
            return error_set(err, STATUS_INVALID,
                             "%s: the ratio of the weights is too fine: in whole numbers '%s' has "
                             "%" PRIu64 ", more than %" PRIu64,
                             where, weights[i].name, ratio[i], LARGEST_WEIGHT);
    }
    return STATUS_OK;
}

enum status mix_parse_ratio(const char *where, const struct mix_weight *weights, uint32_t count,
                            bool may_be_0, uint64_t *ret_ratio, struct error *err)
{
    struct weight parsed[DATASET_MAX_SOURCES];
    uint64_t ratio[DATASET_MAX_SOURCES];
    int decimals = 0;
    bool fractions = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!parse_weight(weights[i].text, &parsed[i]) || (!may_be_0 && parsed[i].digits == 0))
            return refuse_weight(where, &weights[i], may_be_0, err);
        decimals = parsed[i].decimals > decimals ? parsed[i].decimals : decimals;
        fractions = fractions || parsed[i].has_point;
    }
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(parsed[i].digits, power_of_ten(decimals - parsed[i].decimals),
                                   &ratio[i]))
            return refuse_weight(where, &weights[i], may_be_0, err);
    enum status status =
        fractions ? check_sum(where, ratio, count, power_of_ten(decimals), err) : STATUS_OK;
    if (status == STATUS_OK)
        status = settle_ratio(where, weights, count, ratio, err);
    if (status == STATUS_OK)
        memcpy(ret_ratio, ratio, count * sizeof ratio[0]);
    return status;
}
