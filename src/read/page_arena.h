/* An arena of pages, spread over the pool's NUMA nodes and touched there; pages are taken and freed
 * as chains.
 *
 * Pages are numbered through all NUMA nodes, page p lying in NUMA node p / numa_pages; each NUMA
 * node has its free list under a mutex of its own, which is held for as long as it takes to unlink
 * the pages of one chunk. Nothing is allocated after page_arena_init(). Any thread may take and
 * free; a chain belongs to whoever took it.
 */
#ifndef PENSTOCK_READ_PAGE_ARENA_H
#define PENSTOCK_READ_PAGE_ARENA_H

#include "base/error.h"
#include "read/pool.h"

#include <stdbool.h>
#include <stdint.h>

enum { NO_PAGE = -1 };

struct free_pages;
struct page_arena {
    uint32_t page_bytes;
    uint32_t numa_count, numa_pages; /* NUMA nodes, and pages of each */
    struct free_pages *free_pages;   /* [numa_count] */
    struct pool_memory *memory;      /* [numa_count] */
    int32_t *next_page;              /* [numa_count * numa_pages]: of a chain or a free list */
};

/* Tables and pages, untouched; page_bytes, numa_count and numa_pages are set, and the rest is zero.
 * NO_MEMORY: page_arena_done() cleans up. */
MUST_USE enum status page_arena_init(struct page_arena *arena, struct error *err);

/* Touches the pages, by the workers of their NUMA nodes, and makes all of them free; 0 or an errno.
 */
MUST_USE int page_arena_populate(struct page_arena *arena, struct pool *pool);

void page_arena_done(struct page_arena *arena);

/* A chain of `count` pages, of the NUMA node `numa` first, then of the others; false if there are
 * not as many. */
bool page_arena_take(struct page_arena *arena, uint32_t numa, uint32_t count, int32_t *ret_first);

/* Frees the chain that begins with `page`; NO_PAGE is fine. */
void page_arena_free(struct page_arena *arena, int32_t page);

unsigned char *page_arena_page(const struct page_arena *arena, int32_t page);

/* How many pages there are, and how many are free now. */
uint64_t page_arena_page_count(const struct page_arena *arena);
uint64_t page_arena_free_count(const struct page_arena *arena);

#endif
