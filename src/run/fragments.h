/* Where the fragments of a sample lie in row buffers, in records of the exchange and in slots.
 *
 * The bytes of a fragment lie together in all three, so that one copy or one message moves them: a
 * field's sample, or steps of a field that follow one another. Fragments of less than
 * ROUND_ZERO_COPY_BYTES are packed: they travel in the sample's record. So do fragments whose
 * frames are cropped on the way from the row. The others are zero-copy, and travel as messages of
 * their own. Where bad samples are masked, a record ends with a byte that says whether the sample
 * could be read.
 *
 *     record   | fragment : pad to 16 | fragment : pad to 16 | ... | valid : pad to 16 |
 *
 * A frame of an array comes once, however many fields have it: each step that an earlier field of
 * the same memory has is a repeat, copied from field to field in the slot. Steps outside the
 * sample's episode come with the others, with any content, and are filled in the slot. So a
 * sample is complete in three steps:
 *
 *     its fragments are there  ->  missing steps are filled, or all is zero  ->  repeats are copied
 *
 * Where a fragment has no step in the episode at all, it is taken from other frames of the row, so
 * that its frame next to the anchor is the episode's edge. Pure, but for memory.
 */
#ifndef PENSTOCK_RUN_FRAGMENTS_H
#define PENSTOCK_RUN_FRAGMENTS_H

#include "base/copy.h"
#include "base/error.h"
#include "dataset/dataset.h"
#include "delivery/ring/layout.h"
#include "run/cutting.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In a row, the fragment of the sample at frame i lies at row_offset + i * row_stride; in a slot,
 * that of the batch's sample b at slot_offset + b * slot_stride. */
struct fragment {
    size_t bytes;
    size_t row_offset, row_stride;
    size_t slot_offset, slot_stride;
    size_t record_offset; /* if it is packed */
    uint32_t field;       /* index in the dataset */
    /* Its first and its last step. Where `shifts`, all of them may lie outside the episode. */
    int32_t first_step, last_step;
    bool shifts;
    bool streams; /* to slots past the caches */
    /* Each step in the row is a whole frame, of which the sample has this part; borrowed from the
     * dataset. NULL: the bytes are copied as they are. A fragment with a crop is packed. */
    const struct dataset_crop *crop;
    /* The field is cut, and the fragment, which begins with the field's step `first_index`, is
     * packed: its offsets in slots say nothing. NULL: trainers have the field whole. */
    const struct cutting *cutting;
    size_t first_index, end_index; /* of the field's steps */
    bool pads;   /* steps may lie outside the episode: they are filled when they are copied */
    bool clears; /* such steps are zero; else as the nearest one */
};

/* Steps of a field that an earlier field has, too. */
struct fragment_repeat {
    size_t bytes;
    size_t from_offset, from_stride, to_offset, to_stride; /* in slots */
    uint32_t from_field, to_field;
};

/* A fragment that may lack steps. A made field says which: the byte of its first step in the
 * batch's sample b lies at valid_offset + b * valid_stride. */
struct fragment_padding {
    size_t frame_bytes, step_count;
    size_t slot_offset, slot_stride;
    size_t valid_offset, valid_stride;
    uint32_t field, valid_field;
    bool zero;         /* missing steps are zero; else as the nearest step */
    bool before_alone; /* all of its steps are before the anchor */
};

/* A field in a slot: that of the batch's sample b lies at offset + b * bytes. Of ragged fields,
 * which run/trailers.h delivers, `bytes` is 0. */
struct fragment_field {
    size_t offset, bytes;
    size_t step_count;       /* 0: it has none */
    struct cutting *cutting; /* owned; NULL: the field is not cut */
    bool is_absent;          /* slots do not have the field */
};

struct fragments {
    size_t count, packed_count; /* the packed ones come first */
    struct fragment *all;       /* [count] */
    size_t padding_count, repeat_count;
    struct fragment_padding *paddings; /* [padding_count] */
    struct fragment_repeat *repeats;   /* [repeat_count], in order */
    size_t record_bytes;               /* of all that is sent of a sample: a multiple of 16 */
    size_t packed_bytes;               /* of the packed part of this, also a multiple of 16 */
    uint64_t messages;                 /* of a sample, for fragments that are zero-copy */
    bool shifts;                       /* at least one fragment does: copies need rooms */
    bool crops;                        /* at least one has a crop: copies need keys */
    bool finishes;                     /* samples need fragments_finish() */
    bool mask;                         /* bad samples are marked */
    size_t valid_row_offset;           /* mask: the byte of the sample at frame i lies i behind */
    size_t valid_record_offset;        /* mask */
    size_t valid_slot_offset;          /* mask: that of the batch's sample b lies b behind */
    size_t field_count;
    struct fragment_field fields[]; /* [field_count] */
};

