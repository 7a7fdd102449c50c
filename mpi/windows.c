/* Making windows, planning them and retiring them. See windows.h. */
#include "windows_internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/trace.h"
#include "pace.h"
#include "plan/window_match.h"

#include <limits.h>
#include <stdlib.h>

struct window *windows_at(struct windows *windows, uint32_t source, uint64_t serial)
{
    struct window_source *of = &windows->sources[source];
    return &of->ring[serial % of->count];
}

static enum status window_init(struct window *window, const struct job *job,
                               const struct plan *plan, struct error *err)
{
    window->job = job;
    window->request = MPI_REQUEST_NULL;
    window->rows = calloc(plan->window_rows, sizeof *window->rows);
    window->owners = calloc(plan->window_rows, sizeof *window->owners);
    window->buffers = calloc(plan->window_rows, sizeof *window->buffers);
    window->uses = calloc(plan->window_rows, sizeof *window->uses);
    window->all = calloc(round_window_capacity(plan), sizeof *window->all);
    bool matches = plan->locality && job->setup.budget.replica_rows > 0;
    if (matches)
        window->match = window_match_new(plan);
    if (job->received)
        window->marks = calloc((size_t)job->comm.size, sizeof *window->marks);
    _Static_assert(sizeof *window->rows + sizeof *window->owners + sizeof *window->buffers +
                           sizeof *window->uses ==
                       BUDGET_WINDOW_ROW_BYTES,
                   "counted in the budget");
    if (!window->rows || !window->owners || !window->buffers || !window->uses || !window->all ||
        (job->received && !window->marks) || (matches && !window->match))
        return error_set(err, STATUS_NO_MEMORY,
                         "no memory to plan windows of %llu rows: lower order.window_rows",
                         (unsigned long long)plan->window_rows);
    memory_touch(window->all, round_window_capacity(plan) * sizeof *window->all);
    return STATUS_OK;
}

/* The number of windows that are given out before rates are measured. */
static uint64_t unmeasured_windows(const struct windows *windows)
{
    const struct run_setup *setup = &windows->job->setup;
    const struct plan *plan = &setup->plan;
    uint64_t rounds = 2 * pace_interval(windows->job);
    if (setup->budget.each_rows == 0 || windows->round_count <= rounds)
        return UINT64_MAX;
    struct round_reach last; /* before others, since its epoch may be far ahead */
    round_reach_at(&last, setup, rounds - 1);
    uint64_t position = (last.sources[0].end_draw - 1) % plan->sample_count;
    uint64_t behind =
        last.epoch.epoch * plan->window_count + plan_window_of(&last.epoch, position) + 1;
    uint64_t epoch_end = (setup->service.start_epoch + 1) * plan->window_count;
    return max_u64(behind, epoch_end) - windows->order.sources[0].serial;
}

static enum status source_init(struct windows *windows, uint32_t s, struct error *err)
{
    const struct job *job = windows->job;
    struct window_source *source = &windows->sources[s];
    source->plan = plan_source(&job->setup.plan, s);
    if (source->plan->window_rows > INT_MAX)
        return error_set(err, STATUS_INVALID,
                         "windows of %llu rows are too large for MPI: lower "
                         "order.window_rows",
                         (unsigned long long)source->plan->window_rows);
    uint64_t first = windows->order.sources[s].serial;
    source->retired = source->planned = source->assigned = source->posted = source->released =
        first;
    uint64_t count = job->setup.budget.source_windows[s];
    source->ring = calloc(count, sizeof *source->ring);
    if (!source->ring)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %llu windows",
                         (unsigned long long)count);
    windows->capacity += count;
    for (; source->count < count; source->count++) {
        enum status status = window_init(&source->ring[source->count], job, source->plan, err);
        if (status != STATUS_OK) {
            source->count++; /* what it has is freed with the others */
            return status;
        }
    }
    return STATUS_OK;
}

static enum status tables_init(struct windows *windows, struct error *err)
{
    struct job *job = windows->job;
    windows->counts = calloc(windows->capacity + 1, sizeof *windows->counts);
    if (!windows->counts)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu windows", windows->capacity);
    enum status status = STATUS_OK;
    if (job->setup.plan.mix)
        status = item_merge_init(&windows->claims, windows->capacity, err);
    if (status == STATUS_OK && job->received)
        status = tapes_new(job, &windows->tapes, err);
    return status;
}

