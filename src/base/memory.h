/* Large memory taken at start: mapped, bounded, and touched before it is relied on.
 *
 * mmap'ed anonymous regions, zero-filled, page aligned, with huge pages advised. Not for small
 * objects: those use calloc. Safe from any thread.
 */
#ifndef PENSTOCK_BASE_MEMORY_H
#define PENSTOCK_BASE_MEMORY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { MEMORY_PAGE_BYTES = 4096, MEMORY_LINE_BYTES = 64 };

/* Maps `bytes` (> 0) for `purpose` ("row store"), named in the error.
 * NO_MEMORY: the kernel refuses the mapping. Pages are not yet present: see memory_touch. */
MUST_USE enum status memory_map(size_t bytes, const char *purpose, void **ret_memory,
                                struct error *err);

/* Unmaps; NULL is fine. `bytes` as given to memory_map. */
void memory_unmap(void *memory, size_t bytes);

/* Makes every page of the range present by writing to it; contents are kept. Call it from the
 * thread whose NUMA node shall hold the pages: Linux places a page where it is first touched. */
void memory_touch(void *memory, size_t bytes);

/* What this process may still take: MemAvailable, lowered to what its control groups leave
 * (base/cgroup.h). */
uint64_t memory_available_bytes(void);

#endif
