/* See assign.h.
 *
 * Kept rows are chained by the window of their next use. The rows of one window's chain are all in
 * that window, so a chain is forgotten as a whole when its window comes, and the farthest next use
 * is the last chain that is not empty. Rows are used at most once an epoch: windows are numbered
 * through two epochs, the current and the next.
 *
 * Readers wait in two binary heaps, the next one to get a row on top: `pace` has those that are
 * below the window's cap, `room` those of them that can keep another row.
 */
#include "plan/assign.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Of `homes`, beside readers. A reader with HOME_IN_WINDOW is a row of the window being assigned.
 */
enum { HOME_NONE = 0xffff, HOME_WANTED = 0xfffe, HOME_IN_WINDOW = 0x8000 };
enum { CHAIN_END = UINT32_MAX };

struct candidate {
    uint64_t row_ns;       /* of one row; what counts is how it compares with the others' */
    uint64_t given;        /* rows to read that it got, since the start */
    uint64_t read;         /* of those, read by its last report */
    uint64_t kept;         /* rows that stay */
    bool is_waited_for;    /* by its last report */
    uint64_t window_given; /* rows of the window being assigned that it did not keep */
};

struct heap {
    uint16_t *readers; /* [reader_count] */
    uint16_t *places;  /* [reader_count] where a reader stands; NOWHERE */
    uint32_t count;
    bool (*before)(const struct assigner *assigner, uint32_t a, uint32_t b);
};
enum { NOWHERE = 0xffff };

/* Of `wanting`: nobody in this epoch; any, as there are several samples. */
enum { WANTED_BY_NONE = 0xffff, WANTED_BY_ANY = 0xfffe };

struct assigner {
    uint64_t row_count, window_count, window_rows, epochs;
    uint32_t reader_count;
    uint64_t keep_rows, most_rows;
    bool kept_are_read;
    const uint32_t *reader_of_trainer;
    struct candidate *readers; /* [reader_count] */
    double *share;             /* [reader_count] of the trainers that the reader serves */
    uint64_t *rows;            /* [window_rows] the rows of the window being assigned */
    uint16_t *wanting;         /* [window_rows] the reader whose trainer gets a row's one sample;
                                * NOWHERE: nobody in this epoch; SEVERAL: there are more samples */
    struct heap pace, room;
    uint64_t kept;    /* rows that stay, of all readers, wanted ones included */
    uint16_t *homes;  /* [row_count], or NULL when nothing is kept */
    uint32_t *next;   /* [row_count] in the chain of the same window */
    uint32_t *chains; /* [2 * window_count] first row of even and odd epochs' windows, CHAIN_END */
    uint64_t chain_limit;     /* the coming epoch's windows from here on have empty chains */
    struct plan_epoch coming; /* the epoch after the one being assigned */
    bool coming_known;        /* it has been asked for, and is part of the run */
    uint64_t epoch;           /* the one being assigned; UINT64_MAX before the first window */
    struct assigner_stats stats;
};

static uint64_t pending_ns(const struct candidate *reader)
{
    uint64_t pending = reader->given > reader->read ? reader->given - reader->read : 0;
    return (pending + 1) * reader->row_ns;
}

static bool done_before(const struct assigner *assigner, uint32_t a_index, uint32_t b_index)
{
    const struct candidate *a = &assigner->readers[a_index], *b = &assigner->readers[b_index];
    uint64_t a_ns = pending_ns(a), b_ns = pending_ns(b);
    if (a_ns != b_ns)
        return a_ns < b_ns;
    if (a->window_given != b->window_given)
        return a->window_given < b->window_given;
    return a->given != b->given ? a->given < b->given : a_index < b_index;
}

static bool has_more_room(const struct assigner *assigner, uint32_t a_index, uint32_t b_index)
{
    const struct candidate *a = &assigner->readers[a_index], *b = &assigner->readers[b_index];
    return a->kept != b->kept ? a->kept < b->kept : done_before(assigner, a_index, b_index);
}

static void heap_put(struct heap *heap, uint32_t place, uint16_t reader)
{
    heap->readers[place] = reader;
    heap->places[reader] = (uint16_t)place;
}

static void sift_down(const struct assigner *assigner, struct heap *heap, uint32_t at)
{
    uint16_t reader = heap->readers[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->before(assigner, heap->readers[child + 1], heap->readers[child]))
            child++;
        if (!heap->before(assigner, heap->readers[child], reader))
            break;
        heap_put(heap, at, heap->readers[child]);
        at = child;
    }
    heap_put(heap, at, reader);
}

