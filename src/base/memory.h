/* Large memory taken at start: mapped, bounded, and touched before it is relied on.
 *
 * mmap'ed anonymous regions, zero-filled, page aligned, with huge pages advised. Not for small
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

/* Unmaps; NULL is fine. `bytes` as given to memory_map. */
void memory_unmap(void *memory, size_t bytes);

/* Makes every page of the range present by writing to it; contents are kept. Call it from the
 * thread whose NUMA node shall hold the pages: Linux takes a page from the node where the page is
 * first touched. */
void memory_touch(void *memory, size_t bytes);

/* The same for pages that begin on one, without SIGBUS: 0, or the errno of what could not be had.
 * Kernels that cannot (before Linux 5.14) touch. */
int memory_populate(void *memory, size_t bytes);
bool memory_can_populate(void);

/* Where pages of a mapping shall lie that are not present yet, whoever touches them: on one NUMA
 * node (the system's number) while that has room, or on all in turn. False: the kernel does not
 * let us, as in some containers; then first touch decides. */
bool memory_prefer_node(void *memory, size_t bytes, uint32_t node);
bool memory_interleave(void *memory, size_t bytes);

/* What this process may still take: MemAvailable, lowered to what its control groups leave
 * (base/cgroup.h). */
uint64_t memory_available_bytes(void);

#endif
