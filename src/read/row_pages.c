/* See row_pages.h. The pages of a row are a chain. So that no one walks far, each buffer notes
 * every stride-th page of its chain. */
#include "read/row_pages.h"

#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { STOPS = 30 };

/* The pages of one buffer's row. */
struct chain {
    uint32_t count;
    uint32_t stride;      /* pages from stop to stop */
    int32_t stops[STOPS]; /* page i * stride, where the row has so many; the first begins the chain
                           */
};

struct row_pages {
    struct row_paging paging;
    struct page_arena arena;
    struct chain *chains; /* [buffers] */
};

_Static_assert(sizeof(struct chain) == ROW_PAGES_BUFFER_BYTES, "as the budget counts");

static enum status allocate(struct row_pages *pages, struct pool *pool, uint32_t buffer_count,
                            struct error *err)
{
    const struct row_paging *paging = &pages->paging;
    pages->arena = (struct page_arena){.purpose = "items of ragged fields",
                                       .page_bytes = paging->page_bytes,
                                       .page_count = (uint32_t)paging->page_count,
                                       .numa_count = pool_placement(pool)->numa_count};
    pages->chains = calloc(buffer_count, sizeof *pages->chains);
    if (!pages->chains)
        return error_set(err, STATUS_NO_MEMORY, "tables of the pages of %u row buffer%s",
                         buffer_count, count_plural(buffer_count));
    enum status status = page_arena_init(&pages->arena, err);
    if (status != STATUS_OK)
        return status;
    errno = page_arena_populate(&pages->arena, pool);
    return errno ? error_set_errno(err, STATUS_NO_MEMORY, "%llu pages of %s for ragged fields",
                                   (unsigned long long)paging->page_count,
                                   size_format(paging->page_bytes).text)
                 : STATUS_OK;
}

enum status row_pages_new(struct pool *pool, const struct row_paging *paging, uint32_t buffer_count,
                          struct row_pages **ret_pages, struct error *err)
{
    uint64_t total_bytes;
    if (paging->page_count == 0 || paging->page_count > INT32_MAX || paging->page_bytes == 0 ||
        !size_multiply(paging->page_bytes, paging->page_count, &total_bytes))
        return error_set(err, STATUS_INVALID,
                         "%llu pages of %zu bytes for ragged fields: these sizes are not possible; "
                         "lower readers.memory_limit, or write the columns with longer chunks",
                         (unsigned long long)paging->page_count, paging->page_bytes);
    struct row_pages *pages = calloc(1, sizeof *pages);
    if (!pages)
        return error_set(err, STATUS_NO_MEMORY, "pages for ragged fields: out of memory");
    pages->paging = *paging;
    enum status status = allocate(pages, pool, buffer_count, err);
    if (status != STATUS_OK) {
        row_pages_free(pages);
        return status;
    }
    *ret_pages = pages;
    return STATUS_OK;
}

void row_pages_free(struct row_pages *pages)
{
    if (!pages)
        return;
    page_arena_done(&pages->arena);
    free(pages->chains);
    free(pages);
}

bool row_pages_take(struct row_pages *pages, int32_t buffer, uint32_t numa, uint64_t row)
{
    struct chain *chain = &pages->chains[buffer];
    uint32_t count = pages->paging.count_of(pages->paging.dataset, row);
    int32_t page = NO_PAGE;
    assert(chain->count == 0);
    if (count > 0 && !page_arena_take(&pages->arena, numa, count, &page))
        return false;
    chain->count = count;
    chain->stride = count > STOPS ? (uint32_t)size_divide_up(count, STOPS) : 1;
    for (uint32_t i = 0; i < count; i++, page = pages->arena.next_page[page])
        if (i % chain->stride == 0)
            chain->stops[i / chain->stride] = page;
    return true;
}

void row_pages_give_back(struct row_pages *pages, int32_t buffer)
{
    struct chain *chain = &pages->chains[buffer];
    if (chain->count > 0)
        page_arena_free(&pages->arena, chain->stops[0]);
    chain->count = 0;
}

unsigned char *row_pages_at(const struct row_pages *pages, int32_t buffer, uint32_t page)
{
    const struct chain *chain = &pages->chains[buffer];
    assert(page < chain->count);
    int32_t at = chain->stops[page / chain->stride];
    for (uint32_t i = page % chain->stride; i > 0; i--)
        at = pages->arena.next_page[at];
    return page_arena_page(&pages->arena, at);
}
