/* See anchors.h: weights as whole numbers. Sums do not depend on any order of additions, so that
 * all machines make the same of the same weights.
 *
 * Weights are in units of 2^-32. Rows that weigh less than 1, the light ones, get other weights, so
 * that their sum is whole, and so do the rest; then the samples of each row, so that their sum is
 * that of the row. What is fitted is the part behind the point: the one of smaller parts and what
 * they lack to 1 that has to shrink shrinks in proportion. So whole weights stay as they are, and
 * no weight passes a whole number. */
#include "anchors/anchors_internal.h"

#include "base/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ONE = UINT64_C(1) << 32;

static uint64_t part_of(uint64_t weight)
{
    return weight % ONE;
}

/* Gives `count` weights the sum `target`, which is theirs, rounded up or down to whole numbers or
 * less far. */
static void fit(uint64_t *weights, uint64_t count, uint64_t target)
{
    uint64_t whole = 0, parts = 0, with_part = 0, last = 0, run = 0;
    for (uint64_t i = 0; i < count; i++) {
        whole += weights[i] / ONE;
        parts += part_of(weights[i]);
        with_part += part_of(weights[i]) > 0;
    }
    uint64_t wanted = target - whole * ONE, all = parts;
    bool shrinks = wanted <= parts;
    if (!shrinks) {
        wanted = with_part * ONE - wanted;
        all = with_part * ONE - parts;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t part = part_of(weights[i]);
        if (part == 0)
            continue;
        run += shrinks ? part : ONE - part;
        uint64_t sum = (uint64_t)((unsigned __int128)run * wanted / all), own = sum - last;
        weights[i] += (shrinks ? own : ONE - own) - part;
        last = sum;
    }
}

/* Gives them the sum `target` in proportion. */
static void stretch(uint64_t *weights, uint64_t count, uint64_t target)
{
    unsigned __int128 all = 0, run = 0;
    uint64_t last = 0;
    for (uint64_t i = 0; i < count; i++)
        all += weights[i];
    if (all == 0)
        return;
    for (uint64_t i = 0; i < count; i++) {
        run += weights[i];
        uint64_t sum = (uint64_t)(run * target / all);
        weights[i] = sum - last;
        last = sum;
    }
}

static uint64_t sum_of(const uint64_t *weights, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += weights[i];
    return sum;
}

/* Of a row's anchors, as they follow one another over all rows. */
typedef void row_visit(uint64_t *weights, uint64_t samples, uint64_t *row_weight);

static void for_rows(const struct anchors *anchors, uint64_t *weights, uint64_t *rows,
                     row_visit *visit)
{
    uint64_t first = 0;
    for (uint64_t row = 0; row < anchors->header->rows; row++) {
        uint64_t samples = anchors->row_samples[row];
        visit(weights + first, samples, &rows[row]);
        first += samples;
    }
}

static void add_up(uint64_t *weights, uint64_t samples, uint64_t *row_weight)
{
    *row_weight = sum_of(weights, samples);
}

static void fit_samples(uint64_t *weights, uint64_t samples, uint64_t *row_weight)
{
    if (samples > 0)
        fit(weights, samples, *row_weight);
}

static void stretch_samples(uint64_t *weights, uint64_t samples, uint64_t *row_weight)
{
    if (samples > 0)
        stretch(weights, samples, *row_weight);
}

/* The rows that are light, or those that are not, one after another at `group`. */
static uint64_t take_group(const uint64_t *rows, uint64_t count, bool light, uint64_t *group)
{
    uint64_t taken = 0;
    for (uint64_t row = 0; row < count; row++)
        if (rows[row] > 0 && (rows[row] < ONE) == light)
            group[taken++] = rows[row];
    return taken;
}

static uint64_t rounded(uint64_t weight)
{
    return weight / ONE + (part_of(weight) >= ONE / 2);
}

/* Gives both groups of rows whole sums. `draws` 0: the nearest ones. `group` has [count] numbers,
 * for a while. */
static void fit_rows(uint64_t *rows, uint64_t count, uint64_t draws, uint64_t *group)
{
    uint64_t light = take_group(rows, count, true, group);
    uint64_t heavy = take_group(rows, count, false, group + light);
    uint64_t light_draws = light > 0 ? max_u64(1, rounded(sum_of(group, light))) : 0;
    uint64_t heavy_draws = draws > 0 ? draws - light_draws : rounded(sum_of(group + light, heavy));
    fit(group, light, light_draws * ONE);
    fit(group + light, heavy, heavy_draws * ONE);
    for (uint64_t row = 0, a = 0, b = light; row < count; row++)
        if (rows[row] > 0)
            rows[row] = rows[row] < ONE ? group[a++] : group[b++];
}

