/* See pool.h and pool_internal.h: the workers' threads, how they choose and run tasks. */
#include "read/pool_internal.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "base/trace.h"

#include <stdio.h>
#include <stdlib.h>

/* How long a row that was read may wait for the owner to hear of it. */
enum { MOST_QUIET_NS = 500 * 1000 };

static bool queue_pop(struct queue *queue, size_t capacity, struct task *ret_task)
{
    if (queue->count == 0)
        return false;
    *ret_task = queue->ring[queue->head];
    queue->head = (queue->head + 1) % capacity;
    queue->count--;
    return true;
}

/* Holds the NUMA node's mutex. */
static bool pop_urgent(struct numa_node *numa, size_t capacity, struct task *ret_task)
{
    bool popped = queue_pop(&numa->queues[POOL_URGENT], capacity, ret_task);
    atomic_store(&numa->urgent, (uint32_t)numa->queues[POOL_URGENT].count);
    return popped;
}

bool pool_needs_help(const struct numa_node *numa)
{
    return atomic_load(&numa->urgent) > atomic_load(&numa->asleep);
}

void pool_note_need(struct numa_node *numa)
{
    bool needs_help = pool_needs_help(numa);
    if (needs_help == numa->pressed)
        return;
    numa->pressed = needs_help;
    if (needs_help)
        atomic_fetch_add(&numa->pool->pressed, 1);
    else
        atomic_fetch_sub(&numa->pool->pressed, 1);
}

static struct numa_node *who_needs_help(const struct worker *worker)
{
    const struct pool *pool = worker->pool;
    if (atomic_load(&pool->pressed) == 0)
        return NULL;
    for (uint32_t i = 1; i < pool->placement.numa_count; i++) {
        uint32_t next = (worker->public.numa + i) % pool->placement.numa_count;
        if (pool_needs_help(&pool->numa_nodes[next]))
            return &pool->numa_nodes[next];
    }
    return NULL;
}

/* Takes an urgent task of `other`. Holds its own NUMA node's mutex, but not meanwhile: two are
 * never held at once. It counts as running before the task leaves its queue, so that pool_drain()
 * sees one or the other. */
static bool take_over(struct worker *worker, struct numa_node *other, struct task *ret_task)
{
    struct numa_node *numa = worker->numa;
    numa->running[POOL_URGENT]++;
    pthread_mutex_unlock(&numa->mutex);
    pthread_mutex_lock(&other->mutex);
    bool taken = !other->stopping && pop_urgent(other, worker->pool->queue_capacity, ret_task);
    pool_note_need(other);
    pthread_mutex_unlock(&other->mutex);
    pthread_mutex_lock(&numa->mutex);
    if (--numa->running[POOL_URGENT] == 0 && !taken)
        pthread_cond_signal(&numa->idle);
    return taken;
}

/* A task for this very worker, or an urgent one of its NUMA node. */
static bool take_urgent(struct worker *worker, struct task *ret_task, struct latch **ret_done)
{
    if (!worker->own.function)
        return pop_urgent(worker->numa, worker->pool->queue_capacity, ret_task);
    *ret_task = worker->own;
    *ret_done = worker->own_done;
    worker->own.function = NULL;
    return true;
}

static void wake_owner(struct worker *worker)
{
    worker->quiet_ns = 0;
    if (worker->pool->waker)
        waker_wake(worker->pool->waker);
}

/* Tells the owner that a task has ended; but not where the task says that another one will, and not
 * for reading while copies wait, or if this worker soon ends another one: waking a thread, and its
 * turn, take longer than reading a small row. Where few rows are left to read, the owner has to
 * bring more. Without the mutex, which the owner wants next. */
