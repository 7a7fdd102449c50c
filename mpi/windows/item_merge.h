/* Goes through a round's samples in order of position, where several windows have them in turn: a
 * heap of the windows, by the position of the next item of each. (Without a mix, windows follow one
 * another, and nothing is merged.) One thread at a time. */
#ifndef PENSTOCK_MPI_WINDOWS_ITEM_MERGE_H
#define PENSTOCK_MPI_WINDOWS_ITEM_MERGE_H

#include "windows/windows.h"

#include "base/tables.h"

struct item_merge {
    struct merge_window *heap; /* [capacity] */
    size_t count, capacity;
    uint64_t round, end;
};

/* For `capacity` windows at most. Takes its memory from `tables`, which may have failed then. */
void item_merge_init(struct item_merge *merge, size_t capacity, struct tables *tables);

/* Begins with no window: the items of `round` at positions before `end` (both as in struct
 * round_item) will come. */
void item_merge_begin(struct item_merge *merge, uint64_t round, uint64_t end);

/* Adds a window whose next item is *next, which item_merge_take() moves on. Both are borrowed until
 * the merge begins again. */
void item_merge_add(struct item_merge *merge, struct window *window, uint64_t *next);

/* The window whose next item is first; NULL: there are no more items. */
struct window *item_merge_first(const struct item_merge *merge);

/* Goes on behind the first item. */
void item_merge_take(struct item_merge *merge);

#endif