/* As they are, each at least one unit. INVALID: one, or all together, are too many samples. */
static enum status take_whole(const double *weights, uint64_t count, uint64_t *ret,
                              struct error *err)
{
    double most = 0;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        most = weights[i] > most ? weights[i] : most;
        if (most < (double)ANCHORS_MOST_DRAWS) {
            ret[i] = max_u64(1, (uint64_t)(weights[i] * (double)ONE + 0.5));
            sum = add_sat(sum, ret[i]);
        }
    }
    if (most < (double)ANCHORS_MOST_DRAWS && sum / ONE < ANCHORS_MOST_DRAWS)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "a sample of weight w comes w times in an epoch, and these weights make epochs "
        "of more than %d samples (the greatest weight is %g): lower the weights, or "
        "set samples.draws",
        ANCHORS_MOST_DRAWS, most);
}

/* In units in which the greatest one has 32 bits, then so that all come to `draws`. */
static void take_relative(const double *weights, uint64_t count, uint64_t draws, uint64_t *ret)
{
    double most = 0;
    int exponent;
    for (uint64_t i = 0; i < count; i++)
        most = weights[i] > most ? weights[i] : most;
    (void)frexp(most, &exponent);
    for (uint64_t i = 0; i < count; i++)
        ret[i] = max_u64(1, (uint64_t)ldexp(weights[i], 32 - exponent));
    stretch(ret, count, draws * ONE);
}

static enum status settle(const struct anchors *anchors, const double *weights, uint64_t draws,
                          uint64_t *ret, struct error *err)
{
    uint64_t count = anchors->header->samples, row_count = anchors->header->rows;
    uint64_t *rows = calloc(2 * row_count + 1, sizeof *rows);
    enum status status = STATUS_OK;
    if (!rows)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the weights of samples");
    if (draws > 0)
        take_relative(weights, count, draws, ret);
    else
        status = take_whole(weights, count, ret, err);
    if (status == STATUS_OK) {
        for_rows(anchors, ret, rows, add_up);
        fit_rows(rows, row_count, draws, rows + row_count);
        for_rows(anchors, ret, rows, draws > 0 ? stretch_samples : fit_samples);
    }
    free(rows);
    return status;
}

/* The weights of all anchors, in their order. */
static void list_weights(const struct anchors *anchors, const double *of_frames, double *ret)
{
    for (uint64_t row = 0, i = 0; row < anchors->header->rows; row++)
        for (uint32_t k = 0; k < anchors->row_samples[row]; k++)
            ret[i++] = of_frames[anchors_frame_at(anchors, row, k)];
}

enum status anchors_weigh(struct anchors **anchors, const double *weights, uint64_t draws,
                          struct error *err)
{
    struct anchors *plain = *anchors, *weighed = NULL;
    uint64_t samples = plain->header->samples, sum = 0;
    struct anchors_header sizes = *plain->header;
    double *listed = calloc(samples, sizeof *listed);
    if (!listed)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the weights of samples");
    if (samples > ANCHORS_MOST_DRAWS) {
        free(listed);
        return error_set(err, STATUS_INVALID, "%" PRIu64 " samples have weights: at most %d may",
                         samples, ANCHORS_MOST_DRAWS);
    }
    sizes.weights = draws > 0 ? WEIGHTS_REPLACED : WEIGHTS_WHOLE;
    list_weights(plain, weights, listed);
    enum status status = anchors_new(&sizes, &weighed, err);
    if (status == STATUS_OK) {
        memcpy(weighed->header + 1, plain->header + 1, plain->header->bytes - sizeof sizes);
        status = settle(weighed, listed, draws, weighed->weight_sums + 1, err);
    }
    free(listed);
    if (status != STATUS_OK) {
        anchors_free(weighed);
        return status;
    }
    for (uint64_t i = 1; i <= samples; i++)
        weighed->weight_sums[i] = sum += weighed->weight_sums[i];
    anchors_free(plain);
    *anchors = weighed;
    return STATUS_OK;
}

bool anchors_are_weighted(const struct anchors *anchors)
{
    return anchors->weight_sums != NULL;
}

bool anchors_are_replaced(const struct anchors *anchors)
{
    return anchors->header->weights == WEIGHTS_REPLACED;
}

uint64_t anchors_draws(const struct anchors *anchors)
{
    uint64_t samples = anchors->header->samples;
    return anchors->weight_sums ? anchors->weight_sums[samples] / ONE : samples;
}

const uint64_t *anchors_row_weights(const struct anchors *anchors, uint64_t row)
{
    uint64_t end;
    return anchors->weight_sums + anchors_rank(anchors, anchors_row_frames(anchors, row, &end));
}
