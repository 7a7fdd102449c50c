/* Where a run continues: the small JSON document that a training script keeps in its checkpoints.
 *
 *     {"version":1,"dataset":"1f0c94d33ac07e52","seed":17,"epoch":2,"step":4100,"global_batch":256}
 *
 * `epoch` and `step` name the next step to deliver. The text comes from outside and is read with
 * suspicion: bounded size and depth, exact types, no missing keys, none twice. Unknown keys are
 * ignored, so that a script may add its own. Pure, safe from any thread.
 */
#ifndef PENSTOCK_RUN_STATE_H
#define PENSTOCK_RUN_STATE_H

#include "base/error.h"
#include "base/text.h"
#include "plan/plan.h"

#include <stddef.h>
#include <stdint.h>

enum { RUN_STATE_VERSION = 1, RUN_STATE_MAX_BYTES = 65536 };

struct run_state {
    uint64_t fingerprint; /* struct dataset's */
    uint64_t seed;
    uint64_t epoch, step;
    uint64_t global_batch;
};

/* INVALID: too long, not JSON, a key missing, twice, of the wrong type or out of range.
 * UNSUPPORTED: another version. */
MUST_USE enum status run_state_parse(const char *json, size_t size, struct run_state *ret_state,
                                     struct error *err);

/* The same for a file. NOT_FOUND, IO: the file. */
MUST_USE enum status run_state_read_file(const char *path, struct run_state *ret_state,
                                         struct error *err);

/* Appends the document, without a newline. */
void run_state_print(const struct run_state *state, struct text *out);

/* Whether a run of this plan, dataset and number of epochs can continue at `state`. A step equal to
 * plan.steps_per_epoch stands for the start of the next epoch. INVALID: which value differs, and
 * both values. */
MUST_USE enum status run_state_check(const struct run_state *state, const struct plan *plan,
                                     uint64_t fingerprint, uint64_t epochs, struct error *err);

#endif
