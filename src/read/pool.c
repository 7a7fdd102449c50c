/* See pool.h and pool_internal.h: making, giving tasks to, draining and freeing a pool. */
#include "read/pool_internal.h"

#include "base/size.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status start_threads(struct pool *pool, struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t count = pool->placement.worker_count;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct worker *worker = &pool->workers[i];
        char name[16];
        snprintf(name, sizeof name, "worker-%u", i % TOPOLOGY_MAX_WORKERS);
        worker->started = thread_start(name, pool_worker_main, worker, &worker->thread);
        if (!worker->started) {
            status = error_set_errno(err, STATUS_IO, "start worker thread %u of %u", i, count);
            latch_count_down(&pool->start, count - i);
        }
    }
    latch_wait(&pool->start);
    return status;
}

static enum status first_start_error(const struct pool *pool, struct error *err)
{
    for (uint32_t i = 0; i < pool->placement.worker_count; i++) {
        const struct worker *worker = &pool->workers[i];
        if (worker->start_status == STATUS_OK)
            continue;
        if (err)
            *err = worker->start_error;
        return error_prefix(err, worker->start_status, "worker thread %u of %u: ", i,
                            pool->placement.worker_count);
    }
    return STATUS_OK;
}

static void *lines_new(size_t count, size_t item_bytes)
{
    void *memory = aligned_alloc(MEMORY_LINE_BYTES, count * item_bytes);
    if (memory)
        memset(memory, 0, count * item_bytes);
    return memory;
}

/* Everything but the threads; false when memory is short, and pool_free() cleans up. */
static bool pool_allocate(struct pool *pool)
{
    const struct placement *placement = &pool->placement;
    pool->numa_nodes = lines_new(placement->numa_count, sizeof *pool->numa_nodes);
    if (!pool->numa_nodes)
        return false;
    for (uint32_t i = 0; i < placement->numa_count; i++) {
        struct numa_node *numa = &pool->numa_nodes[i];
        numa->pool = pool;
        pthread_mutex_init(&numa->mutex, NULL);
        pthread_cond_init(&numa->work, NULL);
        thread_cond_init(&numa->idle);
    }
    for (uint32_t i = 0; i < placement->numa_count; i++) {
        for (int priority = 0; priority < PRIORITY_COUNT; priority++) {
            struct queue *queue = &pool->numa_nodes[i].queues[priority];
            queue->ring = calloc(pool->queue_capacity, sizeof *queue->ring);
            if (!queue->ring)
                return false;
        }
    }
    pool->workers = lines_new(placement->worker_count + 1, sizeof *pool->workers);
    if (!pool->workers)
        return false;
    for (uint32_t i = 0; i < placement->worker_count; i++) {
        struct worker *worker = &pool->workers[i];
        worker->public = (struct pool_worker){.index = i, .numa = placement->workers[i].numa};
        worker->pool = pool;
        worker->numa = &pool->numa_nodes[worker->public.numa];
        worker->numa->worker_count++;
    }
    struct worker *owner = &pool->workers[placement->worker_count];
    owner->public.index = placement->worker_count;
    owner->pool = pool;
    owner->numa = &pool->numa_nodes[0];
    return true;
}

enum status pool_new(const struct placement *placement, const struct dataset *dataset,
                     size_t queue_capacity, struct waker *waker, struct pool **ret_pool,
                     struct error *err)
{
    struct pool *pool = lines_new(1, sizeof *pool);
    if (!pool)
        return error_set(err, STATUS_NO_MEMORY, "worker pool: out of memory");
    pool->placement = *placement;
    pool->dataset = dataset;
    pool->waker = waker;
    pool->queue_capacity = queue_capacity > 0 ? queue_capacity : 1;
    latch_init(&pool->start, placement->worker_count);
    pool_filling_init(&pool->filling);

