/* A pool of pinned worker threads, which read, decode and copy in the order given.
 *
 * Tasks are small values in bounded queues. Each NUMA node has a queue of urgent tasks (copies that
 * a round waits for) and one of normal tasks (reading ahead). Urgent tasks go first, but for one
 * worker in four, if there are two or more: one of them reads at any time, since decoding and
 * copying are bound by different things. The owner, one thread, submits tasks; workers run them.
 * Nothing is allocated after pool_new(), except by pool_populate().
 *
 *     owner  --submit-->  NUMA node 0: urgent | normal  -->  workers bound to NUMA node 0
 *                                 ^
 *                                 +-- while all its workers are busy, others take over urgent tasks
 *                                 v
 *                         NUMA node 1: urgent | normal  -->  workers bound to NUMA node 1
 *
 * Where all workers are in long normal tasks, the owner runs urgent tasks itself: pool_help().
 *
 * Each worker has a dataset_reader of its own, made and touched on its NUMA node. When a task ends
 * the pool wakes the owner through a struct waker, unless the task says that this is not needed.
 * After normal tasks with urgent ones queued, or short ones with more of them behind, the owner is
 * woken for several at once: up to half a millisecond later, or when the worker's next task has
 * ended. A task leaves its results where its argument points. Workers block all signals.
 *
 * The owner calls every function, except where a comment says otherwise.
 */
#ifndef PENSTOCK_READ_POOL_H
#define PENSTOCK_READ_POOL_H

#include "base/error.h"
#include "base/waker.h"
#include "dataset/dataset.h"
#include "topology/topology.h"

#include <stdbool.h>

struct pool;

/* What tasks took, counters (base/counters.h) alone. Reads add to `read`, copy tasks to what is
 * about copies. */
struct pool_stats {
    struct zarr_read_stats read;
    COUNTER_TABLE(COUNTER_NONE, COUNTER_MEMBER, COUNTER_NONE, COUNTER_NONE)
    uint64_t copy_bytes;
    uint64_t busy_ns; /* in tasks */
};

/* What belongs to one worker. Every task that the worker runs gets this. */
struct pool_worker {
    uint32_t index;
    uint32_t numa;                 /* index of its NUMA node among those of the placement */
    struct dataset_reader *reader; /* NULL in a pool without a dataset */
    struct pool_stats stats;       /* others see them by pool_stats() */
    bool quiet; /* set by an urgent task whose end the owner need not hear of, since another task's
                 * end says more; false when a task begins */
};

/* A task's function. `begin` and `end` tell which part of a job the task is. A normal task may wait
 * for the store and for nothing else. An urgent task waits for nothing. */
typedef void pool_function(struct pool_worker *worker, void *argument, uint64_t begin,
                           uint64_t end);

enum pool_priority { POOL_URGENT, POOL_NORMAL };

/* Starts and binds the workers, and waits until all run. Copies `placement`. Borrows `dataset`
 * (NULL: a pool without readers) and `waker` (NULL: nobody is woken) until pool_free(). Each queue
 * has room for `queue_capacity` tasks. IO: a thread cannot be started or bound. NO_MEMORY. */
MUST_USE enum status pool_new(const struct placement *placement, const struct dataset *dataset,
                              size_t queue_capacity, struct waker *waker, struct pool **ret_pool,
                              struct error *err);

/* Queues a task of the NUMA node `numa`. Its workers run the task. If they are all busy, workers of
 * other NUMA nodes may run an urgent task. `argument` is borrowed until the task ends. False: that
 * queue is full, and the owner tries again after a task has ended. Does not block. */
MUST_USE bool pool_submit(struct pool *pool, uint32_t numa, enum pool_priority priority,
                          pool_function *function, void *argument, uint64_t begin, uint64_t end);

/* The same for an urgent task that goes before those that are queued: others wait for its end. */
MUST_USE bool pool_submit_first(struct pool *pool, uint32_t numa, pool_function *function,
                                void *argument);

/* The NUMA node that has most sleeping workers, less its queued urgent tasks: for a task that has
 * no memory of its own. Does not block. */
uint32_t pool_idlest_numa(const struct pool *pool);

/* Runs queued urgent tasks here, as long as every worker has been in its normal task for
 * `patience_ns` or more: no copy waits for a long decode to end. A task's pool_worker has no
 * reader then. Returns how many tasks were run. */
uint32_t pool_help(struct pool *pool, uint64_t patience_ns);

/* Whether urgent tasks are queued. Does not block. */
bool pool_has_urgent(struct pool *pool);

/* Runs function(worker, argument, i, n) on every worker, the worker being the i-th of the n of its
 * NUMA node, and waits until all have returned. Goes before queued tasks, and waits for running
 * ones. */
void pool_run_on_workers(struct pool *pool, pool_function *function, void *argument);

/* Memory that is to lie on one NUMA node. */
struct pool_memory {
    unsigned char *start; /* begins on a page; NULL if there is none */
    size_t bytes;
    uint32_t numa;
};

/* Makes the pages of a piece of memory present. Returns 0, or an errno. `worker` is NULL if the
 * owner does the work. */
typedef int pool_fill(void *argument, const struct pool_worker *worker,
                      const struct pool_memory *piece);

/* Makes all pages of memory[count] present, and waits. The workers of a memory's NUMA node do the
 * work piece by piece, so that the pages lie there. Goes before queued tasks. While the store holds
 * up all workers, the owner fills what is left. `fill` NULL: memory_populate(). Returns 0, or the
 * first errno; ENOMEM also where there is no memory for a list. */
MUST_USE int pool_populate(struct pool *pool, const struct pool_memory *memory, size_t count,
                           pool_fill *fill, void *argument);

/* Forgets queued tasks, and waits `timeout_ms` at most for running tasks. False: some still run,
 * for example because a file system hangs. Then neither the pool, nor what the tasks use, may be
 * freed: the end of the process ends the tasks. */
MUST_USE bool pool_drain(struct pool *pool, uint32_t timeout_ms);

/* Forgets queued urgent tasks, and waits for running urgent tasks, which do not take long. Normal
 * tasks stay queued, and go on running. */
void pool_settle(struct pool *pool);

/* Sums over all workers, of tasks that have ended. Any thread; exact after pool_drain(). */
void pool_stats(const struct pool *pool, struct pool_stats *ret_stats);

/* Whether all workers are in normal tasks now, so that an urgent task would have to wait. Does not
 * block.
 */
bool pool_is_behind(const struct pool *pool);

/* Whether any worker is in a normal task now. Does not block. */
bool pool_is_reading(const struct pool *pool);

/* Any thread. */
uint32_t pool_worker_count(const struct pool *pool);

/* The pool's copy, borrowed. Any thread. */
const struct placement *pool_placement(const struct pool *pool);

/* Forgets queued tasks, waits for running tasks without limit, joins the threads, and frees. NULL
 * is fine.
 */
void pool_free(struct pool *pool);

#endif
