/* The fragments of samples, of each kind: for each source of a run (one, or those of a mix), and
 * for each class of readers, and for each phase of epochs. A source's fields lie in its rows in its
 * own way, and may be held where another's are not; all have the same fields. Readers of a class
 * have slots of one layout, with what their trainers need. In a phase samples have some of their
 * steps (dataset_phase). Records have one size in all phases. Pure, but for memory. */
#ifndef PENSTOCK_RUN_FRAGMENT_SOURCES_H
#define PENSTOCK_RUN_FRAGMENT_SOURCES_H

#include "run/fragments.h"

/* What is said of all kinds together is the most of any. */
struct fragment_sources {
    size_t record_bytes, packed_bytes;
    uint64_t messages, message_bytes; /* of a sample, for what is zero-copy; of the largest one */
    bool shifts, crops, finishes;     /* of at least one: see struct fragments */
    uint32_t count, source_count, class_count;
    struct fragments
        *of[]; /* [count] kind = (phase * class_count + class) * source_count + source */
};

/* `classes`: [class_count] what slots of each class have; NULL, for one class: all. The caller
 * frees *ret_fragments. Otherwise as fragments_new(). NO_MEMORY. */
MUST_USE enum status fragment_sources_new(const struct dataset *dataset,
                                          const struct shares *shares, const struct needs *classes,
                                          uint32_t class_count,
                                          struct fragment_sources **ret_fragments,
                                          struct error *err);

/* NULL is fine. */
void fragment_sources_free(struct fragment_sources *fragments);

/* Sets the offsets in slots, of the kinds of one class. To be called once. */
void fragment_sources_set_slots(struct fragment_sources *fragments, uint32_t class_number,
                                const struct ring_layout *layout);

/* The bytes of a record on its way to a reader of that class, whatever its source: those that are
 * packed, whatever the phase; all; and all in the phase with the most. */
size_t fragment_sources_packed(const struct fragment_sources *fragments, uint32_t class_number);
size_t fragment_sources_record(const struct fragment_sources *fragments, uint32_t class_number,
                               uint32_t phase);
size_t fragment_sources_most_record(const struct fragment_sources *fragments,
                                    uint32_t class_number);

#endif
