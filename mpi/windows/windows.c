/* Making windows, planning them and retiring them. See windows.h. */
#include "windows/windows_internal.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/trace.h"

#include <limits.h>
#include <stdlib.h>

struct window *windows_at(struct windows *windows, uint32_t source, uint64_t serial)
{
    struct window_source *of = &windows->sources[source];
    return &of->ring[serial % of->count];
}

static void window_init(struct window *window, const struct job *job, const struct plan *plan,
                        uint64_t items, struct tables *tables)
{
    window->job = job;
    window->request = MPI_REQUEST_NULL;
    window->rows = tables_take(tables, plan->window_rows, sizeof *window->rows);
    window->all_owners = tables_take(tables, job_partition_count(job) * plan->window_rows,
                                     sizeof *window->all_owners);
    window->buffers = tables_take(tables, plan->window_rows, sizeof *window->buffers);
    window->uses = tables_take(tables, plan->window_rows, sizeof *window->uses);
    window->items = tables_take(tables, items, sizeof *window->items);
    _Static_assert(sizeof *window->rows + sizeof *window->owners + sizeof *window->buffers +
                           sizeof *window->uses ==
                       BUDGET_WINDOW_ROW_BYTES,
                   "counted in the budget");
}

static enum status source_init(struct windows *windows, uint32_t s, struct error *err)
{
    const struct job *job = windows->job;
    struct window_source *source = &windows->sources[s];
    source->plan = plan_source(&job->setup.plan, s);
    if (source->plan->window_rows > INT_MAX / job_partition_count(job))
        return error_set(err, STATUS_INVALID,
                         "windows of %llu rows are too large for MPI: lower "
                         "order.window_rows",
                         (unsigned long long)source->plan->window_rows);
    uint64_t first = windows->order.sources[s].serial;
    source->retired = source->planned = source->assigned = source->posted = first;
    source->count = job->setup.budget.source_windows[s];
    source->ring = tables_take(&windows->tables, source->count, sizeof *source->ring);
    if (!source->ring)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %llu windows",
                         (unsigned long long)source->count);
    windows->capacity += source->count;
    for (uint64_t i = 0; i < source->count; i++)
        window_init(&source->ring[i], job, source->plan, job->setup.budget.source_items[s],
                    &windows->tables);
    return windows->tables.failed
               ? error_set(err, STATUS_NO_MEMORY,
                           "no memory to plan windows of %llu rows: lower order.window_rows",
                           (unsigned long long)source->plan->window_rows)
               : STATUS_OK;
}

static enum status tables_init(struct windows *windows, struct error *err)
{
    windows->counts = tables_take(&windows->tables, windows->capacity + 1, sizeof *windows->counts);
    if (windows->job->setup.plan.mix)
        item_merge_init(&windows->claims, windows->capacity, &windows->tables);
    return windows->tables.failed
               ? error_set(err, STATUS_NO_MEMORY, "no memory for %zu windows", windows->capacity)
               : STATUS_OK;
}

/* Absolute. */
static uint64_t start_position(const struct plan *plan, const struct session *session)
{
    struct plan_epoch epoch = {.plan = *plan};
    if (plan->cuts.items > 0)
        plan_epoch_init(&epoch, plan, session->start_epoch);
    return round_absolute_position(plan, session->start_epoch,
                                   plan_step_first(&epoch.plan, session->start_step));
}

/* Whether rows are to lie near their trainers: all NUMA nodes have as many rings, but for one, so
 * that all decode as much. */
static bool rows_lie_near(const struct session *session)
{
    const struct job *job = session->job;
    uint32_t numa_count = pool_placement(job->pool)->numa_count;
    uint32_t least = UINT32_MAX, most = 0;
    if (!job_divides_by_numa(job) || !locality_matters(&job->setup.plan))
        return false;
    for (uint32_t n = 0; n < numa_count; n++) {
        uint32_t count = 0;
        for (uint32_t r = 0; r < session->ring_count; r++)
            count += session->rings[r].numa == n;
        least = min_u32(least, count);
        most = max_u32(most, count);
    }
    return least > 0 && most - least <= 1;
}

