/* See stored_rows.h.
 *
 * A tape is a stream of bytes over a chain of pages: for each chunk its size in 32 bits (or
 * MISSING), then its bytes. Pages are numbered through all NUMA nodes, page p lying in NUMA node
 * p / numa_pages; each NUMA node has its free list under a mutex of its own, which is held for as
 * long as it takes to unlink the pages of one chunk.
 *
 * What is whose: the index from row to entry is the owner's. An entry's pages belong to the worker
 * that records them until it sets RECORDED (release), then to whoever holds the entry. `holders`
 * counts the owner (until it drops the row) and the load under way; the last one to let go frees
 * pages and entry, so that a row may be dropped at any time.
 */
#include "read/stored_rows.h"

#include "base/memory.h"
#include "base/size.h"
#include "read/row_index.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NO_PAGE = -1, MIN_PAGE_BYTES = 256, MAX_PAGE_BYTES = 65536, PAGES_PER_ROW = 16 };

/* What stands instead of a size: a chunk that is not there, or is damaged. */
static const uint32_t missing = UINT32_MAX, damaged = UINT32_MAX - 1;

enum entry_state { ENTRY_ASKED, ENTRY_RECORDED };

struct entry {
    _Atomic int state; /* enum entry_state */
    _Atomic uint32_t holders;
    int32_t first_page;
    int32_t next_free; /* valid while free */
    uint64_t page_count;
    uint64_t bytes; /* of the tape */
};

struct numa_node {
    pthread_mutex_t mutex;
    int32_t first_free;
    uint32_t free_count;
} __attribute__((aligned(MEMORY_LINE_BYTES)));

struct stored_rows {
    uint32_t page_bytes;
    uint32_t numa_count, numa_pages;
    struct numa_node *numa_nodes;
    struct pool_memory *memory; /* of each NUMA node */
    int32_t *next_page;         /* [numa_count * numa_pages]: of a chain or a free list */
    struct entry *entries;
    uint32_t entry_count;
    struct row_index index;
    pthread_mutex_t entry_mutex;
    int32_t first_free_entry;
    _Atomic uint64_t recorded_rows, recorded_count, played_count, full_count;
};

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
    uint64_t sizes = mean_row_bytes / 64 + sizeof missing; /* the chunks', at most */
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

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Settles counts and page size. */
static enum status lay_out(struct stored_rows *rows, uint64_t memory_bytes, uint64_t mean_row_bytes,
                           uint64_t row_limit, struct error *err)
{
    uint64_t expected = memory_bytes / stored_rows_row_cost(mean_row_bytes);
    uint64_t entries = smaller(smaller(row_limit, expected * ENTRIES_PER_ROW), INT32_MAX);
    uint64_t left = memory_bytes - entries * ENTRY_BYTES;
    uint32_t page_bytes = page_bytes_for(mean_row_bytes);
    uint64_t pages = left / (page_bytes + sizeof(int32_t)) / rows->numa_count;
    if (entries == 0 || pages == 0)
        return error_set(err, STATUS_INVALID,
                         "%s for rows of %s kept as stored: room for not even one",
                         size_format(memory_bytes).text, size_format(mean_row_bytes).text);
    while (pages * rows->numa_count > INT32_MAX) {
        pages /= 2;
        page_bytes *= 2;
    }
    rows->entry_count = (uint32_t)entries;
    rows->numa_pages = (uint32_t)pages;
    rows->page_bytes = page_bytes;
    return STATUS_OK;
}

static unsigned char *page_start(const struct stored_rows *rows, int32_t page)
{
    uint32_t numa = (uint32_t)page / rows->numa_pages;
    size_t index = (uint32_t)page % rows->numa_pages;
    return rows->memory[numa].start + index * rows->page_bytes;
}

/* Pages and entries
 * ---------------------------------------------------------------------------------------------- */

/* Takes up to `count` pages of a NUMA node to the front of the chain *first; returns how many. */
static uint32_t take_from(struct stored_rows *rows, uint32_t numa_index, uint32_t count,
                          int32_t *first)
{
    struct numa_node *numa = &rows->numa_nodes[numa_index];
    pthread_mutex_lock(&numa->mutex);
    if (count > numa->free_count)
        count = numa->free_count;
    for (uint32_t i = 0; i < count; i++) {
        int32_t page = numa->first_free;
        numa->first_free = rows->next_page[page];
        rows->next_page[page] = *first;
        *first = page;
    }
    numa->free_count -= count;
    pthread_mutex_unlock(&numa->mutex);
    return count;
}

