/* See windows.h. Windows live in a ring by serial number:
 *
 * A window whose rows this reader has yet to send as stored is not retired.
 *
 *     retired <= planned <= assigned <= posted <= retired + count
 */
#include "windows.h"

#include "base/memory.h"
#include "base/number.h"
#include "pace.h"
#include "tapes.h"

#include <limits.h>
#include <stdlib.h>

struct windows {
    struct job *job;
    struct span span;
    uint64_t round_count;
    uint64_t count;
    uint64_t retired;         /* windows before this one are over, their entries free */
    uint64_t planned;         /* windows before this one are PLANNED */
    uint64_t assigned;        /* windows before this one have their assignment */
    uint64_t posted;          /* windows before this one have been asked for */
    uint64_t reading;         /* the round whose rows are being claimed */
    struct round_reach reach; /* of that round */
    int32_t pending_load;     /* claimed, but its queue was full; ROW_NONE if there is none */
    uint64_t *rows_read;      /* [count + 1] from the store, of the epochs under way, in turn */
    struct window_ways *ways; /* [count + 1] of the same */
    struct tapes *tapes;      /* NULL: rows are not sent as stored */
    uint64_t *tape_bytes;     /* [count + 1] of the same */
    uint64_t released;        /* windows before this one are over for rounds */
    uint64_t sending;         /* the round whose tapes are being sent */
    struct round_reach send_reach; /* of that round */
    uint64_t unmeasured;           /* windows that are assigned before any rate is measured */
    struct window ring[];
};

struct window *windows_at(struct windows *windows, uint64_t serial)
{
    return &windows->ring[serial % windows->count];
}

static enum status window_init(struct window *window, const struct job *job, struct error *err)
{
    const struct plan *plan = &job->setup.plan;
    window->job = job;
    window->request = MPI_REQUEST_NULL;
    window->rows = calloc(plan->window_rows, sizeof *window->rows);
    window->owners = calloc(plan->window_rows, sizeof *window->owners);
    window->buffers = calloc(plan->window_rows, sizeof *window->buffers);
    window->uses = calloc(plan->window_rows, sizeof *window->uses);
    window->all = calloc(round_window_capacity(plan), sizeof *window->all);
    if (job->received)
        window->marks = calloc((size_t)job->comm.size, sizeof *window->marks);
    _Static_assert(sizeof *window->rows + sizeof *window->owners + sizeof *window->buffers +
                           sizeof *window->uses ==
                       BUDGET_WINDOW_ROW_BYTES,
                   "counted in the budget");
    if (!window->rows || !window->owners || !window->buffers || !window->uses || !window->all ||
        (job->received && !window->marks))
        return error_set(err, STATUS_NO_MEMORY,
                         "no memory to plan windows of %llu rows: lower order.window_rows",
                         (unsigned long long)plan->window_rows);
    memory_touch(window->all, round_window_capacity(plan) * sizeof *window->all);
    return STATUS_OK;
}

enum status windows_new(struct job *job, struct windows **ret_windows, struct error *err)
{
    uint64_t count = job->setup.budget.planned_windows;
    if (job->setup.plan.window_rows > INT_MAX)
        return error_set(err, STATUS_INVALID,
                         "windows of %llu rows are too large for MPI: lower "
                         "order.window_rows",
                         (unsigned long long)job->setup.plan.window_rows);
    struct windows *windows = calloc(1, sizeof *windows + count * sizeof(struct window));
    if (!windows)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %llu windows",
                         (unsigned long long)count);
    windows->job = job;
    windows->span = span_windows(&job->setup);
    windows->round_count = span_rounds(&job->setup).count;
    windows->unmeasured = UINT64_MAX;
    if (job->setup.budget.each_rows > 0 && windows->round_count > 2 * PACE_ROUNDS) {
        struct round_reach last; /* before others, since its epoch may be far ahead */
        round_reach_at(&last, &job->setup, &windows->span, 2 * PACE_ROUNDS - 1);
        windows->unmeasured = max_u64(
            last.last_window + 1, span_serial(&windows->span, windows->span.first_epoch + 1, 0));
    }
    round_reach_at(&windows->reach, &job->setup, &windows->span, 0);
    windows->send_reach = windows->reach;
    windows->count = count;
    windows->pending_load = ROW_NONE;
    windows->rows_read = calloc(count + 1, sizeof *windows->rows_read);
    enum status status = STATUS_OK;
    windows->ways = calloc(count + 1, sizeof *windows->ways);
    windows->tape_bytes = calloc(count + 1, sizeof *windows->tape_bytes);
    if (!windows->rows_read || !windows->ways || !windows->tape_bytes)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %llu windows",
                           (unsigned long long)count);
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++)
        status = window_init(&windows->ring[i], job, err);
    if (status == STATUS_OK && job->received)
        status = tapes_new(job, &windows->tapes, err);
    if (status != STATUS_OK) {
        windows_free(windows);
        return status;
    }
    *ret_windows = windows;
    return STATUS_OK;
}
void windows_free(struct windows *windows)
{
    if (!windows)
        return;
    if (windows->pending_load != ROW_NONE)
        row_store_drop(windows->job->store, windows->pending_load);
    for (uint64_t i = 0; i < windows->count; i++) {
        free(windows->ring[i].rows);
        free(windows->ring[i].owners);
        free(windows->ring[i].buffers);
        free(windows->ring[i].uses);
        free(windows->ring[i].all);
        free(windows->ring[i].marks);
    }
    tapes_free(windows->tapes);
    free(windows->tape_bytes);
    free(windows->rows_read);
    free(windows->ways);
    free(windows);
}

