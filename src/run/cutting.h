/* A field that is cut, in slots: part after part, so that a trainer has its own in one piece.
 *
 *     frame of a row    box by box -->  slot   part 0: [batch, steps, shape] | part 1: ... | ...
 *
 * A part has some of the steps (all, unless the axis of steps is cut) and a piece of each of their
 * frames (all of it, unless another axis is cut): part number = part of the steps * pieces + piece.
 * Pure, but for memory; any thread.
 */
#ifndef PENSTOCK_RUN_CUTTING_H
#define PENSTOCK_RUN_CUTTING_H

#include "dataset/crop.h"
#include "run/shares.h"

/* A piece of a frame, as it lies in a whole frame and in a packed one: these differ where a random
 * crop of the frame is delivered. */
struct cutting_piece {
    struct crop_box whole, packed;
    size_t whole_from, packed_from; /* where the box begins */
    size_t bytes;                   /* may be 0 */
};

struct cutting_part {
    size_t slot_offset, sample_bytes;
};

struct cutting {
    size_t step_count; /* of a sample; 1 without an axis of steps */
    size_t piece_count, part_count;
    size_t packed_bytes;          /* of a frame that is packed */
    uint32_t *step_part;          /* [step_count] which part of the steps has the step, and */
    uint32_t *step_index;         /* [step_count] its number there */
    struct cutting_piece *pieces; /* [piece_count] */
    struct cutting_part *parts;   /* [part_count] known after cutting_set_slots() */
};

/* Of a field that has parts. The caller frees *ret_cutting. NO_MEMORY. */
MUST_USE enum status cutting_new(const struct shares *shares, const struct dataset *dataset,
                                 size_t field, struct cutting **ret_cutting, struct error *err);

/* NULL is fine. */
void cutting_free(struct cutting *cutting);

/* Where the parts of the field lie in slots. */
void cutting_set_slots(struct cutting *cutting, const struct ring_layout *layout, size_t field);

/* Where in a slot a piece of step `step` of the batch's sample `batch_index` lies. */
static inline unsigned char *cutting_at(const struct cutting *cutting, unsigned char *slot,
                                        uint32_t batch_index, size_t step, size_t piece)
{
    const struct cutting_part *part =
        &cutting->parts[cutting->step_part[step] * cutting->piece_count + piece];
    return slot + part->slot_offset + batch_index * part->sample_bytes +
           cutting->step_index[step] * cutting->pieces[piece].bytes;
}

/* Copies a frame, which is step `step` of the batch's sample, to all parts that have some of it.
 * `from`: the frame in a row or in held memory (of a random crop: where the crop begins); or with
 * `packed` the frame as it is sent. */
void cutting_put(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                 size_t step, const unsigned char *from, bool packed);

/* Makes a step zero; makes a step what another step of the sample is, of this field or of `other`,
 * which is cut in the same way. */
void cutting_clear(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                   size_t step);
void cutting_repeat(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                    size_t step, const struct cutting *other, size_t from_step);

#endif
