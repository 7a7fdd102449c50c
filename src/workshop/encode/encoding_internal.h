/* Shared by encoding.c (the source) and encoding_settle.c (what a sample is). */
#ifndef PENSTOCK_WORKSHOP_ENCODE_ENCODING_INTERNAL_H
#define PENSTOCK_WORKSHOP_ENCODE_ENCODING_INTERNAL_H

#include "workshop/encode/encoders.h"
#include "workshop/encode/encoding.h"

struct encoding {
    const struct encoding_plan *plan; /* borrowed */
    struct encoders *encoders;
    uint64_t sample_count;
    /* Once settled: */
    enum dtype dtype;
    int rank;                          /* of the array, with the axis of samples */
    uint64_t shape[ENCODERS_MAX_RANK]; /* from [1] on; [0]: of the first batch */
    uint64_t sample_bytes;
    unsigned char *first; /* what was made of samples [0, shape[0]); owned */
};

/* A thread's: a reader of the inner source for each input. */
struct encoding_reader {
    struct encoding *encoding;
    void **inner; /* [input_count] */
};

/* Has samples [begin, begin + count) encoded. `ret_encoded` is the caller's. */
MUST_USE enum status encoding_ask(struct encoding_reader *reader, uint64_t begin, uint32_t count,
                                  struct encoded *ret_encoded, struct error *err);
/* Rings, and results once their size is known, within what the process may take. NO_MEMORY: not. */
MUST_USE enum status encoding_check_memory(const struct encoding *encoding, struct error *err);
MUST_USE enum status encoding_open(void *encoding, void **ret_reader, struct error *err);
void encoding_close(void *reader);

#endif
