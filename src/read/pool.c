/* See pool.h. One mutex per NUMA node guards its queues, its workers' published counters and their
 * state; a worker takes it once per task, and another NUMA node's only to take over a task there.
 * Tasks are whole rows or large copies, so the mutex is held for a millionth of the time and needs
 * no cleverer queue.
 */
#include "read/pool.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct task {
    pool_function *function;
    void *argument;
    uint64_t begin, end;
};

/* Counts down to the moment that the owner waits for. */
struct latch {
    pthread_mutex_t mutex;
    pthread_cond_t reached;
    uint32_t left;
};

struct queue {
    struct task *ring; /* [capacity] */
    size_t head, count;
};

enum { PRIORITY_COUNT = POOL_NORMAL + 1 };

/* A NUMA node's queues and the state of its workers, all under `mutex`. Workers of other NUMA nodes
 * look at `urgent` and `asleep` without it, the owner at `running`. */
struct numa_node {
    pthread_mutex_t mutex;
    pthread_cond_t work;     /* a task came, here or where help is needed, or `stopping` */
    _Atomic uint32_t urgent; /* tasks in the urgent queue */
    _Atomic uint32_t asleep; /* workers that wait for work, or are about to */
    pthread_cond_t idle;     /* one of `running` became 0 */
    struct queue queues[PRIORITY_COUNT];
    _Atomic uint32_t running[PRIORITY_COUNT];
    uint32_t worker_count;
    bool stopping;
} __attribute__((aligned(MEMORY_LINE_BYTES)));

/* A thread of the pool. `public` and `busy_ns` are its own; the rest of what changes is its
 * NUMA node's. */
struct worker {
    struct pool_worker public;
    uint64_t busy_ns;
    struct pool *pool;
    struct numa_node *numa;
    pthread_t thread;
    bool started;
    struct task own; /* for this very worker; function NULL when there is none */
    struct latch *own_done;
    struct pool_stats published; /* as of its last finished task */
    enum status start_status;
    struct error start_error;
} __attribute__((aligned(MEMORY_LINE_BYTES)));

/* Memory that is being filled with pages: pool_populate(). */
enum { PIECE_BYTES = 16 * MEMORY_HUGE_PAGE_BYTES };
static const uint32_t any_numa = UINT32_MAX;
struct filling {
    pthread_mutex_t mutex;
    pthread_cond_t moved;     /* somebody has filled what it could */
    struct pool_memory *left; /* [count] what nobody has taken yet */
    size_t count;
    pool_fill *fill;
    void *argument;
    uint64_t taken; /* pieces so far */
    uint32_t busy;  /* that are being filled */
    int failure;    /* the first errno */
};

struct pool {
    struct filling filling;
    struct placement placement;
    const struct dataset *dataset;
    struct waker *waker;
    size_t queue_capacity;
    struct latch start;
    struct numa_node *numa_nodes; /* [placement.numa_count] */
    struct worker *workers;       /* [placement.worker_count] */
};

/* One that is waited for by the monotonic clock. */
static void cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void filling_init(struct filling *filling)
{
    pthread_mutex_init(&filling->mutex, NULL);
    cond_init(&filling->moved);
}

static void latch_init(struct latch *latch, uint32_t count)
{
    pthread_mutex_init(&latch->mutex, NULL);
    pthread_cond_init(&latch->reached, NULL);
    latch->left = count;
}

static void latch_done(struct latch *latch)
{
    pthread_mutex_destroy(&latch->mutex);
    pthread_cond_destroy(&latch->reached);
}

static void latch_count_down(struct latch *latch, uint32_t count)
{
    pthread_mutex_lock(&latch->mutex);
    latch->left -= count;
    if (latch->left == 0)
        pthread_cond_signal(&latch->reached);
    pthread_mutex_unlock(&latch->mutex);
}

static void latch_wait(struct latch *latch)
{
    pthread_mutex_lock(&latch->mutex);
    while (latch->left > 0)
        pthread_cond_wait(&latch->reached, &latch->mutex);
    pthread_mutex_unlock(&latch->mutex);
}

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

