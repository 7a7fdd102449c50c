/* See weights.h. */
#include "plan/order/weights.h"

#include "base/number.h"
#include "base/random.h"

static const uint64_t ONE = UINT64_C(1) << 32;

uint64_t weights_halve(const uint64_t *sums, uint64_t low, uint64_t middle, uint64_t high,
                       uint64_t count, uint64_t key)
{
    uint64_t left = sums[middle] - sums[low], right = sums[high] - sums[middle];
    uint64_t rounded_up = count - left / ONE - right / ONE; /* halves: none, one or both */
    if (rounded_up != 1)
        return left / ONE + rounded_up / 2;
    uint64_t chance = left % ONE, all = left % ONE + right % ONE;
    if (all >= ONE) { /* the list is rounded down: one of both is, by what it lacks */
        chance = ONE - right % ONE;
        all = 2 * ONE - all;
    }
    return left / ONE + (random_below(random_u64(key, low, high), all) < chance);
}

void weights_divide(const uint64_t *sums, uint64_t low, uint64_t high, uint64_t count, uint64_t key,
                    uint32_t *ret_counts)
{
    if (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t left = weights_halve(sums, low, middle, high, count, key);
        weights_divide(sums, low, middle, left, key, ret_counts);
        weights_divide(sums, middle, high, count - left, key, ret_counts);
    } else if (high > low) {
        ret_counts[low] = (uint32_t)count;
    }
}

uint32_t weights_find(const struct anchors *anchors, uint64_t row, uint64_t count, uint64_t number,
                      uint64_t key, uint64_t *ret_copy)
{
    uint64_t low = 0, high = anchors_row_samples(anchors, row);
    *ret_copy = number;
    if (high == 1)
        return 0;
    const uint64_t *sums = anchors_row_weights(anchors, row);
    uint64_t own = random_u64(key, 0, row);
    if (anchors_are_replaced(anchors)) {
        uint64_t at = random_below(random_u64(own, 0, number), sums[high] - sums[0]);
        return (uint32_t)find_last_u64(sums, 0, high, sums[0] + at);
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t left = weights_halve(sums, low, middle, high, count, own);
        bool is_left = number < left;
        number -= is_left ? 0 : left;
        count = is_left ? left : count - left;
        *(is_left ? &high : &low) = middle;
    }
    *ret_copy = number;
    return (uint32_t)low;
}

uint64_t weights_most_copies(const struct anchors *anchors)
{
    uint64_t most = 1;
    for (uint64_t row = 0; row < anchors_row_count(anchors); row++) {
        uint32_t samples = anchors_row_samples(anchors, row);
        const uint64_t *sums = samples ? anchors_row_weights(anchors, row) : NULL;
        if (samples > 0 && anchors_are_replaced(anchors))
            most = max_u64(most, (sums[samples] - sums[0] + ONE - 1) / ONE);
        for (uint32_t k = 0; k < samples && !anchors_are_replaced(anchors); k++)
            most = max_u64(most, (sums[k + 1] - sums[k] + ONE - 1) / ONE);
    }
    return most;
}