enum status windows_new(const struct session *session, struct windows **ret_windows,
                        struct error *err)
{
    const struct job *job = session->job;
    const struct plan *plan = &job->setup.plan;
    uint32_t count = plan_source_count(plan);
    struct windows *windows = calloc(1, sizeof *windows + count * sizeof windows->sources[0]);
    if (!windows)
        return error_set(err, STATUS_NO_MEMORY, "no memory for windows");
    windows->job = job;
    windows->session = session;
    windows->source_count = count;
    windows->round_count = span_rounds(session).count;
    windows->near = locality_near(plan);
    windows->rows_lie_near = rows_lie_near(session);
    windows->pending_load = ROW_NONE;
    windows->taken_epoch = session->start_epoch;
    plan_merge_start(&windows->order, plan,
                     session->start_epoch * plan->steps_per_epoch + session->start_step,
                     mul_sat(job->setup.service.epochs, plan->steps_per_epoch));
    windows->start = start_position(plan, session);
    windows_read_for(windows, 0);
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

void windows_free(struct windows *windows)
{
    if (!windows)
        return;
    if (windows->pending_load != ROW_NONE)
        row_store_drop(windows->job->store, windows->pending_load);
    tables_done(&windows->tables);
    free(windows);
}

/* Without a mix an epoch has a window at least: there are as many epochs under way as windows at
 * most, and one whose counts are still to be taken. */
struct window_counts *windows_counts_of(struct windows *windows, uint64_t epoch)
{
    uint64_t last = windows->taken_epoch + windows->capacity;
    return &windows->counts[min_u64(epoch, last) % (windows->capacity + 1)];
}

struct window_counts windows_take_counts(struct windows *windows, uint64_t epoch)
{
    windows->taken_epoch = max_u64(windows->taken_epoch, epoch);
    struct window_counts *counts = windows_counts_of(windows, epoch), taken = *counts;
    *counts = (struct window_counts){0};
    return taken;
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

/* Lists this reader's samples and counts the uses of its rows. Of more samples than there is room
 * for, those of some rows after others are listed, so as to be counted. */
static void list_items(struct window *window)
{
    const struct run_setup *setup = &window->job->setup;
    const struct plan *plan = &window->epoch.plan;
    uint32_t me = (uint32_t)window->job->comm.rank;
    uint64_t capacity = setup->budget.source_items[window->source];
    struct round_rows rows = {0};
    do {
        rows = round_rows_from(plan, &window->plan, window->owners, me, rows.end, capacity);
        window->item_count = round_window_items(&window->epoch, &window->plan, setup->shape,
                                                window->owners, me, rows, window->items);
        drop_items(window, window->start);
        for (uint64_t i = 0; i < window->item_count; i++)
            window->uses[window->items[i].window_row]++;
    } while (rows.end < window->plan.row_count);
    window->is_listed = rows.first == 0;
    if (!window->is_listed)
        window->item_count = 0;
}

/* Runs on a worker; the window is the worker's until `planned` is set. */
static void plan_window(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker;
    (void)begin;
    (void)end;
    struct window *window = argument;
    uint64_t start_ns = trace_on() ? clock_now_ns() : 0;
    for (uint64_t window_row = 0; window_row < window->plan.row_count; window_row++) {
        window->rows[window_row] = window->plan.first_row_position + window_row;
        window->buffers[window_row] = ROW_NONE;
        window->uses[window_row] = 0;
    }
    plan_rows_at(&window->epoch, window->rows, window->plan.row_count);
    list_items(window);
    if (start_ns)
        trace_note(TRACE_PLAN_WINDOW, start_ns, clock_now_ns(), window->item_count);
    atomic_store(&window->planned, true);
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

bool windows_are_listed(struct windows *windows, const struct round_reach *reach)
{
    for (uint32_t s = 0; s < windows->source_count; s++)
        for (uint64_t i = reach->sources[s].first_window; i < reach->sources[s].end_window; i++)
            if (!windows_at(windows, s, i)->is_listed)
                return false;
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

/* Moves the windows of one source on to PLANNED, in order. */
static bool plan_assigned(struct windows *windows, uint32_t s)
{
    struct window_source *source = &windows->sources[s];
    bool active = false;
    for (; source->assigned < source->posted; source->assigned++, active = true) {
        struct window *window = windows_at(windows, s, source->assigned);
        if (!comm_test(&windows->job->comm, &window->request))
            break;
        struct pool *pool = windows->job->pool;
        if (!pool_submit(pool, pool_idlest_numa(pool), POOL_URGENT, plan_window, window, 0, 0))
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
    active |= windows_post(windows);
    for (uint32_t s = 0; s < windows->source_count; s++)
        active |= plan_assigned(windows, s);
    return windows_read_ahead(windows) || active;
}

void windows_retire(struct windows *windows, const struct round_reach *reach, bool step_over)
{
    for (uint32_t s = 0; s < windows->source_count; s++) {
        const struct reach_source *of = &reach->sources[s];
        struct window_source *source = &windows->sources[s];
        if (of->first_window == of->end_window)
            continue;
        source->retired =
            max_u64(source->retired, step_over ? of->end_window - 1 : of->first_window);
    }
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
    while (windows->posted < count && windows_post_now(windows))
        ;
    for (uint32_t s = 0; s < windows->source_count; s++)
        if (!drain_assigned(windows, s))
            return false;
    return windows->posted >= count;
}
