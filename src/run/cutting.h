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

/* A piece of a frame: a box of a frame in a row or in held memory. */
struct cutting_piece {
    struct crop_box box; /* its bytes may be 0 */
    size_t from;         /* where the box begins in the frame (of a random crop: in the crop) */
};

struct cutting_part {
    size_t slot_offset, sample_bytes; /* known after cutting_set_slots() */
    bool is_absent;
};

struct cutting {
    size_t step_count; /* of a sample; 1 without an axis of steps */
    size_t piece_count, part_count;
    uint32_t *step_part;          /* [step_count] which part of the steps has the step, and */
    uint32_t *step_index;         /* [step_count] its number there */
    struct cutting_piece *pieces; /* [piece_count] */
    struct cutting_part *parts;   /* [part_count] */
};

/* Of a field that is cut. Slots have the parts that `needs` says. The caller frees *ret_cutting.
 * NO_MEMORY. */
MUST_USE enum status cutting_new(const struct shares *shares, const struct needs *needs,
                                 const struct dataset *dataset, size_t field,
                                 struct cutting **ret_cutting, struct error *err);

/* NULL is fine. */
void cutting_free(struct cutting *cutting);

/* Where the parts of the field lie in slots. */
void cutting_set_slots(struct cutting *cutting, const struct ring_layout *layout, size_t field);

/* Copies a frame, which is step `step` of the batch's sample, to all parts of the slot that have
 * some of it. `from`: the frame; of a random crop: where the crop begins; NULL: zeros. */
void cutting_put(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                 size_t step, const unsigned char *from);

/* The same pieces on their way to another reader, one after another: cutting_step_bytes() bytes.
 * Where the two readers' slots have different parts, `cutting` is the receiver's. */
size_t cutting_step_bytes(const struct cutting *cutting, size_t step);
void cutting_pack(const struct cutting *cutting, size_t step, const unsigned char *from,
                  unsigned char *record);
void cutting_unpack(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                    size_t step, const unsigned char *record);

#endif