/* Whether a NUMA node has more urgent tasks than sleeping workers, who are on their way to them. */
static bool needs_help(struct numa_node *numa)
{
    return atomic_load(&numa->urgent) > atomic_load(&numa->asleep);
}

static struct numa_node *who_needs_help(const struct worker *worker)
{
    const struct pool *pool = worker->pool;
    for (uint32_t i = 1; i < pool->placement.numa_count; i++) {
        uint32_t next = (worker->public.numa + i) % pool->placement.numa_count;
        if (needs_help(&pool->numa_nodes[next]))
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

/* The next task for this worker, waiting for one; false when the pool stops. Holds the NUMA node's
 * mutex. `asleep` is raised before others are looked at, and a task is queued before `asleep` is
 * looked at: so either side sees the other. */
static bool next_task(struct worker *worker, struct task *ret_task, struct latch **ret_done,
                      enum pool_priority *ret_priority)
{
    struct numa_node *numa = worker->numa, *other;
    *ret_done = NULL;
    while (!numa->stopping) {
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
        if (!who_needs_help(worker))
            pthread_cond_wait(&numa->work, &numa->mutex);
        atomic_fetch_sub(&numa->asleep, 1);
    }
    return false;
}

static void publish_stats(struct worker *worker)
{
    worker->published = (struct pool_stats){.read = worker->public.stats,
                                            .copy_ns = worker->public.copy_ns,
                                            .copy_bytes = worker->public.copy_bytes,
                                            .busy_ns = worker->busy_ns};
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
        pthread_mutex_unlock(&numa->mutex);

        uint64_t start_ns = clock_now_ns();
        task.function(&worker->public, task.argument, task.begin, task.end);
        worker->busy_ns += clock_now_ns() - start_ns;
        if (done)
            latch_count_down(done, 1);

        pthread_mutex_lock(&numa->mutex);
        publish_stats(worker);
        if (--numa->running[priority] == 0)
            pthread_cond_signal(&numa->idle);
        if (worker->pool->waker && numa->queues[POOL_URGENT].count == 0)
            waker_wake(worker->pool->waker);
    }
    pthread_mutex_unlock(&numa->mutex);
}

/* Takes its seat and makes its reader there, so that the reader's memory is local. */
static enum status worker_start(struct worker *worker, struct error *err)
{
    const struct pool *pool = worker->pool;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", worker->public.index % TOPOLOGY_MAX_WORKERS);
    pthread_setname_np(pthread_self(), name);
    enum status status =
        topology_bind_self(&pool->placement.workers[worker->public.index].cpuset, err);
    if (status == STATUS_OK && pool->dataset)
        status = dataset_reader_new(pool->dataset, &worker->public.reader, err);
    return status;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    worker->start_status = worker_start(worker, &worker->start_error);
    bool ok = worker->start_status == STATUS_OK;
    latch_count_down(&worker->pool->start, 1);
    if (ok)
        run_tasks(worker);
    dataset_reader_free(worker->public.reader);
    return NULL;
}

/* Signals belong to the program's main thread: workers inherit a mask that blocks them all. */
static enum status start_threads(struct pool *pool, struct error *err)
{
    enum status status = STATUS_OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    uint32_t count = pool->placement.worker_count;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct worker *worker = &pool->workers[i];
        int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
        worker->started = failed == 0;
        if (failed) {
            latch_count_down(&pool->start, count - i);
            status = error_set(err, STATUS_IO, "start worker thread %u of %u: %s", i, count,
                               strerror(failed));
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
        pthread_mutex_init(&numa->mutex, NULL);
        pthread_cond_init(&numa->work, NULL);
        cond_init(&numa->idle);
    }
    for (uint32_t i = 0; i < placement->numa_count; i++) {
        for (int priority = 0; priority < PRIORITY_COUNT; priority++) {
            struct queue *queue = &pool->numa_nodes[i].queues[priority];
            queue->ring = calloc(pool->queue_capacity, sizeof *queue->ring);
            if (!queue->ring)
                return false;
        }
    }
    pool->workers = lines_new(placement->worker_count, sizeof *pool->workers);
    if (!pool->workers)
        return false;
    for (uint32_t i = 0; i < placement->worker_count; i++) {
        struct worker *worker = &pool->workers[i];
        worker->public = (struct pool_worker){.index = i, .numa = placement->workers[i].numa};
        worker->pool = pool;
        worker->numa = &pool->numa_nodes[worker->public.numa];
        worker->numa->worker_count++;
    }
    return true;
}

enum status pool_new(const struct placement *placement, const struct dataset *dataset,
                     size_t queue_capacity, struct waker *waker, struct pool **ret_pool,
                     struct error *err)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_set(err, STATUS_NO_MEMORY, "worker pool: out of memory");
    pool->placement = *placement;
    pool->dataset = dataset;
    pool->waker = waker;
    pool->queue_capacity = queue_capacity > 0 ? queue_capacity : 1;
    latch_init(&pool->start, placement->worker_count);
    filling_init(&pool->filling);

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
        pthread_cond_signal(&other->work);
        pthread_mutex_unlock(&other->mutex);
        return;
    }
}