/* The fragments of an epoch's samples on their way to slots that have what is needed. The caller
 * frees *ret_fragments. Crops are borrowed from the dataset, and nothing else. `shares` and `needs`
 * NULL: slots have all fields whole. Offsets in slots are not known yet. NO_MEMORY. */
MUST_USE enum status fragments_new(const struct dataset *dataset, const struct shares *shares,
                                   const struct needs *needs, uint64_t epoch,
                                   struct fragments **ret_fragments, struct error *err);

/* NULL is fine. */
void fragments_free(struct fragments *fragments);

/* Sets the offsets in slots, and which fragments stream: large ones, to rings so large that the
 * caches have forgotten a slot before its trainer reads it. To be called once. */
void fragments_set_slots(struct fragments *fragments, const struct ring_layout *layout);

/* How many frames of its episode are before and behind an anchor, FRAGMENT_MOST_ROOM at most. */
enum { FRAGMENT_MOST_ROOM = 1 << 30 };
struct fragment_room {
    uint32_t before, behind;
};

/* How many frames further on in the row a fragment is taken from, so that the frame of its step
 * next to the anchor is the episode's edge. */
static inline int64_t fragment_shift(const struct fragment *fragment,
                                     const struct fragment_room *room)
{
    if (!fragment->shifts)
        return 0;
    int64_t late = -(int64_t)fragment->last_step - room->before;
    int64_t early = (int64_t)fragment->first_step - room->behind;
    return late > 0 ? late : early > 0 ? -early : 0;
}

/* Where the fragment of the sample at frame `offset` of a row lies. `room` NULL: no fragment
 * shifts. */
static inline const unsigned char *fragment_in_row(const struct fragment *fragment,
                                                   const unsigned char *row, uint32_t offset,
                                                   const struct fragment_room *room)
{
    int64_t frame = offset + (room ? fragment_shift(fragment, room) : 0);
    return row + (int64_t)fragment->row_offset + frame * (int64_t)fragment->row_stride;
}
static inline unsigned char *fragment_in_slot(const struct fragment *fragment, unsigned char *slot,
                                              uint32_t batch_index)
{
    return slot + fragment->slot_offset + batch_index * fragment->slot_stride;
}

/* Copies the crops of a fragment's steps, which lie in the row from `from` on, for the sample with
 * that key. */
void fragment_cut(const struct fragment *fragment, unsigned char *to, const unsigned char *from,
                  uint64_t key);

/* Of a field that is cut: copies a fragment that lies in the row from `from` on to its parts in a
 * slot, or to a record; and from a record to its parts. `room`: where fragments shift. */
void fragment_divide(const struct fragment *fragment, unsigned char *slot, uint32_t batch_index,
                     const unsigned char *from, uint64_t key, const struct fragment_room *room);
void fragment_pack_parts(const struct fragment *fragment, unsigned char *to,
                         const unsigned char *from, uint64_t key, const struct fragment_room *room);
void fragment_take_parts(const struct fragment *fragment, unsigned char *slot, uint32_t batch_index,
                         const unsigned char *from);

/* Copies a fragment without a crop, to a record. `next`: where the fragment of the sample that is
 * copied next lies; NULL: that is not known, or not worth knowing (base/copy.h). */
static inline void fragment_copy(const struct fragment *fragment, unsigned char *to,
                                 const unsigned char *from, const unsigned char *next)
{
    if (next)
        copy_and_fetch(to, from, fragment->bytes, next, fragment->bytes);
    else
        memcpy(to, from, fragment->bytes);
}

/* Likewise, to a slot. */
static inline void fragment_fill(const struct fragment *fragment, unsigned char *in_slot,
                                 const unsigned char *from, const unsigned char *next)
{
    if (fragment->streams)
        copy_stream(in_slot, from, fragment->bytes);
    else
        fragment_copy(fragment, in_slot, from, next);
}

/* Completes a sample in a slot whose fragments are there: fills missing steps, and copies repeats.
 * Where the sample is not `good`, all of its fields are made zero, and it is marked. The slot has
 * the validity of steps by now. */
void fragments_finish(const struct fragments *fragments, unsigned char *slot, uint32_t batch_index,
                      bool good);

#endif
