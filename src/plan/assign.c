/* See assign.h.
 *
 * Readers wait in two binary heaps, the next one to get a row on top: `pace` has those that are
 * below the window's cap, `room` those of them that can keep another row.
 */
#include "plan/assign.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/assign_internal.h"
#include "plan/assign_wants.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BURDEN = 8 };

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

static bool has_room(const struct assigner *assigner, uint32_t reader)
{
    return assigner->readers[reader].kept < assigner->keep_rows;
}

static void heap_fill(struct assigner *assigner, struct reader_heap *heap)
{
    heap->count = 0;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        heap->indices[r] = NOWHERE;
        if (assigner->readers[r].window_given < assigner->most_rows &&
            (heap == &assigner->pace || has_room(assigner, r)))
            reader_heap_append(heap, (uint16_t)r);
    }
    reader_heap_order(assigner, heap);
}

uint64_t assigner_bytes(const struct plan *plan, uint32_t reader_count, bool keep)
{
    uint64_t bytes = reader_count * (sizeof(struct candidate) + sizeof(double) + 8) +
                     plan->window_rows * (sizeof(uint64_t) + sizeof(uint16_t));
    if (keep)
        bytes += plan->all_rows * sizeof(uint16_t);
    return bytes;
}

/* All ones in the home table stand for a row without a home. */
static bool allocate(struct assigner *assigner, const struct assigner_options *options)
{
    uint32_t readers = assigner->reader_count;
    uint64_t window_rows = options->plan->window_rows;
    assigner->readers = calloc(readers, sizeof *assigner->readers);
    assigner->share = calloc(readers, sizeof *assigner->share);
    assigner->rows = calloc(window_rows, sizeof *assigner->rows);
    assigner->wanting = calloc(window_rows, sizeof *assigner->wanting);
    if (!assigner->readers || !assigner->share || !assigner->rows || !assigner->wanting ||
        !reader_heap_new(&assigner->pace, readers, done_before) ||
        !reader_heap_new(&assigner->room, readers, has_more_room))
        return false;
    if (assigner->keep_rows == 0)
        return true;
    size_t table_bytes = options->plan->all_rows * sizeof *assigner->home_table;
    assigner->home_table = malloc(table_bytes);
    if (assigner->home_table)
        memset(assigner->home_table, 0xff, table_bytes);
    return assigner->home_table;
}

enum status assigner_new(const struct assigner_options *options, struct assigner **ret_assigner,
                         struct error *err)
{
    const struct plan *plan = options->plan;
    uint32_t readers = options->reader_count;
    if (readers < 1 || readers > ASSIGN_MAX_READERS)
        return error_set(err, STATUS_INVALID, "%u readers: must be 1 to %d", readers,
                         ASSIGN_MAX_READERS);
    struct assigner *assigner = calloc(1, sizeof *assigner);
    if (assigner)
        *assigner = (struct assigner){.row_count = plan->row_count,
                                      .reader_count = readers,
                                      .trainer_count = plan->trainer_count,
                                      .keep_rows = options->keep_rows,
                                      .most_rows = options->most_rows,
                                      .kept_are_read = options->kept_are_read};
    if (!assigner || !allocate(assigner, options)) {
        assigner_free(assigner);
        return error_set(err, STATUS_NO_MEMORY,
                         "assignment of %llu row%s to %u reader%s: out of memory",
                         (unsigned long long)plan->row_count, count_plural(plan->row_count),
                         readers, count_plural(readers));
    }
    for (uint32_t s = 0; plan->mix && s < plan_source_count(plan); s++)
        assigner->source_most_rows[s] =
            options->source_most_rows ? options->source_most_rows[s] : options->most_rows;
    for (uint32_t r = 0; r < readers; r++)
        assigner->readers[r] = (struct candidate){.row_ns = 1, .burden = 1};
    assigner_go_on(assigner, options->reader_of_trainer);
    *ret_assigner = assigner;
    return STATUS_OK;
}

void assigner_free(struct assigner *assigner)
{
    if (!assigner)
        return;
    free(assigner->home_table);
    free(assigner->room.indices);
    free(assigner->room.readers);
    free(assigner->pace.indices);
    free(assigner->pace.readers);
    free(assigner->wanting);
    free(assigner->rows);
    free(assigner->share);
    free(assigner->readers);
    free(assigner);
}

void assigner_go_on(struct assigner *assigner, const uint32_t *reader_of_trainer)
{
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        struct candidate *candidate = &assigner->readers[r];
        candidate->given = candidate->read;
        candidate->is_waited_for = false;
        assigner->share[r] = 0;
    }
    for (uint32_t t = 0; t < assigner->trainer_count; t++)
        assigner->share[reader_of_trainer[t]] += 1.0 / assigner->trainer_count;
    assigner->reader_of_trainer = reader_of_trainer;
}

void assigner_note_pace(struct assigner *assigner, uint32_t reader, uint64_t rows_read,
                        uint64_t row_ns, double waited_more, bool is_waited_for)
{
    struct candidate *candidate = &assigner->readers[reader];
    candidate->read = rows_read;
    candidate->is_waited_for = is_waited_for;
    double burden = candidate->burden * (1 + waited_more / 8);
    burden += (1 - burden) / 100; /* what is not confirmed is forgotten */
    if (burden >= 1.0 / MOST_BURDEN && burden <= MOST_BURDEN)
        candidate->burden = burden;
    if (row_ns == 0)
        return;
    candidate->row_ns = (uint64_t)((double)row_ns * candidate->burden) + 1;
    wants_note_pace(candidate, row_ns);
}

