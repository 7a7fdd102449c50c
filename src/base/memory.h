/* Large memory of a start: mapped, bounded, and touched before use.
 *
 * mmap'ed regions, zero-filled, page aligned, with huge pages advised. Not for small
 * objects: those use calloc. Safe from any thread.
 */
#ifndef PENSTOCK_BASE_MEMORY_H
#define PENSTOCK_BASE_MEMORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_PAGE_BYTES = 4096, MEMORY_HUGE_PAGE_BYTES = 2 << 20, MEMORY_LINE_BYTES = 64 };

/* Maps `bytes` (> 0) for `purpose` ("row store"), named in the error.
 * NO_MEMORY: the kernel refuses the mapping. Pages are not yet present: see memory_touch. */
MUST_USE enum status memory_map(size_t bytes, const char *purpose, void **ret_memory,
                                struct error *err);

/* Maps a file in memory (memfd_create()), shared; one of 2 MiB or more at a multiple of 2 MiB if
 * the kernel has such an address, so that huge pages are mapped whole. MAP_FAILED and errno: as of
 * mmap(). The caller unmaps it. */
void *memory_map_file(int fd, size_t bytes, int protection);

/* Asks for huge pages where memory of another origin has room for some: look-ups here and there in
 * tables of hundreds of megabytes wait for the addresses of pages otherwise. To be called before
 * the memory is touched. */
void memory_prefer_huge(void *memory, size_t bytes);

/* Unmaps; NULL is fine. `bytes` as given to memory_map. */
void memory_unmap(void *memory, size_t bytes);

/* Makes every page of the range present by writing to it; contents are kept. Call it from the
 * thread whose NUMA node shall hold the pages: Linux takes a page from the node where the page is
 * first touched. */
void memory_touch(void *memory, size_t bytes);

/* Like memory_touch(), for a range that begins at a page, without SIGBUS: returns 0 or an errno.
 * Where huge pages fit, it asks the kernel for huge pages, which come from one NUMA node each: so
 * it is not for memory that memory_interleave() spreads. On kernels before Linux 5.14, which cannot
 * populate, the pages are touched. */
int memory_populate(void *memory, size_t bytes);
bool memory_can_populate(void);

/* Whether the kernel makes huge pages for those who ask (Linux 6.1), also where the system's
 * settings give none, as for shared memory by default. */
bool memory_makes_huge_pages(void);

/* Whether shared memory gets huge pages where they are asked for: the kernel makes them, or the
 * system's settings give some. */
bool memory_shares_huge_pages(void);

/* Whether memory_populate() got huge pages as far as they fit, on such a kernel; else false. */
bool memory_is_huge(void *memory, size_t bytes);

/* Decides on which NUMA nodes the pages of a mapping will lie that are not present yet, whichever
 * thread touches them: on `node` (the system's number) while that node has room, or on all nodes in
 * turn. False: the kernel refuses, as in some containers; the first touch decides then. */
bool memory_prefer_node(void *memory, size_t bytes, uint32_t node);
bool memory_interleave(void *memory, size_t bytes);

/* What 'ulimit -v' or 'ulimit -d' leaves this process: that of the two that leaves less. False:
 * neither is set. */
struct memory_limit {
    char option; /* 'v' or 'd' */
    uint64_t bytes, left_bytes;
};
bool memory_process_limit(struct memory_limit *ret_limit);

/* The memory that this process may still take: MemAvailable, or less where control groups
 * (base/cgroup.h) or the process's own limits leave less. */
uint64_t memory_available_bytes(void);

#endif
