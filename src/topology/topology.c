/* Discovery: turns hwloc's tree into the flat list of cores that placement works on.
 *
 * Only cores, hardware threads, NUMA nodes and devices of PCI and of Linux's drivers are kept:
 * caches and what other libraries know cost time at start and are of no use here. A core belongs to
 * the first NUMA node that has it: machines with two kinds of memory show two nodes over the same
 * cores, the ordinary one first.
 */
#include "topology/machine.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whether the description is a file's name rather than hwloc's synthetic form. */
static bool is_xml(const char *description)
{
    size_t length = strlen(description);
    return length > 4 && strcmp(description + length - 4, ".xml") == 0;
}

static enum status set_source(hwloc_topology_t hwloc, const char *description, struct error *err)
{
    if (!description) {
        hwloc_topology_set_flags(hwloc, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
        return STATUS_OK;
    }
    int failed = is_xml(description) ? hwloc_topology_set_xml(hwloc, description)
                                     : hwloc_topology_set_synthetic(hwloc, description);
    if (failed)
        return error_set(
            err, STATUS_INVALID,
            "topology '%s': neither hwloc's synthetic form (\"numa:2 core:4 pu:2\") nor "
            "a readable .xml file",
            description);
    return STATUS_OK;
}

/* To the cpus that the calling thread was given. */
static enum status restrict_to_affinity(struct topology *topology, struct error *err)
{
    hwloc_topology_t hwloc = topology->hwloc;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set)
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    enum status status = STATUS_OK;
    if (hwloc_get_cpubind(hwloc, set, HWLOC_CPUBIND_THREAD) == 0) {
        topology->bound = !hwloc_bitmap_isincluded(hwloc_topology_get_topology_cpuset(hwloc), set);
        if (hwloc_topology_restrict(hwloc, set, 0) != 0)
            status = error_set_errno(err, STATUS_INVALID, "topology: restrict to own affinity");
    }
    hwloc_bitmap_free(set);
    return status;
}

static enum status restrict_to(hwloc_topology_t hwloc, const char *allowed, struct error *err)
{
    struct cpuset cpus;
    enum status status = cpuset_parse(allowed, &cpus, err);
    if (status != STATUS_OK)
        return status;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set)
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    for (uint32_t cpu = cpuset_next(&cpus, 0); cpu < CPUSET_MAX_CPUS;
         cpu = cpuset_next(&cpus, cpu + 1))
        hwloc_bitmap_set(set, cpu);
    if (hwloc_topology_restrict(hwloc, set, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) != 0)
        status =
            error_set(err, STATUS_INVALID, "cpuset '%s': none of these cpus is there", allowed);
    hwloc_bitmap_free(set);
    return status;
}

static enum status load_tree(struct topology *topology, const char *description,
                             const char *allowed, struct error *err)
{
    if (hwloc_topology_init(&topology->hwloc) != 0)
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    hwloc_topology_set_type_filter(topology->hwloc, HWLOC_OBJ_PCI_DEVICE,
                                   HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_type_filter(topology->hwloc, HWLOC_OBJ_OS_DEVICE,
                                   HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    /* Linux lists devices itself. Plugins load libraries: that for PCI one that leaks, the others
     * those of GPUs, which no reader touches. */
    static const char *const plugins[] = {"pci",  "cuda",      "nvml", "opencl",
                                          "rsmi", "levelzero", "gl"};
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++)
        hwloc_topology_set_components(topology->hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      plugins[i]);
    enum status status = set_source(topology->hwloc, description, err);
    if (status == STATUS_OK && hwloc_topology_load(topology->hwloc) != 0)
        status = error_set_errno(err, STATUS_INVALID, "topology '%s': load",
                                 description ? description : "of this machine");
    if (status == STATUS_OK)
        status = gpus_find(topology, err);
    if (status == STATUS_OK)
        status = nics_find(topology, err);
    if (status == STATUS_OK && !description)
        status = restrict_to_affinity(topology, err);
    if (status == STATUS_OK && allowed)
        status = restrict_to(topology->hwloc, allowed, err);
    return status;
}

/* Cores where hwloc shows them, else hardware threads. */
static hwloc_obj_type_t core_type(hwloc_topology_t hwloc)
{
    return hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

/* Appends the cores within `cpuset` that no earlier node had, taking them out of `left`. */
static uint32_t take_cores(struct topology *topology, hwloc_const_cpuset_t cpuset,
                           hwloc_bitmap_t left)
{
    hwloc_obj_type_t type = core_type(topology->hwloc);
    uint32_t before = topology->core_count;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology->hwloc, type, core))) {
        if (!hwloc_bitmap_intersects(core->cpuset, cpuset) ||
            !hwloc_bitmap_intersects(core->cpuset, left))
            continue;
        topology->cores[topology->core_count++] =
            (struct core){.cpuset = core->cpuset, .node = topology->node_count};
        hwloc_bitmap_andnot(left, left, core->cpuset);
    }
    return topology->core_count - before;
}

