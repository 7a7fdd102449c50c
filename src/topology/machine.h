/* The machine as placement sees it: cores in NUMA order, GPUs in PCI order, NICs, and nothing else.
 * Internal to topology/. */
#ifndef PENSTOCK_TOPOLOGY_MACHINE_H
#define PENSTOCK_TOPOLOGY_MACHINE_H

#include "topology/topology.h"

#include <hwloc.h>

/* One physical core that may be used; its cpuset has all its usable hardware threads. */
struct core {
    hwloc_const_cpuset_t cpuset; /* borrowed from hwloc */
    uint32_t node;               /* index into nodes */
};

static inline void cpuset_add_core(struct cpuset *set, const struct core *core)
{
    /* topology_load() has checked that all cpus are below CPUSET_MAX_CPUS. */
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu))
        cpuset_add(set, (unsigned)cpu);
}

enum { ANY_NODE = UINT32_MAX };

struct gpu {
    struct hwloc_pcidev_attr_s pci;
    hwloc_bitmap_t near; /* owned: cpus of its locality, allowed or not */
    uint32_t node; /* index into nodes; ANY_NODE: near none that may be used, or near several */
};

enum nic_kind { NIC_INFINIBAND, NIC_ETHERNET, NIC_SLINGSHOT };
enum { NIC_NAME_BYTES = 32, NIC_SUBNET_BYTES = 64 };

struct nic {
    char name[NIC_NAME_BYTES]; /* "mlx5_0" */
    enum nic_kind kind;
    uint32_t port;                 /* the first that is active; 0: none is, or none is told of */
    char subnet[NIC_SUBNET_BYTES]; /* the port's address, which begins with its subnet's; "" */
    float link_speed;              /* of PCI, in GB/s; 0: not known */
    hwloc_bitmap_t near, around;   /* owned: cpus of its locality, and of the package of these */
};

struct topology {
    hwloc_topology_t hwloc;
    bool bound; /* a launcher has bound this process to some of the cpus */
    uint32_t core_count;
    struct core *cores; /* [core_count] grouped by node, in hwloc's logical order */
    uint32_t node_count;
    uint32_t *node_os_indexes; /* [node_count] the system's numbers */
    uint32_t gpu_count;
    struct gpu *gpus; /* [gpu_count] in order of PCI address */
    uint32_t nic_count;
    struct nic *nics; /* [nic_count] in hwloc's order */
};

/* The one node whose cores are `near`; ANY_NODE: none, or several. */
uint32_t nearest_node(const struct topology *topology, hwloc_const_bitmap_t near);

/* Lists the NICs of a loaded topology that is not restricted yet. NO_MEMORY. */
MUST_USE enum status nics_find(struct topology *topology, struct error *err);
void nics_free(struct topology *topology);

/* Lists the GPUs of a loaded topology that is not restricted yet: restricting drops those near
 * cpus that are not allowed, and the others' numbers would shift. NO_MEMORY. */
MUST_USE enum status gpus_find(struct topology *topology, struct error *err);

/* Finds the NUMA node of each, once the cores are listed. */
void gpus_locate(struct topology *topology);

void gpus_free(struct topology *topology);

/* Writes the GPUs that a program sees under CUDA_VISIBLE_DEVICES=`visible` (NULL: not set), in its
 * order, as indexes into gpus; returns how many. `ret_gpus` has room for gpu_count. */
uint32_t gpus_visible(const struct topology *topology, const char *visible, uint32_t *ret_gpus);

#endif
