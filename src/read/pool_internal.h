/* The inside of a worker pool, shared by its files:
 *
 *     pool.c             made, given tasks, drained, freed
 *     pool_worker.c      the workers' threads: which task is next, and running it; and the owner,
 *                        where it runs a task
 *     pool_populate.c    memory that the workers fill with pages
 *
 * One mutex per NUMA node guards its queues, its workers' published counters and their state. A
 * worker takes the mutex once for each task, and the mutex of another NUMA node only to take over a
 * task there. Tasks are whole rows or large copies, so the mutex is held for a millionth of the
 * time, and plain queues do.
 */
#ifndef PENSTOCK_READ_POOL_INTERNAL_H
#define PENSTOCK_READ_POOL_INTERNAL_H

#include "base/memory.h"
#include "read/latch.h"
#include "read/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

struct task {
    pool_function *function;
    void *argument;
    uint64_t begin, end;
};

/* Tasks of one priority, in order. */
struct queue {
    struct task *ring; /* [queue_capacity] */
    size_t head, count;
};

enum { PRIORITY_COUNT = POOL_NORMAL + 1 };

/* A NUMA node's queues and the state of its workers, all under `mutex`. Who has not the mutex looks
 * at the last line of memory alone: workers of other NUMA nodes that help, and the owner. */
struct numa_node {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* a task came, here or where help is needed; or `stopping` */
    uint32_t called;     /* of those that are asleep, woken and not running yet */
    uint64_t called_ns;  /* when the last one was woken */
    pthread_cond_t idle; /* an element of `running` became 0 */
    struct queue queues[PRIORITY_COUNT];
    struct pool *pool;
    uint32_t worker_count;
    bool stopping;
    bool pressed;                                        /* counted in the pool's `pressed` */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint32_t urgent; /* tasks in the urgent queue */
    _Atomic uint32_t asleep;                  /* workers that wait for work, or will at once */
    _Atomic uint32_t running[PRIORITY_COUNT]; /* tasks */
};
_Static_assert(offsetof(struct numa_node, urgent) % MEMORY_LINE_BYTES == 0 &&
                   sizeof(struct numa_node) ==
                       offsetof(struct numa_node, urgent) + MEMORY_LINE_BYTES,
               "a line of its own for what others look at");

/* A thread of the pool, or the owner, which has no thread here. The thread alone changes `public`
 * and `normal_since_ns`, and uses `quiet_ns` and `rows_left`. The other members that change are
 * under the NUMA node's mutex. */
struct worker {
    struct pool_worker public;
    _Atomic uint64_t normal_since_ns; /* when its normal task began; 0: it is in none */
    uint64_t quiet_ns; /* how long the tasks took that it has ended and not told the owner of */
    size_t rows_left;  /* normal tasks in the queue when it took its task */
    struct pool *pool;
    struct numa_node *numa;
    pthread_t thread;
    bool started;
    struct task own;             /* for this very worker; function NULL: none */
    struct latch *own_done;      /* counted down when `own` has ended; NULL: none */
    struct pool_stats published; /* of tasks that have ended */
    enum status start_status;
    struct error start_error;
} __attribute__((aligned(MEMORY_LINE_BYTES)));

/* Memory that is being filled with pages: pool_populate(). */
struct filling {
    pthread_mutex_t mutex;
    pthread_cond_t moved;     /* a thread has filled what it could */
    struct pool_memory *left; /* [count]: the memory that nobody has taken yet */
    size_t count;
    pool_fill *fill;
    void *argument;
    uint64_t taken; /* pieces that were taken so far */
    uint32_t busy;  /* pieces that are being filled */
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
    struct worker *workers;       /* [placement.worker_count + 1]; the last is the owner */
    /* NUMA nodes that need help. Each worker looks here before it reads ahead or sleeps, and this
     * changes seldom: so nobody takes turns with other NUMA nodes' lines of memory. */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint32_t pressed;
};
_Static_assert(offsetof(struct pool, pressed) % MEMORY_LINE_BYTES == 0 &&
                   sizeof(struct pool) == offsetof(struct pool, pressed) + MEMORY_LINE_BYTES,
               "a line of its own");

/* pool_populate.c: to be called before the first pool_populate(). */
void pool_filling_init(struct filling *filling);

/* pool_populate.c: to be called after the last pool_populate(). */
void pool_filling_done(struct filling *filling);

/* pool_worker.c: whether a sleeping worker is to be woken for a task that is queued; then the
 * caller signals `work` once it has given the mutex back. Waking takes the caller longer than
 * queueing, so that few are woken at once, and each wakes the next one. Holds the NUMA node's
 * mutex. */
bool pool_calls_worker(struct numa_node *numa);

/* pool_worker.c: whether a NUMA node has more urgent tasks than sleeping workers: these take a task
 * each, one after another. Any thread. */
bool pool_needs_help(const struct numa_node *numa);

/* pool_worker.c: to be called when that may have changed, before the mutex is given back: counts
 * the NUMA node among those that need help, or no more. Holds the mutex. */
void pool_note_need(struct numa_node *numa);

/* pool_worker.c: the main function of a worker's thread; `argument` is the struct worker. */
void *pool_worker_main(void *argument);

#endif