static void sift_up(const struct assigner *assigner, struct heap *heap, uint32_t at)
{
    uint16_t reader = heap->readers[at];
    while (at > 0 && heap->before(assigner, reader, heap->readers[(at - 1) / 2])) {
        heap_put(heap, at, heap->readers[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(heap, at, reader);
}

static void heap_remove(const struct assigner *assigner, struct heap *heap, uint32_t reader)
{
    uint32_t at = heap->places[reader];
    if (at == NOWHERE)
        return;
    heap->places[reader] = NOWHERE;
    uint16_t last = heap->readers[--heap->count];
    if (last == reader)
        return;
    heap_put(heap, at, last);
    sift_up(assigner, heap, at);
    sift_down(assigner, heap, heap->places[last]);
}

/* A reader's key has grown. */
static void heap_lower(const struct assigner *assigner, struct heap *heap, uint32_t reader)
{
    if (heap->places[reader] != NOWHERE)
        sift_down(assigner, heap, heap->places[reader]);
}

static bool has_room(const struct assigner *assigner, uint32_t reader)
{
    return assigner->readers[reader].kept < assigner->keep_rows;
}

static void heap_fill(struct assigner *assigner, struct heap *heap)
{
    heap->count = 0;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        heap->places[r] = NOWHERE;
        if (assigner->readers[r].window_given < assigner->most_rows &&
            (heap == &assigner->pace || has_room(assigner, r)))
            heap_put(heap, heap->count++, (uint16_t)r);
    }
    for (uint32_t i = heap->count / 2; i-- > 0;)
        sift_down(assigner, heap, i);
}

uint64_t assigner_bytes(const struct plan *plan, uint32_t reader_count, bool keep)
{
    uint64_t bytes = reader_count * (sizeof(struct candidate) + sizeof(double) + 8) +
                     plan->window_rows * (sizeof(uint64_t) + sizeof(uint16_t));
    if (keep)
        bytes += plan->row_count * (sizeof(uint16_t) + sizeof(uint32_t)) +
                 2 * plan->window_count * sizeof(uint32_t);
    return bytes;
}

static bool heap_new(struct heap *heap, uint32_t reader_count,
                     bool (*before)(const struct assigner *, uint32_t, uint32_t))
{
    heap->before = before;
    heap->readers = malloc(reader_count * sizeof *heap->readers);
    heap->places = malloc(reader_count * sizeof *heap->places);
    return heap->readers && heap->places;
}

static bool directory_new(struct assigner *assigner)
{
    size_t home_bytes = assigner->row_count * sizeof *assigner->homes;
    size_t chain_bytes = 2 * assigner->window_count * sizeof *assigner->chains;
    assigner->homes = malloc(home_bytes);
    assigner->next = malloc(assigner->row_count * sizeof *assigner->next);
    assigner->chains = malloc(chain_bytes);
    if (!assigner->homes || !assigner->next || !assigner->chains)
        return false;
    memset(assigner->homes, 0xff, home_bytes);
    memset(assigner->chains, 0xff, chain_bytes);
    memory_touch(assigner->next, assigner->row_count * sizeof *assigner->next);
    return true;
}

enum status assigner_new(const struct assigner_options *options, struct assigner **ret_assigner,
                         struct error *err)
{
    const struct plan *plan = options->plan;
    uint32_t readers = options->reader_count;
    if (readers < 1 || readers > ASSIGN_MAX_READERS)
        return error_set(err, STATUS_INVALID, "%u readers: must be 1 to %d", readers,
                         ASSIGN_MAX_READERS);
    bool keep = options->keep_rows > 0 && options->epochs > 1;
    if (keep && plan->row_count >= CHAIN_END)
        return error_set(err, STATUS_INVALID,
                         "%llu rows are too many to keep some of them: set readers.cache to off",
                         (unsigned long long)plan->row_count);
    struct assigner *assigner = calloc(1, sizeof *assigner);
    if (!assigner)
        goto no_memory;
    *assigner = (struct assigner){.row_count = plan->row_count,
                                  .window_count = plan->window_count,
                                  .window_rows = plan->window_rows,
                                  .epochs = options->epochs,
                                  .reader_count = readers,
                                  .keep_rows = keep ? options->keep_rows : 0,
                                  .most_rows = options->most_rows,
                                  .kept_are_read = options->kept_are_read,
                                  .reader_of_trainer = options->reader_of_trainer};
    assigner->readers = calloc(readers, sizeof *assigner->readers);
    assigner->share = calloc(readers, sizeof *assigner->share);
    assigner->rows = calloc(plan->window_rows, sizeof *assigner->rows);
    assigner->wanting = calloc(plan->window_rows, sizeof *assigner->wanting);
    if (!assigner->readers || !assigner->share || !assigner->rows || !assigner->wanting ||
        !heap_new(&assigner->pace, readers, done_before) ||
        !heap_new(&assigner->room, readers, has_more_room) || (keep && !directory_new(assigner)))
        goto no_memory;
    assigner->epoch = UINT64_MAX;
    for (uint32_t r = 0; r < readers; r++)
        assigner->readers[r].row_ns = 1;
    for (uint32_t t = 0; t < plan->trainer_count; t++)
        assigner->share[options->reader_of_trainer[t]] += 1.0 / plan->trainer_count;
    *ret_assigner = assigner;
    return STATUS_OK;

no_memory:
    assigner_free(assigner);
    return error_set(err, STATUS_NO_MEMORY, "assignment of %llu rows to %u readers: out of memory",
                     (unsigned long long)plan->row_count, readers);
}

void assigner_free(struct assigner *assigner)
{
    if (!assigner)
        return;
    free(assigner->chains);
    free(assigner->next);
    free(assigner->homes);
    free(assigner->room.places);
    free(assigner->room.readers);
    free(assigner->pace.places);
    free(assigner->pace.readers);
    free(assigner->wanting);
    free(assigner->rows);
    free(assigner->share);
    free(assigner->readers);
    free(assigner);
}

void assigner_report(struct assigner *assigner, uint32_t reader, uint64_t rows_read,
                     uint64_t row_ns, bool is_waited_for)
{
    struct candidate *candidate = &assigner->readers[reader];
    candidate->read = rows_read;
    candidate->is_waited_for = is_waited_for;
    if (row_ns > 0)
        candidate->row_ns = row_ns;
}

/* --- what stays ----------------------------------------------------------------------------- */

static void turn_epoch(struct assigner *assigner, const struct plan_epoch *epoch)
{
    if (assigner->epoch == epoch->epoch)
        return;
    assigner->epoch = epoch->epoch;
    assigner->chain_limit = 0;
    assigner->coming_known = assigner->homes && epoch->epoch + 1 < assigner->epochs;
    if (assigner->coming_known)
        plan_epoch_init(&assigner->coming, &epoch->plan, epoch->epoch + 1);
}

static uint32_t *chain_of(const struct assigner *assigner, uint64_t epoch, uint64_t window)
{
    return &assigner->chains[(epoch & 1) * assigner->window_count + window];
}

/* Notes that the row is needed next in a window of the coming epoch. */
static void chain_row(struct assigner *assigner, uint64_t row, uint64_t window)
{
    uint32_t *chain = chain_of(assigner, assigner->epoch + 1, window);
    assigner->next[row] = *chain;
    *chain = (uint32_t)row;
    if (window >= assigner->chain_limit)
        assigner->chain_limit = window + 1;
}

/* Takes the row whose next use is farthest, if that is after `window` of the coming epoch. */
static bool take_farthest(struct assigner *assigner, uint64_t window, uint64_t *ret_row)
{
    for (; assigner->chain_limit > window + 1; assigner->chain_limit--) {
        uint32_t *chain = chain_of(assigner, assigner->epoch + 1, assigner->chain_limit - 1);
        while (*chain != CHAIN_END) {
            uint64_t row = *chain;
            *chain = assigner->next[row];
            if (assigner->homes[row] == HOME_NONE)
                continue; /* was to be kept, but no reader could */
            *ret_row = row;
            return true;
        }
    }
    return false;
}

/* The row stays no longer. One of this window is told by its owner's missing ASSIGN_KEEP. */
static void evict(struct assigner *assigner, uint64_t row, struct assignment *assignment)
{
    uint16_t home = assigner->homes[row];
    assigner->homes[row] = HOME_NONE;
    assigner->kept--;
    if (home == HOME_WANTED)
        return;
    assigner->readers[home & ASSIGN_READER_MASK].kept--;
    if (!(home & HOME_IN_WINDOW))
        assignment->evicted[assignment->evicted_count++] = row;
}

/* Marks the window's rows that some reader keeps, and gives them to it. */
static void find_kept(struct assigner *assigner, const struct plan_window *window,
                      struct assignment *assignment)
{
    *chain_of(assigner, assigner->epoch, window->index) = CHAIN_END;
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        uint64_t row = assigner->rows[slot];
        uint16_t *home = &assigner->homes[row];
        if (*home == HOME_NONE)
            continue;
        struct candidate *reader = &assigner->readers[*home];
        if (assigner->kept_are_read && reader->window_given == assigner->most_rows) {
            evict(assigner, row, assignment); /* more than it has row buffers for */
            continue;
        }
        assignment->owners[slot] = *home;
        *home |= HOME_IN_WINDOW;
        reader->given += assigner->kept_are_read;
        reader->window_given += assigner->kept_are_read;
        assigner->stats.kept_rows++;
    }
}

/* Takes a row up into the directory if it is needed earlier than one that is in it. */
static void want(struct assigner *assigner, uint64_t row, struct assignment *assignment)
{
    uint64_t farthest;
    uint64_t next = plan_row_position(&assigner->coming, row) / assigner->window_rows;
    if (assigner->kept == assigner->keep_rows * assigner->reader_count) {
        if (!take_farthest(assigner, next, &farthest))
            return;
        evict(assigner, farthest, assignment);
    }
    assigner->homes[row] = HOME_WANTED;
    assigner->kept++;
    chain_row(assigner, row, next);
}

/* Which of the window's rows are to stay: those that do already compete first, so that the others
 * are measured against all. */
static void settle_directory(struct assigner *assigner, const struct plan_window *window,
                             struct assignment *assignment)
{
    find_kept(assigner, window, assignment);
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        uint64_t row = assigner->rows[slot];
        if (assigner->homes[row] == HOME_NONE)
            continue;
        if (assigner->coming_known)
            chain_row(assigner, row,
                      plan_row_position(&assigner->coming, row) / assigner->window_rows);
        else
            evict(assigner, row, assignment);
    }
    for (uint64_t slot = 0; slot < window->row_count && assigner->coming_known; slot++)
        if (assigner->homes[assigner->rows[slot]] == HOME_NONE &&
            assigner->wanting[slot] != WANTED_BY_NONE) /* else nobody reads it now */
            want(assigner, assigner->rows[slot], assignment);
}

