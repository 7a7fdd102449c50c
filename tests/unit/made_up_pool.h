/* For tests: worker pools on NUMA nodes that this machine need not have. */
#ifndef PENSTOCK_TESTS_MADE_UP_POOL_H
#define PENSTOCK_TESTS_MADE_UP_POOL_H

#include "base/clock.h"
#include "read/pool.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Workers in `numa_count` NUMA nodes of a made-up machine; all may run anywhere on this one. */
static inline struct placement made_up_placement(uint32_t numa_count, uint32_t worker_count)
{
    struct topology *topology = NULL;
    struct placement placement;
    assert_int_equal(topology_load(NULL, NULL, &topology, NULL), STATUS_OK);
    assert_int_equal(
        topology_placement(topology, 0, 1, 0, worker_count, BIND_NONE, &placement, NULL),
        STATUS_OK);
    topology_free(topology);
    placement.numa_count = numa_count;
    for (uint32_t i = 0; i < worker_count; i++)
        placement.workers[i].numa = i * numa_count / worker_count;
    return placement;
}

/* A pool of such workers, with queues of `capacity`; `waker` may be NULL. */
static inline struct pool *made_up_pool(uint32_t numa_count, uint32_t worker_count, size_t capacity,
                                        struct waker *waker)
{
    struct placement placement = made_up_placement(numa_count, worker_count);
    struct pool *pool = NULL;
    struct error err;
    if (pool_new(&placement, NULL, capacity, waker, &pool, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return pool;
}

/* Holds the pool's workers inside a task until it is opened. */
struct gate {
    _Atomic uint32_t inside;
    _Atomic bool open;
};

static inline void wait_at_gate(struct pool_worker *worker, void *argument, uint64_t begin,
                                uint64_t end)
{
    (void)worker, (void)begin, (void)end;
    struct gate *gate = argument;
    gate->inside++;
    while (!gate->open)
        clock_sleep_ns(100000);
}

/* Occupies the only worker of NUMA node 0. */
static inline void occupy(struct pool *pool, struct gate *gate)
{
    assert_true(pool_submit(pool, 0, POOL_NORMAL, wait_at_gate, gate, 0, 0));
    while (gate->inside == 0)
        clock_sleep_ns(100000);
}

#endif
