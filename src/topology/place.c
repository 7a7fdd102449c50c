/* Placement: which cores a reader has, and which of them each of its workers may run on. Pure.
 *
 *     2 NUMA nodes, 4 cores each   | 0 1 2 3 | 4 5 6 7 |
 *     2 readers                    | reader 0| reader 1|     whole nodes
 *     4 readers                    | r0 | r1 | r2 | r3 |     shares of the cores
 *
 * Worker i of W takes its seat at core i*c/W of its reader's c cores, so workers spread over the
 * reader's nodes as its cores do.
 */
#include "base/size.h"
#include "topology/machine.h"

#include <stdbool.h>

enum { AUTO_MAX_WORKERS = 64 };

/* A reader's cores: [first, first + count) of topology->cores. */
struct share {
    uint32_t first, count;
};

/* The first core of node `node`, or the number of cores for the node after the last. */
static uint32_t node_first_core(const struct topology *topology, uint32_t node)
{
    uint32_t i = 0;
    while (i < topology->core_count && topology->cores[i].node < node)
        i++;
    return i;
}

/* The index-th of `parts` even parts of `count` things begins here. */
static uint32_t part_begin(uint32_t count, uint32_t index, uint32_t parts)
{
    return (uint32_t)((uint64_t)count * index / parts);
}

static struct share reader_share(const struct topology *topology, uint32_t rank, uint32_t size)
{
    uint32_t cores = topology->core_count, nodes = topology->node_count;
    if (size > cores) /* more readers than cores: they take turns */
        return (struct share){.first = rank % cores, .count = 1};
    uint32_t first = part_begin(cores, rank, size);
    uint32_t end = part_begin(cores, rank + 1, size);
    if (nodes >= size) {
        first = node_first_core(topology, part_begin(nodes, rank, size));
        end = node_first_core(topology, part_begin(nodes, rank + 1, size));
    }
    return (struct share){.first = first, .count = end - first};
}

static uint32_t auto_threads(struct share share, uint32_t rank, uint32_t size, uint32_t trainers)
{
    uint32_t mine = part_begin(trainers, rank + 1, size) - part_begin(trainers, rank, size);
    uint32_t threads = share.count > mine ? share.count - mine : 1;
    return threads < AUTO_MAX_WORKERS ? threads : AUTO_MAX_WORKERS;
}

/* Writes the union of the share's cores, of one node only where `node` is not ANY_NODE. */
enum { ANY_NODE = UINT32_MAX };
static enum status write_cpuset(const struct topology *topology, struct share share, uint32_t node,
                                char ret_list[TOPOLOGY_CPUSET_BYTES], struct error *err)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set)
        return error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    for (uint32_t i = share.first; i < share.first + share.count; i++)
        if (node == ANY_NODE || topology->cores[i].node == node)
            hwloc_bitmap_or(set, set, topology->cores[i].cpuset);
    int length = hwloc_bitmap_list_snprintf(ret_list, TOPOLOGY_CPUSET_BYTES, set);
    hwloc_bitmap_free(set);
    if (length < 0 || length >= TOPOLOGY_CPUSET_BYTES)
        return error_set(
            err, STATUS_INVALID,
            "cpuset '%s...' is too scattered to write down in %d characters; allow this "
            "process whole ranges of cpus",
            ret_list, TOPOLOGY_CPUSET_BYTES - 1);
    return STATUS_OK;
}

/* Seats one worker at `core`, in a new domain where the core's node is not that of the worker
 * before. */
static enum status seat_worker(const struct topology *topology, struct share share, uint32_t core,
                               enum topology_bind bind, struct placement *placement,
                               struct error *err)
{
    uint32_t index = placement->worker_count;
    uint32_t node = topology->cores[core].node;
    struct placement_worker *worker = &placement->workers[index];
    worker->numa_os_index = topology->node_os_indexes[node];
    enum status status;
    switch (bind) {
    case BIND_CORE:
        status = write_cpuset(topology, (struct share){core, 1}, ANY_NODE, worker->cpuset, err);
        break;
    case BIND_NUMA:
        status = write_cpuset(topology, share, node, worker->cpuset, err);
        break;
    default: /* unbound workers share one domain: no memory is nearer than other */
        worker->numa_os_index = topology->node_os_indexes[topology->cores[share.first].node];
        status = write_cpuset(topology, share, ANY_NODE, worker->cpuset, err);
        break;
    }
    bool new_domain =
        index == 0 || placement->workers[index - 1].numa_os_index != worker->numa_os_index;
    placement->domain_count += new_domain;
    worker->domain = placement->domain_count - 1;
    placement->worker_count++;
    return status;
}

enum status topology_place(const struct topology *topology, uint32_t local_rank,
                           uint32_t local_size, uint32_t local_trainers, uint32_t thread_count,
                           enum topology_bind bind, struct placement *ret_placement,
                           struct error *err)
{
    if (local_rank >= local_size)
        return error_set(err, STATUS_INVALID, "placement: local rank %u of %u readers", local_rank,
                         local_size);
    if (thread_count > TOPOLOGY_MAX_WORKERS)
        return error_set(err, STATUS_INVALID, "placement: %u threads; at most %d are possible",
                         thread_count, TOPOLOGY_MAX_WORKERS);
    struct share share = reader_share(topology, local_rank, local_size);
    if (thread_count == 0)
        thread_count = auto_threads(share, local_rank, local_size, local_trainers);

    struct placement placement = {0};
    enum status status = write_cpuset(topology, share, ANY_NODE, placement.cpuset, err);
    for (uint32_t i = 0; i < thread_count && status == STATUS_OK; i++) {
        uint32_t core = share.first + part_begin(share.count, i, thread_count);
        status = seat_worker(topology, share, core, bind, &placement, err);
    }
    if (status == STATUS_OK)
        *ret_placement = placement;
    return status;
}
