/* Ragged fields, as plans of memory and rounds see them: how much rows and samples take at most,
 * whichever they are. The functions are those of dataset/ragged.h. */
#ifndef PENSTOCK_PLAN_ROUNDS_RAGGED_LIMITS_H
#define PENSTOCK_PLAN_ROUNDS_RAGGED_LIMITS_H

#include "base/number.h"
#include "plan/order/plan.h"

struct dataset;

/* All 0: there are no ragged fields. */
struct plan_ragged {
    const struct dataset *dataset; /* borrowed, for the functions */
    size_t page_bytes;
    uint64_t mean_trailer_bytes; /* of a sample */
    uint64_t sample_steps;       /* of all ragged fields, those that are held among them */
    uint64_t last_starts;    /* of a batch: those behind the samples' steps, see run/trailers.h */
    uint64_t mean_row_bytes; /* of a row's items */
    uint64_t step_trailer_bytes; /* with cuts: of all trailers of a step at most; else 0 */
    uint64_t (*most_pages)(const struct dataset *dataset, uint64_t rows);
    uint64_t (*most_trailer)(const struct dataset *dataset, uint64_t samples);
    uint64_t (*most_mixed_trailer)(const struct dataset *mix, const uint64_t *draws,
                                   const uint64_t *copies, uint64_t samples);
};

/* The most bytes of the trailers of `records` records among so many positions of an epoch that
 * follow one another: with the copies of samples that PLAN_PAD repeats, or passes over a source of
 * a mix. 0 without ragged fields. Pure. */
uint64_t plan_ragged_trailer(const struct plan_ragged *ragged, const struct plan *plan,
                             uint64_t positions, uint64_t records);

/* Starts of a batch of so many samples. */
static inline uint64_t plan_ragged_starts(const struct plan_ragged *ragged, uint64_t batch)
{
    return mul_sat(batch, ragged->sample_steps) + ragged->last_starts;
}

#endif
