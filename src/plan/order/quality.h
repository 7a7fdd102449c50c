/* How well an order mixes the samples of a dataset, measured on its positions. Pure, but for
 * memory.
 *
 * Three measures, each of the order and of a uniform shuffle of the same samples:
 *
 *     largest share      of a step's samples, the share from the row that gives most of them;
 *                        averaged over the steps
 *     distance           between the indices of samples at neighbouring positions, as a share of
 *                        all frames; the median. 1 - sqrt(1/2) = 0.29 in a uniform shuffle of all
 *     entropy            in bits: of the distances between the indices of neighbours, plus of the
 *                        distances between their rows. This is the measure of shuffles in the
 *                        simulator of MosaicML Streaming, with rows for shards
 */
#ifndef PENSTOCK_PLAN_ORDER_QUALITY_H
#define PENSTOCK_PLAN_ORDER_QUALITY_H

#include "plan/order/plan.h"

enum { QUALITY_MAX_SAMPLES = 1 << 18 };

struct quality {
    double largest_share, distance, entropy;
};

/* Measures the first steps of `epoch`: at most QUALITY_MAX_SAMPLES samples, or one step.
 * *ret_uniform is of as many samples. *ret_samples: how many these are. NO_MEMORY. */
MUST_USE enum status quality_measure(const struct plan *plan, uint64_t epoch, uint64_t *ret_samples,
                                     struct quality *ret_order, struct quality *ret_uniform,
                                     struct error *err);

#endif
