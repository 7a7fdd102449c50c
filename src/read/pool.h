/* A pool of pinned worker threads: reads, decodes and copies, in the order given.
 *
 * Tasks are small values in bounded queues, one pair per NUMA node: urgent ones (copies that a
 * round waits for) go before normal ones (reading ahead). The owner, one thread, submits; workers
 * run. Nothing is allocated after pool_new().
 *
 *     owner  --submit-->  NUMA node 0: urgent | normal  -->  workers bound to NUMA node 0
 *                                          ^
 *                                          +-- while these are all busy, others take over
 *                                          v
 *                         NUMA node 1: urgent | normal  -->  workers bound to NUMA node 1
 *
 * Each worker has its own dataset_reader, made and touched on its own NUMA node. When a task is
 * done and no urgent one is queued behind it, the pool wakes the owner through a struct waker;
 * results travel in what the task's argument points at. Workers block all signals.
 */
#ifndef PENSTOCK_READ_POOL_H
#define PENSTOCK_READ_POOL_H

#include "base/error.h"
#include "base/waker.h"
#include "dataset/dataset.h"
#include "topology/topology.h"

#include <stdbool.h>

struct pool;

/* One worker's own things, passed to every task it runs. */
struct pool_worker {
    uint32_t index;
    uint32_t numa;                   /* index of its NUMA node among those of the placement */
    struct dataset_reader *reader;   /* NULL in a pool without a dataset */
    struct dataset_read_stats stats; /* written by the worker, read with pool_stats() */
    uint64_t copy_ns, copy_bytes;    /* written by copy tasks, read with pool_stats() */
};

/* `begin` and `end` split one job among workers. A normal task may wait for the store, and nothing
 * else; an urgent one waits for nothing. */
typedef void pool_function(struct pool_worker *worker, void *argument, uint64_t begin,
                           uint64_t end);

enum pool_priority { POOL_URGENT, POOL_NORMAL };

/* Starts and binds the workers and waits until all run. `queue_capacity` per queue. `waker`
 * (borrowed, may be NULL) is woken as told above. `dataset` NULL makes a pool without readers.
 * IO: a thread cannot be started or bound; NO_MEMORY. */
MUST_USE enum status pool_new(const struct placement *placement, const struct dataset *dataset,
                              size_t queue_capacity, struct waker *waker, struct pool **ret_pool,
                              struct error *err);

/* Queues a task. A normal one is run by a worker of the NUMA node, an urgent one by a worker of
 * another where those are all busy. False when that queue is full (try again after some task is
 * done). */
MUST_USE bool pool_submit(struct pool *pool, uint32_t numa, enum pool_priority priority,
                          pool_function *function, void *argument, uint64_t begin, uint64_t end);

/* Runs function(worker, argument, i, n) on every worker, the i-th of its NUMA node's n, and waits:
 * for touching memory with all hands. Goes before queued tasks. */
void pool_run_on_workers(struct pool *pool, pool_function *function, void *argument);

/* Memory that shall lie on one NUMA node. */
struct pool_memory {
    unsigned char *start; /* begins on a page; NULL if there is none */
    size_t bytes;
    uint32_t numa;
};

/* Makes the pages of a piece of memory present; 0, or an errno. `worker` is NULL if it is the owner
 * who does. */
typedef int pool_fill(void *argument, const struct pool_worker *worker,
                      const struct pool_memory *piece);

/* Makes all pages present, those of each memory by the workers of its NUMA node, piece by piece,
 * and waits: that is where they lie then. Goes before queued tasks. While workers are held up by
 * the store, the owner fills what is left. `fill` NULL: by memory_populate(). 0, or the first
 * errno. */
MUST_USE int pool_populate(struct pool *pool, const struct pool_memory *memory, size_t count,
                           pool_fill *fill, void *argument);

/* Forgets queued tasks and waits for the running ones, at most that long. False: some still run, as
 * those do that a hung file system holds. Then the pool must not be freed, nor what they use; the
 * end of the process is theirs. */
MUST_USE bool pool_drain(struct pool *pool, uint32_t timeout_ms);

/* Forgets queued urgent tasks and waits for the running ones, which do not take long. Normal ones
 * go on, queued and running. */
void pool_settle(struct pool *pool);

/* Sums over workers since the start, by finished tasks; exact after pool_drain(). */
struct pool_stats {
    struct dataset_read_stats read;
    uint64_t copy_ns, copy_bytes;
    uint64_t busy_ns; /* in tasks, all workers together */
};
void pool_stats(const struct pool *pool, struct pool_stats *ret_stats);

/* Whether all workers are in normal tasks at this moment: an urgent one would have to wait. Owner
 * only; does not block. */
bool pool_is_behind(const struct pool *pool);

uint32_t pool_worker_count(const struct pool *pool);
const struct placement *pool_placement(const struct pool *pool);

/* Drains, joins the threads, frees. NULL is fine. */
void pool_free(struct pool *pool);

#endif
