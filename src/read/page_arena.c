/* See page_arena.h. */
#include "read/page_arena.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"

#include <pthread.h>
#include <stdlib.h>

struct free_pages {
    pthread_mutex_t mutex;
    int32_t first;
    uint32_t count;
} __attribute__((aligned(MEMORY_LINE_BYTES)));

unsigned char *page_arena_page(const struct page_arena *arena, int32_t page)
{
    uint32_t numa = (uint32_t)page / arena->numa_pages;
    size_t index = (uint32_t)page % arena->numa_pages;
    return arena->memory[numa].start + index * arena->page_bytes;
}

/* Takes the first pages of a free list, up to `count`, to the front of the chain *first; returns
 * how many. Their order stays: pages that follow one another in memory do so in the chain. */
static uint32_t take_from(struct page_arena *arena, uint32_t numa, uint32_t count, int32_t *first)
{
    struct free_pages *free_pages = &arena->free_pages[numa];
    pthread_mutex_lock(&free_pages->mutex);
    if (count > free_pages->count)
        count = free_pages->count;
    if (count > 0) {
        int32_t last = free_pages->first, rest = *first;
        for (uint32_t i = 1; i < count; i++)
            last = arena->next_page[last];
        *first = free_pages->first;
        free_pages->first = arena->next_page[last];
        arena->next_page[last] = rest;
    }
    free_pages->count -= count;
    pthread_mutex_unlock(&free_pages->mutex);
    return count;
}

/* The last page of the chain's first run of pages that lie in one NUMA node, and how many these
 * are. */
static int32_t last_of_run(const struct page_arena *arena, int32_t page, uint32_t *ret_count)
{
    uint32_t numa = (uint32_t)page / arena->numa_pages, count = 1;
    for (int32_t next = arena->next_page[page];
         next != NO_PAGE && (uint32_t)next / arena->numa_pages == numa;
         next = arena->next_page[page], count++)
        page = next;
    *ret_count = count;
    return page;
}

void page_arena_free(struct page_arena *arena, int32_t page)
{
    while (page != NO_PAGE) {
        uint32_t count;
        int32_t last = last_of_run(arena, page, &count), next = arena->next_page[last];
        struct free_pages *free_pages = &arena->free_pages[(uint32_t)page / arena->numa_pages];
        pthread_mutex_lock(&free_pages->mutex);
        arena->next_page[last] = free_pages->first;
        free_pages->first = page;
        free_pages->count += count;
        pthread_mutex_unlock(&free_pages->mutex);
        page = next;
    }
}

bool page_arena_take(struct page_arena *arena, uint32_t numa, uint32_t count, int32_t *ret_first)
{
    int32_t first = NO_PAGE;
    for (uint32_t i = 0; i < arena->numa_count && count > 0; i++)
        count -= take_from(arena, (numa + i) % arena->numa_count, count, &first);
    if (count > 0) {
        page_arena_free(arena, first);
        return false;
    }
    *ret_first = first;
    return true;
}

/* Pages of a NUMA node. */
static uint32_t pages_of(const struct page_arena *arena, uint32_t numa)
{
    uint32_t before = min_u32(arena->page_count, numa * arena->numa_pages);
    return min_u32(arena->page_count - before, arena->numa_pages);
}

static enum status map_memory(struct page_arena *arena, struct error *err)
{
    for (uint32_t n = 0; n < arena->numa_count; n++) {
        size_t bytes = pages_of(arena, n) * arena->page_bytes;
        void *memory = NULL;
        enum status status =
            bytes > 0 ? memory_map(bytes, arena->purpose, &memory, err) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        arena->memory[n] = (struct pool_memory){memory, bytes, n};
    }
    return STATUS_OK;
}

enum status page_arena_init(struct page_arena *arena, struct error *err)
{
    arena->numa_pages = (uint32_t)size_divide_up(arena->page_count, arena->numa_count);
    struct free_pages *free_pages =
        aligned_alloc(MEMORY_LINE_BYTES, arena->numa_count * sizeof *free_pages);
    arena->memory = calloc(arena->numa_count, sizeof *arena->memory);
    arena->next_page = malloc(arena->page_count * sizeof *arena->next_page);
    for (uint32_t n = 0; free_pages && n < arena->numa_count; n++)
        pthread_mutex_init(&free_pages[n].mutex, NULL);
    arena->free_pages = free_pages;
    if (!free_pages || !arena->memory || !arena->next_page)
        return error_set(err, STATUS_NO_MEMORY, "tables of %u pages for %s", arena->page_count,
                         arena->purpose);
    return map_memory(arena, err);
}

int page_arena_populate(struct page_arena *arena, struct pool *pool)
{
    int failure = pool_populate(pool, arena->memory, arena->numa_count, NULL, NULL);
    if (failure)
        return failure;
    for (uint32_t n = 0; n < arena->numa_count; n++) {
        struct free_pages *free_pages = &arena->free_pages[n];
        int32_t first = (int32_t)(n * arena->numa_pages);
        free_pages->first = NO_PAGE;
        free_pages->count = pages_of(arena, n);
        for (uint32_t i = free_pages->count; i-- > 0;) {
            arena->next_page[first + (int32_t)i] = free_pages->first;
            free_pages->first = first + (int32_t)i;
        }
    }
    return 0;
}

void page_arena_done(struct page_arena *arena)
{
    for (uint32_t n = 0; arena->memory && n < arena->numa_count; n++)
        memory_unmap(arena->memory[n].start, arena->memory[n].bytes);
    for (uint32_t n = 0; arena->free_pages && n < arena->numa_count; n++)
        pthread_mutex_destroy(&arena->free_pages[n].mutex);
    free(arena->next_page);
    free(arena->memory);
    free(arena->free_pages);
}

uint64_t page_arena_free_count(const struct page_arena *arena)
{
    uint64_t count = 0;
    for (uint32_t n = 0; n < arena->numa_count; n++) {
        pthread_mutex_lock(&arena->free_pages[n].mutex);
        count += arena->free_pages[n].count;
        pthread_mutex_unlock(&arena->free_pages[n].mutex);
    }
    return count;
}
