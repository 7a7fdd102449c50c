/* The resume state: the small JSON document in a training script's checkpoints that says where a
 * run continues.
 *
 * `epoch` and `step` name the next step to deliver; the rest is the order (delivery/ring/order.h).
 * States of version 1 lack order_id, row_length, window_rows, shuffle and last. The run's own
 * values are taken instead, and run_state_describe_gaps() warns. The text comes from outside, so
 * its size and depth are bounded, types are exact, and no key may be missing or be there twice.
 * Unknown keys are ignored: a script may add its own. Pure, safe from any thread.
 */
#ifndef PENSTOCK_RUN_STATE_H
#define PENSTOCK_RUN_STATE_H

#include "base/error.h"
#include "base/text.h"
#include "delivery/ring/layout.h"

#include <stddef.h>
#include <stdint.h>

enum { RUN_STATE_MAX_BYTES = 65536 };

struct run_state {
    uint64_t version;   /* 1 or 2 */
    struct order order; /* version 1: the fingerprint, seed and global_batch alone */
    uint64_t epoch, step;
};

/* INVALID: too long, not JSON, a key missing, twice, of the wrong type or out of range.
 * UNSUPPORTED: another version. */
MUST_USE enum status run_state_parse(const char *json, size_t size, struct run_state *ret_state,
                                     struct error *err);

/* Like run_state_parse(), for a file. NOT_FOUND, IO: the file. */
MUST_USE enum status run_state_read_file(const char *path, struct run_state *ret_state,
                                         struct error *err);

/* Appends the document, of version 2, without a newline. */
void run_state_print(const struct run_state *state, struct text *out);

/* Whether a run with `service` can continue at `state`. A step equal to steps_per_epoch stands
 * for the start of the next epoch. INVALID: which option differs, and both values. */
MUST_USE enum status run_state_check(const struct run_state *state,
                                     const struct ring_service *service, struct error *err);

/* Appends a warning, without a newline, for a run that goes on from a state of version 1. */
void run_state_describe_gaps(const struct ring_service *service, struct text *out);

#endif
