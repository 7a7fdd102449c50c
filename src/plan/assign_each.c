/* See assign_each.h. */
#include "plan/assign_each.h"

#include "plan/assign_internal.h"

/* Adds the readers of the trainers that get the sample at `position`, and where padding repeats it.
 */
static void list_position(struct assigner *assigner, const struct assigner_task *task,
                          uint64_t position)
{
    const struct plan *plan = &task->epoch->plan;
    bool last = task->window->index + 1 == plan->window_count;
    for (; position < plan->position_count; position += task->window->sample_count) {
        uint32_t reader = assigner->reader_of_trainer[plan_recipient_of(plan, position).trainer];
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

/* Whether all listed readers but the owner have buffers for one more row. */
static bool loaders_have_room(const struct assigner *assigner, uint32_t owner)
{
    for (uint32_t i = 0; i < assigner->loader_count; i++)
        if (assigner->loaders[i] != owner &&
            assigner->readers[assigner->loaders[i]].window_each >= assigner->each_rows)
            return false;
    return assigner->loader_count > 0;
}

/* The listed readers but the owner load a row. */
static void burden_loaders(struct assigner *assigner, uint32_t owner)
{
    for (uint32_t i = 0; i < assigner->loader_count; i++) {
        uint32_t reader = assigner->loaders[i];
        if (reader == owner)
            continue;
        assigner->readers[reader].given++;
        assigner->readers[reader].window_each++;
        assigner->stats.read_rows++;
        reader_heap_lower(assigner, &assigner->pace, reader);
        reader_heap_lower(assigner, &assigner->room, reader);
    }
    assigner->stats.each_rows++;
}

/* Whether a reader has a buffer for one more row. Not in a window whose samples padding repeats,
 * where rows of one sample stay longer. */
static bool may_load(const struct assigner *assigner, const struct assigner_task *task,
                     uint32_t reader)
{
    const struct plan *plan = &task->epoch->plan;
    bool repeated = plan->last == PLAN_PAD && task->window->index + 1 == plan->window_count;
    return !repeated && assigner->readers[reader].window_each < assigner->each_rows;
}

bool each_takes_kept(struct assigner *assigner, const struct assigner_task *task,
                     uint64_t window_row, uint32_t home, uint16_t *ret_owner)
{
    struct ways *ways = &assigner->ways;
    bool decodes = assigner->kept_are_read;
    uint16_t wanting = assigner->wanting[window_row];
    *ret_owner = (uint16_t)(home | ASSIGN_KEEP);
    if (is_reader(wanting)) {
        struct candidate *reader = &assigner->readers[wanting];
        if (wanting == home ||
            !ways_choose_single(ways, home, wanting, decodes, may_load(assigner, task, wanting)))
            return false;
        reader->given++;
        reader->window_each++;
        assigner->stats.read_rows++;
        assigner->stats.each_rows++;
        *ret_owner = wanting;
        return true;
    }
    if (wanting == WANTED_BY_NONE)
        return false;
    if (assigner->each_rows > 0 && ways_prefers_each(ways, home, decodes, false)) {
        list_loaders(assigner, task, window_row);
        if (loaders_have_room(assigner, home)) {
            burden_loaders(assigner, home);
            ways_add_each(ways, home, decodes, false);
            *ret_owner |= ASSIGN_EACH;
            return true;
        }
    }
    ways_add_sent(ways, home, decodes, false);
    return false;
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
    if (assigner->each_rows == 0 || !ways_prefers_each(&assigner->ways, sender, false, true))
        return false;
    list_loaders(assigner, task, window_row);
    uint32_t owner = owner_of_loaders(assigner, keep);
    if (owner == HOME_NONE || !loaders_have_room(assigner, owner))
        return false;
    assigner_give(assigner, task, window_row, owner, keep);
    burden_loaders(assigner, owner);
    ways_add_each(&assigner->ways, owner, false, true);
    task->owners[window_row] |= ASSIGN_EACH;
    return true;
}