    enum status status;
    if (!pool_allocate(pool))
        status = error_set(
            err, STATUS_NO_MEMORY, "worker pool of %u thread%s, queues of %zu tasks: out of memory",
            placement->worker_count, count_plural(placement->worker_count), pool->queue_capacity);
    else
        status = start_threads(pool, err);
    if (status == STATUS_OK)
        status = first_start_error(pool, err);
    if (status != STATUS_OK) {
        pool_free(pool);
        return status;
    }
    *ret_pool = pool;
    return STATUS_OK;
}

/* Wakes a worker of another NUMA node, if one sleeps. */
static void call_help(struct pool *pool, uint32_t numa_index)
{
    for (uint32_t i = 1; i < pool->placement.numa_count; i++) {
        struct numa_node *other = &pool->numa_nodes[(numa_index + i) % pool->placement.numa_count];
        if (atomic_load(&other->asleep) == 0)
            continue;
        pthread_mutex_lock(&other->mutex);
        bool calls = pool_calls_worker(other);
        pthread_mutex_unlock(&other->mutex);
        if (calls)
            pthread_cond_signal(&other->work);
        return;
    }
}

static bool submit(struct pool *pool, uint32_t numa_index, enum pool_priority priority, bool first,
                   struct task task)
{
    struct numa_node *numa = &pool->numa_nodes[numa_index];
    struct queue *queue = &numa->queues[priority];
    size_t capacity = pool->queue_capacity;
    pthread_mutex_lock(&numa->mutex);
    bool room = queue->count < capacity;
    if (room) {
        if (first)
            queue->head = (queue->head + capacity - 1) % capacity;
        queue->ring[first ? queue->head : (queue->head + queue->count) % capacity] = task;
        queue->count++;
    }
    if (priority == POOL_URGENT) {
        atomic_store(&numa->urgent, (uint32_t)queue->count);
        pool_note_need(numa);
    }
    bool calls = room && pool_calls_worker(numa);
    pthread_mutex_unlock(&numa->mutex);
    if (calls)
        pthread_cond_signal(&numa->work); /* who wakes wants the mutex */
    if (room && priority == POOL_URGENT && pool_needs_help(numa))
        call_help(pool, numa_index);
    return room;
}

bool pool_submit(struct pool *pool, uint32_t numa, enum pool_priority priority,
                 pool_function *function, void *argument, uint64_t begin, uint64_t end)
{
    return submit(pool, numa, priority, false, (struct task){function, argument, begin, end});
}

bool pool_submit_first(struct pool *pool, uint32_t numa, pool_function *function, void *argument)
{
    return submit(pool, numa, POOL_URGENT, true, (struct task){function, argument, 0, 0});
}

void pool_run_on_workers(struct pool *pool, pool_function *function, void *argument)
{
    struct latch done;
    latch_init(&done, pool->placement.worker_count);
    for (uint32_t n = 0; n < pool->placement.numa_count; n++) {
        struct numa_node *numa = &pool->numa_nodes[n];
        uint32_t seen = 0;
        pthread_mutex_lock(&numa->mutex);
        for (uint32_t i = 0; i < pool->placement.worker_count; i++) {
            struct worker *worker = &pool->workers[i];
            if (worker->numa != numa)
                continue;
            worker->own = (struct task){function, argument, seen++, numa->worker_count};
            worker->own_done = &done;
        }
        pthread_cond_broadcast(&numa->work);
        pthread_mutex_unlock(&numa->mutex);
    }
    latch_wait(&done);
    latch_done(&done);
}

/* In all NUMA nodes, before running ones are waited for: workers take over from one another. */
static void forget_tasks(struct pool *pool, enum pool_priority last)
{
    for (uint32_t i = 0; i < pool->placement.numa_count; i++) {
        struct numa_node *numa = &pool->numa_nodes[i];
        pthread_mutex_lock(&numa->mutex);
        for (int priority = POOL_URGENT; priority <= (int)last; priority++)
            numa->queues[priority].count = 0;
        atomic_store(&numa->urgent, 0);
        pool_note_need(numa);
        pthread_mutex_unlock(&numa->mutex);
    }
}