static void tell_owner(struct worker *worker, enum pool_priority priority, uint64_t took_ns)
{
    bool quiet = worker->public.quiet;
    if (priority == POOL_NORMAL)
        quiet = atomic_load(&worker->numa->urgent) > 0;
    if (priority == POOL_NORMAL && worker->rows_left >= 2 * worker->numa->worker_count) {
        worker->quiet_ns += took_ns;
        quiet |= worker->quiet_ns + took_ns < MOST_QUIET_NS;
    }
    if (!quiet)
        wake_owner(worker);
}

enum { WORKERS_FOR_A_READER = 4 };

/* Whether so many workers that read are too few for copies to go first: decoding, which the cores
 * bound, goes on beside copies, which memory bounds. One worker alone copies first. */
static bool reading_goes_first(const struct numa_node *numa, uint32_t readers)
{
    return numa->worker_count > 1 &&
           readers <= size_divide_up(numa->worker_count, WORKERS_FOR_A_READER);
}

/* Where those that were woken do not come, since other programs have their cores, another one is
 * woken. */
bool pool_calls_worker(struct numa_node *numa)
{
    enum { CALLED_AT_ONCE = 2, PATIENCE_NS = 1000 * 1000 };
    uint32_t asleep = atomic_load(&numa->asleep);
    if (asleep == 0)
        return false;
    uint64_t now_ns = clock_now_ns();
    if (numa->called >= min_u64(asleep, CALLED_AT_ONCE) && now_ns < numa->called_ns + PATIENCE_NS)
        return false;
    numa->called = (uint32_t)min_u64(numa->called + 1, asleep);
    numa->called_ns = now_ns;
    return true;
}

/* Whether this worker, which has a task, is to wake another. Holds the NUMA node's mutex. */
static bool calls_next(const struct worker *worker)
{
    struct numa_node *numa = worker->numa;
    size_t queued = numa->queues[POOL_URGENT].count + numa->queues[POOL_NORMAL].count;
    return (queued > 0 || who_needs_help(worker)) && pool_calls_worker(numa);
}

/* The next task for this worker, waiting for one; false when the pool stops. Holds the NUMA node's
 * mutex. `asleep` is raised before others are looked at, and a task is queued before `asleep` is
 * looked at: so either side sees the other. */
static bool next_task(struct worker *worker, struct task *ret_task, struct latch **ret_done,
                      enum pool_priority *ret_priority)
{
    struct numa_node *numa = worker->numa, *other;
    *ret_done = NULL;
    while (!numa->stopping) {
        *ret_priority = POOL_NORMAL;
        if (!worker->own.function &&
            reading_goes_first(numa, atomic_load(&numa->running[POOL_NORMAL]) + 1) &&
            queue_pop(&numa->queues[POOL_NORMAL], worker->pool->queue_capacity, ret_task))
            return true;
        *ret_priority = POOL_URGENT;
        if (take_urgent(worker, ret_task, ret_done))
            return true;
        if ((other = who_needs_help(worker))) {
            if (take_over(worker, other, ret_task))
                return true;
            continue;
        }
        *ret_priority = POOL_NORMAL;
        if (queue_pop(&numa->queues[POOL_NORMAL], worker->pool->queue_capacity, ret_task))
            return true;
        atomic_fetch_add(&numa->asleep, 1);
        pool_note_need(numa);
        if (worker->quiet_ns)
            wake_owner(worker);
        if (!who_needs_help(worker)) {
            pthread_cond_wait(&numa->work, &numa->mutex);
            numa->called -= numa->called > 0;
        }
        atomic_fetch_sub(&numa->asleep, 1);
    }
    return false;
}

/* Without a mutex. Returns how long the task took. */
static uint64_t run_task(struct worker *worker, const struct task *task,
                         enum pool_priority priority)
{
    uint64_t start_ns = clock_now_ns();
    if (priority == POOL_NORMAL)
        atomic_store(&worker->normal_since_ns, start_ns);
    worker->public.quiet = false;
    task->function(&worker->public, task->argument, task->begin, task->end);
    atomic_store(&worker->normal_since_ns, 0);
    uint64_t took_ns = clock_now_ns() - start_ns;
    worker->public.stats.busy_ns += took_ns;
    return took_ns;
}

