/* Reading ahead: claims row buffers for the rows of coming rounds, and has the rows loaded. See
 * windows.h. */
#include "windows/places.h"
#include "windows/windows_internal.h"

#include "base/number.h"

enum { MOST_BLOCKS = 16, MOST_CLAIMS = 512 }; /* that are looked up, and claimed, in one turn */

/* Has a claimed row read, which this reader keeps or not. */
static void begin_load(struct windows *windows, uint64_t row, int32_t buffer, bool keep)
{
    const struct job *job = windows->job;
    bool has = job->stored && stored_rows_has(job->stored, row);
    if (job->stored && keep)
        (void)stored_rows_keep(job->stored, row); /* without room it is read again next time */
    windows_counts_of(windows, windows->reading.reach.epoch.epoch)->rows_read += !has;
    if (!row_store_load(job->store, buffer))
        windows->pending_load = buffer;
}

/* Where most of a row's samples go. */
static uint32_t numa_of_row(const struct windows *windows, uint64_t row)
{
    const struct session *session = windows->session;
    if (!windows->rows_lie_near)
        return ROW_ANY_NUMA;
    uint32_t ring = session->ring_of_group[locality_trainer(windows->near, row)];
    return ring > 0 ? session->rings[ring - 1].numa : ROW_ANY_NUMA;
}

/* Claims a buffer for the row and has it read, unless the row is in memory already. False: not
 * now, as no buffer is free. */
static bool claim_row(struct windows *windows, struct window *window, uint32_t window_row)
{
    struct row_store *store = windows->job->store;
    uint64_t row = window->rows[window_row];
    int32_t buffer = row_store_find(store, row);
    bool load = buffer == ROW_NONE, keep = assign_keeps(window->owners[window_row]);
    if (!load && windows->job->masks && !windows->job->setup.plan.mix &&
        !row_store_is_whole(store, buffer))
        return false; /* of the epoch before, and masked perhaps: it is tried again after that. In a
                       * mix samples of the next pass may come before those of this one */
    if (load)
        buffer = row_store_claim(store, row, numa_of_row(windows, row));
    if (buffer == ROW_NONE)
        return false;
    row_store_expect(store, buffer,
                     (uint64_t)window->uses[window_row] * windows->session->groups.most);
    if (keep && !windows->job->stored)
        row_store_keep(store, buffer);
    window->buffers[window_row] = buffer;
    if (load)
        begin_load(windows, row, buffer, keep);
    return true;
}

/* Claims the row of a sample. False: no further now. */
static bool claim_item(struct windows *windows, struct window *window, uint32_t window_row,
                       bool *active)
{
    if (window->buffers[window_row] != ROW_NONE)
        return true;
    if (windows->pending_load != ROW_NONE || windows->reading.claims == MOST_CLAIMS ||
        !claim_row(windows, window, window_row))
        return false;
    windows->reading.claims++;
    *active = true;
    return true;
}

/* Claims the rows of one window that the round being read for takes samples from. False: no further
 * now. */
static bool claim_rows(struct windows *windows, struct window *window, bool *active)
{
    for (; window->read_next < window->item_count; window->read_next++) {
        const struct round_item *item = &window->items[window->read_next];
        if (item->round != windows->reading.reach.absolute_round)
            break;
        if (!claim_item(windows, window, item->window_row, active))
            return false;
    }
    return true;
}

/* The same of a mix, whose windows have the round's samples in turn. */
static bool claim_merged(struct windows *windows, bool *active)
{
    struct window *window;
    while ((window = item_merge_first(&windows->claims))) {
        if (!claim_item(windows, window, window->items[window->read_next].window_row, active))
            return false;
        item_merge_take(&windows->claims);
    }
    return true;
}

