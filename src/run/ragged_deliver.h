/* Writes the items of one frame of a ragged field to a slot, in the form in which trainers get
 * them: one after another (csr), padded, or as a dense tensor (run/ragged_scatter.h). No byte is
 * written twice, but for the cells of a tensor that have items. Pure; any thread.
 *
 * Items one after another may be cut, each frame by itself: with n parts it has n pieces, or with
 * zigzag 2 n, of equally many items, and a slot has the parts one after another:
 *
 *     3 parts, zigzag    a0 a1 a2 a3 a4 a5 | b0 ... -->  a0 a5 b0 b5 | a1 a4 b1 b4 | a2 a3 b2 b3
 */
#ifndef PENSTOCK_RUN_RAGGED_DELIVER_H
#define PENSTOCK_RUN_RAGGED_DELIVER_H

#include "run/ragged_items.h"

/* Where a ragged field goes. */
struct ragged_target {
    const struct ragged *ragged;
    enum dtype dense_dtype;                    /* RAGGED_DENSE */
    size_t slot_offset;                        /* RAGGED_DENSE: of the batch's tensors */
    size_t column_offsets[RAGGED_MAX_COLUMNS]; /* else: of each column's array in a slot */
    bool delivers[RAGGED_MAX_COLUMNS];         /* likewise: whether there is one */
    uint32_t part_count; /* RAGGED_CSR with a multiple that the pieces divide; 0: it is not cut */
    bool is_zigzag;
    size_t part_strides[RAGGED_MAX_COLUMNS]; /* from part to part of a column's array */
};

/* Writes the items of step `step` of a slot's batch: those of sample b, which has T steps, are
 * numbered b * T + k. `start`: how many items of the batch are before these, with those that pad
 * them (RAGGED_CSR), or the bound of its step (RAGGED_BOUND). `items` NULL: `count` items that are
 * all zero, of a sample that could not be read; else `count` is theirs. RAGGED_PAD and
 * RAGGED_BOUND: `count` is pad_items, or the bound, at most. */
void ragged_deliver(const struct ragged_target *target, unsigned char *slot, uint64_t step,
                    uint64_t start, const struct ragged_items *items, uint64_t count);

#endif