/* An epoch has a window at least: there are as many epochs under way as windows at most, and one
 * whose count is still to be taken. */
static struct window_ways *ways_of(struct windows *windows, uint64_t epoch)
{
    return &windows->ways[epoch % (windows->count + 1)];
}

struct window_ways windows_take_ways(struct windows *windows, uint64_t epoch)
{
    struct window_ways ways = *ways_of(windows, epoch);
    *ways_of(windows, epoch) = (struct window_ways){0};
    return ways;
}

/* Rank 0 decides who reads which row. */
static void assign(struct windows *windows, struct window *window)
{
    struct assigner_stats before, after;
    struct window_ways *ways = ways_of(windows, window->epoch.epoch);
    assigner_stats(windows->job->assigner, &before);
    assigner_window(windows->job->assigner, &window->epoch, &window->plan, window->owners);
    assigner_stats(windows->job->assigner, &after);
    ways->each_rows += after.each_rows - before.each_rows;
    ways->tape_rows += after.tape_rows - before.tape_rows;
    ways->tapes += after.tapes - before.tapes;
    ways->exchanged_samples += (uint64_t)(after.exchanged_samples - before.exchanged_samples + 0.5);
    for (int p = 0; p < WAYS_PLANS; p++)
        ways->way_ns[p] += (uint64_t)(after.way_ns[p] - before.way_ns[p]);
}

/* Takes the ring's next entry and starts its assignment. */
static void post_next(struct windows *windows)
{
    struct job *job = windows->job;
    struct window *window = windows_at(windows, windows->posted);
    struct span_index at = span_at(&windows->span, windows->posted);
    window->item_count = window->read_next = window->fill_next = 0;
    window->tape_count = window->tape_next = 0;
    atomic_store(&window->planned, false);
    plan_epoch_init(&window->epoch, &job->setup.plan, at.epoch);
    plan_window_at(&window->plan, &window->epoch, at.index);
    if (job->assigner)
        assign(windows, window);
    MPI_Ibcast(window->owners, (int)window->plan.row_count, MPI_UINT16_T, 0, job->comm.windows,
               &window->request);
    windows->posted++;
}

/* A resumed run starts in the middle of its first epoch: what lies before is not sent. */
static uint64_t start_position(const struct job *job)
{
    const struct ring_service *service = &job->setup.service;
    const struct plan *plan = &job->setup.plan;
    return round_absolute_position(plan, service->start_epoch,
                                   service->start_step * plan->global_batch);
}

/* Items are in order of rounds: if the first one is of a later round than the run's first, none is
 * before the start. */
static void drop_items_before(struct window *window, uint64_t start)
{
    const struct job *job = window->job;
    struct span rounds = span_rounds(&job->setup);
    uint64_t kept = 0, first_round = round_absolute(&job->setup.plan, job->setup.shape,
                                                    rounds.first_epoch, rounds.first);
    if (window->item_count == 0 || window->items[0].round > first_round)
        return;
    for (uint64_t i = 0; i < window->item_count; i++)
        if (window->items[i].position >= start)
            window->items[kept++] = window->items[i];
    window->item_count = kept;
}