/* Of places that follow one another: claims the rows of this reader's samples. */
static bool claim_places(struct windows *windows, const struct place *places, size_t count,
                         bool *active)
{
    uint32_t me = (uint32_t)windows->job->comm.rank;
    for (size_t i = 0; i < count; i++) {
        struct window *window = places[i].window;
        uint32_t window_row = places[i].location.window_row;
        if (assign_reader(window->owners[window_row]) == me &&
            !claim_item(windows, window, window_row, active))
            return false;
    }
    return true;
}

/* The same of windows without lists: by looking up the round's positions. */
static bool claim_positions(struct windows *windows, bool *active)
{
    const struct round_reach *reach = &windows->reading.reach;
    const struct plan *plan = &reach->epoch.plan;
    uint32_t blocks = 0;
    while (windows->reading.range < round_range_count(plan, &reach->round)) {
        struct round_range range = round_range_number(plan, &reach->round, windows->reading.range);
        struct place places[PLACES_BLOCK];
        uint64_t position = max_u64(windows->reading.position, range.first);
        size_t count = places_look_up_used(windows, reach, &position, range.end, places);
        if (!claim_places(windows, places, count, active))
            return false;
        windows->reading.position = position + count;
        windows->reading.range += count == 0;
        *active |= blocks + 1 == MOST_BLOCKS;
        if (++blocks == MOST_BLOCKS)
            return false;
    }
    return true;
}

static bool claim_round(struct windows *windows, bool *active)
{
    const struct reach_source *only = &windows->reading.reach.sources[0];
    if (!windows->reading.listed)
        return claim_positions(windows, active);
    if (windows->job->setup.plan.mix)
        return claim_merged(windows, active);
    for (uint64_t i = only->first_window; i < only->end_window; i++)
        if (!claim_rows(windows, windows_at(windows, 0, i), active))
            return false;
    return true;
}

void windows_read_for(struct windows *windows, uint64_t serial)
{
    windows->reading.serial = serial;
    windows->reading.found = false;
    windows->reading.range = 0;
    windows->reading.position = 0;
    if (serial < windows->round_count)
        round_reach_at(&windows->reading.reach, windows->session, serial);
}

/* Where the last rounds were claimed by position, lists stand at items of these rounds. */
static void pass_claimed(struct windows *windows)
{
    const struct round_reach *reach = &windows->reading.reach;
    for (uint32_t s = 0; s < windows->source_count; s++)
        for (uint64_t i = reach->sources[s].first_window; i < reach->sources[s].end_window; i++) {
            struct window *window = windows_at(windows, s, i);
            while (window->read_next < window->item_count &&
                   window->items[window->read_next].round < reach->absolute_round)
                window->read_next++;
        }
}

/* Finds the windows of the round being read for. False: they are not all planned. */
static bool find_windows(struct windows *windows)
{
    struct round_reach *reach = &windows->reading.reach;
    if (windows->reading.found)
        return true;
    windows->reading.found = windows_find(windows, reach);
    if (!windows->reading.found)
        return false;
    windows->reading.listed = windows_are_listed(windows, reach);
    pass_claimed(windows);
    if (!windows->job->setup.plan.mix)
        return true;
    item_merge_begin(&windows->claims, reach->absolute_round, UINT64_MAX);
    for (uint32_t s = 0; s < windows->source_count; s++)
        for (uint64_t i = reach->sources[s].first_window; i < reach->sources[s].end_window; i++) {
            struct window *window = windows_at(windows, s, i);
            item_merge_add(&windows->claims, window, &window->read_next);
        }
    return true;
}

bool windows_read_ahead(struct windows *windows)
{
    bool active = false;
    windows->reading.claims = 0;
    if (windows->pending_load != ROW_NONE) {
        if (!row_store_load(windows->job->store, windows->pending_load))
            return false;
        windows->pending_load = ROW_NONE;
        active = true;
    }
    while (windows->reading.serial < windows->round_count) {
        if (!find_windows(windows) || !claim_round(windows, &active))
            return active;
        windows_read_for(windows, windows->reading.serial + 1);
    }
    return active;
}