bool pool_submit(struct pool *pool, uint32_t numa_index, enum pool_priority priority,
                 pool_function *function, void *argument, uint64_t begin, uint64_t end)
{
    struct numa_node *numa = &pool->numa_nodes[numa_index];
    struct queue *queue = &numa->queues[priority];
    pthread_mutex_lock(&numa->mutex);
    bool room = queue->count < pool->queue_capacity;
    if (room) {
        queue->ring[(queue->head + queue->count++) % pool->queue_capacity] =
            (struct task){function, argument, begin, end};
        if (priority == POOL_URGENT)
            atomic_store(&numa->urgent, (uint32_t)queue->count);
        pthread_cond_signal(&numa->work);
    }
    pthread_mutex_unlock(&numa->mutex);
    if (room && priority == POOL_URGENT && needs_help(numa))
        call_help(pool, numa_index);
    return room;
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

/* Takes the next piece of what is still to be filled in `numa` (any_numa: anywhere); 0 bytes:
 * nothing is left. Holds the filling's mutex. */
static struct pool_memory take_piece(struct filling *filling, uint32_t numa)
{
    for (size_t m = 0; m < filling->count; m++) {
        struct pool_memory *left = &filling->left[m];
        if (left->bytes == 0 || (numa != any_numa && left->numa != numa))
            continue;
        struct pool_memory piece = *left;
        piece.bytes = piece.bytes < PIECE_BYTES ? piece.bytes : PIECE_BYTES;
        left->start += piece.bytes;
        left->bytes -= piece.bytes;
        return piece;
    }
    return (struct pool_memory){0};
}

/* Fills pieces, at most `limit` of them, until none is left. `worker` NULL: the owner. */
static void fill_pieces(struct filling *filling, const struct pool_worker *worker, uint64_t limit)
{
    pthread_mutex_lock(&filling->mutex);
    for (uint64_t i = 0; i < limit && filling->failure == 0; i++) {
        struct pool_memory piece = take_piece(filling, worker ? worker->numa : any_numa);
        if (piece.bytes == 0)
            break;
        filling->taken++;
        filling->busy++;
        pthread_mutex_unlock(&filling->mutex);
        int failure = filling->fill ? filling->fill(filling->argument, worker, &piece)
                                    : memory_populate(piece.start, piece.bytes);
        pthread_mutex_lock(&filling->mutex);
        filling->busy--;
        if (failure && filling->failure == 0)
            filling->failure = failure;
    }
    pthread_cond_signal(&filling->moved);
    pthread_mutex_unlock(&filling->mutex);
}

/* May run late, when there is nothing to do any more. */
static void fill_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    fill_pieces(argument, worker, UINT64_MAX);
}

static void call_fillers(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->placement.worker_count; i++) {
        struct worker *worker = &pool->workers[i];
        pthread_mutex_lock(&worker->numa->mutex);
        worker->own = (struct task){fill_task, &pool->filling, 0, 0};
        worker->own_done = NULL;
        pthread_cond_broadcast(&worker->numa->work);
        pthread_mutex_unlock(&worker->numa->mutex);
    }
}

static bool has_left(const struct filling *filling)
{
    for (size_t m = 0; m < filling->count && filling->failure == 0; m++)
        if (filling->left[m].bytes > 0)
            return true;
    return false;
}