/* Runs on a worker; the window is the worker's until `planned` is set. */
static void plan_window(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker;
    (void)begin;
    (void)end;
    struct window *window = argument;
    const struct job *job = window->job;
    uint32_t me = (uint32_t)job->comm.rank;
    uint64_t start = start_position(job);
    window->tapes = window->all;
    if (window->marks)
        window->tape_count =
            round_window_tapes(&window->epoch, &window->plan, job->setup.shape, window->owners, me,
                               job->reader_of_trainer, start, window->marks, window->tapes);
    window->items = window->all + window->tape_count;
    window->item_count =
        round_window_items(&window->epoch, &window->plan, job->setup.shape, window->owners, me,
                           job->reader_of_trainer, window->items);
    drop_items_before(window, start);
    for (uint64_t window_row = 0; window_row < window->plan.row_count; window_row++) {
        window->rows[window_row] = window->plan.first_row_position + window_row;
        window->buffers[window_row] = ROW_NONE;
        window->uses[window_row] = 0;
    }
    plan_rows_at(&window->epoch, window->rows, window->plan.row_count);
    for (uint64_t i = 0; i < window->item_count; i++)
        window->uses[window->items[i].window_row]++;
    atomic_store(&window->planned, true);
}

static bool assignment_arrived(struct window *window)
{
    int complete = 0;
    MPI_Test(&window->request, &complete, MPI_STATUS_IGNORE);
    return complete;
}

static uint64_t *rows_read_of(struct windows *windows, uint64_t epoch)
{
    return &windows->rows_read[epoch % (windows->count + 1)];
}

static uint64_t *tape_bytes_of(struct windows *windows, uint64_t epoch)
{
    return &windows->tape_bytes[epoch % (windows->count + 1)];
}

uint64_t windows_take_tape_bytes(struct windows *windows, uint64_t epoch)
{
    uint64_t bytes = *tape_bytes_of(windows, epoch);
    *tape_bytes_of(windows, epoch) = 0;
    return bytes;
}

bool windows_wait_for_tape(const struct windows *windows, int32_t row_buffer)
{
    return windows->tapes && tapes_hold_up(windows->tapes, row_buffer);
}

bool windows_moving(const struct windows *windows)
{
    return windows->tapes && tapes_under_way(windows->tapes);
}

uint64_t windows_take_rows_read(struct windows *windows, uint64_t epoch)
{
    uint64_t rows = *rows_read_of(windows, epoch);
    *rows_read_of(windows, epoch) = 0;
    return rows;
}

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

/* Retires what rounds do not need any more, but for what is to be sent. */
static void retire(struct windows *windows)
{
    uint64_t end = windows->released;
    if (windows->tapes && windows->sending < windows->round_count)
        end = min_u64(end, windows->send_reach.first_window);
    windows->retired = end > windows->retired ? end : windows->retired;
}