bool pool_drain(struct pool *pool, uint32_t timeout_ms)
{
    struct timespec until = thread_deadline(timeout_ms * UINT64_C(1000000));
    bool idle = true;
    forget_tasks(pool, POOL_NORMAL);
    for (uint32_t i = 0; i < pool->placement.numa_count; i++) {
        struct numa_node *numa = &pool->numa_nodes[i];
        const _Atomic uint32_t *running = numa->running;
        pthread_mutex_lock(&numa->mutex);
        int late = 0;
        while (running[POOL_URGENT] + running[POOL_NORMAL] > 0 && late == 0)
            late = pthread_cond_timedwait(&numa->idle, &numa->mutex, &until);
        idle &= running[POOL_URGENT] + running[POOL_NORMAL] == 0;
        pthread_mutex_unlock(&numa->mutex);
    }
    return idle;
}

void pool_settle(struct pool *pool)
{
    forget_tasks(pool, POOL_URGENT);
    for (uint32_t i = 0; i < pool->placement.numa_count; i++) {
        struct numa_node *numa = &pool->numa_nodes[i];
        pthread_mutex_lock(&numa->mutex);
        while (numa->running[POOL_URGENT] > 0)
            pthread_cond_wait(&numa->idle, &numa->mutex);
        pthread_mutex_unlock(&numa->mutex);
    }
}

void pool_stats(const struct pool *pool, struct pool_stats *ret_stats)
{
    struct pool_stats sum = {0};
    for (uint32_t i = 0; i <= pool->placement.worker_count; i++) { /* the owner, too */
        const struct worker *worker = &pool->workers[i];
        pthread_mutex_lock(&worker->numa->mutex);
        counters_add(&sum, &worker->published, sizeof sum);
        pthread_mutex_unlock(&worker->numa->mutex);
    }
    *ret_stats = sum;
}

uint32_t pool_idlest_numa(const struct pool *pool)
{
    uint32_t best = 0;
    int64_t most = INT64_MIN;
    for (uint32_t i = 0; i < pool->placement.numa_count; i++) {
        const struct numa_node *numa = &pool->numa_nodes[i];
        int64_t spare = (int64_t)atomic_load(&numa->asleep) - (int64_t)atomic_load(&numa->urgent);
        if (spare <= most)
            continue;
        most = spare;
        best = i;
    }
    return best;
}

static uint32_t count_normal(const struct pool *pool)
{
    uint32_t normal = 0;
    for (uint32_t d = 0; d < pool->placement.numa_count; d++)
        normal +=
            atomic_load_explicit(&pool->numa_nodes[d].running[POOL_NORMAL], memory_order_relaxed);
    return normal;
}

bool pool_is_behind(const struct pool *pool)
{
    return count_normal(pool) == pool->placement.worker_count;
}

bool pool_is_reading(const struct pool *pool)
{
    return count_normal(pool) > 0;
}

uint32_t pool_worker_count(const struct pool *pool)
{
    return pool->placement.worker_count;
}

const struct placement *pool_placement(const struct pool *pool)
{
    return &pool->placement;
}

static void stop_threads(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->placement.numa_count; i++) {
        struct numa_node *numa = &pool->numa_nodes[i];
        pthread_mutex_lock(&numa->mutex);
        numa->stopping = true;
        pthread_cond_broadcast(&numa->work);
        pthread_mutex_unlock(&numa->mutex);
    }
    for (uint32_t i = 0; i < pool->placement.worker_count; i++)
        if (pool->workers[i].started)
            pthread_join(pool->workers[i].thread, NULL);
}

static void numa_node_done(struct numa_node *numa)
{
    for (int priority = 0; priority < PRIORITY_COUNT; priority++)
        free(numa->queues[priority].ring);
    pthread_cond_destroy(&numa->idle);
    pthread_cond_destroy(&numa->work);
    pthread_mutex_destroy(&numa->mutex);
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    if (pool->workers)
        stop_threads(pool);
    for (uint32_t i = 0; pool->numa_nodes && i < pool->placement.numa_count; i++)
        numa_node_done(&pool->numa_nodes[i]);
    latch_done(&pool->start);
    pool_filling_done(&pool->filling);
    free(pool->workers);
    free(pool->numa_nodes);
    free(pool);
}
