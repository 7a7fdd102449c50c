/* The fragments of samples, for each source of a run: one, or those of a mix. A source's fields lie
 * in its rows in its own way, and may be held where another's are not. All have the same fields, so
 * that slots are the same. Pure, but for memory. */
#ifndef PENSTOCK_RUN_FRAGMENT_SOURCES_H
#define PENSTOCK_RUN_FRAGMENT_SOURCES_H

#include "run/fragments.h"

/* What is said of all sources together is the most of any. */
struct fragment_sources {
    size_t record_bytes, packed_bytes;
    uint64_t messages, message_bytes; /* of a sample, for what is zero-copy; of the largest one */
    bool shifts, crops, finishes;     /* of at least one source: see struct fragments */
    uint32_t count;
    struct fragments *of[]; /* [count] */
};

/* The caller frees *ret_fragments. Otherwise as fragments_new(). NO_MEMORY. */
MUST_USE enum status fragment_sources_new(const struct dataset *dataset,
                                          const struct shares *shares,
                                          struct fragment_sources **ret_fragments,
                                          struct error *err);

/* NULL is fine. */
void fragment_sources_free(struct fragment_sources *fragments);

/* Sets the offsets in slots. To be called once. */
void fragment_sources_set_slots(struct fragment_sources *fragments,
                                const struct ring_layout *layout);

#endif