/* Has a claimed row read: of the tape that its owner sends, or by this reader alone. */
static void begin_load(struct windows *windows, struct window *window, uint32_t window_row,
                       int32_t buffer, bool tape)
{
    struct job *job = windows->job;
    uint64_t row = window->rows[window_row];
    uint64_t *rows_read = rows_read_of(windows, window->epoch.epoch);
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
    if (!load && windows->job->masks && !row_store_is_whole(store, buffer))
        return false; /* of the epoch before, and masked perhaps: it is tried again after that */
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

/* Claims the rows of one window that the round being read for takes samples from. False: no further
 * now. */
static bool claim_rows(struct windows *windows, struct window *window, bool *active)
{
    for (; window->read_next < window->item_count; window->read_next++) {
        const struct round_item *item = &window->items[window->read_next];
        if (item->round != windows->reach.absolute_round)
            break;
        if (window->buffers[item->window_row] != ROW_NONE)
            continue;
        if (windows->pending_load != ROW_NONE || !claim_row(windows, window, item->window_row))
            return false;
        *active = true;
    }
    return true;
}

/* Claims rows round by round, which is the order in which they are filled from: so that a row that
 * waits for a buffer never waits for one that is due later. */
static bool read_ahead(struct windows *windows)
{
    bool active = false;
    if (windows->pending_load != ROW_NONE) {
        if (!row_store_load(windows->job->store, windows->pending_load))
            return false;
        windows->pending_load = ROW_NONE;
        active = true;
    }
    while (windows->reading < windows->round_count) {
        if (windows->reach.last_window >= windows->planned)
            return active;
        for (uint64_t i = windows->reach.first_window; i <= windows->reach.last_window; i++)
            if (!claim_rows(windows, windows_at(windows, i), &active))
                return active;
        if (++windows->reading < windows->round_count)
            round_reach_at(&windows->reach, &windows->job->setup, &windows->span, windows->reading);
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
        if (item->round != windows->send_reach.absolute_round)
            break;
        if (is_recording(windows->job, row) ||
            !tapes_send(windows->tapes, item->offset, row, &bytes))
            return false;
        *tape_bytes_of(windows, window->epoch.epoch) += bytes;
        *active = true;
    }
    return true;
}

/* Round by round, as others claim these rows, once this reader has claimed its own rows of earlier
 * rounds. So a row that is due later never holds up another one: neither here, where it waits for
 * its tape or for a buffer, nor where it is received. */
static bool send_ahead(struct windows *windows)
{
    bool active = false;
    while (windows->sending < windows->round_count) {
        if (windows->send_reach.last_window >= windows->planned ||
            windows->sending > windows->reading)
            return active;
        for (uint64_t i = windows->send_reach.first_window; i <= windows->send_reach.last_window;
             i++)
            if (!send_tapes(windows, windows_at(windows, i), &active))
                return active;
        if (++windows->sending < windows->round_count)
            round_reach_at(&windows->send_reach, &windows->job->setup, &windows->span,
                           windows->sending);
        retire(windows);
    }
    return active;
}

static bool more_to_post(const struct windows *windows)
{
    return windows->posted < windows->span.count &&
           windows->posted < windows->retired + windows->count;
}

/* Rank 0 gives out no more windows than the first epoch and the first rounds need until it knows
 * how fast readers are (pace.h): the choice of ways depends on that. In the first epoch there is
 * little to choose, and reading ahead must not wait. */
static bool may_assign(const struct windows *windows)
{
    const struct job *job = windows->job;
    return windows->posted < windows->unmeasured || !job->assigner ||
           assigner_has_pace(job->assigner);
}

bool windows_progress(struct windows *windows)
{
    bool active = row_store_collect(windows->job->store) > 0;
    for (; more_to_post(windows) && may_assign(windows); active = true)
        post_next(windows);
    for (; windows->assigned < windows->posted; windows->assigned++, active = true) {
        struct window *window = windows_at(windows, windows->assigned);
        if (!assignment_arrived(window))
            break;
        if (!pool_submit(windows->job->pool, 0, POOL_URGENT, plan_window, window, 0, 0))
            break;
    }
    for (; windows->planned < windows->assigned; windows->planned++, active = true) {
        if (!atomic_load(&windows_at(windows, windows->planned)->planned))
            break;
    }
    if (windows->tapes) {
        active |= tapes_progress(windows->tapes);
        active |= send_ahead(windows);
    }
    return read_ahead(windows) || active;
}

const struct span *windows_span(const struct windows *windows)
{
    return &windows->span;
}

bool windows_planned(const struct windows *windows, uint64_t serial)
{
    return serial >= windows->retired && serial < windows->planned;
}

uint64_t windows_serial_of(const struct windows *windows, const struct plan_epoch *epoch,
                           uint64_t position)
{
    return span_serial(&windows->span, epoch->epoch, plan_window_of(epoch, position));
}

void windows_retire(struct windows *windows, uint64_t serial)
{
    windows->released = serial > windows->released ? serial : windows->released;
    retire(windows);
}

uint64_t windows_posted(const struct windows *windows)
{
    return windows->posted;
}

bool windows_drain(struct windows *windows, uint64_t count)
{
    windows->sending = windows->round_count; /* what is not sent by now is not of use */
    retire(windows);
    bool moved = !windows->tapes || tapes_drain(windows->tapes);
    while (windows->posted < count && more_to_post(windows))
        post_next(windows);
    for (; windows->assigned < windows->posted; windows->assigned++)
        if (!assignment_arrived(windows_at(windows, windows->assigned)))
            return false;
    for (; windows->planned < windows->posted; windows->planned++) {
        struct window *window = windows_at(windows, windows->planned);
        if (!atomic_load(&window->planned))
            plan_window(NULL, window, 0, 0);
    }
    return moved && windows->posted >= count;
}
