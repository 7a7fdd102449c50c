/* See assign.h. */
#include "plan/assign/assign.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/assign/assign_internal.h"
#include "plan/assign/assign_slow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* All ones in the home table stand for a row without a home. */
static void take_tables(struct assigner *assigner, const struct plan *plan)
{
    struct tables *tables = &assigner->tables;
    uint32_t readers = assigner->reader_count;
    assigner->readers = tables_take(tables, readers, sizeof *assigner->readers);
    assigner->without_trainers = tables_take(tables, readers, sizeof *assigner->without_trainers);
    assigner->rows = tables_take(tables, plan->window_rows, sizeof *assigner->rows);
    assigner->near = tables_take(tables, plan->window_rows, sizeof *assigner->near);
    if (assigner->keep_rows > 0)
        assigner->home_table = tables_take(tables, plan->all_rows, sizeof *assigner->home_table);
    if (assigner->home_table)
        memset(assigner->home_table, 0xff, plan->all_rows * sizeof *assigner->home_table);
}

uint64_t assigner_bytes(const struct plan *plan, uint32_t reader_count, bool keep)
{
    struct assigner assigner = {
        .reader_count = reader_count, .keep_rows = keep, .tables.only_counts = true};
    take_tables(&assigner, plan);
    return assigner.tables.bytes;
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
                                      .copies = options->copies,
                                      .keep_rows = options->keep_rows,
                                      .most_rows = options->most_rows,
                                      .readers_with_room = options->keep_rows > 0 ? readers : 0,
                                      .kept_are_read = options->kept_are_read};
    if (assigner)
        take_tables(assigner, plan);
    if (!assigner || assigner->tables.failed) {
        assigner_free(assigner);
        return error_set(err, STATUS_NO_MEMORY,
                         "assignment of %llu row%s to %u reader%s: out of memory",
                         (unsigned long long)plan->row_count, count_plural(plan->row_count),
                         readers, count_plural(readers));
    }
    for (uint32_t s = 0; plan->mix && s < plan_source_count(plan); s++)
        assigner->source_most_rows[s] =
            options->source_most_rows ? options->source_most_rows[s] : options->most_rows;
    assigner_go_on(assigner, options->reader_of_trainer);
    *ret_assigner = assigner;
    return STATUS_OK;
}

void assigner_free(struct assigner *assigner)
{
    if (!assigner)
        return;
    tables_done(&assigner->tables);
    free(assigner);
}

/* Whether the reader at i is not among those from `begin` on. */
static bool is_first(const uint32_t *readers, uint32_t i, uint32_t begin)
{
    uint32_t at = begin;
    while (readers[at] != readers[i])
        at++;
    return at == i;
}

void assigner_set_trainers(struct assigner *assigner, uint32_t trainers)
{
    assigner->trainer_count = trainers;
}

void assigner_go_on(struct assigner *assigner, const uint32_t *reader_of_trainer)
{
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        assigner->readers[r].is_waited_for = false;
        assigner->readers[r].share = assigner->readers[r].serves = 0;
    }
    uint32_t copies = assigner->copies, served = assigner->trainer_count * copies;
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < served; i++) {
        struct candidate *reader = &assigner->readers[reader_of_trainer[i]];
        reader->share += 1.0 / served;
        if (is_first(reader_of_trainer, i, i - i % copies)) {
            reader->serves += 1.0 / assigner->trainer_count;
            pairs++;
        }
    }
    assigner->readers_of_sample = (double)pairs / assigner->trainer_count;
    assigner->without_count = 0;
    for (uint32_t r = 0; r < assigner->reader_count; r++)
        if (assigner->readers[r].share == 0)
            assigner->without_trainers[assigner->without_count++] = (uint16_t)r;
    double even = 1.0 / assigner->reader_count;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        double share = assigner->readers[r].share;
        assigner->readers[r].near_share =
            share == 0 ? even : share * (1 - even * assigner->without_count);
    }
    assigner->reader_of_trainer = reader_of_trainer;
}

void assigner_note_pace(struct assigner *assigner, uint32_t reader, uint64_t row_ns,
                        bool is_waited_for)
{
    assigner->readers[reader].is_waited_for = is_waited_for;
    if (row_ns > 0)
        slow_note_pace(&assigner->readers[reader], row_ns);
}

/* A reader of a trainer of the plan, for that row. */
static uint16_t reader_serving(const struct assigner *assigner, uint32_t trainer, uint64_t row)
{
    uint64_t turn = assigner->copies > 1 ? row / assigner->trainer_count % assigner->copies : 0;
    return (uint16_t)assigner->reader_of_trainer[(uint64_t)trainer * assigner->copies + turn];
}

