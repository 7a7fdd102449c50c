/* See memory.h. */
#include "base/memory.h"

#include "base/cgroup.h"
#include "base/size.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum status memory_map(size_t bytes, const char *purpose, void **ret_memory, struct error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        int cause = errno;
        struct memory_limit limit;
        char limited[80] = "";
        if (memory_process_limit(&limit) && limit.left_bytes < bytes)
            snprintf(limited, sizeof limited, " with 'ulimit -%c' of %s", limit.option,
                     size_format(limit.bytes).text);
        errno = cause;
        return error_set_errno(err, STATUS_NO_MEMORY, "map %s for the %s%s",
                               size_format(bytes).text, purpose, limited);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    *ret_memory = memory;
    return STATUS_OK;
}

/* Room is looked for that has an aligned address, and the kernel told of that address: where
 * another thread takes it meanwhile, the kernel chooses another. */
void *memory_map_file(int fd, size_t bytes, int protection)
{
    void *hint = NULL;
    size_t room_bytes = bytes + MEMORY_HUGE_PAGE_BYTES;
    if (bytes >= MEMORY_HUGE_PAGE_BYTES) {
        void *room = mmap(NULL, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED)
            return MAP_FAILED;
        munmap(room, room_bytes);
        hint = (void *)size_round_up((uintptr_t)room, MEMORY_HUGE_PAGE_BYTES);
    }
    return mmap(hint, bytes, protection, MAP_SHARED, fd, 0);
}

void memory_prefer_huge(void *memory, size_t bytes)
{
    uintptr_t first = size_round_up((uintptr_t)memory, MEMORY_PAGE_BYTES);
    uintptr_t end = ((uintptr_t)memory + bytes) / MEMORY_PAGE_BYTES * MEMORY_PAGE_BYTES;
    if (bytes >= MEMORY_HUGE_PAGE_BYTES)
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
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

bool memory_can_populate(void)
{
    return madvise(NULL, 0, MADV_POPULATE_WRITE) == 0;
}

bool memory_makes_huge_pages(void)
{
    return madvise(NULL, 0, MADV_COLLAPSE) == 0;
}

bool memory_shares_huge_pages(void)
{
    char line[128] = "";
    if (memory_makes_huge_pages())
        return true;
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    return line[0] && !strstr(line, "[never]") && !strstr(line, "[deny]");
}

/* Where the first huge page of a range would begin, and how many fit. */
static unsigned char *huge_pages_of(void *memory, size_t bytes, size_t *ret_count)
{
    size_t head = -(uintptr_t)memory % MEMORY_HUGE_PAGE_BYTES;
    *ret_count = bytes > head ? (bytes - head) / MEMORY_HUGE_PAGE_BYTES : 0;
    return (unsigned char *)memory + head;
}

/* The kernel makes a huge page where one page is present. */
static void make_huge_pages(void *memory, size_t bytes)
{
    size_t count;
    unsigned char *first = huge_pages_of(memory, bytes, &count);
    if (count == 0 || !memory_makes_huge_pages())
        return;
    for (size_t i = 0; i < count; i++)
        if (madvise(first + i * MEMORY_HUGE_PAGE_BYTES, MEMORY_PAGE_BYTES, MADV_POPULATE_WRITE))
            return;
    (void)madvise(first, count * MEMORY_HUGE_PAGE_BYTES, MADV_COLLAPSE);
}

/* Where the kernel has none at hand, it makes no further ones, and not the last. */
bool memory_is_huge(void *memory, size_t bytes)
{
    size_t count;
    unsigned char *last = huge_pages_of(memory, bytes, &count);
    if (count == 0)
        return false;
    last += (count - 1) * MEMORY_HUGE_PAGE_BYTES;
    return madvise(last, MEMORY_HUGE_PAGE_BYTES, MADV_COLLAPSE) == 0;
}

int memory_populate(void *memory, size_t bytes)
{
    make_huge_pages(memory, bytes);
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno != EINVAL && errno != EAGAIN)
        return errno;
    memory_touch(memory, bytes);
    return 0;
}

enum { MOST_NODES = 1024, WORD_BITS = 64 }; /* as many as Linux has */

/* mbind() is no function of the C library. */
static bool set_policy(void *memory, size_t bytes, int mode, const uint64_t *nodes, uint32_t count)
{
    unsigned long most = count + 1; /* Linux counts one too many */
    return syscall(SYS_mbind, memory, bytes, mode, nodes, most, 0) == 0;
}

bool memory_prefer_node(void *memory, size_t bytes, uint32_t node)
{
    uint64_t nodes[MOST_NODES / WORD_BITS] = {0};
    if (node >= MOST_NODES)
        return false;
    nodes[node / WORD_BITS] = UINT64_C(1) << node % WORD_BITS;
    return set_policy(memory, bytes, MPOL_PREFERRED, nodes, node + 1);
}

bool memory_interleave(void *memory, size_t bytes)
{
    const uint64_t all = UINT64_MAX; /* of those that there are, and may be used */
    return set_policy(memory, bytes, MPOL_INTERLEAVE, &all, WORD_BITS);
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

bool memory_process_limit(struct memory_limit *ret_limit)
{
    unsigned long long size = 0, data = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    bool known = file && fscanf(file, "%llu %*u %*u %*u %*u %llu", &size, &data) == 2;
    if (file)
        fclose(file);
    const struct {
        int resource;
        char option;
        uint64_t taken;
    } kinds[] = {{RLIMIT_AS, 'v', size * MEMORY_PAGE_BYTES},
                 {RLIMIT_DATA, 'd', data * MEMORY_PAGE_BYTES}};
    struct memory_limit limit = {.left_bytes = UINT64_MAX};
    for (size_t i = 0; known && i < sizeof kinds / sizeof kinds[0]; i++) {
        struct rlimit rlimit;
        if (getrlimit(kinds[i].resource, &rlimit) < 0 || rlimit.rlim_cur == RLIM_INFINITY)
            continue;
        uint64_t bytes = rlimit.rlim_cur, taken = kinds[i].taken;
        uint64_t left = bytes > taken ? bytes - taken : 0;
        if (left < limit.left_bytes)
            limit = (struct memory_limit){kinds[i].option, bytes, left};
    }
    if (!limit.option)
        return false;
    *ret_limit = limit;
    return true;
}

uint64_t memory_available_bytes(void)
{
    uint64_t left = machine_left_bytes();
    struct cgroup_memory cgroup;
    struct memory_limit limit;
    if (cgroup_memory("", &cgroup) && cgroup.left_bytes < left)
        left = cgroup.left_bytes;
    if (memory_process_limit(&limit) && limit.left_bytes < left)
        left = limit.left_bytes;
    return left;
}
