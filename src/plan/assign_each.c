/* See assign_each.h. */
#include "plan/assign_each.h"

#include "plan/assign_internal.h"
#include "plan/window_match.h"

/* Adds the readers of the trainers that get the sample at `position`, and where padding repeats it.
 */
static void list_position(struct assigner *assigner, const struct assigner_task *task,
                          uint64_t position)
{
    const struct plan *plan = &task->epoch->plan;
    bool last = task->window->index + 1 == plan->window_count;
    for (; position < plan->position_count; position += task->window->sample_count) {
        uint32_t reader = assigner->reader_of_trainer[plan_trainer_at(task->epoch, position)];
        if (assigner->readers[reader].listed != assigner->lists) {
            assigner->readers[reader].listed = assigner->lists;
            assigner->loaders[assigner->loader_count++] = (uint16_t)reader;
        }
        if (!last)
            break;
    }
}

/* Lists who wants samples of a row: a permutation for each sample. Only rows that nobody is to send
 * cost this. */
static void list_loaders(struct assigner *assigner, const struct assigner_task *task,
                         uint64_t window_row)
{
    enum { BLOCK = 64 };
    struct plan_location locations[BLOCK];
    uint64_t positions[BLOCK];
    uint64_t length = plan_window_row_samples(task->window, window_row);
    assigner->loader_count = 0;
    assigner->lists++;
    for (uint64_t offset = 0; offset < length && assigner->loader_count < assigner->reader_count;) {
        size_t count = 0;
        for (; count < BLOCK && offset < length; count++)
            locations[count] = (struct plan_location){window_row, offset++};
        plan_positions_of(task->window, locations, count, positions);
        for (size_t i = 0; i < count; i++)
            list_position(assigner, task, positions[i]);
    }
}

bool each_loads(const struct assigner *assigner, uint32_t reader)
{
    return assigner->readers[reader].listed == assigner->lists;
}

static bool is_replica(const struct assigner *assigner, uint64_t row)
{
    return row < assigner->replica_rows;
}

/* Whether a reader that is not its home has loaded a row, and keeps the row. */
static bool holds(const struct assigner *assigner, uint32_t reader, uint64_t row)
{
    uint64_t bit = row * assigner->reader_count + reader;
    return is_replica(assigner, row) && (assigner->replicas[bit / 8] >> bit % 8 & 1);
}

static void list_holders(struct assigner *assigner, uint64_t row)
{
    assigner->holder_count = 0;
    for (uint32_t r = 0; is_replica(assigner, row) && r < assigner->reader_count; r++)
        if (holds(assigner, r, row))
            assigner->holders[assigner->holder_count++] = (uint16_t)r;
}

/* Whether a reader that loads a row has a buffer that only this row takes. */
static bool has_buffer(const struct assigner *assigner, uint64_t row)
{
    return is_replica(assigner, row) && !assigner->kept_are_read;
}

/* A reader that is not its home loads a row: of a tape that the home sends, or by itself. */
static void load(struct assigner *assigner, uint32_t reader, uint64_t row, bool tape)
{
    struct candidate *candidate = &assigner->readers[reader];
    bool held = holds(assigner, reader, row);
    uint64_t bit = row * assigner->reader_count + reader;
    if (is_replica(assigner, row))
        assigner->replicas[bit / 8] |= (unsigned char)(1 << bit % 8);
    candidate->window_each += !has_buffer(assigner, row);
    candidate->given += !held || assigner->kept_are_read;
    assigner->stats.read_rows += !held && !tape;
    assigner->stats.tapes += tape;
}

/* Whether all listed readers but the owner have buffers for one more row. */
static bool loaders_have_room(const struct assigner *assigner, uint32_t owner, uint64_t row)
{
    for (uint32_t i = 0; i < assigner->loader_count && !has_buffer(assigner, row); i++)
        if (assigner->loaders[i] != owner &&
            assigner->readers[assigner->loaders[i]].window_each >= assigner->each_rows)
            return false;
    return assigner->loader_count > 0;
}

/* Whether all listed readers have the row in memory. */
static bool loaders_hold(const struct assigner *assigner, uint32_t home, uint64_t row)
{
    for (uint32_t i = 0; i < assigner->loader_count; i++)
        if (assigner->loaders[i] != home && !holds(assigner, assigner->loaders[i], row))
            return false;
    return true;
}

/* The listed readers but the owner load a row. */
static void burden_loaders(struct assigner *assigner, uint32_t owner, uint64_t row, bool tape)
{
    for (uint32_t i = 0; i < assigner->loader_count; i++) {
        uint32_t reader = assigner->loaders[i];
        if (reader == owner)
            continue;
        load(assigner, reader, row, tape);
        reader_heap_lower(assigner, &assigner->pace, reader);
        reader_heap_lower(assigner, &assigner->room, reader);
    }
    assigner->stats.each_rows++;
    assigner->stats.tape_rows += tape;
}

/* Whether a reader has a buffer for one more row. Not in a window whose samples padding repeats,
 * where rows of one sample stay longer. */
