/* Goes through a round's samples in order of position, where several windows have them in turn: a
 * heap of the windows, by the position of the next item of each. (Without a mix, windows follow one
 * another, and nothing is merged.) One thread at a time. */
#ifndef PENSTOCK_MPI_WINDOWS_ITEM_MERGE_H
#define PENSTOCK_MPI_WINDOWS_ITEM_MERGE_H

#include "windows/windows.h"

struct item_merge {
    struct merge_window *heap; /* [capacity] owned */
    size_t count, capacity;
    uint64_t round;
};

/* For `capacity` windows at most. NO_MEMORY. item_merge_done() is fine after a failure, too. */
MUST_USE enum status item_merge_init(struct item_merge *merge, size_t capacity, struct error *err);
void item_merge_done(struct item_merge *merge);

/* Begins with no window: the items of `round` (as in struct round_item) will come. */
void item_merge_begin(struct item_merge *merge, uint64_t round);

/* Adds a window whose next item is *next, which item_merge_take() moves on. Both are borrowed until
 * the merge begins again. */
void item_merge_add(struct item_merge *merge, struct window *window, uint64_t *next);

/* The window whose next item is first; NULL: there are no more items. */
struct window *item_merge_first(const struct item_merge *merge);

/* Goes on behind the first item. */
void item_merge_take(struct item_merge *merge);

#endif
