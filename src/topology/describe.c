/* A placement as people read it. Pure. */
#include "topology/topology.h"

#include <stdbool.h>
#include <string.h>

static bool same_seat(const struct placement_worker *a, const struct placement_worker *b)
{
    return a->domain == b->domain && strcmp(a->cpuset, b->cpuset) == 0;
}

void topology_describe(const struct placement *placement, struct text *out)
{
    uint32_t end;
    for (uint32_t first = 0; first < placement->worker_count; first = end) {
        const struct placement_worker *worker = &placement->workers[first];
        end = first + 1;
        while (end < placement->worker_count && same_seat(worker, &placement->workers[end]))
            end++;
        uint32_t count = end - first;
        text_append(out, "%4u worker%s on NUMA node %u, cpus %s\n", count, count == 1 ? " " : "s",
                    worker->numa_os_index, worker->cpuset);
    }
}
