/* What decides the order of samples, as a run has settled it: told to trainers with their ring,
 * kept in states and with cursors, and held against what comes back. Pure.
 *
 * A state, what a training script keeps in its checkpoints, is one line of JSON (docs/layouts.md):
 *
 *     {"version":2,"dataset":"1f0c94d33ac07e52","order_id":"87c0a6a8e1a0c1d5","seed":17,"epoch":2,
 *      "step":4100,"global_batch":256,"row_length":8,"window_rows":256,"shuffle":true,"last":"drop"}
 */
#ifndef PENSTOCK_DELIVERY_ORDER_H
#define PENSTOCK_DELIVERY_ORDER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORDER_STATE_VERSION = 2, ORDER_STATE_BYTES = 256 /* holds any, NUL included */ };

struct order {
    uint64_t id;          /* of all that follows, and more: plan_order_id() */
    uint64_t fingerprint; /* of the dataset */
    uint64_t seed;
    uint32_t global_batch, row_length, window_rows;
    uint32_t shuffle;  /* 0 or 1 */
    uint32_t last;     /* enum plan_last */
    uint32_t reserved; /* 0 */
};

_Static_assert(sizeof(struct order) == 48, "shared layout");

/* The names of `last`, which are batch.last's; -1: there is none of that name. */
const char *order_last_name(uint32_t last);
int order_find_last(const char *name);

/* Whether all members are such as a run can have. */
bool order_makes_sense(const struct order *order);

/* INVALID: they differ; the message names the option and both values. */
MUST_USE enum status order_check_same(const struct order *before, const struct order *now,
                                      struct error *err);

/* The state of a cursor (`epoch` * steps of an epoch + `step` is below 2^64), cut at `size`;
 * returns the length that it has whole, as snprintf(). */
int order_print_state(const struct order *order, uint64_t epoch, uint64_t step, char *buffer,
                      size_t size);

#endif
