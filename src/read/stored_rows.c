/* See stored_rows.h and stored_rows_internal.h: entries, and which row has an entry. */
#include "read/stored_rows_internal.h"

#include "base/number.h"
#include "base/size.h"

#include <assert.h>
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
    rows->entry_count = (uint32_t)entries;
    rows->arena.purpose = "rows kept as stored";
    rows->arena.page_count = (uint32_t)pages * rows->arena.numa_count;
    rows->arena.page_bytes = page_bytes;
    return STATUS_OK;
}

/* Entries
 * ---------------------------------------------------------------------------------------------- */

static int32_t take_entry(struct stored_rows *rows)
{
    pthread_mutex_lock(&rows->entry_mutex);
    int32_t index = rows->first_free_entry;
    if (index != STORED_ROWS_NONE)
        rows->first_free_entry = rows->entries[index].next_free;
    pthread_mutex_unlock(&rows->entry_mutex);
    return index;
}

/* One holder lets go. */
void stored_rows_let_go(struct stored_rows *rows, int32_t index)
{
    struct entry *entry = &rows->entries[index];
    uint32_t before = atomic_fetch_sub(&entry->holders, 1);
    assert(before > 0);
    if (before > 1)
        return;
    if (entry->state == ENTRY_RECORDED)
        rows->recorded_rows--;
    page_arena_free(&rows->arena, entry->first_page);
    pthread_mutex_lock(&rows->entry_mutex);
    entry->next_free = rows->first_free_entry;
    rows->first_free_entry = index;
    pthread_mutex_unlock(&rows->entry_mutex);
}

/* Making and freeing
 * ---------------------------------------------------------------------------------------------- */

static enum status make_entries(struct stored_rows *rows, struct error *err)
{
    enum status status = row_index_init(&rows->index, rows->entry_count, err);
    if (status)
        return status;
    rows->entries = malloc(rows->entry_count * sizeof *rows->entries);
    if (!rows->entries)
        return error_set(err, STATUS_NO_MEMORY, "table of %u rows kept as stored",
                         rows->entry_count);
    rows->first_free_entry = STORED_ROWS_NONE;
    for (uint32_t i = rows->entry_count; i-- > 0;) {
        rows->entries[i] = (struct entry){.next_free = rows->first_free_entry};
        rows->first_free_entry = (int32_t)i;
    }
    return STATUS_OK;
}

enum status stored_rows_new(struct pool *pool, uint64_t memory_bytes, uint64_t mean_row_bytes,
                            uint64_t row_limit, struct stored_rows **ret_rows, struct error *err)
{
    struct stored_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return error_set(err, STATUS_NO_MEMORY, "rows kept as stored: out of memory");
    pthread_mutex_init(&rows->entry_mutex, NULL);
    rows->arena.numa_count = pool_placement(pool)->numa_count;
    enum status status = lay_out(rows, memory_bytes, mean_row_bytes, row_limit, err);
    if (!status)
        status = make_entries(rows, err);
    if (!status)
        status = page_arena_init(&rows->arena, err);
    if (status) {
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
    pthread_mutex_destroy(&rows->entry_mutex);
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
    int32_t index = take_entry(rows);
    if (index == STORED_ROWS_NONE)
        return false;
    struct entry *entry = &rows->entries[index];
    entry->state = ENTRY_ASKED;
    entry->holders = 1;
    entry->first_page = NO_PAGE;
    entry->page_count = 0;
    row_index_add(&rows->index, row, index);
    return true;
}

void stored_rows_drop(struct stored_rows *rows, uint64_t row)
{
    int32_t index = row_index_find(&rows->index, row);
    if (index == ROW_NONE)
        return;
    row_index_remove(&rows->index, row);
    stored_rows_let_go(rows, index);
}

static const struct entry *recorded_entry(const struct stored_rows *rows, uint64_t row)
{
    int32_t index = row_index_find(&rows->index, row);
    if (index == ROW_NONE)
        return NULL;
    const struct entry *entry = &rows->entries[index];
    return entry->state == ENTRY_RECORDED ? entry : NULL;
}

bool stored_rows_has(const struct stored_rows *rows, uint64_t row)
{
    return recorded_entry(rows, row) != NULL;
}

bool stored_rows_is_asked(const struct stored_rows *rows, uint64_t row)
{
    return row_index_find(&rows->index, row) != ROW_NONE;
}

uint64_t stored_rows_row_bytes(const struct stored_rows *rows, uint64_t row)
{
    const struct entry *entry = recorded_entry(rows, row);
    return entry ? entry->page_count * rows->arena.page_bytes : 0;
}

void stored_rows_stats(const struct stored_rows *rows, struct stored_rows_stats *ret_stats)
{
    uint64_t pages = rows->arena.page_count;
    uint64_t used = pages - page_arena_free_count(&rows->arena);
    *ret_stats = (struct stored_rows_stats){.arena_bytes = pages * rows->arena.page_bytes,
                                            .used_bytes = used * rows->arena.page_bytes,
                                            .recorded_rows = rows->recorded_rows,
                                            .recorded_count = rows->recorded_count,
                                            .played_count = rows->played_count,
                                            .full_count = rows->full_count};
}

int32_t stored_rows_claim(struct stored_rows *rows, uint64_t row)
{
    int32_t index = row_index_find(&rows->index, row);
    if (index == ROW_NONE)
        return STORED_ROWS_NONE;
    uint32_t before = atomic_fetch_add(&rows->entries[index].holders, 1);
    assert(before == 1);
    (void)before;
    return index;
}

void stored_rows_cancel(struct stored_rows *rows, int32_t entry)
{
    stored_rows_let_go(rows, entry);
}
