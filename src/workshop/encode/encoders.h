/* Encoders: processes that get batches of samples as trainers do, and give an array for each. They
 * are started with the first batch, and served by a thread of this room.
 *
 *     a submission    reserved -> submitted -> published, once all before are -> given
 *
 * A submission is a slot of one encoder's ring. Any thread reserves submissions, fills them, and
 * collects what was given for them. The first failure of any encoder ends all: each call returns
 * it.
 */
#ifndef PENSTOCK_WORKSHOP_ENCODE_ENCODERS_H
#define PENSTOCK_WORKSHOP_ENCODE_ENCODERS_H

#include "base/dtype.h"
#include "base/error.h"
#include "delivery/ring/layout.h"

#include <stdint.h>

enum { ENCODERS_MOST = 256, ENCODERS_SLOTS = 4, ENCODERS_MAX_RANK = 8 };

struct encoders_options {
    const char *command; /* of the shell; borrowed */
    uint32_t count;      /* processes, 1 to ENCODERS_MOST */
    uint32_t batch;      /* samples of a batch, at most */
    uint64_t timeout_ns; /* until an encoder connects, and for one batch */
    uint64_t sample_count;
    uint32_t field_count;
    const struct ring_field *fields; /* in order of name: names, dtypes and shapes; borrowed during
                                      * encoders_new() */
};

struct encoders;

/* Starts nothing yet. INVALID: fields that a trainer cannot get. */
MUST_USE enum status encoders_new(const struct encoders_options *options,
                                  struct encoders **ret_encoders, struct error *err);

/* Tells the encoders that there is no more, waits for their end, and frees all. After a failure the
 * processes are ended. NULL is fine. Blocks. */
void encoders_free(struct encoders *encoders);

/* Memory of all rings. */
uint64_t encoders_bytes(const struct encoders *encoders);

struct encoders_submission {
    uint32_t encoder;
    uint64_t sequence;
    unsigned char *slot;
};

/* Waits for a free slot. Errors of the encoders. */
MUST_USE enum status encoders_reserve(struct encoders *encoders,
                                      struct encoders_submission *ret_submission,
                                      struct error *err);

/* Where the samples of a field go. */
void *encoders_field(const struct encoders *encoders, const struct encoders_submission *submission,
                     uint32_t field);

/* Samples [begin, begin + count) are in the slot. */
void encoders_submit(struct encoders *encoders, const struct encoders_submission *submission,
                     uint64_t begin, uint32_t count);

/* A submission that was reserved cannot be filled, for this error: all ends. */
void encoders_abandon(struct encoders *encoders, const struct error *error);

/* What was given for a submission. */
struct encoded {
    enum dtype dtype;
    int rank; /* of the array, whose first axis is that of the samples */
    uint64_t shape[ENCODERS_MAX_RANK];
    const void *data; /* mapped; encoded_done() */
    uint64_t bytes;
};

/* Waits for what is given for a submission that was submitted. Errors of the encoders. INVALID: an
 * unknown dtype, or another number of samples. */
MUST_USE enum status encoders_collect(struct encoders *encoders,
                                      const struct encoders_submission *submission,
                                      struct encoded *ret_encoded, struct error *err);
void encoded_done(struct encoded *encoded);

/* "float16 [3, 4, 32]" of a sample. A static buffer of the thread's. */
const char *encoded_describe(enum dtype dtype, int rank, const uint64_t *shape);

#endif
