/* The pages of rows in memory: what ragged fields need of a row besides its row buffer. Rows have
 * unequal numbers of items, so each row has as many pages of one arena (page_arena.h) as its items
 * take, and a large row sizes no other row's memory:
 *
 *     row buffer 0   | fixed part |   pages  | 0 | 1 | 2 |
 *     row buffer 1   | fixed part |   pages  | 0 |
 *     row buffer 2   | fixed part |   (none)
 *
 * A row store of n buffers gets as many pages as any n rows take together. A row is in the store
 * once at most, whether it is kept, a replica, of this window or of the next. So the rows in the
 * store are always n different rows or fewer, and whoever finds a free buffer finds pages for its
 * row, on whatever NUMA nodes they lie.
 *
 * The owner of the row store calls every function but row_pages_at(), which any thread may call.
 */
#ifndef PENSTOCK_READ_ROW_PAGES_H
#define PENSTOCK_READ_ROW_PAGES_H

#include "dataset/ragged.h"
#include "read/page_arena.h"

/* What a row store needs to know of a dataset with ragged fields. */
struct row_paging {
    const struct dataset *dataset;                                     /* borrowed */
    uint32_t (*count_of)(const struct dataset *dataset, uint64_t row); /* dataset_row_pages() */
    size_t page_bytes;
    uint64_t page_count; /* of any rows that are in the store together; at least 1 */
};

/* What the tables take of each buffer, and of each page. */
enum { ROW_PAGES_BUFFER_BYTES = 128, ROW_PAGES_PAGE_BYTES = sizeof(int32_t) };

struct row_pages;

/* Makes the pages for `buffer_count` buffers, spread over the pool's NUMA nodes and touched there.
 * `paging` is copied. INVALID: more pages than an arena can number. NO_MEMORY: the message has
 * count and size. */
MUST_USE enum status row_pages_new(struct pool *pool, const struct row_paging *paging,
                                   uint32_t buffer_count, struct row_pages **ret_pages,
                                   struct error *err);

/* NULL is fine. */
void row_pages_free(struct row_pages *pages);

/* Takes the pages of `row` for a buffer that has none, from the NUMA node `numa` first. False:
 * fewer are free, and none is taken. */
bool row_pages_take(struct row_pages *pages, int32_t buffer, uint32_t numa, uint64_t row);

/* Gives back the pages of a buffer. */
void row_pages_give_back(struct row_pages *pages, int32_t buffer);

/* Page `page` of a buffer's row: page_bytes, on a boundary of 64 bytes if page_bytes is a multiple
 * of that. O(1) in rows of up to 30 pages, else O(count / 30). */
unsigned char *row_pages_at(const struct row_pages *pages, int32_t buffer, uint32_t page);

#endif
