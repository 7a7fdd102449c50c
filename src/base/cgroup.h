/* What control groups leave of the memory: a limit that the kernel enforces by killing.
 *
 * Both versions, at once if need be (cgroup v1 and v2), wherever they are mounted, also as a
 * container sees them. A limit of any group above counts for all below: the least that is left
 * counts. Blocks on /proc and /sys; safe from any thread.
 */
#ifndef PENSTOCK_BASE_CGROUP_H
#define PENSTOCK_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { CGROUP_PATH_BYTES = 1024 };

struct cgroup_memory {
    uint64_t left_bytes; /* of the limit: what is in use but for file cache is taken off */
    uint64_t limit_bytes;
    char path[CGROUP_PATH_BYTES]; /* of the group's folder */
};

/* The group with the least left, of this process. `root` is put before all paths: "" but in tests.
 * False: no group has a limit. */
bool cgroup_memory(const char *root, struct cgroup_memory *ret_memory);

#endif
