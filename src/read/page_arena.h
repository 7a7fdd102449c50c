/* An arena of pages, spread over the pool's NUMA nodes and touched there. Pages are taken and freed
 * as chains.
 *
 * Pages are numbered through all NUMA nodes: page p lies in NUMA node p / numa_pages; the last NUMA
 * nodes may have fewer pages than the others. Each NUMA
 * node has a free list under a mutex of its own, which is held only while the pages of one chunk
 * are unlinked. Any thread may take and free chains. A chain belongs to the thread that took it.
 * Nothing is allocated after page_arena_init(), but for what pool_populate() takes meanwhile.
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
    const char *purpose;           /* for messages */
    size_t page_bytes;             /* of one page */
    uint32_t page_count;           /* at least 1, at most INT32_MAX */
    uint32_t numa_count;           /* NUMA nodes */
    uint32_t numa_pages;           /* pages of each NUMA node, but for the last ones */
    struct free_pages *free_pages; /* [numa_count] */
    struct pool_memory *memory;    /* [numa_count] */
    int32_t *next_page;            /* [page_count]: the next page of a chain or a free list */
};

/* Makes tables and pages. The caller has set the members up to numa_count, and the rest to zero. No
 * page is touched, and none is free, before page_arena_populate(). NO_MEMORY: the caller still
 * calls page_arena_done(). */
MUST_USE enum status page_arena_init(struct page_arena *arena, struct error *err);

/* Has the pool's workers touch the pages of their NUMA nodes, and makes all pages free. 0, or an
 * errno. The pool's owner; blocks. */
MUST_USE int page_arena_populate(struct page_arena *arena, struct pool *pool);

/* Frees everything. No chain may be in use. An arena that is all zero is fine. */
void page_arena_done(struct page_arena *arena);

/* Takes a chain of `count` pages (at least 1), from the NUMA node `numa` first, then from the
 * others. False: fewer pages are free, and none is taken. */
bool page_arena_take(struct page_arena *arena, uint32_t numa, uint32_t count, int32_t *ret_first);

/* Frees the chain that begins with `page`; NO_PAGE is fine. */
void page_arena_free(struct page_arena *arena, int32_t page);

/* The memory of a page: page_bytes, borrowed. */
unsigned char *page_arena_page(const struct page_arena *arena, int32_t page);

/* How many pages are free now. */
uint64_t page_arena_free_count(const struct page_arena *arena);

#endif