/* Frees a chain, run by run of pages that lie in one NUMA node. */
static void free_pages(struct stored_rows *rows, int32_t page)
{
    while (page != NO_PAGE) {
        uint32_t index = (uint32_t)page / rows->numa_pages;
        struct numa_node *numa = &rows->numa_nodes[index];
        pthread_mutex_lock(&numa->mutex);
        while (page != NO_PAGE && (uint32_t)page / rows->numa_pages == index) {
            int32_t next = rows->next_page[page];
            rows->next_page[page] = numa->first_free;
            numa->first_free = page;
            numa->free_count++;
            page = next;
        }
        pthread_mutex_unlock(&numa->mutex);
    }
}

/* A chain of `count` pages, of `numa_index` first, then of the others; false if there are not as
 * many. */
static bool take_pages(struct stored_rows *rows, uint32_t numa_index, uint32_t count,
                       int32_t *ret_first)
{
    int32_t first = NO_PAGE;
    for (uint32_t i = 0; i < rows->numa_count && count > 0; i++)
        count -= take_from(rows, (numa_index + i) % rows->numa_count, count, &first);
    if (count > 0) {
        free_pages(rows, first);
        return false;
    }
    *ret_first = first;
    return true;
}

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
static void let_go(struct stored_rows *rows, int32_t index)
{
    struct entry *entry = &rows->entries[index];
    uint32_t before = atomic_fetch_sub(&entry->holders, 1);
    assert(before > 0);
    if (before > 1)
        return;
    if (entry->state == ENTRY_RECORDED)
        rows->recorded_rows--;
    free_pages(rows, entry->first_page);
    pthread_mutex_lock(&rows->entry_mutex);
    entry->next_free = rows->first_free_entry;
    rows->first_free_entry = index;
    pthread_mutex_unlock(&rows->entry_mutex);
}

/* Making and freeing
 * ---------------------------------------------------------------------------------------------- */

static enum status map_memory(struct stored_rows *rows, struct error *err)
{
    size_t bytes = (size_t)rows->numa_pages * rows->page_bytes;
    for (uint32_t n = 0; n < rows->numa_count; n++) {
        void *memory;
        enum status status = memory_map(bytes, "rows kept as stored", &memory, err);
        if (status)
            return status;
        rows->memory[n] = (struct pool_memory){memory, bytes, n};
    }
    return STATUS_OK;
}

static void link_pages(struct stored_rows *rows)
{
    for (uint32_t n = 0; n < rows->numa_count; n++) {
        struct numa_node *numa = &rows->numa_nodes[n];
        int32_t first = (int32_t)(n * rows->numa_pages);
        numa->first_free = NO_PAGE;
        numa->free_count = rows->numa_pages;
        for (uint32_t i = rows->numa_pages; i-- > 0;) {
            rows->next_page[first + (int32_t)i] = numa->first_free;
            numa->first_free = first + (int32_t)i;
        }
    }
    rows->first_free_entry = STORED_ROWS_NONE;
    for (uint32_t i = rows->entry_count; i-- > 0;) {
        rows->entries[i] = (struct entry){.next_free = rows->first_free_entry};
        rows->first_free_entry = (int32_t)i;
    }
}

/* Tables and pages, untouched. */
static enum status allocate(struct stored_rows *rows, struct error *err)
{
    uint32_t numa_count = rows->numa_count;
    size_t page_count = (size_t)numa_count * rows->numa_pages;
    enum status status = row_index_init(&rows->index, rows->entry_count, err);
    if (status)
        return status;
    rows->memory = calloc(numa_count, sizeof *rows->memory);
    rows->entries = malloc(rows->entry_count * sizeof *rows->entries);
    rows->next_page = malloc(page_count * sizeof *rows->next_page);
    if (!rows->memory || !rows->entries || !rows->next_page)
        return error_set(err, STATUS_NO_MEMORY, "tables of %zu pages and %u rows kept as stored",
                         page_count, rows->entry_count);
    return map_memory(rows, err);
}