/* Absolute. */
static uint64_t start_position(const struct plan *plan, const struct ring_service *service)
{
    struct plan_epoch epoch = {.plan = *plan};
    if (plan->cuts.items > 0)
        plan_epoch_init(&epoch, plan, service->start_epoch);
    return round_absolute_position(plan, service->start_epoch,
                                   plan_step_first(&epoch.plan, service->start_step));
}

enum status windows_new(struct job *job, struct windows **ret_windows, struct error *err)
{
    const struct plan *plan = &job->setup.plan;
    const struct ring_service *service = &job->setup.service;
    uint32_t count = plan_source_count(plan);
    struct windows *windows = calloc(1, sizeof *windows + count * sizeof windows->sources[0]);
    if (!windows)
        return error_set(err, STATUS_NO_MEMORY, "no memory for windows");
    windows->job = job;
    windows->source_count = count;
    windows->round_count = span_rounds(&job->setup).count;
    windows->pending_load = ROW_NONE;
    windows->taken_epoch = service->start_epoch;
    plan_merge_start(&windows->order, plan,
                     service->start_epoch * plan->steps_per_epoch + service->start_step,
                     mul_sat(service->epochs, plan->steps_per_epoch));
    windows->start = start_position(plan, service);
    windows->unmeasured = unmeasured_windows(windows);
    windows_go_to(windows, &windows->reading, 0);
    windows_go_to(windows, &windows->sending, 0);
    enum status status = STATUS_OK;
    for (uint32_t s = 0; s < count && status == STATUS_OK; s++)
        status = source_init(windows, s, err);
    if (status == STATUS_OK)
        status = tables_init(windows, err);
    if (status != STATUS_OK) {
        windows_free(windows);
        return status;
    }
    *ret_windows = windows;
    return STATUS_OK;
}

static void source_done(struct window_source *source)
{
    for (uint64_t i = 0; i < source->count; i++) {
        free(source->ring[i].rows);
        free(source->ring[i].owners);
        free(source->ring[i].buffers);
        free(source->ring[i].uses);
        free(source->ring[i].all);
        free(source->ring[i].marks);
        window_match_free(source->ring[i].match);
    }
    free(source->ring);
}

void windows_free(struct windows *windows)
{
    if (!windows)
        return;
    if (windows->pending_load != ROW_NONE)
        row_store_drop(windows->job->store, windows->pending_load);
    for (uint32_t s = 0; s < windows->source_count; s++)
        source_done(&windows->sources[s]);
    item_merge_done(&windows->claims);
    tapes_free(windows->tapes);
    free(windows->counts);
    free(windows);
}

/* Without a mix an epoch has a window at least: there are as many epochs under way as windows at
 * most, and one whose counts are still to be taken. */
struct window_counts *windows_counts_of(struct windows *windows, uint64_t epoch)
{
    uint64_t last = windows->taken_epoch + windows->capacity;
    return &windows->counts[min_u64(epoch, last) % (windows->capacity + 1)];
}

/* The counts of an epoch, to be taken. */
static struct window_counts *take(struct windows *windows, uint64_t epoch)
{
    windows->taken_epoch = max_u64(windows->taken_epoch, epoch);
    return windows_counts_of(windows, epoch);
}

struct window_ways windows_take_ways(struct windows *windows, uint64_t epoch)
{
    struct window_counts *counts = take(windows, epoch);
    struct window_ways ways = counts->ways;
    counts->ways = (struct window_ways){0};
    return ways;
}

uint64_t windows_take_tape_bytes(struct windows *windows, uint64_t epoch)
{
    struct window_counts *counts = take(windows, epoch);
    uint64_t bytes = counts->tape_bytes;
    counts->tape_bytes = 0;
    return bytes;
}

uint64_t windows_take_rows_read(struct windows *windows, uint64_t epoch)
{
    struct window_counts *counts = take(windows, epoch);
    uint64_t rows = counts->rows_read;
    counts->rows_read = 0;
    return rows;
}

