/* See windows.h. Windows live in a ring of slots by serial number:
 *
 *     retired <= planned <= assigned <= posted <= retired + slot_count
 *     claimed <= entered <= planned, entered <= claimed + 1
 *
 * A window is entered, that is, the rows that it evicts are given up, when all rows of the windows
 * before are claimed; it is claimed when its own are.
 *
 * Rank 0's message about a window is of the same length for all windows, in 64-bit words:
 *
 *     | evicted count | evicted rows [window_rows], if any are kept | owners [window_rows], 16 bits
 * each |
 */
#include "windows.h"

#include "base/memory.h"
#include "base/size.h"
#include "span.h"

#include <limits.h>
#include <stdlib.h>

struct windows {
    struct job *job;
    struct span span;
    uint64_t round_count;
    uint64_t slot_count;
    uint64_t retired;         /* slots of windows before this one are free */
    uint64_t planned;         /* windows before this one are PLANNED */
    uint64_t assigned;        /* windows before this one have their assignment */
    uint64_t posted;          /* windows before this one have been asked for */
    uint64_t entered;         /* windows before this one have given up what they evict */
    uint64_t claimed;         /* windows before this one have all their rows claimed */
    uint64_t reading;         /* the round whose rows are being claimed */
    struct round_reach reach; /* of that round */
    int32_t pending_load;     /* claimed, but its queue was full; ROW_NONE if there is none */
    struct window slots[];
};

struct window *windows_at(struct windows *windows, uint64_t serial)
{
    return &windows->slots[serial % windows->slot_count];
}

static uint64_t evicted_words(const struct job *job)
{
    return job->setup.budget.keep_rows > 0 ? job->setup.plan.window_rows : 0;
}

static uint64_t message_words(const struct job *job)
{
    return 1 + evicted_words(job) + size_divide_up(job->setup.plan.window_rows, 4);
}

static enum status slot_init(struct window *window, const struct job *job, struct error *err)
{
    const struct plan *plan = &job->setup.plan;
    window->job = job;
    window->request = MPI_REQUEST_NULL;
    window->message = calloc(message_words(job), sizeof *window->message);
    window->buffers = calloc(plan->window_rows, sizeof *window->buffers);
    window->uses = calloc(plan->window_rows, sizeof *window->uses);
    window->items = calloc(round_window_capacity(plan), sizeof *window->items);
    _Static_assert(sizeof(uint64_t) + sizeof(uint16_t) + sizeof *window->buffers +
                           sizeof *window->uses ==
                       BUDGET_WINDOW_ROW_BYTES,
                   "counted in the budget");
    if (!window->message || !window->buffers || !window->uses || !window->items)
        return error_set(err, STATUS_NO_MEMORY,
                         "no memory to plan windows of %llu rows: lower order.window_rows",
                         (unsigned long long)plan->window_rows);
    window->assignment = (struct assignment){
        .owners = (uint16_t *)(window->message + 1 + evicted_words(job)),
        .evicted = window->message + 1,
    };
    memory_touch(window->items, round_window_capacity(plan) * sizeof *window->items);
    return STATUS_OK;
}

enum status windows_new(struct job *job, struct windows **ret_windows, struct error *err)
{
    uint64_t slot_count = job->setup.budget.window_slots;
    if (message_words(job) > INT_MAX)
        return error_set(err, STATUS_INVALID,
                         "windows of %llu rows are too large for MPI: lower "
                         "order.window_rows",
                         (unsigned long long)job->setup.plan.window_rows);
    struct windows *windows = calloc(1, sizeof *windows + slot_count * sizeof(struct window));
    if (!windows)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %llu windows",
                         (unsigned long long)slot_count);
    windows->job = job;
    windows->span = span_windows(&job->setup);
    windows->round_count = span_rounds(&job->setup).count;
    round_reach_at(&windows->reach, &job->setup, 0);
    windows->slot_count = slot_count;
    windows->pending_load = ROW_NONE;
    for (uint64_t i = 0; i < slot_count; i++) {
        enum status status = slot_init(&windows->slots[i], job, err);
        if (status != STATUS_OK) {
            windows_free(windows);
            return status;
        }
    }
    *ret_windows = windows;
    return STATUS_OK;
}

void windows_free(struct windows *windows)
{
    if (!windows)
        return;
    for (uint64_t i = 0; i < windows->slot_count; i++) {
        free(windows->slots[i].message);
        free(windows->slots[i].buffers);
        free(windows->slots[i].uses);
        free(windows->slots[i].items);
    }
    free(windows);
}

/* Takes the slot of the next window and starts its assignment. */
static void post_next(struct windows *windows)
{
    struct job *job = windows->job;
    struct window *window = windows_at(windows, windows->posted);
    struct span_place place = span_at(&windows->span, windows->posted);
    window->item_count = window->read_next = window->fill_next = 0;
    atomic_store(&window->planned, false);
    plan_epoch_init(&window->epoch, &job->setup.plan, place.epoch);
    plan_window_at(&window->plan, &window->epoch, place.index);
    if (job->assigner) {
        assigner_window(job->assigner, &window->epoch, &window->plan, &window->assignment);
        window->message[0] = window->assignment.evicted_count;
    }
    MPI_Ibcast(window->message, (int)message_words(job), MPI_UINT64_T, 0, job->comm.windows,
               &window->request);
    windows->posted++;
}

