/* The memory that control groups leave to this process. The kernel kills a process that takes more.
 *
 * Reads cgroup v1 and v2, mounted anywhere, both at once too, and as a container sees them. The
 * limit of a group holds for all groups below, so the group with the least left counts. Blocks on
 * /proc and /sys; safe from any thread.
 */
#ifndef PENSTOCK_BASE_CGROUP_H
#define PENSTOCK_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { CGROUP_PATH_BYTES = 1024 };

struct cgroup_memory {
    uint64_t left_bytes; /* the limit less the memory in use; file cache does not count as in use */
    uint64_t limit_bytes;
    char path[CGROUP_PATH_BYTES]; /* of the group's folder */
};

/* Finds the group of this process with the least memory left. `root` stands before all paths; only
 * tests give one other than "". False: no group has a limit. */
bool cgroup_memory(const char *root, struct cgroup_memory *ret_memory);

#endif
