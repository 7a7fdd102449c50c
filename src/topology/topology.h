/* Where threads run: the machine's NUMA nodes and cores as far as this process may use them.
 *
 * Readers of one node share its allowed cpuset by local rank: with as many NUMA nodes as readers or
 * more, each reader takes whole NUMA nodes; otherwise a share of the cores. Within a reader,
 * workers are spread evenly over its NUMA nodes. Discovery is hwloc's; placements are plain values.
 *
 * A topology is immutable after loading; safe from any thread.
 */
#ifndef PENSTOCK_TOPOLOGY_TOPOLOGY_H
#define PENSTOCK_TOPOLOGY_TOPOLOGY_H

#include "base/error.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

enum { TOPOLOGY_MAX_WORKERS = 512, TOPOLOGY_CPUSET_BYTES = 128 };

struct topology;

/* The machine this runs on, restricted to the process's affinity and cgroup. With `description` not
 * NULL, another one, for tests and planning: hwloc's synthetic form ("numa:2 core:4 pu:2") or the
 * name of an .xml file; `allowed` then restricts it (a cpuset list like "0-3,8", NULL for all).
 * INVALID: not a topology, or an empty cpuset. */
MUST_USE enum status topology_load(const char *description, const char *allowed,
                                   struct topology **ret_topology, struct error *err);
void topology_free(struct topology *topology);

/* Cores (not hardware threads) and NUMA nodes that may be used. */
uint32_t topology_core_count(const struct topology *topology);
uint32_t topology_numa_count(const struct topology *topology);

enum topology_bind {
    BIND_NONE, /* anywhere within the allowed cpuset */
    BIND_NUMA, /* any core of one NUMA node */
    BIND_CORE, /* one core, all its hardware threads */
};

struct placement_worker {
    uint32_t domain;                    /* index among the placement's NUMA nodes */
    uint32_t numa_os_index;             /* the system's number of that node */
    char cpuset[TOPOLOGY_CPUSET_BYTES]; /* list format: "0-3,8" */
};

/* Where one reader's threads sit. */
struct placement {
    uint32_t domain_count; /* NUMA nodes used, 1 or more */
    uint32_t worker_count;
    struct placement_worker workers[TOPOLOGY_MAX_WORKERS];
    char cpuset[TOPOLOGY_CPUSET_BYTES]; /* of the reader as a whole: where its main thread stays */
};

/* Places the workers of the reader that is `local_rank` of `local_size` on this node.
 * `thread_count` 0 means auto: the reader's cores less its share of the `local_trainers`, at least
 * 1, at most 64. INVALID: more threads than TOPOLOGY_MAX_WORKERS, local_rank not below local_size.
 */
MUST_USE enum status topology_place(const struct topology *topology, uint32_t local_rank,
                                    uint32_t local_size, uint32_t local_trainers,
                                    uint32_t thread_count, enum topology_bind bind,
                                    struct placement *ret_placement, struct error *err);

/* Binds the calling thread to a cpuset in list format. IO: the kernel refuses. */
MUST_USE enum status topology_bind_self(const char *cpuset, struct error *err);

/* The table that is printed at start: one line per group of workers with the same seat. */
void topology_describe(const struct placement *placement, struct text *out);

#endif
