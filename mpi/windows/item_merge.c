/* See item_merge.h. */
#include "windows/item_merge.h"

#include <assert.h>

struct merge_window {
    uint64_t position; /* of the window's next item */
    struct window *window;
    uint64_t *next;
};

_Static_assert(2 * sizeof(struct merge_window) == BUDGET_MIXED_WINDOW_BYTES,
               "counted in the budget");

void item_merge_init(struct item_merge *merge, size_t capacity, struct tables *tables)
{
    merge->capacity = capacity;
    merge->heap = tables_take(tables, capacity, sizeof *merge->heap);
}

void item_merge_begin(struct item_merge *merge, uint64_t round, uint64_t end)
{
    merge->count = 0;
    merge->round = round;
    merge->end = end;
}

/* Whether the window has another item to come; then notes its position. */
static bool look(const struct item_merge *merge, struct merge_window *entry)
{
    const struct window *window = entry->window;
    if (*entry->next == window->item_count || window->items[*entry->next].round != merge->round ||
        window->items[*entry->next].position >= merge->end)
        return false;
    entry->position = window->items[*entry->next].position;
    return true;
}

void item_merge_add(struct item_merge *merge, struct window *window, uint64_t *next)
{
    struct merge_window entry = {.window = window, .next = next};
    if (!look(merge, &entry))
        return;
    assert(merge->count < merge->capacity);
    size_t at = merge->count++;
    for (; at > 0 && merge->heap[(at - 1) / 2].position > entry.position; at = (at - 1) / 2)
        merge->heap[at] = merge->heap[(at - 1) / 2];
    merge->heap[at] = entry;
}

struct window *item_merge_first(const struct item_merge *merge)
{
    return merge->count > 0 ? merge->heap[0].window : NULL;
}

void item_merge_take(struct item_merge *merge)
{
    struct merge_window entry = merge->heap[0];
    ++*entry.next;
    if (!look(merge, &entry)) {
        if (--merge->count == 0)
            return;
        entry = merge->heap[merge->count];
    }
    size_t at = 0;
    for (size_t child = 1; child < merge->count; child = 2 * at + 1) {
        child += child + 1 < merge->count &&
                 merge->heap[child + 1].position < merge->heap[child].position;
        if (merge->heap[child].position >= entry.position)
            break;
        merge->heap[at] = merge->heap[child];
        at = child;
    }
    merge->heap[at] = entry;
}