/* Rank 0 decides who reads which row. */
static void assign(struct windows *windows, struct window *window)
{
    struct assigner_stats before, after;
    struct window_ways *ways = &windows_counts_of(windows, window->run_epoch)->ways;
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

/* Takes the next entry of a source's ring and starts its assignment. */
static void post(struct windows *windows, uint32_t s)
{
    struct job *job = windows->job;
    struct window_source *source = &windows->sources[s];
    const struct plan_merge_source *next = &windows->order.sources[s];
    const struct ring_service *service = &job->setup.service;
    struct window *window = windows_at(windows, s, source->posted);
    window->source = s;
    window->start = windows->start;
    window->item_count = window->read_next = window->fill_next = 0;
    window->tape_count = window->tape_next = 0;
    atomic_store(&window->planned, false);
    plan_epoch_init(&window->epoch, source->plan, next->serial / source->plan->window_count);
    plan_window_at(&window->plan, &window->epoch, next->serial % source->plan->window_count);
    window->first_draw =
        window->epoch.epoch * source->plan->sample_count + window->plan.first_position;
    window->run_epoch = max_u64(next->due / job->setup.plan.steps_per_epoch, service->start_epoch);
    if (job->assigner)
        assign(windows, window);
    MPI_Ibcast(window->owners, (int)window->plan.row_count, MPI_UINT16_T, 0, job->comm.windows,
               &window->request);
    plan_merge_take(&windows->order, s, window->plan.sample_count);
    source->posted++;
    windows->posted++;
}

/* Leaves out the samples before `start`, where a resumed run starts in the middle, and those of a
 * mix behind the run's `end`. */
static void drop_items_outside(struct window *window, uint64_t start, uint64_t end)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < window->item_count; i++)
        if (window->items[i].position >= start && window->items[i].position < end)
            window->items[kept++] = window->items[i];
    window->item_count = kept;
}

static void drop_items(struct window *window, uint64_t start)
{
    const struct run_setup *setup = &window->job->setup;
    uint64_t end = mul_sat(setup->service.epochs, setup->plan.position_count);
    if (window->item_count > 0 && (window->items[0].position < start ||
                                   window->items[window->item_count - 1].position >= end))
        drop_items_outside(window, start, end);
}

/* The window's match, found if it matters who gets the samples of a row. */
static const struct window_match *match_of(const struct window *window)
{
    for (uint64_t row = 0; window->match && row < window->plan.row_count; row++)
        if (window->owners[row] & ASSIGN_EACH) {
            window_match_find(window->match, &window->epoch, &window->plan);
            return window->match;
        }
    return NULL;
}

/* Runs on a worker; the window is the worker's until `planned` is set. */
static void plan_window(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker;
    (void)begin;
    (void)end;
    struct window *window = argument;
    uint64_t start_ns = trace_on() ? clock_now_ns() : 0;
    const struct job *job = window->job;
    uint32_t me = (uint32_t)job->comm.rank;
    uint64_t start = window->start;
    window->tapes = window->all;
    if (window->marks)
        window->tape_count =
            round_window_tapes(&window->epoch, &window->plan, job->setup.shape, window->owners, me,
                               job->reader_of_trainer, start, window->marks, window->tapes);
    window->items = window->all + window->tape_count;
    window->item_count =
        round_window_items(&window->epoch, &window->plan, job->setup.shape, window->owners, me,
                           job->reader_of_trainer, match_of(window), window->items);
    drop_items(window, start);
    for (uint64_t window_row = 0; window_row < window->plan.row_count; window_row++) {
        window->rows[window_row] = window->plan.first_row_position + window_row;
        window->buffers[window_row] = ROW_NONE;
        window->uses[window_row] = 0;
    }
    plan_rows_at(&window->epoch, window->rows, window->plan.row_count);
    for (uint64_t i = 0; i < window->item_count; i++)
        window->uses[window->items[i].window_row]++;
    if (start_ns)
        trace_note(TRACE_PLAN_WINDOW, start_ns, clock_now_ns(), window->item_count);
    atomic_store(&window->planned, true);
}

bool windows_wait_for_tape(const struct windows *windows, int32_t row_buffer)
{
    return windows->tapes && tapes_hold_up(windows->tapes, row_buffer);
}

bool windows_moving(const struct windows *windows)
{
    return windows->tapes && tapes_under_way(windows->tapes);
}

/* The first window from serial `low` on, before `high`, that ends behind a draw; `high`: none does.
 */
static uint64_t find_draw(const struct window_source *source, uint64_t low, uint64_t high,
                          uint64_t draw)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct window *window = &source->ring[middle % source->count];
        if (window->first_draw + window->plan.sample_count <= draw)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool windows_find(const struct windows *windows, struct round_reach *reach)
{
    for (uint32_t s = 0; s < windows->source_count; s++) {
        const struct window_source *source = &windows->sources[s];
        struct reach_source *of = &reach->sources[s];
        of->first_window = of->end_window = source->retired;
        if (of->first_draw == of->end_draw)
            continue;
        of->first_window = find_draw(source, source->retired, source->planned, of->first_draw);
        uint64_t last = find_draw(source, of->first_window, source->planned, of->end_draw - 1);
        if (last == source->planned)
            return false;
        of->end_window = last + 1;
    }
    return true;
}