static enum status make_numa_nodes(struct stored_rows *rows, struct error *err)
{
    size_t bytes = rows->numa_count * sizeof *rows->numa_nodes;
    rows->numa_nodes = aligned_alloc(MEMORY_LINE_BYTES, bytes);
    if (!rows->numa_nodes)
        return error_set(err, STATUS_NO_MEMORY, "rows kept as stored: out of memory");
    for (uint32_t n = 0; n < rows->numa_count; n++)
        pthread_mutex_init(&rows->numa_nodes[n].mutex, NULL);
    return STATUS_OK;
}

enum status stored_rows_new(struct pool *pool, uint64_t memory_bytes, uint64_t mean_row_bytes,
                            uint64_t row_limit, struct stored_rows **ret_rows, struct error *err)
{
    struct stored_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return error_set(err, STATUS_NO_MEMORY, "rows kept as stored: out of memory");
    pthread_mutex_init(&rows->entry_mutex, NULL);
    rows->numa_count = pool_placement(pool)->numa_count;
    enum status status = lay_out(rows, memory_bytes, mean_row_bytes, row_limit, err);
    if (!status)
        status = make_numa_nodes(rows, err);
    if (!status)
        status = allocate(rows, err);
    if (status) {
        stored_rows_free(rows);
        return status;
    }
    if ((errno = pool_populate(pool, rows->memory, rows->numa_count, NULL, NULL))) {
        status = error_set_errno(err, STATUS_NO_MEMORY, "rows kept as stored: %s",
                                 size_format(memory_bytes).text);
        stored_rows_free(rows);
        return status;
    }
    link_pages(rows);
    *ret_rows = rows;
    return STATUS_OK;
}

void stored_rows_free(struct stored_rows *rows)
{
    if (!rows)
        return;
    for (uint32_t n = 0; rows->memory && n < rows->numa_count; n++)
        memory_unmap(rows->memory[n].start, rows->memory[n].bytes);
    for (uint32_t n = 0; rows->numa_nodes && n < rows->numa_count; n++)
        pthread_mutex_destroy(&rows->numa_nodes[n].mutex);
    pthread_mutex_destroy(&rows->entry_mutex);
    row_index_done(&rows->index);
    free(rows->next_page);
    free(rows->entries);
    free(rows->memory);
    free(rows->numa_nodes);
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
    let_go(rows, index);
}

/* The entry of a recorded row, NULL if it is not recorded. */
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
    return entry ? entry->page_count * rows->page_bytes : 0;
}

