/* The trial of a transform: one call with the first samples of a dataset, before the start, which
 * says what the transform makes. Reader 0 and `penstock plan` make it. */
#ifndef PENSTOCK_TRANSFORM_TRIAL_H
#define PENSTOCK_TRANSFORM_TRIAL_H

#include "base/text.h"
#include "dataset/dataset.h"
#include "delivery/ring/board.h"
#include "transform/process.h"

struct trial_options {
    struct transform_command command;
    const char *fields;  /* a list (base/text.h) of the fields that the transform gets; "": all */
    uint64_t timeout_ns; /* until it is ready, and until it answers */
    uint64_t seed;       /* of the samples' keys */
    bool (*is_interrupted)(void *argument); /* asked ten times a second; NULL: it never is */
    void *argument;
};

/* *ret_shape: the inputs, of which those say so that trainers get as they are; and the outputs,
 * with numbers of fields behind the dataset's. What comes beside a field ("F.offsets") is an input
 * with it. Blocks on the store and on the transform. INVALID: there is no such field; the transform
 * failed, and the message has what it said; two fields would have one name; there are too many.
 * LOST: the process ended. TIMEOUT. INTERRUPTED. Errors of trial_slot_make(). */
MUST_USE enum status trial_run(const struct trial_options *options, const struct dataset *dataset,
                               struct board_shape *ret_shape, struct error *err);

/* Appends "gets image, caption; makes image float32 [3, 96, 96], tokens int32 [up to 512]". */
void trial_describe(const struct board_shape *shape, struct text *out);

#endif
