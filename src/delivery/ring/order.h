/* The numbers that decide a run's order of samples. A trainer gets them with its ring. States and
 * cursor files hold them too. A run that is to go on from a state or a cursor compares them with
 * its own. All functions are pure.
 *
 * A state is one line of JSON that a training script keeps in its checkpoints
 * (docs/inside/layouts.md):
 *
 *     {"version":2,"dataset":"1f0c94d33ac07e52","order_id":"87c0a6a8e1a0c1d5","seed":17,"epoch":2,
 *      "step":4100,"global_batch":256,"row_length":8,"window_rows":256,"shuffle":true,"last":"drop"}
 *
 * With order.placement local, "placement" and "locality" follow.
 */
#ifndef PENSTOCK_DELIVERY_RING_ORDER_H
#define PENSTOCK_DELIVERY_RING_ORDER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORDER_STATE_VERSION = 2, ORDER_STATE_BYTES = 320 /* holds any state, NUL included */ };

struct order {
    uint64_t id;          /* a hash of all that decides the order, the members below included:
                           * plan_order_id() */
    uint64_t fingerprint; /* of the dataset */
    uint64_t seed;
    uint32_t global_batch, row_length, window_rows;
    uint32_t shuffle;  /* 0 or 1 */
    uint32_t last;     /* enum plan_last */
    uint32_t locality; /* 0: order.placement is fixed; else it is local, and this is the run's
                        * locality_number() */
};

_Static_assert(sizeof(struct order) == 48, "shared layout");

/* The name of a value of `last`, as in the option batch.last: a constant string; `last` must be one
 * of enum plan_last. And back: the value of a name; -1: no value has that name. */
const char *order_last_name(uint32_t last);
int order_find_last(const char *name);

/* Whether all steps of an epoch but its last have global_batch samples, whatever the dataset. */
bool order_has_equal_steps(const struct order *order);

/* Whether a run can have these members: sizes above 0, shuffle and last in their ranges. */
bool order_makes_sense(const struct order *order);

/* Compares two orders; another locality alone makes no other order. INVALID: the orders differ; the
 * message names the option and both values. */
MUST_USE enum status order_check_same(const struct order *before, const struct order *now,
                                      struct error *err);

/* Writes the state of `epoch` and `step` into `buffer`, cut at `size` bytes, NUL included. Returns
 * the length of the whole state, as snprintf() does. */
int order_print_state(const struct order *order, uint64_t epoch, uint64_t step, char *buffer,
                      size_t size);

#endif