/* Rows that are kept go to their homes, but for what a home has no buffers for; the others' owners
 * are HOME_NONE. */
static void give_kept(struct assigner *assigner, const struct assigner_task *task)
{
    for (uint64_t window_row = 0; window_row < task->window->row_count; window_row++) {
        uint16_t home =
            assigner->home_table ? assigner->home_table[assigner->rows[window_row]] : HOME_NONE;
        task->owners[window_row] = HOME_NONE;
        if (home == HOME_NONE)
            continue;
        struct candidate *reader = &assigner->readers[home];
        if (assigner->kept_are_read && reader->window_given == assigner->most_rows)
            continue;
        task->owners[window_row] = home | ASSIGN_KEEP;
        assigner->stats.kept_rows++;
        if (assigner->kept_are_read) {
            reader->given += assigner->wanting[window_row] != WANTED_BY_NONE;
            reader->window_given++;
        }
    }
}

/* Row `window_row` is read by `reader`, which may keep it. */
static void give(struct assigner *assigner, const struct assigner_task *task, uint64_t window_row,
                 uint32_t reader, bool keep)
{
    struct candidate *candidate = &assigner->readers[reader];
    bool unread = assigner->wanting[window_row] == WANTED_BY_NONE;
    candidate->given += !unread;
    assigner->stats.unread_rows += unread;
    assigner->stats.read_rows += !unread;
    candidate->window_given++;
    candidate->kept += keep;
    task->owners[window_row] = (uint16_t)(keep ? reader | ASSIGN_KEEP : reader);
    if (keep)
        assigner->home_table[assigner->rows[window_row]] = (uint16_t)reader;
    if (candidate->window_given == assigner->most_rows)
        reader_heap_remove(assigner, &assigner->pace, reader);
    reader_heap_lower(assigner, &assigner->pace, reader);
    if (candidate->window_given == assigner->most_rows || !has_room(assigner, reader))
        reader_heap_remove(assigner, &assigner->room, reader);
    reader_heap_lower(assigner, &assigner->room, reader);
}

/* A row that has no home yet, or whose home has no buffers for it. */
static void give_other(struct assigner *assigner, const struct assigner_task *task,
                       uint64_t window_row)
{
    const struct reader_heap *room = &assigner->room;
    uint16_t wanting = assigner->wanting[window_row];
    bool keep = room->count > 0 && wanting != WANTED_BY_NONE &&
                assigner->home_table[assigner->rows[window_row]] == HOME_NONE;
    uint32_t reader;
    if (keep) {
        bool fits = is_reader(wanting) && room->indices[wanting] != NOWHERE;
        reader = fits ? wanting : room->readers[0];
    } else {
        bool may = is_reader(wanting) && assigner->pace.indices[wanting] != NOWHERE;
        reader = may ? wants_reader(assigner, wanting) : assigner->pace.readers[0];
    }
    give(assigner, task, window_row, reader, keep);
}

static void count_exchanged(struct assigner *assigner, const struct assigner_task *task)
{
    const struct plan_window *window = task->window;
    const struct plan *plan = &task->epoch->plan;
    struct assigner_stats *stats = &assigner->stats;
    double delivered = plan->position_count < plan->sample_count
                           ? (double)plan->position_count / (double)plan->sample_count
                           : 1;
    stats->rows += window->row_count;
    for (uint64_t window_row = 0; window_row < window->row_count; window_row++) {
        uint32_t owner = assign_reader(task->owners[window_row]);
        uint16_t wanting = assigner->wanting[window_row];
        double samples = delivered * (double)plan_window_row_samples(window, window_row);
        if (window->row_samples == 1)
            samples = wanting != WANTED_BY_NONE;
        stats->samples += samples;
        stats->exchanged_samples +=
            samples * (is_reader(wanting) ? wanting != owner : 1 - assigner->share[owner]);
    }
}

void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *ret_owners)
{
    const struct plan *plan = &epoch->plan;
    assert((plan->mix ? &plan->mix->outer : plan)->row_count == assigner->row_count);
    if (plan->mix)
        assigner->most_rows = assigner->source_most_rows[plan->source];
    struct assigner_task task = {.epoch = epoch, .window = window, .owners = ret_owners};
    for (uint32_t r = 0; r < assigner->reader_count; r++)
        assigner->readers[r].window_given = 0;
    for (uint64_t window_row = 0; window_row < window->row_count; window_row++)
        assigner->rows[window_row] = window->first_row_position + window_row;
    plan_rows_at(epoch, assigner->rows, window->row_count);
    wants_find(assigner, &task);
    give_kept(assigner, &task);
    wants_share(assigner, &task);
    heap_fill(assigner, &assigner->pace);
    heap_fill(assigner, &assigner->room);
    for (uint64_t window_row = 0; window_row < window->row_count; window_row++)
        if (ret_owners[window_row] == HOME_NONE)
            give_other(assigner, &task, window_row);
    count_exchanged(assigner, &task);
}

void assigner_stats(const struct assigner *assigner, struct assigner_stats *ret_stats)
{
    *ret_stats = assigner->stats;
}
