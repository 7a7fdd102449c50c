/* See memory.h. */
#include "base/memory.h"

#include "base/cgroup.h"
#include "base/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum status memory_map(size_t bytes, const char *purpose, void **ret_memory, struct error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map %s for the %s", size_format(bytes).text,
                               purpose);
    madvise(memory, bytes, MADV_HUGEPAGE);
    *ret_memory = memory;
    return STATUS_OK;
}

void memory_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

void memory_touch(void *memory, size_t bytes)
{
    volatile unsigned char *page = memory;
    for (size_t offset = 0; offset < bytes; offset += MEMORY_PAGE_BYTES) {
        unsigned char same = page[offset];
        page[offset] = same;
    }
}

static uint64_t machine_left_bytes(void)
{
    unsigned long long kib = 0;
    char line[256];
    bool found = false;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "MemAvailable: %llu", &kib) == 1;
    if (file)
        fclose(file);
    return found ? kib * 1024 : UINT64_MAX;
}

uint64_t memory_available_bytes(void)
{
    uint64_t left = machine_left_bytes();
    struct cgroup_memory cgroup;
    if (cgroup_memory("", &cgroup) && cgroup.left_bytes < left)
        left = cgroup.left_bytes;
    return left;
}