/* Waits until all is filled; while no worker comes for what is left, fills it itself. That none
 * comes is waited for once, not for each piece. */
static void await_fillers(struct filling *filling)
{
    const long patience_ns = 20000000, second_ns = 1000000000;
    uint64_t alone = UINT64_MAX; /* `taken`, if nobody else comes */
    pthread_mutex_lock(&filling->mutex);
    while (filling->busy > 0 || has_left(filling)) {
        struct timespec until;
        uint64_t taken = filling->taken;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += taken == alone ? 0 : patience_ns;
        until.tv_sec += until.tv_nsec / second_ns;
        until.tv_nsec %= second_ns;
        int late = pthread_cond_timedwait(&filling->moved, &filling->mutex, &until);
        if (late == 0 || taken != filling->taken || filling->busy > 0 || !has_left(filling))
            continue;
        alone = taken + 1;
        pthread_mutex_unlock(&filling->mutex);
        fill_pieces(filling, NULL, 1);
        pthread_mutex_lock(&filling->mutex);
    }
    pthread_mutex_unlock(&filling->mutex);
}

int pool_populate(struct pool *pool, const struct pool_memory *memory, size_t count,
                  pool_fill *fill, void *argument)
{
    struct filling *filling = &pool->filling;
    struct pool_memory *left = calloc(count + 1, sizeof *left);
    if (!left)
        return ENOMEM;
    memcpy(left, memory, count * sizeof *left);
    pthread_mutex_lock(&filling->mutex);
    filling->left = left;
    filling->count = count;
    filling->fill = fill;
    filling->argument = argument;
    filling->failure = 0;
    pthread_mutex_unlock(&filling->mutex);
    call_fillers(pool);
    await_fillers(filling);
    pthread_mutex_lock(&filling->mutex);
    filling->count = 0;
    filling->left = NULL;
    int failure = filling->failure;
    pthread_mutex_unlock(&filling->mutex);
    free(left);
    return failure;
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
        pthread_mutex_unlock(&numa->mutex);
    }
}

bool pool_drain(struct pool *pool, uint32_t timeout_ms)
{
    const long second_ns = 1000000000;
    struct timespec until;
    bool idle = true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += timeout_ms / 1000 + until.tv_nsec / second_ns;
    until.tv_nsec %= second_ns;
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

static void add_stats(struct pool_stats *sum, const struct pool_stats *add)
{
    sum->read.stored_bytes += add->read.stored_bytes;
    sum->read.memory_bytes += add->read.memory_bytes;
    sum->read.disk_bytes += add->read.disk_bytes;
    sum->read.decoded_bytes += add->read.decoded_bytes;
    sum->read.chunk_count += add->read.chunk_count;
    sum->read.memory_chunk_count += add->read.memory_chunk_count;
    sum->read.disk_chunk_count += add->read.disk_chunk_count;
    sum->read.missing_chunk_count += add->read.missing_chunk_count;
    sum->read.read_ns += add->read.read_ns;
    sum->read.decode_ns += add->read.decode_ns;
    sum->copy_ns += add->copy_ns;
    sum->copy_bytes += add->copy_bytes;
    sum->busy_ns += add->busy_ns;
}

void pool_stats(const struct pool *pool, struct pool_stats *ret_stats)
{
    struct pool_stats sum = {0};
    for (uint32_t i = 0; i < pool->placement.worker_count; i++) {
        const struct worker *worker = &pool->workers[i];
        pthread_mutex_lock(&worker->numa->mutex);
        add_stats(&sum, &worker->published);
        pthread_mutex_unlock(&worker->numa->mutex);
    }
    *ret_stats = sum;
}

bool pool_is_behind(const struct pool *pool)
{
    uint32_t normal = 0;
    for (uint32_t d = 0; d < pool->placement.numa_count; d++)
        normal +=
            atomic_load_explicit(&pool->numa_nodes[d].running[POOL_NORMAL], memory_order_relaxed);
    return normal == pool->placement.worker_count;
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
    pthread_cond_destroy(&pool->filling.moved);
    pthread_mutex_destroy(&pool->filling.mutex);
    free(pool->workers);
    free(pool->numa_nodes);
    free(pool);
}
