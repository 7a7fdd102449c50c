/* Where the fragments of a sample lie in row buffers, in records of the exchange and in slots.
 *
 * The bytes of a fragment lie together in all three, so that one copy or one message moves them.
 * Fragments of less than ROUND_ZERO_COPY_BYTES are packed: they travel in the sample's record. The
 * others are zero-copy, and travel as messages of their own. A field whose samples lie in rows is
 * one fragment. Where bad samples are masked, a record ends with a byte that says whether the
 * sample could be read. Pure, but for memory.
 *
 *     record   | fragment : pad to 16 | fragment : pad to 16 | ... | valid : pad to 16 |
 */
#ifndef PENSTOCK_RUN_FRAGMENTS_H
#define PENSTOCK_RUN_FRAGMENTS_H

#include "base/error.h"
#include "dataset/dataset.h"
#include "delivery/layout.h"

#include <stddef.h>
#include <stdint.h>

/* In a row, the fragment of the sample at offset i lies at row_offset + i * row_stride; in a slot,
 * that of the batch's sample b at slot_offset + b * slot_stride. */
struct fragment {
    size_t bytes;
    size_t row_offset, row_stride;
    size_t slot_offset, slot_stride;
    size_t record_offset; /* if it is packed */
    size_t field;         /* index in the dataset */
};

struct fragments {
    size_t count, packed_count; /* the packed ones come first */
    size_t held_count;          /* fields that do not come with rows */
    size_t record_bytes;        /* of all that is sent of a sample: a multiple of 16 */
    size_t packed_bytes;        /* of the packed part of this, also a multiple of 16 */
    uint64_t messages;          /* of a sample, for fragments that are zero-copy */
    bool mask;                  /* bad samples are marked */
    size_t valid_row_offset;    /* mask: the byte of the sample at offset i lies i behind */
    size_t valid_record_offset; /* mask */
    size_t valid_slot_offset;   /* mask: that of the batch's sample b lies b behind */
    struct fragment *held;      /* [held_count]; they have neither a row nor a record */
    struct fragment all[];      /* [count] */
};

/* The caller frees *ret_fragments. The dataset is not needed any more. Offsets in slots are not
 * known yet. NO_MEMORY. */
MUST_USE enum status fragments_new(const struct dataset *dataset, struct fragments **ret_fragments,
                                   struct error *err);

/* NULL is fine. */
void fragments_free(struct fragments *fragments);

/* Sets the offsets in slots. */
void fragments_set_slots(struct fragments *fragments, const struct ring_layout *layout);

static inline const unsigned char *fragment_in_row(const struct fragment *fragment,
                                                   const unsigned char *row, uint32_t offset)
{
    return row + fragment->row_offset + offset * fragment->row_stride;
}
static inline unsigned char *fragment_in_slot(const struct fragment *fragment, unsigned char *slot,
                                              uint32_t batch_index)
{
    return slot + fragment->slot_offset + batch_index * fragment->slot_stride;
}

#endif