void stored_rows_stats(const struct stored_rows *rows, struct stored_rows_stats *ret_stats)
{
    uint64_t free_pages_now = 0;
    for (uint32_t n = 0; n < rows->numa_count; n++) {
        struct numa_node *numa = &rows->numa_nodes[n];
        pthread_mutex_lock(&numa->mutex);
        free_pages_now += numa->free_count;
        pthread_mutex_unlock(&numa->mutex);
    }
    uint64_t pages = (uint64_t)rows->numa_count * rows->numa_pages;
    *ret_stats =
        (struct stored_rows_stats){.arena_bytes = pages * rows->page_bytes,
                                   .used_bytes = (pages - free_pages_now) * rows->page_bytes,
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
    let_go(rows, entry);
}

/* The worker's side
 * ---------------------------------------------------------------------------------------------- */

static struct stored_rows_pass *pass_of(struct zarr_tape *tape)
{
    return (struct stored_rows_pass *)((char *)tape - offsetof(struct stored_rows_pass, tape));
}

/* The next run of the tape, up to `size` bytes and to the end of a page. There must be one. */
static unsigned char *next_run(struct stored_rows_pass *pass, size_t size, size_t *ret_size)
{
    const struct stored_rows *rows = pass->rows;
    if (pass->at == rows->page_bytes) {
        pass->page = pass->page == NO_PAGE ? pass->first_page : rows->next_page[pass->page];
        pass->at = 0;
    }
    assert(pass->page != NO_PAGE);
    unsigned char *run = page_start(rows, pass->page) + pass->at;
    size_t room = rows->page_bytes - pass->at;
    *ret_size = size < room ? size : room;
    pass->at += (uint32_t)*ret_size;
    return run;
}

static void write_bytes(struct stored_rows_pass *pass, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    pass->bytes += size;
    while (size > 0) {
        size_t run_bytes;
        unsigned char *run = next_run(pass, size, &run_bytes);
        memcpy(run, from, run_bytes);
        from += run_bytes;
        size -= run_bytes;
    }
}

/* False at the end of the tape. */
static bool read_bytes(struct stored_rows_pass *pass, void *bytes, size_t size)
{
    unsigned char *to = bytes;
    if (size > pass->bytes)
        return false;
    pass->bytes -= size;
    while (size > 0) {
        size_t run_bytes;
        const unsigned char *run = next_run(pass, size, &run_bytes);
        memcpy(to, run, run_bytes);
        to += run_bytes;
        size -= run_bytes;
    }
    return true;
}

/* Appends the pages that `size` more bytes need; false when the arena has not as many. */
static bool make_room(struct stored_rows_pass *pass, size_t size)
{
    struct stored_rows *rows = pass->rows;
    size_t room = rows->page_bytes - pass->at;
    if (size <= room)
        return true;
    uint64_t count = size_divide_up(size - room, rows->page_bytes);
    uint64_t limit = (uint64_t)rows->numa_count * rows->numa_pages;
    int32_t first;
    if (count > limit || !take_pages(rows, pass->numa, (uint32_t)count, &first))
        return false;
    if (pass->page == NO_PAGE)
        pass->first_page = first;
    else
        rows->next_page[pass->page] = first;
    pass->page_count += count;
    return true;
}

static void record(struct zarr_tape *tape, enum status failure, const void *bytes, size_t size)
{
    struct stored_rows_pass *pass = pass_of(tape);
    uint32_t mark = bytes ? (uint32_t)size : failure ? damaged : missing;
    if (pass->full)
        return;
    if ((bytes && size >= damaged) || !make_room(pass, sizeof mark + size)) {
        pass->full = true;
        return;
    }
    write_bytes(pass, &mark, sizeof mark);
    if (bytes)
        write_bytes(pass, bytes, size);
}

static enum status play(struct zarr_tape *tape, void *buffer, size_t capacity, size_t *ret_size,
                        struct error *err)
{
    struct stored_rows_pass *pass = pass_of(tape);
    uint32_t mark;
    if (!read_bytes(pass, &mark, sizeof mark))
        return error_set(err, STATUS_CORRUPT, "the row's stored bytes in memory end early");
    if (mark == missing)
        return error_set(err, STATUS_NOT_FOUND, "no such chunk when the row was read");
    if (mark == damaged)
        return error_set(err, STATUS_CORRUPT, "it was damaged when the row was first read");
    if (mark > capacity || !read_bytes(pass, buffer, mark))
        return error_set(err, STATUS_CORRUPT,
                         "the row's stored bytes in memory give %u for the chunk, at most %zu can "
                         "be right",
                         mark, capacity);
    *ret_size = mark;
    return STATUS_OK;
}

void stored_rows_start(struct stored_rows *rows, int32_t index, uint32_t numa,
                       struct stored_rows_pass *ret_pass)
{
    const struct entry *entry = &rows->entries[index];
    bool recorded = entry->state == ENTRY_RECORDED;
    *ret_pass =
        (struct stored_rows_pass){.tape = {.play = recorded ? play : NULL, .record = record},
                                  .rows = rows,
                                  .entry = index,
                                  .numa = numa,
                                  .first_page = recorded ? entry->first_page : NO_PAGE,
                                  .page = NO_PAGE,
                                  .at = rows->page_bytes,
                                  .bytes = recorded ? entry->bytes : 0};
}

static void end_recording(struct stored_rows_pass *pass, bool loaded)
{
    struct stored_rows *rows = pass->rows;
    struct entry *entry = &rows->entries[pass->entry];
    if (!loaded || pass->full) {
        free_pages(rows, pass->first_page);
        rows->full_count += pass->full;
        return;
    }
    entry->first_page = pass->first_page;
    entry->page_count = pass->page_count;
    entry->bytes = pass->bytes;
    rows->recorded_count++;
    rows->recorded_rows++;
    entry->state = ENTRY_RECORDED;
}

void stored_rows_end(struct stored_rows_pass *pass, bool loaded)
{
    if (pass->tape.play)
        pass->rows->played_count++;
    else
        end_recording(pass, loaded);
    let_go(pass->rows, pass->entry);
}
