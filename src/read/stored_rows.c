/* See stored_rows.h and stored_rows_internal.h: entries, and which row has an entry. */
#include "read/stored_rows_internal.h"

#include "base/number.h"
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>

enum { MIN_PAGE_BYTES = 256, MAX_PAGE_BYTES = 65536, PAGES_PER_ROW = 16 };

/* Layout
 * ---------------------------------------------------------------------------------------------- */

/* Small enough that half a page is little of a row, large enough that few pages make one. */
static uint32_t page_bytes_for(uint64_t mean_row_bytes)
{
    uint32_t bytes = MIN_PAGE_BYTES;
    while (bytes < MAX_PAGE_BYTES && bytes < mean_row_bytes / PAGES_PER_ROW)
        bytes *= 2;
    return bytes;
}

/* An entry and its part of the index, which is between a quarter and half full. */
enum { ENTRY_BYTES = sizeof(struct entry) + 4 * sizeof(struct row_index_entry) };

/* Entries for twice as many rows as are expected: they may turn out smaller. */
enum { ENTRIES_PER_ROW = 2 };

uint64_t stored_rows_row_cost(uint64_t mean_row_bytes)
{
    uint64_t page_bytes = page_bytes_for(mean_row_bytes);
    uint64_t pages = mean_row_bytes / page_bytes + 1;
    uint64_t sizes = mean_row_bytes / 64 + sizeof(uint32_t); /* the chunks', at most */
    return mean_row_bytes + sizes + page_bytes / 2 + pages * sizeof(int32_t) +
           (uint64_t)ENTRIES_PER_ROW * ENTRY_BYTES;
}

enum status stored_rows_estimate(const struct dataset *dataset, bool wanted,
                                 uint64_t *ret_mean_bytes, uint64_t *ret_cost_bytes,
                                 struct error *err)
{
    struct dataset_stored_row row = {0};
    enum status status = wanted ? dataset_stored_row_bytes(dataset, &row, err) : STATUS_OK;
    if (status != STATUS_OK)
        return error_prefix(err, status, "sizes of stored chunks: ");
    *ret_mean_bytes = row.mean_bytes;
    *ret_cost_bytes = row.mean_bytes ? stored_rows_row_cost(row.mean_bytes) / 20 * 21 : 0;
    return STATUS_OK;
}

/* Settles counts and page size. */
static enum status lay_out(struct stored_rows *rows, uint64_t memory_bytes, uint64_t mean_row_bytes,
                           uint64_t row_limit, struct error *err)
{
    uint64_t expected = memory_bytes / stored_rows_row_cost(mean_row_bytes);
    uint64_t entries = min_u64(min_u64(row_limit, expected * ENTRIES_PER_ROW), INT32_MAX);
    uint64_t left = memory_bytes - entries * ENTRY_BYTES;
    uint32_t page_bytes = page_bytes_for(mean_row_bytes);
    uint64_t pages = left / (page_bytes + sizeof(int32_t)) / rows->arena.numa_count;
    if (entries == 0 || pages == 0)
        return error_set(err, STATUS_INVALID,
                         "%s for rows of %s kept as stored: there is no room for even one",
                         size_format(memory_bytes).text, size_format(mean_row_bytes).text);
    while (pages * rows->arena.numa_count > INT32_MAX) {
        pages /= 2;
        page_bytes *= 2;
    }
    rows->most_entries = (uint32_t)entries;
    rows->arena.purpose = "rows kept as stored";
    rows->arena.page_count = (uint32_t)pages * rows->arena.numa_count;
    rows->arena.page_bytes = page_bytes;
    return STATUS_OK;
}

/* Making and freeing
 * ---------------------------------------------------------------------------------------------- */

static enum status make_entries(struct stored_rows *rows, struct error *err)
{
    enum status status = row_index_init(&rows->index, rows->most_entries, err);
    if (status != STATUS_OK)
        return status;
    rows->entries = malloc(rows->most_entries * sizeof *rows->entries);
    if (!rows->entries)
        return error_set(err, STATUS_NO_MEMORY, "table of %u rows kept as stored",
                         rows->most_entries);
    for (uint32_t i = 0; i < rows->most_entries; i++)
        rows->entries[i] = (struct entry){.first_page = NO_PAGE};
    return STATUS_OK;
}

enum status stored_rows_new(struct pool *pool, uint64_t memory_bytes, uint64_t mean_row_bytes,
                            uint64_t row_limit, struct stored_rows **ret_rows, struct error *err)
{
    struct stored_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return error_set(err, STATUS_NO_MEMORY, "rows kept as stored: out of memory");
    rows->arena.numa_count = pool_placement(pool)->numa_count;
    enum status status = lay_out(rows, memory_bytes, mean_row_bytes, row_limit, err);
    if (status == STATUS_OK)
        status = make_entries(rows, err);
    if (status == STATUS_OK)
        status = page_arena_init(&rows->arena, err);
    if (status != STATUS_OK) {
        stored_rows_free(rows);
        return status;
    }
    if ((errno = page_arena_populate(&rows->arena, pool))) {
        status = error_set_errno(err, STATUS_NO_MEMORY, "rows kept as stored: %s",
                                 size_format(memory_bytes).text);
        stored_rows_free(rows);
        return status;
    }
    *ret_rows = rows;
    return STATUS_OK;
}

void stored_rows_free(struct stored_rows *rows)
{
    if (!rows)
        return;
    page_arena_done(&rows->arena);
    row_index_done(&rows->index);
    free(rows->entries);
    free(rows);
}

/* The owner's side
 * ---------------------------------------------------------------------------------------------- */

bool stored_rows_keep(struct stored_rows *rows, uint64_t row)
{
    if (row_index_find(&rows->index, row) != ROW_NONE)
        return true;
    if (rows->entry_count == rows->most_entries)
        return false;
    row_index_add(&rows->index, row, (int32_t)rows->entry_count++);
    return true;
}

bool stored_rows_has(const struct stored_rows *rows, uint64_t row)
{
    int32_t index = row_index_find(&rows->index, row);
    return index != ROW_NONE && rows->entries[index].state == ENTRY_RECORDED;
}

void stored_rows_stats(const struct stored_rows *rows, struct stored_rows_stats *ret_stats)
{
    uint64_t pages = rows->arena.page_count;
    uint64_t used = pages - page_arena_free_count(&rows->arena);
    *ret_stats = (struct stored_rows_stats){.arena_bytes = pages * rows->arena.page_bytes,
                                            .used_bytes = used * rows->arena.page_bytes,
                                            .recorded_rows = rows->recorded_rows,
                                            .played_count = rows->played_count,
                                            .full_count = rows->full_count};
}

int32_t stored_rows_find(const struct stored_rows *rows, uint64_t row)
{
    int32_t index = row_index_find(&rows->index, row);
    return index == ROW_NONE ? STORED_ROWS_NONE : index;
}