/* The marks of find_kept() go; owners learn what they keep. */
static void settle_owners(struct assigner *assigner, const struct plan_window *window,
                          struct assignment *assignment)
{
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        uint16_t *home = &assigner->homes[assigner->rows[slot]];
        if (*home == HOME_NONE)
            continue;
        *home &= ASSIGN_READER_MASK;
        assignment->owners[slot] = *home | ASSIGN_KEEP;
    }
}

/* --- who reads ------------------------------------------------------------------------------ */

static void give(struct assigner *assigner, uint64_t slot, uint32_t reader, bool keep,
                 struct assignment *assignment)
{
    struct candidate *candidate = &assigner->readers[reader];
    bool unread = assigner->wanting[slot] == WANTED_BY_NONE;
    candidate->given += !unread;
    assigner->stats.unread_rows += unread;
    candidate->window_given++;
    candidate->kept += keep;
    assignment->owners[slot] = (uint16_t)reader;
    if (keep)
        assigner->homes[assigner->rows[slot]] = (uint16_t)reader;
    if (candidate->window_given == assigner->most_rows)
        heap_remove(assigner, &assigner->pace, reader);
    heap_lower(assigner, &assigner->pace, reader);
    if (candidate->window_given == assigner->most_rows || !has_room(assigner, reader))
        heap_remove(assigner, &assigner->room, reader);
    heap_lower(assigner, &assigner->room, reader);
}

