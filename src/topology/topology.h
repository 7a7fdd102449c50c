/* Placement of threads and trainers on the machine's NUMA nodes, cores and GPUs, as far as this
 * process may use them.
 *
 * Readers of one node share its allowed cpuset: with as many NUMA nodes as readers or more, each
 * takes whole NUMA nodes, those where most of its trainers' GPUs are; otherwise an even share of
 * the cores. Each trainer gets a core, on the NUMA node of its GPU where that is known, else within
 * the cores of its reader, spread over that reader's NUMA nodes. Each worker takes one of the
 * remaining cores, spread likewise. Cores that are left over belong to the trainers, too:
 *
 *     1 reader of 6 threads, 4 trainers     node 0  w w w t t t t t     GPUs 0 1
 *                                           node 1  w w w t t t t t     GPUs 2 3
 *
 * A node with fewer cores than threads and trainers is crowded: workers are spread over all cores
 * of their reader, and trainers have no seats. A bound trainer would be slower there than one that
 * runs wherever there is room.
 *
 * Discovery is hwloc's; placements are plain values. A topology is immutable after loading; safe
 * from any thread.
 */
#ifndef PENSTOCK_TOPOLOGY_TOPOLOGY_H
#define PENSTOCK_TOPOLOGY_TOPOLOGY_H

#include "base/error.h"
#include "base/text.h"
#include "topology/cpuset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOPOLOGY_MAX_WORKERS = 512,
    TOPOLOGY_MAX_SEATS = 512,
    TOPOLOGY_BUS_ID_BYTES = 16,
};

struct topology;

/* Loads the topology of this machine, restricted to the process's affinity and cgroup. Tests and
 * planning give a `description` of another machine: hwloc's synthetic form ("numa:2 core:4 pu:2")
 * or the name of an .xml file. `allowed` restricts such a machine to a list of cpus like "0-3,8";
 * NULL: all. INVALID: not a topology, or an empty cpuset. UNSUPPORTED: a cpu beyond
 * CPUSET_MAX_CPUS. */
MUST_USE enum status topology_load(const char *description, const char *allowed,
                                   struct topology **ret_topology, struct error *err);
void topology_free(struct topology *topology);

/* Cores (not hardware threads) and NUMA nodes that may be used. */
uint32_t topology_core_count(const struct topology *topology);
uint32_t topology_numa_count(const struct topology *topology);

/* The cpus that may be used. */
struct cpuset topology_cpus(const struct topology *topology);

/* GPUs of the machine, whatever cpus this process may use. Counted are, by PCI class: 3D
 * controllers; other display controllers of NVIDIA, AMD and Intel, but not Intel's on bus 0, which
 * are part of the processor; processing accelerators of AMD. Of these only those of the vendor
 * that has the most, NVIDIA on a tie: a job trains on one kind, and numbers count only that kind.
 * Display adapters of management controllers and virtual machines do not count. */
uint32_t topology_gpu_count(const struct topology *topology);

enum topology_bind {
    BIND_NONE, /* anywhere within the allowed cpuset */
    BIND_NUMA, /* any core of one NUMA node; where trainers have seats, only the workers' cores */
    BIND_CORE, /* one core, all its hardware threads */
};

struct placement_worker {
    uint32_t numa;          /* index among the placement's NUMA nodes */
    uint32_t numa_os_index; /* the system's number of that node */
    struct cpuset cpuset;
};

/* A trainer's seat: cpus that no reader's worker has. BIND_NUMA: all such of a NUMA node, shared by
 * the trainers that sit there; BIND_CORE: an even part of them. */
struct placement_trainer {
    uint32_t numa_os_index;
    char gpu[TOPOLOGY_BUS_ID_BYTES]; /* PCI address "0000:3b:00.0"; "": no GPU is known for it */
    struct cpuset cpuset;
};

/* The placement of one reader's threads and trainers. */
struct placement {
    uint32_t numa_count; /* NUMA nodes used, 1 or more */
    uint32_t worker_count;
    struct placement_worker workers[TOPOLOGY_MAX_WORKERS];
    struct cpuset cpuset;   /* the reader's share of the cores, its trainers' included */
    uint32_t trainer_count; /* of this reader */
    uint32_t seat_count; /* the first so many of them have seats; 0 where crowded, or BIND_NONE */
    struct placement_trainer trainers[TOPOLOGY_MAX_SEATS];
    /* All that share the cores. */
    bool crowded;    /* they are more than the cores */
    uint32_t reader; /* which of them this is */
    uint32_t all_readers, all_workers, all_trainers, all_cores;
};

/* The trainers of one reader, by their local rank on the node: [first, first + count). */
struct placement_group {
    uint32_t first, count;
};

struct placement_request {
    uint32_t reader;                      /* whose placement it is */
    uint32_t reader_count;                /* of the node, those that may use the same cpus */
    const struct placement_group *groups; /* [reader_count], borrowed; trainers of each */
    uint32_t node_trainers;               /* of all readers of the node */
    uint32_t thread_count;                /* workers of each reader; 0: auto */
    enum topology_bind bind;
    /* The value of CUDA_VISIBLE_DEVICES, borrowed; NULL: not set. A list of numbers says which GPU,
     * in order of PCI address from 0, a program calls 0, 1, 2…; it ends at the first that is no
     * GPU's number. Of GPUs named otherwise nothing is known. */
    const char *visible_gpus;
};

/* The placement of one reader's workers and trainers. Auto is the reader's cores less one for each
 * trainer that sits among them, at least 1, at most 64. The trainer of local rank i is the one that
 * uses GPU i, if there are GPUs for all trainers of the node; otherwise no GPU is known for any.
 * Every reader of the node has to pass the same but for `reader`: then no two placements overlap.
 * INVALID: more threads than TOPOLOGY_MAX_WORKERS, `reader` not below `reader_count`. NO_MEMORY. */
MUST_USE enum status topology_reader_placement(const struct topology *topology,
                                               const struct placement_request *request,
                                               struct placement *ret_placement, struct error *err);

/* The same for `local_trainers` that are divided evenly, in blocks, among `local_size` readers,
 * with all GPUs visible. */
MUST_USE enum status topology_placement(const struct topology *topology, uint32_t local_rank,
                                        uint32_t local_size, uint32_t local_trainers,
                                        uint32_t thread_count, enum topology_bind bind,
                                        struct placement *ret_placement, struct error *err);

/* The NUMA node for the memory of trainer `trainer` of the placement: that of its seat, or, without
 * a seat, the one that an even spread over the reader's NUMA nodes gives. */
struct placement_memory {
    uint32_t numa_os_index;
    uint32_t numa; /* whose workers serve it: those on that node, if any are */
    bool is_near;  /* they are */
};
struct placement_memory topology_memory_of(const struct placement *placement, uint32_t trainer);

/* Binds the calling thread. IO: the kernel refuses. */
MUST_USE enum status topology_bind_self(const struct cpuset *cpuset, struct error *err);

/* The table that is printed at start: a line for the workers of each NUMA node, and for trainers
 * with the same seat. */
void topology_describe(const struct placement *placement, struct text *out);

/* Appends one line, without its end, to a crowded placement: who shares how many cores, and what to
 * do. Appends nothing if the placement is not crowded. */
void topology_describe_crowd(const struct placement *placement, struct text *out);

#endif
