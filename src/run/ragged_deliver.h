/* Writes the items of one frame of a ragged field to a slot, in the form in which trainers get
 * them: one after another (csr), padded, or as a dense tensor (run/ragged_scatter.h). No byte is
 * written twice, but for the cells of a tensor that have items. Pure; any thread. */
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
};

/* Writes the items of step `step` of a slot's batch: those of sample b, which has T steps, are
 * numbered b * T + k. `start`: how many items of the batch are before these (RAGGED_CSR), or the
 * bound of its step (RAGGED_BOUND). `items` NULL: `count` items that are all zero, of a sample that
 * could not be read; else `count` is theirs. RAGGED_PAD and RAGGED_BOUND: `count` is pad_items, or
 * the bound, at most. */
void ragged_deliver(const struct ragged_target *target, unsigned char *slot, uint64_t step,
                    uint64_t start, const struct ragged_items *items, uint64_t count);

#endif