static uint16_t wanted_by(const struct assigner *assigner, const struct plan_epoch *epoch,
                          const struct plan_window *window, uint64_t slot)
{
    if (window->row_length > 1)
        return WANTED_BY_ANY;
    uint64_t position = plan_position_of(window, (struct plan_place){.slot = slot});
    if (position >= epoch->plan.position_count)
        return WANTED_BY_NONE;
    return (uint16_t)assigner->reader_of_trainer[plan_seat_of(&epoch->plan, position).trainer];
}

static bool is_reader(uint16_t wanting)
{
    return wanting < WANTED_BY_ANY;
}

/* Whether a reader may take a row that another one would be done with earlier: within half as long
 * again and a share of a window, or while nobody waits for it. */
static bool keeps_up(const struct assigner *assigner, uint32_t reader, uint64_t even_share)
{
    const struct candidate *first = &assigner->readers[assigner->pace.readers[0]];
    const struct candidate *candidate = &assigner->readers[reader];
    uint64_t first_ns = pending_ns(first);
    return assigner->pace.places[reader] != NOWHERE &&
           (!candidate->is_waited_for ||
            pending_ns(candidate) <= first_ns + first_ns / 2 + even_share * first->row_ns);
}

static void give_wanted(struct assigner *assigner, uint64_t slot, struct assignment *assignment)
{
    struct heap *room = &assigner->room;
    uint16_t wanting = assigner->wanting[slot];
    if (room->count > 0) {
        bool fits = is_reader(wanting) && room->places[wanting] != NOWHERE;
        give(assigner, slot, fits ? wanting : room->readers[0], true, assignment);
    } else {
        assigner->homes[assigner->rows[slot]] = HOME_NONE;
        assigner->kept--;
    }
}

