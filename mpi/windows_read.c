/* Reading ahead: claims row buffers for the rows of coming rounds, has the rows loaded, and sends
 * rows as stored to others. See windows.h. */
#include "windows_internal.h"

/* Whether this reader keeps a row that it loads: as the row's home, or where memory is to spare. */
static bool keeps(const struct windows *windows, const struct window *window, uint32_t window_row)
{
    const struct job *job = windows->job;
    return assign_keeps(window->owners[window_row], (uint32_t)job->comm.rank) ||
           window->rows[window_row] < job->setup.budget.replica_rows;
}

/* The row's owner sends its tape, which is not of use. */
static void forget_tape(struct windows *windows, const struct window *window, uint32_t window_row)
{
    tapes_expect(windows->tapes, window->owners[window_row] & ASSIGN_READER_MASK, ROW_NONE, NULL);
}

/* Has a claimed row read: of the tape that its owner sends, or by this reader alone. */
static void begin_load(struct windows *windows, struct window *window, uint32_t window_row,
                       int32_t buffer, bool tape)
{
    struct job *job = windows->job;
    uint64_t row = window->rows[window_row];
    uint64_t *rows_read =
        &windows_counts_of(windows, windows->reading.reach.epoch.epoch)->rows_read;
    bool keep = keeps(windows, window, window_row);
    bool has = job->stored && stored_rows_has(job->stored, row);
    if (job->stored && keep)
        (void)stored_rows_keep(job->stored, row); /* without room it is read again next time */
    if (tape && !has) {
        tapes_expect(windows->tapes, window->owners[window_row] & ASSIGN_READER_MASK, buffer,
                     rows_read);
        return;
    }
    *rows_read += !has;
    if (!row_store_load(job->store, buffer))
        windows->pending_load = buffer;
    if (tape)
        forget_tape(windows, window, window_row);
}

/* Claims a buffer for the row and has it read, unless the row is in memory already. False: not
 * now, as no buffer is free. */
static bool claim_row(struct windows *windows, struct window *window, uint32_t window_row)
{
    struct row_store *store = windows->job->store;
    uint64_t row = window->rows[window_row];
    int32_t buffer = row_store_find(store, row);
    bool load = buffer == ROW_NONE;
    bool tape = assign_gets_tape(window->owners[window_row], (uint32_t)windows->job->comm.rank);
    if (tape && !tapes_may_expect(windows->tapes))
        return false;
    if (!load && windows->job->masks && !windows->job->setup.plan.mix &&
        !row_store_is_whole(store, buffer))
        return false; /* of the epoch before, and masked perhaps: it is tried again after that. In a
                       * mix samples of the next pass may come before those of this one */
    if (load)
        buffer = row_store_claim(store, row);
    if (buffer == ROW_NONE)
        return false;
    row_store_expect(store, buffer, window->uses[window_row]);
    if (keeps(windows, window, window_row) && !windows->job->stored)
        row_store_keep(store, buffer);
    window->buffers[window_row] = buffer;
    if (load)
        begin_load(windows, window, window_row, buffer, tape);
    else if (tape)
        forget_tape(windows, window, window_row);
    return true;
}

/* Claims the row of a sample. False: no further now. */
static bool claim_item(struct windows *windows, struct window *window,
                       const struct round_item *item, bool *active)
{
    if (window->buffers[item->window_row] != ROW_NONE)
        return true;
    if (windows->pending_load != ROW_NONE || !claim_row(windows, window, item->window_row))
        return false;
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
        if (!claim_item(windows, window, item, active))
            return false;
    }
    return true;
}

/* The same of a mix, whose windows have the round's samples in turn. */
static bool claim_merged(struct windows *windows, bool *active)
{
    struct window *window;
    while ((window = item_merge_first(&windows->claims))) {
        if (!claim_item(windows, window, &window->items[window->read_next], active))
            return false;
        item_merge_take(&windows->claims);
    }
    return true;
}

static bool claim_round(struct windows *windows, bool *active)
{
    const struct reach_source *only = &windows->reading.reach.sources[0];
    if (windows->job->setup.plan.mix)
        return claim_merged(windows, active);
    for (uint64_t i = only->first_window; i < only->end_window; i++)
        if (!claim_rows(windows, windows_at(windows, 0, i), active))
            return false;
    return true;
}

void windows_go_to(const struct windows *windows, struct windows_round *round, uint64_t serial)
{
    round->serial = serial;
    round->found = false;
    if (serial < windows->round_count)
        round_reach_at(&round->reach, &windows->job->setup, serial);
}

/* Finds the windows of the round being read for. False: they are not all planned. */
static bool find_windows(struct windows *windows)
{
    struct windows_round *round = &windows->reading;
    if (round->found)
        return true;
    round->found = windows_find(windows, &round->reach);
    if (!round->found || !windows->job->setup.plan.mix)
        return round->found;
    item_merge_begin(&windows->claims, round->reach.absolute_round);
    for (uint32_t s = 0; s < windows->source_count; s++)
        for (uint64_t i = round->reach.sources[s].first_window;
             i < round->reach.sources[s].end_window; i++) {
            struct window *window = windows_at(windows, s, i);
            item_merge_add(&windows->claims, window, &window->read_next);
        }
    return true;
}

bool windows_read_ahead(struct windows *windows)
{
    bool active = false;
    if (windows->pending_load != ROW_NONE) {
        if (!row_store_load(windows->job->store, windows->pending_load))
            return false;
        windows->pending_load = ROW_NONE;
        active = true;
    }
    while (windows->reading.serial < windows->round_count) {
        if (!find_windows(windows) || !claim_round(windows, &active))
            return active;
        windows_go_to(windows, &windows->reading, windows->reading.serial + 1);
    }
    return active;
}

/* Whether a row has no tape yet, and will have one soon: this reader is loading the row. */
static bool is_recording(const struct job *job, uint64_t row)
{
    int32_t buffer = row_store_find(job->store, row);
    return buffer != ROW_NONE && row_store_state(job->store, buffer) == ROW_LOADING &&
           !stored_rows_has(job->stored, row);
}

/* Sends the rows of one window that are wanted as stored for the round being sent for. False: no
 * further now. */
static bool send_tapes(struct windows *windows, struct window *window, bool *active)
{
    for (; window->tape_next < window->tape_count; window->tape_next++) {
        const struct round_item *item = &window->tapes[window->tape_next];
        uint64_t bytes, row = window->rows[item->window_row];
        if (item->round != windows->sending.reach.absolute_round)
            break;
        if (is_recording(windows->job, row) ||
            !tapes_send(windows->tapes, item->offset, row, &bytes))
            return false;
        windows_counts_of(windows, window->run_epoch)->tape_bytes += bytes;
        *active = true;
    }
    return true;
}

bool windows_send_ahead(struct windows *windows)
{
    bool active = false;
    struct windows_round *round = &windows->sending;
    while (round->serial < windows->round_count) {
        round->found = round->found || windows_find(windows, &round->reach);
        if (!round->found || round->serial > windows->reading.serial)
            return active;
        const struct reach_source *only = &round->reach.sources[0];
        for (uint64_t i = only->first_window; i < only->end_window; i++)
            if (!send_tapes(windows, windows_at(windows, 0, i), &active))
                return active;
        windows_go_to(windows, round, round->serial + 1);
        windows_retire_released(windows);
    }
    return active;
}
