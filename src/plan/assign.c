/* See assign.h.
 *
 * Readers wait in a binary heap, the next to get a row on top; giving a row changes the key of the
 * top alone, so a window of w rows and r readers takes O(r + w log r). Readers with room to keep a
 * row come first, those that keep the fewest on top: as long as there is room anywhere, kept rows
 * spread evenly, and with room for all rows no row ever goes to a reader without. Then come the
 * others, those with the fewest rows in this window on top. All else being equal, the one with the
 * fewest rows so far is next.
 */
#include "plan/assign.h"

#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NO_HOME = 0xffff };

struct candidate {
    uint64_t keep_rows;    /* room for rows that stay */
    uint64_t kept;         /* rows that stay */
    uint64_t given;        /* rows without a home that it got, since the start */
    uint64_t window_rows;  /* all its rows in the window that is being assigned */
    uint64_t window_given; /* those of them that had no home */
};

struct assigner {
    uint64_t row_count;
    uint32_t reader_count;
    uint32_t heap_count;
    uint16_t *homes;           /* [row_count]: the reader that keeps the row, or NO_HOME */
    uint16_t *heap;            /* [reader_count], readers below the window's cap */
    struct candidate *readers; /* [reader_count] */
};

enum status assigner_new(const struct plan *plan, uint32_t reader_count, const uint64_t *keep_rows,
                         struct assigner **ret_assigner, struct error *err)
{
    if (reader_count < 1 || reader_count > ASSIGN_MAX_READERS)
        return error_set(err, STATUS_INVALID, "%u readers: must be 1 to %d", reader_count,
                         ASSIGN_MAX_READERS);
    struct assigner *assigner = calloc(1, sizeof *assigner);
    if (!assigner)
        goto no_memory;
    assigner->row_count = plan->row_count;
    assigner->reader_count = reader_count;
    assigner->homes = malloc(plan->row_count * sizeof *assigner->homes);
    assigner->heap = malloc(reader_count * sizeof *assigner->heap);
    assigner->readers = calloc(reader_count, sizeof *assigner->readers);
    if (!assigner->homes || !assigner->heap || !assigner->readers)
        goto no_memory;
    memset(assigner->homes, 0xff, plan->row_count * sizeof *assigner->homes);
    for (uint32_t reader = 0; reader < reader_count; reader++)
        assigner->readers[reader].keep_rows = keep_rows[reader];
    *ret_assigner = assigner;
    return STATUS_OK;

no_memory:
    assigner_free(assigner);
    return error_set(err, STATUS_NO_MEMORY, "assignment of %llu rows to %u readers: out of memory",
                     (unsigned long long)plan->row_count, reader_count);
}

void assigner_free(struct assigner *assigner)
{
    if (!assigner)
        return;
    free(assigner->readers);
    free(assigner->heap);
    free(assigner->homes);
    free(assigner);
}

static bool has_room(const struct candidate *reader)
{
    return reader->kept < reader->keep_rows;
}

/* Whether reader a gets a row before reader b. */
static bool goes_before(const struct assigner *assigner, uint16_t a_index, uint16_t b_index)
{
    const struct candidate *a = &assigner->readers[a_index], *b = &assigner->readers[b_index];
    if (has_room(a) != has_room(b))
        return has_room(a);
    if (has_room(a) && a->kept != b->kept)
        return a->kept < b->kept;
    if (a->window_rows != b->window_rows)
        return a->window_rows < b->window_rows;
    if (a->given != b->given)
        return a->given < b->given;
    return a_index < b_index;
}

static void sift_down(struct assigner *assigner, uint32_t at)
{
    uint16_t *heap = assigner->heap;
    uint16_t reader = heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= assigner->heap_count)
            break;
        if (child + 1 < assigner->heap_count && goes_before(assigner, heap[child + 1], heap[child]))
            child++;
        if (!goes_before(assigner, heap[child], reader))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = reader;
}

static void make_heap(struct assigner *assigner)
{
    assigner->heap_count = assigner->reader_count;
    for (uint32_t i = 0; i < assigner->reader_count; i++)
        assigner->heap[i] = (uint16_t)i;
    for (uint32_t i = assigner->reader_count / 2; i-- > 0;)
        sift_down(assigner, i);
}

/* Rows that some reader keeps; the others' owners are NO_HOME. */
static void assign_homes(struct assigner *assigner, const struct plan_epoch *epoch,
                         const struct plan_window *window, uint16_t *ret_owners)
{
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        uint64_t row = plan_row_at(epoch, window->first_row_position + slot);
        uint16_t home = assigner->homes[row];
        ret_owners[slot] = home;
        if (home == NO_HOME)
            continue;
        ret_owners[slot] |= ASSIGN_KEEP;
        assigner->readers[home].window_rows++;
    }
}

/* Gives a row to the top of the heap, which leaves the heap when it has `cap` of them. */
static uint16_t give(struct assigner *assigner, uint64_t row, uint64_t cap)
{
    uint16_t top = assigner->heap[0];
    struct candidate *reader = &assigner->readers[top];
    bool keep = has_room(reader);
    if (keep) {
        assigner->homes[row] = top;
        reader->kept++;
    }
    reader->given++;
    reader->window_rows++;
    reader->window_given++;
    if (reader->window_given == cap)
        assigner->heap[0] = assigner->heap[--assigner->heap_count];
    if (assigner->heap_count > 0)
        sift_down(assigner, 0);
    return keep ? (uint16_t)(top | ASSIGN_KEEP) : top;
}

void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *ret_owners)
{
    assert(epoch->plan.row_count == assigner->row_count && assigner->reader_count > 0);
    for (uint32_t i = 0; i < assigner->reader_count; i++)
        assigner->readers[i].window_rows = assigner->readers[i].window_given = 0;
    assign_homes(assigner, epoch, window, ret_owners);
    make_heap(assigner);
    uint64_t cap = size_divide_up(window->row_count, assigner->reader_count);
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        if (ret_owners[slot] != NO_HOME)
            continue;
        uint64_t row = plan_row_at(epoch, window->first_row_position + slot);
        ret_owners[slot] = give(assigner, row, cap);
    }
}