static void give_other(struct assigner *assigner, uint64_t slot, uint64_t even_share,
                       struct assignment *assignment)
{
    uint16_t wanting = assigner->wanting[slot];
    bool local = is_reader(wanting) && keeps_up(assigner, wanting, even_share);
    give(assigner, slot, local ? wanting : assigner->pace.readers[0], false, assignment);
}

/* Rows that are to stay go first: the room for them is what it is, the others can make up for it.
 */
static void give_rows(struct assigner *assigner, const struct plan_window *window, bool wanted,
                      struct assignment *assignment)
{
    uint64_t even_share = size_divide_up(window->row_count, assigner->reader_count);
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        if (assignment->owners[slot] != HOME_NONE)
            continue;
        if (!wanted)
            give_other(assigner, slot, even_share, assignment);
        else if (assigner->homes[assigner->rows[slot]] == HOME_WANTED)
            give_wanted(assigner, slot, assignment);
    }
}

/* --- the sums ------------------------------------------------------------------------------- */

static void count_exchanged(struct assigner *assigner, const struct plan_epoch *epoch,
                            const struct plan_window *window, const struct assignment *assignment)
{
    const struct plan *plan = &epoch->plan;
    struct assigner_stats *stats = &assigner->stats;
    double delivered = plan->position_count < plan->sample_count
                           ? (double)plan->position_count / (double)plan->sample_count
                           : 1;
    stats->rows += window->row_count;
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        uint32_t owner = assignment->owners[slot] & ASSIGN_READER_MASK;
        uint16_t wanting = assigner->wanting[slot];
        if (is_reader(wanting)) {
            stats->samples += 1;
            stats->exchanged_samples += wanting != owner;
        } else if (wanting == WANTED_BY_ANY) {
            double samples = delivered * (double)(slot == window->short_slot ? window->short_length
                                                                             : window->row_length);
            stats->samples += samples;
            stats->exchanged_samples += samples * (1 - assigner->share[owner]);
        }
    }
}

void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, struct assignment *assignment)
{
    assert(epoch->plan.row_count == assigner->row_count);
    assignment->evicted_count = 0;
    for (uint32_t r = 0; r < assigner->reader_count; r++)
        assigner->readers[r].window_given = 0;
    for (uint64_t slot = 0; slot < window->row_count; slot++) {
        assigner->rows[slot] = plan_row_at(epoch, window->first_row_position + slot);
        assigner->wanting[slot] = wanted_by(assigner, epoch, window, slot);
        assignment->owners[slot] = HOME_NONE;
    }
    turn_epoch(assigner, epoch);
    if (assigner->homes)
        settle_directory(assigner, window, assignment);
    heap_fill(assigner, &assigner->pace);
    heap_fill(assigner, &assigner->room);
    if (assigner->homes)
        give_rows(assigner, window, true, assignment);
    give_rows(assigner, window, false, assignment);
    if (assigner->homes)
        settle_owners(assigner, window, assignment);
    count_exchanged(assigner, epoch, window, assignment);
}

void assigner_stats(const struct assigner *assigner, struct assigner_stats *ret_stats)
{
    *ret_stats = assigner->stats;
}
