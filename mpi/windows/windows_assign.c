/* Asking rank 0 who reads the rows of a window. There a worker decides, as this may take much
 * longer than a turn of the service loop. See windows.h. */
#include "windows/windows_internal.h"

#include "base/number.h"
#include "base/size.h"

enum { PORTION = 4096 }; /* rows that a worker takes at a time */

static uint16_t *owners_in(const struct window *window, uint32_t partition)
{
    return window->all_owners + partition * window->plan.row_count;
}

/* Looks up rows until all are taken. */
static void look_up(struct window *window)
{
    for (;;) {
        uint64_t begin = atomic_fetch_add(&window->taken, PORTION), rows = window->plan.row_count;
        if (begin >= rows)
            return;
        for (uint32_t p = 0; p < job_partition_count(window->job); p++)
            assigner_look_up(window->assigners[p].assigner, &window->epoch, &window->plan, begin,
                             min_u64(begin + PORTION, rows), owners_in(window, p));
    }
}

static double decide_in_partition(const struct window *window,
                                  const struct partition_assigner *partition, uint16_t *owners)
{
    struct assigner_stats before, after;
    assigner_stats(partition->assigner, &before);
    assigner_decide(partition->assigner, &window->epoch, &window->plan, owners);
    assigner_stats(partition->assigner, &after);
    for (uint64_t i = 0; job_partition_count(window->job) > 1 && i < window->plan.row_count; i++)
        owners[i] =
            (uint16_t)((owners[i] & ASSIGN_KEEP) | partition->readers[assign_reader(owners[i])]);
    return after.exchanged_samples - before.exchanged_samples;
}

static void decide(struct window *window)
{
    double exchanged = 0;
    for (uint32_t p = 0; p < job_partition_count(window->job); p++)
        exchanged += decide_in_partition(window, &window->assigners[p], owners_in(window, p));
    window->exchanged_samples = (uint64_t)(exchanged + 0.5);
    atomic_store(&window->assigned, true);
}

/* Runs on workers of rank 0; the window and the assigners are theirs until `assigned` is set. The
 * last one decides. */
static void assign(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    struct window *window = argument;
    look_up(window);
    bool is_last = atomic_fetch_sub(&window->tasks, 1) == 1;
    worker->quiet = !is_last;
    if (is_last)
        decide(window);
}

/* The next window, if the ring of its source has room; else NULL. */
static struct window *next_to_post(struct windows *windows)
{
    uint32_t s;
    if (!plan_merge_next(&windows->order, &s))
        return NULL;
    const struct window_source *source = &windows->sources[s];
    if (source->posted == source->retired + source->count)
        return NULL;
    struct window *window = windows_at(windows, s, source->posted);
    window->source = s;
    return window;
}

static void begin(struct windows *windows, struct window *window)
{
    const struct plan *plan = windows->sources[window->source].plan;
    const struct plan_merge_source *next = &windows->order.sources[window->source];
    uint64_t steps = windows->job->setup.plan.steps_per_epoch;
    window->start = windows->start;
    window->item_count = window->read_next = window->fill_next = 0;
    window->exchanged_samples = 0;
    window->assigners = windows->session->assigners;
    atomic_store(&window->taken, 0);
    atomic_store(&window->assigned, false);
    atomic_store(&window->planned, false);
    plan_epoch_init(&window->epoch, plan, next->serial / plan->window_count);
    plan_window_at(&window->plan, &window->epoch, next->serial % plan->window_count);
    window->first_draw = window->epoch.epoch * plan->sample_count + window->plan.first_position;
    window->run_epoch = max_u64(next->due / steps, windows->session->start_epoch);
}

/* Starts the broadcast of what is decided. */
static void post(struct windows *windows, struct window *window)
{
    const struct job *job = windows->job;
    uint64_t rows = window->plan.row_count;
    windows_counts_of(windows, window->run_epoch)->exchanged_samples += window->exchanged_samples;
    window->owners = window->all_owners + job->partition * rows;
    MPI_Ibcast(window->all_owners, (int)(job_partition_count(job) * rows), MPI_UINT16_T, 0,
               job->comm.windows, &window->request);
    plan_merge_take(&windows->order, window->source, window->plan.sample_count);
    windows->sources[window->source].posted++;
    windows->posted++;
    windows->assigning = NULL;
}

/* Has workers assign a window. False: their queues are full. */
static bool submit(struct pool *pool, struct window *window)
{
    uint64_t portions = size_divide_up(window->plan.row_count, PORTION);
    uint32_t tasks = (uint32_t)min_u64(portions, pool_worker_count(pool));
    atomic_store(&window->tasks, tasks);
    for (uint32_t i = 0; i < tasks; i++)
        if (!pool_submit(pool, pool_idlest_numa(pool), POOL_URGENT, assign, window, 0, 0)) {
            bool is_last = atomic_fetch_sub(&window->tasks, tasks - i) == tasks - i;
            if (is_last && i > 0)
                decide(window);
            return i > 0;
        }
    return true;
}

/* The window that is being assigned, or the next one, begun. NULL: no ring has room for it. */
static struct window *take_next(struct windows *windows)
{
    struct window *window = windows->assigning ? windows->assigning : next_to_post(windows);
    if (window && !windows->assigning)
        begin(windows, window);
    return window;
}

bool windows_post(struct windows *windows)
{
    struct window *window = take_next(windows);
    if (!window ||
        (!windows->assigning && window->assigners && !submit(windows->job->pool, window)))
        return false;
    windows->assigning = window;
    if (windows_is_assigning(windows))
        return false;
    post(windows, window);
    return true;
}

bool windows_post_now(struct windows *windows)
{
    struct window *window = take_next(windows);
    if (!window)
        return false;
    if (window->assigners && !atomic_load(&window->assigned)) {
        atomic_store(&window->taken, 0); /* workers may have forgotten some rows */
        look_up(window);
        decide(window);
    }
    post(windows, window);
    return true;
}

bool windows_is_assigning(const struct windows *windows)
{
    const struct window *window = windows->assigning;
    return window && window->assigners && !atomic_load(&window->assigned);
}
