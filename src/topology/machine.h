/* The machine as placement sees it: cores in NUMA order, and nothing else. Internal to topology/.
 */
#ifndef PENSTOCK_TOPOLOGY_MACHINE_H
#define PENSTOCK_TOPOLOGY_MACHINE_H

#include "topology/topology.h"

#include <hwloc.h>

/* One physical core that may be used; its cpuset has all its usable hardware threads. */
struct core {
    hwloc_const_cpuset_t cpuset; /* borrowed from hwloc */
    uint32_t node;               /* index into nodes */
};

struct topology {
    hwloc_topology_t hwloc;
    uint32_t core_count;
    struct core *cores; /* [core_count] grouped by node, in hwloc's logical order */
    uint32_t node_count;
    uint32_t *node_os_indexes; /* [node_count] the system's numbers */
};

#endif