static bool may_load(const struct assigner *assigner, const struct assigner_task *task,
                     uint32_t reader, uint64_t row)
{
    const struct plan *plan = &task->epoch->plan;
    bool repeated = plan->last == PLAN_PAD && task->window->index + 1 == plan->window_count;
    return has_buffer(assigner, row) ||
           (!repeated && assigner->readers[reader].window_each < assigner->each_rows);
}

static void add_to_ways(struct ways *ways, enum ways_way way, const struct ways_row *row)
{
    if (way == WAY_SEND)
        ways_add_sent(ways, row);
    else if (way == WAY_EACH)
        ways_add_each(ways, row);
    else
        ways_add_tape(ways, row);
}

/* With order.placement local: whether the readers whose trainers get samples of a row load the row,
 * which its home has in memory. They have buffers for all such rows, and keep them. */
static bool takes_local(struct assigner *assigner, const struct assigner_task *task, uint64_t row)
{
    if (!window_match_possible(&task->epoch->plan) || !has_buffer(assigner, row) ||
        !ways_loads_local(&assigner->ways))
        return false;
    ways_add_local(&assigner->ways);
    assigner->stats.each_rows++;
    return true;
}

bool each_takes_kept(struct assigner *assigner, const struct assigner_task *task,
                     uint64_t window_row, uint32_t home, uint16_t *ret_owner)
{
    struct ways *ways = &assigner->ways;
    uint64_t row = assigner->rows[window_row];
    uint16_t wanting = assigner->wanting[window_row];
    *ret_owner = (uint16_t)(home | ASSIGN_KEEP);
    if (is_reader(wanting) && takes_local(assigner, task, row)) {
        *ret_owner |= ASSIGN_EACH;
        return true;
    }
    struct ways_row given = {
        .from = home, .decodes = assigner->kept_are_read, .stays = has_buffer(assigner, row)};
    if (is_reader(wanting)) {
        bool held = holds(assigner, wanting, row);
        enum ways_way way = WAY_SEND;
        if (wanting != home)
            way = ways_choose_single(ways, &given, wanting, held,
                                     may_load(assigner, task, wanting, row));
        if (way == WAY_SEND)
            return false;
        load(assigner, wanting, row, way == WAY_TAPE);
        assigner->lists++; /* the home is not on the list */
        assigner->stats.each_rows++;
        assigner->stats.tape_rows += way == WAY_TAPE;
        assigner->stats.kept_rows += held;
        *ret_owner = way == WAY_TAPE ? *ret_owner | ASSIGN_EACH | ASSIGN_TAPE : wanting;
        return true;
    }
    if (wanting == WANTED_BY_NONE)
        return false;
    list_holders(assigner, row);
    given.holders = assigner->holders;
    given.holder_count = assigner->holder_count;
    enum ways_way way = assigner->each_rows > 0 ? ways_prefer(ways, &given) : WAY_SEND;
    bool allowed = way != WAY_SEND && ways_allows_each(ways, &given);
    if (allowed)
        list_loaders(assigner, task, window_row);
    if (allowed && !loaders_have_room(assigner, home, row))
        way = WAY_SEND;
    else if (allowed && way == WAY_TAPE && loaders_hold(assigner, home, row))
        way = WAY_EACH;
    add_to_ways(ways, way, &given);
    if (!allowed || way == WAY_SEND)
        return false;
    burden_loaders(assigner, home, row, way == WAY_TAPE);
    *ret_owner |= way == WAY_TAPE ? ASSIGN_EACH | ASSIGN_TAPE : ASSIGN_EACH;
    return true;
}

/* Of the listed readers the one to own a row that all of them load: which has most room, if the row
 * is to be kept. HOME_NONE: none may. */
static uint32_t owner_of_loaders(const struct assigner *assigner, bool keep)
{
    uint32_t best = HOME_NONE;
    const struct reader_heap *heap = keep ? &assigner->room : &assigner->pace;
    for (uint32_t i = 0; i < assigner->loader_count; i++) {
        uint32_t reader = assigner->loaders[i];
        if (heap->indices[reader] != NOWHERE &&
            (best == HOME_NONE || assigner_has_more_room(assigner, reader, best)))
            best = reader;
    }
    return best;
}

bool each_takes_other(struct assigner *assigner, const struct assigner_task *task,
                      uint64_t window_row, uint32_t sender, bool keep)
{
    uint64_t row = assigner->rows[window_row];
    struct ways_row given = {.from = sender, .reads = true};
    if (assigner->each_rows == 0 || ways_prefer(&assigner->ways, &given) == WAY_SEND ||
        !ways_allows_each(&assigner->ways, &given))
        return false;
    list_loaders(assigner, task, window_row);
    uint32_t owner = owner_of_loaders(assigner, keep);
    if (owner == HOME_NONE || !loaders_have_room(assigner, owner, row))
        return false;
    assigner_give(assigner, task, window_row, owner, keep);
    burden_loaders(assigner, owner, row, false);
    given.from = owner;
    ways_add_each(&assigner->ways, &given);
    task->owners[window_row] |= ASSIGN_EACH;
    return true;
}