struct window *windows_of_draw(struct windows *windows, const struct round_reach *reach,
                               uint32_t source, uint64_t draw)
{
    const struct reach_source *of = &reach->sources[source];
    uint64_t serial =
        find_draw(&windows->sources[source], of->first_window, of->end_window - 1, draw);
    return windows_at(windows, source, serial);
}

void windows_retire_released(struct windows *windows)
{
    for (uint32_t s = 0; s < windows->source_count; s++) {
        struct window_source *source = &windows->sources[s];
        uint64_t end = source->released;
        if (windows->tapes && windows->sending.serial < windows->round_count)
            end = find_draw(source, source->retired, end,
                            windows->sending.reach.sources[s].first_draw);
        source->retired = max_u64(end, source->retired);
    }
}

/* The source of the next window, if its ring has room. */
static bool next_to_post(const struct windows *windows, uint32_t *ret_source)
{
    if (!plan_merge_next(&windows->order, ret_source))
        return false;
    const struct window_source *source = &windows->sources[*ret_source];
    return source->posted < source->retired + source->count;
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

/* Moves the windows of one source on to PLANNED, in order. */
static bool plan_assigned(struct windows *windows, uint32_t s)
{
    struct window_source *source = &windows->sources[s];
    bool active = false;
    for (; source->assigned < source->posted; source->assigned++, active = true) {
        struct window *window = windows_at(windows, s, source->assigned);
        if (!comm_test(&windows->job->comm, &window->request))
            break;
        if (!pool_submit(windows->job->pool, 0, POOL_URGENT, plan_window, window, 0, 0))
            break;
    }
    for (; source->planned < source->assigned; source->planned++, active = true) {
        if (!atomic_load(&windows_at(windows, s, source->planned)->planned))
            break;
    }
    return active;
}

bool windows_progress(struct windows *windows)
{
    bool active = row_store_collect(windows->job->store) > 0;
    uint32_t source;
    for (; may_assign(windows) && next_to_post(windows, &source); active = true)
        post(windows, source);
    for (uint32_t s = 0; s < windows->source_count; s++)
        active |= plan_assigned(windows, s);
    if (windows->tapes) {
        active |= tapes_progress(windows->tapes);
        active |= windows_send_ahead(windows);
    }
    return windows_read_ahead(windows) || active;
}

void windows_retire(struct windows *windows, const struct round_reach *reach, bool step_over)
{
    for (uint32_t s = 0; s < windows->source_count; s++) {
        const struct reach_source *of = &reach->sources[s];
        struct window_source *source = &windows->sources[s];
        if (of->first_window == of->end_window)
            continue;
        source->released =
            max_u64(source->released, step_over ? of->end_window - 1 : of->first_window);
    }
    windows_retire_released(windows);
}

uint64_t windows_posted(const struct windows *windows)
{
    return windows->posted;
}

size_t windows_capacity(const struct windows *windows)
{
    return windows->capacity;
}

/* As plan_assigned(), on this thread. False: an assignment is under way. */
static bool drain_assigned(struct windows *windows, uint32_t s)
{
    struct window_source *source = &windows->sources[s];
    for (; source->assigned < source->posted; source->assigned++)
        if (!comm_test(&windows->job->comm, &windows_at(windows, s, source->assigned)->request))
            return false;
    for (; source->planned < source->posted; source->planned++) {
        struct window *window = windows_at(windows, s, source->planned);
        if (!atomic_load(&window->planned))
            plan_window(NULL, window, 0, 0);
    }
    return true;
}

bool windows_drain(struct windows *windows, uint64_t count)
{
    windows->sending.serial = windows->round_count; /* what is not sent by now is not of use */
    windows_retire_released(windows);
    bool done = !windows->tapes || tapes_drain(windows->tapes);
    uint32_t source;
    while (windows->posted < count && next_to_post(windows, &source))
        post(windows, source);
    for (uint32_t s = 0; s < windows->source_count; s++)
        if (!drain_assigned(windows, s))
            return false;
    return done && windows->posted >= count;
}