static void take_node(struct topology *topology, hwloc_const_cpuset_t cpuset, uint32_t os_index,
                      hwloc_bitmap_t left)
{
    if (take_cores(topology, cpuset, left) > 0)
        topology->node_os_indexes[topology->node_count++] = os_index;
}

static enum status flatten(struct topology *topology, struct error *err)
{
    hwloc_topology_t hwloc = topology->hwloc;
    int cores = hwloc_get_nbobjs_by_type(hwloc, core_type(hwloc));
    int nodes = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_NUMANODE);
    if (cores <= 0 || nodes <= 0)
        return error_set(err, STATUS_INVALID, "topology: no cores or no memory");
    int last = hwloc_bitmap_last(hwloc_topology_get_topology_cpuset(hwloc));
    if (last >= CPUSET_MAX_CPUS)
        return error_set(err, STATUS_UNSUPPORTED,
                         "this process may use cpu %d; cpus below %d are supported: allow it no "
                         "others (taskset -c 0-%d)",
                         last, CPUSET_MAX_CPUS, CPUSET_MAX_CPUS - 1);
    topology->cores = calloc((size_t)cores, sizeof *topology->cores);
    topology->node_os_indexes = calloc((size_t)nodes + 1, sizeof *topology->node_os_indexes);
    hwloc_bitmap_t left = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(hwloc));
    if (!topology->cores || !topology->node_os_indexes || !left) {
        hwloc_bitmap_free(left);
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    }
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node)))
        take_node(topology, node->cpuset, node->os_index, left);
    /* Cores without memory of their own sit together behind the others. */
    node = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, 0);
    assert(node); /* hwloc 2 always has one */
    take_node(topology, hwloc_topology_get_topology_cpuset(hwloc), node->os_index, left);
    hwloc_bitmap_free(left);
    return STATUS_OK;
}

enum status topology_load(const char *description, const char *allowed,
                          struct topology **ret_topology, struct error *err)
{
    struct topology *topology = calloc(1, sizeof *topology);
    if (!topology)
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    enum status status = load_tree(topology, description, allowed, err);
    if (status == STATUS_OK)
        status = flatten(topology, err);
    if (status != STATUS_OK) {
        topology_free(topology);
        return status;
    }
    gpus_locate(topology);
    *ret_topology = topology;
    return STATUS_OK;
}

void topology_free(struct topology *topology)
{
    if (!topology)
        return;
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    gpus_free(topology);
    nics_free(topology);
    free(topology->node_os_indexes);
    free(topology->cores);
    free(topology);
}

uint32_t topology_core_count(const struct topology *topology)
{
    return topology->core_count;
}

uint32_t topology_numa_count(const struct topology *topology)
{
    return topology->node_count;
}

struct cpuset topology_cpus(const struct topology *topology)
{
    struct cpuset all = {{0}};
    for (uint32_t i = 0; i < topology->core_count; i++)
        cpuset_add_core(&all, &topology->cores[i]);
    return all;
}

enum status topology_bind_self(const struct cpuset *cpuset, struct error *err)
{
    if (sched_setaffinity(0, sizeof cpuset->words, (const void *)cpuset->words) == 0)
        return STATUS_OK;
    int failure = errno;
    struct text list = {0};
    cpuset_print(cpuset, &list);
    errno = failure;
    enum status status =
        error_set_errno(err, STATUS_IO, "bind to cpus %s", list.data ? list.data : "(none)");
    text_done(&list);
    return status;
}
