/* Placement: from who gets which core (seating.h) to the cpusets of one reader's workers and
 * trainers. Pure.
 *
 *     2 NUMA nodes, 4 cores each   | 0 1 2 3 | 4 5 6 7 |
 *     2 readers                    | reader 0| reader 1|     whole nodes
 *     4 readers                    | r0 | r1 | r2 | r3 |     shares of the cores
 */
#include "topology/seating.h"

#include "base/size.h"

#include <assert.h>
#include <stdlib.h>

/* Which cores go into a cpuset: those of a range; of one node only, not taken by workers only. */
struct filter {
    struct range cores;
    uint32_t node; /* or ANY_NODE */
    bool untaken;
};

static bool passes(const struct seating *seating, const struct filter *filter, uint32_t core)
{
    return (filter->node == ANY_NODE || seating->topology->cores[core].node == filter->node) &&
           !(filter->untaken && seating->uses[core] == CORE_TAKEN);
}

/* The cpus of the cores [first, first + count) among those that pass. */
static struct cpuset cpus_of(const struct seating *seating, const struct filter *filter,
                             uint32_t first, uint32_t count)
{
    struct cpuset set = {{0}};
    uint32_t passed = 0;
    for (uint32_t i = filter->cores.first; i < filter->cores.first + filter->cores.count; i++) {
        if (!passes(seating, filter, i))
            continue;
        if (passed >= first && passed - first < count)
            cpuset_add_core(&set, &seating->topology->cores[i]);
        passed++;
    }
    return set;
}

static struct cpuset cpus_of_range(const struct seating *seating, struct range cores)
{
    struct filter filter = {.cores = cores, .node = ANY_NODE};
    return cpus_of(seating, &filter, 0, cores.count);
}

static struct range all_cores(const struct seating *seating)
{
    return (struct range){.first = 0, .count = seating->topology->core_count};
}

/* Adds a worker; counts its NUMA node where the worker before has another. */
static struct placement_worker *add_worker(struct placement *placement, uint32_t numa_os_index)
{
    struct placement_worker *worker = &placement->workers[placement->worker_count];
    worker->numa_os_index = numa_os_index;
    if (placement->worker_count == 0 || worker[-1].numa_os_index != numa_os_index)
        placement->numa_count++;
    worker->numa = placement->numa_count - 1;
    placement->worker_count++;
    return worker;
}

/* The workers of one run, bound to its cores or each to one of them. */
static void seat_run(const struct seating *seating, const struct seating_run *run,
                     struct placement *placement)
{
    for (uint32_t i = 0; i < run->worker_count; i++) {
        struct placement_worker *worker =
            add_worker(placement, seating->topology->node_os_indexes[run->node]);
        uint32_t core = run->cores.first + part_begin(run->cores.count, i, run->worker_count);
        bool one = seating->request->bind == BIND_CORE;
        struct range cores = one ? (struct range){.first = core, .count = 1} : run->cores;
        worker->cpuset = cpus_of_range(seating, cores);
    }
}

/* Unbound workers share one NUMA node: no memory is nearer than other. */
static void seat_anywhere(const struct seating *seating, struct placement *placement)
{
    uint32_t reader = seating->request->reader;
    const struct core *core = &seating->topology->cores[seating->shares[reader].first];
    struct cpuset all = topology_cpus(seating->topology);
    for (uint32_t i = 0; i < seating->thread_counts[reader]; i++)
        add_worker(placement, seating->topology->node_os_indexes[core->node])->cpuset = all;
}

static void seat_workers(const struct seating *seating, struct placement *placement)
{
    uint32_t reader = seating->request->reader;
    if (seating->request->bind == BIND_NONE) {
        seat_anywhere(seating, placement);
        return;
    }
    while (placement->worker_count < seating->thread_counts[reader]) {
        struct seating_run run = seating_run_at(seating, reader, placement->worker_count);
        seat_run(seating, &run, placement);
    }
}

static uint32_t count_on_node(const struct seating *seating, uint32_t node, uint32_t before)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < before; i++)
        count += seating->trainers[i].node == node;
    return count;
}

static uint32_t count_untaken(const struct seating *seating, const struct filter *filter)
{
    uint32_t count = 0;
    for (uint32_t i = filter->cores.first; i < filter->cores.first + filter->cores.count; i++)
        count += passes(seating, filter, i);
    return count;
}