/* A resumed run starts in the middle of its first epoch: what lies before is not sent. */
static void drop_items_before_start(struct window *window)
{
    const struct ring_service *service = &window->job->setup.service;
    if (window->epoch.epoch != service->start_epoch)
        return;
    uint64_t start = service->start_step * window->job->setup.plan.global_batch;
    uint64_t kept = 0;
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
    window->item_count = round_window_items(&window->epoch, &window->plan, window->job->setup.shape,
                                            window->assignment.owners,
                                            (uint32_t)window->job->comm.rank, window->items);
    drop_items_before_start(window);
    for (uint64_t slot = 0; slot < window->plan.row_count; slot++) {
        window->buffers[slot] = ROW_NONE;
        window->uses[slot] = 0;
    }
    for (uint64_t i = 0; i < window->item_count; i++)
        window->uses[window->items[i].slot]++;
    atomic_store(&window->planned, true);
}

static bool assignment_arrived(struct window *window)
{
    int complete = 0;
    MPI_Test(&window->request, &complete, MPI_STATUS_IGNORE);
    if (complete)
        window->assignment.evicted_count = window->message[0];
    return complete;
}

/* Claims a buffer for the row and has it read, unless the row is in memory already. False: no
 * buffer is free. */
static bool claim_row(struct windows *windows, struct window *window, uint32_t slot)
{
    struct row_store *store = windows->job->store;
    uint64_t row = plan_row_at(&window->epoch, window->plan.first_row_position + slot);
    int32_t buffer = row_store_find(store, row);
    bool load = buffer == ROW_NONE;
    if (load)
        buffer = row_store_claim(store, row);
    if (buffer == ROW_NONE)
        return false;
    row_store_expect(store, buffer, window->uses[slot]);
    row_store_keep(store, buffer, window->assignment.owners[slot] & ASSIGN_KEEP);
    window->buffers[slot] = buffer;
    if (load && !row_store_load(store, buffer))
        windows->pending_load = buffer;
    return true;
}

/* Claims the rows of one window that the round being read for takes samples from. False: no further
 * now. */
static bool claim_rows(struct windows *windows, struct window *window, bool *active)
{
    for (; window->read_next < window->item_count; window->read_next++) {
        const struct round_item *item = &window->items[window->read_next];
        if (item->round != windows->reach.round.index)
            break;
        if (window->buffers[item->slot] != ROW_NONE)
            continue;
        if (windows->pending_load != ROW_NONE || !claim_row(windows, window, item->slot))
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
            round_reach_at(&windows->reach, &windows->job->setup, windows->reading);
    }
    return active;
}

static void give_up(struct windows *windows, uint64_t row)
{
    int32_t buffer = row_store_find(windows->job->store, row);
    if (buffer != ROW_NONE)
        row_store_keep(windows->job->store, buffer, false);
}

/* Rows of this window that this reader keeps no longer, and that it did not have to claim as none
 * of their samples is delivered. */
static void give_up_unclaimed(struct windows *windows, const struct window *window)
{
    for (uint64_t slot = 0; slot < window->plan.row_count; slot++)
        if (window->uses[slot] == 0 && window->assignment.owners[slot] == windows->job->comm.rank)
            give_up(windows, plan_row_at(&window->epoch, window->plan.first_row_position + slot));
}

/* Enters and leaves windows, as far as their rows are claimed. */
static void pass_windows(struct windows *windows)
{
    if (evicted_words(windows->job) == 0)
        return;
    for (;;) {
        struct window *window = windows_at(windows, windows->claimed);
        if (windows->entered == windows->claimed) {
            if (windows->entered == windows->planned)
                return;
            for (uint64_t i = 0; i < window->assignment.evicted_count; i++)
                give_up(windows, window->assignment.evicted[i]);
            windows->entered++;
        }
        if (window->read_next < window->item_count)
            return;
        give_up_unclaimed(windows, window);
        windows->claimed++;
    }
}

static bool more_to_post(const struct windows *windows)
{
    return windows->posted < windows->span.count &&
           windows->posted < windows->retired + windows->slot_count;
}

bool windows_progress(struct windows *windows)
{
    bool active = row_store_collect(windows->job->store) > 0;
    for (; more_to_post(windows); active = true)
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
    active |= read_ahead(windows);
    pass_windows(windows);
    return active;
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
    if (serial > windows->retired)
        windows->retired = serial;
}

uint64_t windows_posted(const struct windows *windows)
{
    return windows->posted;
}

bool windows_drain(struct windows *windows, uint64_t count)
{
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
    return windows->posted >= count;
}