/* With order.placement local: the reader whose trainers get the row's samples. */
static uint16_t trainers_reader(const struct assigner *assigner, const struct assigner_task *task,
                                uint64_t row)
{
    return reader_serving(assigner, locality_trainer(task->near, row), row);
}

/* The same, but that a reader that serves no trainer takes its part of all rows. */
static uint16_t near_of_row(const struct assigner *assigner, const struct assigner_task *task,
                            uint64_t row)
{
    if (assigner->without_count == 0)
        return trainers_reader(assigner, task, row);
    uint32_t turn = locality_turn(task->near, row, assigner->reader_count);
    return turn < assigner->without_count ? assigner->without_trainers[turn]
                                          : trainers_reader(assigner, task, row);
}

/* `position`: of the row's sample, if the row has one sample. */
static uint16_t near_reader(const struct assigner *assigner, const struct assigner_task *task,
                            uint64_t window_row, uint64_t position)
{
    const struct plan *plan = &task->epoch->plan;
    if (task->window->row_samples == 1 && position >= plan->position_count)
        return NEAR_UNREAD;
    if (plan->locality)
        return near_of_row(assigner, task, assigner->rows[window_row]);
    if (task->window->row_samples == 1)
        return reader_serving(assigner, plan_trainer_at(task->epoch, position),
                              assigner->rows[window_row]);
    return NEAR_NONE;
}

static void find_near(struct assigner *assigner, const struct assigner_task *task, uint64_t first,
                      uint64_t end)
{
    enum { BLOCK = 128 };
    const struct plan_window *window = task->window;
    const struct plan *plan = &task->epoch->plan;
    bool all_delivered = window->first_position + window->sample_count <= plan->position_count;
    bool by_position = window->row_samples == 1 && !(plan->locality && all_delivered);
    for (; first < end; first += BLOCK) {
        struct plan_location locations[BLOCK] = {{0}};
        uint64_t positions[BLOCK] = {0};
        size_t count = min_u64(BLOCK, end - first);
        for (size_t i = 0; i < count; i++)
            locations[i].window_row = first + i;
        if (by_position)
            plan_positions_of(window, locations, count, positions);
        for (size_t i = 0; i < count; i++)
            assigner->near[first + i] = near_reader(assigner, task, first + i, positions[i]);
    }
}

/* One look-up after another, so that the processor waits for many at once. */
static void find_homes(const struct assigner *assigner, const struct assigner_task *task,
                       uint64_t first, uint64_t end)
{
    for (uint64_t window_row = first; window_row < end; window_row++)
        task->owners[window_row] =
            assigner->home_table ? assigner->home_table[assigner->rows[window_row]] : HOME_NONE;
}

/* Rows that are kept go to their homes, but for what a home has no buffers for. */
static void give_kept(struct assigner *assigner, const struct assigner_task *task)
{
    for (uint64_t window_row = 0; window_row < task->window->row_count; window_row++) {
        uint16_t home = task->owners[window_row];
        if (home == HOME_NONE)
            continue;
        struct candidate *reader = &assigner->readers[home];
        if (assigner->kept_are_read && reader->window.given == assigner->most_rows) {
            task->owners[window_row] = HOME_FULL;
            continue;
        }
        task->owners[window_row] = home | ASSIGN_KEEP;
        assigner->stats.kept_rows++;
        reader->window.given += assigner->kept_are_read;
    }
}

static bool has_buffers(const struct assigner *assigner, uint32_t reader)
{
    return assigner->readers[reader].window.given < assigner->most_rows;
}

static bool has_room(const struct assigner *assigner, uint32_t reader)
{
    return assigner->readers[reader].kept < assigner->keep_rows && has_buffers(assigner, reader);
}

static bool has_time(const struct assigner *assigner, uint32_t reader)
{
    return assigner->readers[reader].window.gains > 0 && has_buffers(assigner, reader);
}

/* The next reader in turn of which `fits` holds, or NEAR_NONE. */
static uint32_t next_in_turn(struct assigner *assigner,
                             bool (*fits)(const struct assigner *, uint32_t reader))
{
    for (uint32_t i = 1; i <= assigner->reader_count; i++) {
        uint32_t reader = (assigner->turn + i) % assigner->reader_count;
        if (fits(assigner, reader))
            return assigner->turn = reader;
    }
    return NEAR_NONE;
}

/* The reader of a row that it also keeps; NEAR_NONE if nobody has room. */
static uint32_t keeper_of(struct assigner *assigner, uint16_t near)
{
    if (assigner->readers_with_room == 0)
        return NEAR_NONE;
    return is_reader(near) && has_room(assigner, near) ? near : next_in_turn(assigner, has_room);
}

