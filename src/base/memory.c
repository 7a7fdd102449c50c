/* See memory.h. */
#include "base/memory.h"

#include "base/size.h"

#include <errno.h>
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

/* The number behind `key` in the first line that starts with it; `fallback` where there is none. */
static uint64_t read_number(const char *path, const char *key, uint64_t fallback)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return fallback;
    uint64_t value = fallback;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        char *end;
        unsigned long long number = strtoull(line + strlen(key), &end, 10);
        if (end != line + strlen(key))
            value = number;
        break;
    }
    fclose(file);
    return value;
}

static uint64_t cgroup_left_bytes(void)
{
    static const struct {
        const char *limit, *used;
    } places[] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    uint64_t left = UINT64_MAX;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        uint64_t limit = read_number(places[i].limit, "", UINT64_MAX);
        uint64_t used = read_number(places[i].used, "", 0);
        if (limit == UINT64_MAX)
            continue;
        uint64_t here = limit > used ? limit - used : 0;
        left = here < left ? here : left;
    }
    return left;
}

uint64_t memory_available_bytes(void)
{
    uint64_t kib = read_number("/proc/meminfo", "MemAvailable:", UINT64_MAX / 1024);
    uint64_t machine = kib * 1024;
    uint64_t cgroup = cgroup_left_bytes();
    return cgroup < machine ? cgroup : machine;
}