static void seat_trainer(const struct seating *seating, uint32_t trainer,
                         struct placement_trainer *seat)
{
    const struct topology *topology = seating->topology;
    uint32_t node = seating->trainers[trainer].node, gpu = seating->trainers[trainer].gpu;
    struct filter filter = {.cores = all_cores(seating), .node = node, .untaken = true};
    uint32_t begin = 0, end = count_untaken(seating, &filter);
    if (seating->request->bind == BIND_CORE) {
        uint32_t sharers = count_on_node(seating, node, seating->trainer_count);
        uint32_t index = count_on_node(seating, node, trainer), cores = end;
        assert(sharers > 0); /* itself */
        begin = part_begin(cores, index, sharers);
        end = part_begin(cores, index + 1, sharers);
    }
    seat->numa_os_index = topology->node_os_indexes[node];
    if (gpu != NO_GPU) {
        const struct hwloc_pcidev_attr_s *pci = &topology->gpus[gpu].pci;
        snprintf(seat->gpu, sizeof seat->gpu, "%04x:%02x:%02x.%01x", pci->domain, pci->bus,
                 pci->dev, pci->func);
    }
    seat->cpuset = cpus_of(seating, &filter, begin, end - begin);
}

static void seat_trainers(const struct seating *seating, struct placement *placement)
{
    const struct placement_request *request = seating->request;
    uint32_t first = seating_first_trainer(seating, request->reader);
    placement->trainer_count = request->groups[request->reader].count;
    if (seating->crowded || request->bind == BIND_NONE)
        return;
    while (placement->seat_count < placement->trainer_count &&
           placement->seat_count < TOPOLOGY_MAX_SEATS) {
        seat_trainer(seating, first + placement->seat_count,
                     &placement->trainers[placement->seat_count]);
        placement->seat_count++;
    }
}

static void count_all(const struct seating *seating, struct placement *placement)
{
    placement->crowded = seating->crowded;
    placement->reader = seating->request->reader;
    placement->all_readers = seating->request->reader_count;
    placement->all_trainers = seating->trainer_count;
    placement->all_cores = seating->topology->core_count;
    for (uint32_t reader = 0; reader < seating->request->reader_count; reader++)
        placement->all_workers += seating->thread_counts[reader];
}

enum status topology_reader_placement(const struct topology *topology,
                                      const struct placement_request *request,
                                      struct placement *ret_placement, struct error *err)
{
    if (request->reader >= request->reader_count)
        return error_set(err, STATUS_INVALID, "placement: local rank %u of %u reader%s",
                         request->reader, request->reader_count,
                         count_plural(request->reader_count));
    if (request->thread_count > TOPOLOGY_MAX_WORKERS)
        return error_set(err, STATUS_INVALID, "placement: %u threads; at most %d are possible",
                         request->thread_count, TOPOLOGY_MAX_WORKERS);
    struct seating seating;
    enum status status = seating_init(topology, request, &seating, err);
    if (status != STATUS_OK)
        return status;
    *ret_placement = (struct placement){0};
    ret_placement->cpuset = cpus_of_range(&seating, seating.shares[request->reader]);
    seat_workers(&seating, ret_placement);
    seat_trainers(&seating, ret_placement);
    count_all(&seating, ret_placement);
    seating_done(&seating);
    return STATUS_OK;
}

enum status topology_placement(const struct topology *topology, uint32_t local_rank,
                               uint32_t local_size, uint32_t local_trainers, uint32_t thread_count,
                               enum topology_bind bind, struct placement *ret_placement,
                               struct error *err)
{
    struct placement_group *groups = calloc((size_t)local_size + 1, sizeof *groups);
    if (!groups)
        return error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    for (uint32_t reader = 0; reader < local_size; reader++) {
        uint32_t first = part_begin(local_trainers, reader, local_size);
        uint32_t end = part_begin(local_trainers, reader + 1, local_size);
        groups[reader] = (struct placement_group){.first = first, .count = end - first};
    }
    struct placement_request request = {.reader = local_rank,
                                        .reader_count = local_size,
                                        .groups = groups,
                                        .node_trainers = local_trainers,
                                        .thread_count = thread_count,
                                        .bind = bind};
    enum status status = topology_reader_placement(topology, &request, ret_placement, err);
    free(groups);
    return status;
}

static uint32_t os_index_of_numa(const struct placement *placement, uint32_t numa)
{
    uint32_t worker = 0;
    while (placement->workers[worker].numa != numa)
        worker++;
    return placement->workers[worker].numa_os_index;
}

struct placement_memory topology_memory_of(const struct placement *placement, uint32_t trainer)
{
    uint32_t numa_count = placement->numa_count, count = placement->trainer_count;
    /* NOLINTNEXTLINE(readability-suspicious-call-argument): so many NUMA nodes in so many parts */
    uint32_t spread =
        trainer < count ? part_begin(numa_count, trainer, count) : trainer % numa_count;
    struct placement_memory near = {os_index_of_numa(placement, spread), spread, true};
    if (trainer >= placement->seat_count)
        return near;
    near.numa_os_index = placement->trainers[trainer].numa_os_index;
    near.is_near = false;
    for (uint32_t numa = 0; numa < numa_count && !near.is_near; numa++)
        if (os_index_of_numa(placement, numa) == near.numa_os_index) {
            near.numa = numa;
            near.is_near = true;
        }
    return near;
}