/* The reader of a row that it drops after use. */
static uint32_t reader_of(struct assigner *assigner, uint16_t near)
{
    bool may = is_reader(near) && has_buffers(assigner, near);
    if (may && !slow_gives_away(&assigner->readers[near]))
        return near;
    uint32_t reader = near != NEAR_UNREAD ? next_in_turn(assigner, has_time) : NEAR_NONE;
    if (reader != NEAR_NONE)
        assigner->readers[reader].window.gains--;
    else
        reader = may ? near : next_in_turn(assigner, has_buffers);
    return reader;
}

/* A row that has no home yet, or whose home has no buffers for it. */
static void give_other(struct assigner *assigner, const struct assigner_task *task,
                       uint64_t window_row)
{
    uint16_t near = assigner->near[window_row];
    bool unread = near == NEAR_UNREAD;
    uint32_t reader =
        unread || task->owners[window_row] == HOME_FULL ? NEAR_NONE : keeper_of(assigner, near);
    bool keep = reader != NEAR_NONE;
    if (!keep)
        reader = reader_of(assigner, near);
    assert(reader < assigner->reader_count); /* most_rows is an even share or more */
    struct candidate *candidate = &assigner->readers[reader];
    assigner->stats.read_rows += !unread;
    candidate->window.given++;
    candidate->kept += keep;
    task->owners[window_row] = (uint16_t)(keep ? reader | ASSIGN_KEEP : reader);
    if (!keep)
        return;
    assigner->home_table[assigner->rows[window_row]] = (uint16_t)reader;
    assigner->readers_with_room -= candidate->kept == assigner->keep_rows;
}

static void count_exchanged(struct assigner *assigner, const struct assigner_task *task)
{
    const struct plan_window *window = task->window;
    const struct plan *plan = &task->epoch->plan;
    struct assigner_stats *stats = &assigner->stats;
    double delivered = plan->position_count < plan->sample_count
                           ? (double)plan->position_count / (double)plan->sample_count
                           : 1;
    bool single = window->row_samples == 1, serve_all = assigner->without_count == 0;
    stats->rows += window->row_count;
    for (uint64_t window_row = 0; window_row < window->row_count; window_row++) {
        uint32_t owner = assign_reader(task->owners[window_row]);
        uint16_t near = assigner->near[window_row];
        double samples = single ? near != NEAR_UNREAD
                                : delivered * (double)plan_window_row_samples(window, window_row);
        stats->samples += samples;
        if (plan->locality && !(serve_all && is_reader(near)))
            near = trainers_reader(assigner, task, assigner->rows[window_row]);
        stats->exchanged_samples +=
            samples * (assigner->readers_of_sample -
                       (is_reader(near) ? near == owner : assigner->readers[owner].serves));
    }
}

static struct assigner_task task_of(const struct plan_epoch *epoch,
                                    const struct plan_window *window, uint16_t *owners)
{
    return (struct assigner_task){
        .epoch = epoch, .window = window, .owners = owners, .near = locality_near(&epoch->plan)};
}

void assigner_look_up(struct assigner *assigner, const struct plan_epoch *epoch,
                      const struct plan_window *window, uint64_t first, uint64_t end,
                      uint16_t *owners)
{
    struct assigner_task task = task_of(epoch, window, owners);
    for (uint64_t window_row = first; window_row < end; window_row++)
        assigner->rows[window_row] = window->first_row_position + window_row;
    plan_rows_at(epoch, assigner->rows + first, end - first);
    find_near(assigner, &task, first, end);
    find_homes(assigner, &task, first, end);
}

void assigner_decide(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *owners)
{
    const struct plan *plan = &epoch->plan;
    assert((plan->mix ? &plan->mix->outer : plan)->row_count == assigner->row_count);
    if (plan->mix)
        assigner->most_rows = assigner->source_most_rows[plan->source];
    struct assigner_task task = task_of(epoch, window, owners);
    for (uint32_t r = 0; r < assigner->reader_count; r++)
        memset(&assigner->readers[r].window, 0, sizeof assigner->readers[r].window);
    give_kept(assigner, &task);
    slow_share(assigner, &task);
    for (uint64_t window_row = 0; window_row < window->row_count; window_row++)
        if (!is_reader(owners[window_row]))
            give_other(assigner, &task, window_row);
    count_exchanged(assigner, &task);
}

void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *ret_owners)
{
    assigner_look_up(assigner, epoch, window, 0, window->row_count, ret_owners);
    assigner_decide(assigner, epoch, window, ret_owners);
}

void assigner_stats(const struct assigner *assigner, struct assigner_stats *ret_stats)
{
    *ret_stats = assigner->stats;
}