static void run_tasks(struct worker *worker)
{
    struct numa_node *numa = worker->numa;
    struct task task;
    struct latch *done;
    enum pool_priority priority;
    pthread_mutex_lock(&numa->mutex);
    while (next_task(worker, &task, &done, &priority)) {
        numa->running[priority]++;
        worker->rows_left = numa->queues[POOL_NORMAL].count;
        bool calls = calls_next(worker);
        pool_note_need(numa);
        pthread_mutex_unlock(&numa->mutex);
        if (calls)
            pthread_cond_signal(&numa->work);

        tell_owner(worker, priority, run_task(worker, &task, priority));
        if (done)
            latch_count_down(done, 1);

        pthread_mutex_lock(&numa->mutex);
        worker->published = worker->public.stats;
        if (--numa->running[priority] == 0)
            pthread_cond_signal(&numa->idle);
    }
    pthread_mutex_unlock(&numa->mutex);
}

/* Whether no worker will look at the urgent queues before long. */
static bool all_are_held_up(struct pool *pool, uint64_t patience_ns)
{
    uint64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < pool->placement.worker_count; i++) {
        uint64_t since_ns = atomic_load(&pool->workers[i].normal_since_ns);
        if (since_ns == 0 || now_ns < since_ns + patience_ns)
            return false;
    }
    return true;
}

/* A NUMA node with urgent tasks; NULL: there is none. */
static struct numa_node *who_waits(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->placement.numa_count; i++)
        if (atomic_load(&pool->numa_nodes[i].urgent) > 0)
            return &pool->numa_nodes[i];
    return NULL;
}

bool pool_has_urgent(struct pool *pool)
{
    return who_waits(pool) != NULL;
}

uint32_t pool_help(struct pool *pool, uint64_t patience_ns)
{
    struct worker *owner = &pool->workers[pool->placement.worker_count];
    struct numa_node *numa;
    uint32_t count = 0;
    while ((numa = who_waits(pool)) && all_are_held_up(pool, patience_ns)) {
        struct task task;
        pthread_mutex_lock(&numa->mutex);
        bool popped = pop_urgent(numa, pool->queue_capacity, &task);
        pool_note_need(numa);
        pthread_mutex_unlock(&numa->mutex);
        if (!popped)
            continue;
        owner->public.numa = (uint32_t)(numa - pool->numa_nodes);
        run_task(owner, &task, POOL_URGENT);
        pthread_mutex_lock(&owner->numa->mutex);
        owner->published = owner->public.stats;
        pthread_mutex_unlock(&owner->numa->mutex);
        count++;
    }
    return count;
}

/* Takes its seat and makes its reader there, so that the reader's memory is local. */
static enum status worker_start(struct worker *worker, struct error *err)
{
    const struct pool *pool = worker->pool;
    enum status status =
        topology_bind_self(&pool->placement.workers[worker->public.index].cpuset, err);
    if (status == STATUS_OK && pool->dataset)
        status = dataset_reader_new(pool->dataset, &worker->public.reader, err);
    return status;
}

/* Of the trace, for what this thread does. */
static struct trace_track *claim_track(const struct worker *worker)
{
    char name[24];
    snprintf(name, sizeof name, "worker-%u", worker->public.index);
    struct trace_track *track = trace_claim(name);
    trace_use(track);
    return track;
}

void *pool_worker_main(void *argument)
{
    struct worker *worker = argument;
    worker->start_status = worker_start(worker, &worker->start_error);
    bool ok = worker->start_status == STATUS_OK;
    struct trace_track *track = claim_track(worker);
    latch_count_down(&worker->pool->start, 1);
    if (ok)
        run_tasks(worker);
    dataset_reader_free(worker->public.reader);
    trace_release(track);
    return NULL;
}
