/* See row_store.h and row_store_internal.h: a row store's buffers, and what becomes of them. */
#include "read/row_store_internal.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct error no_memory_error = {
    .status = STATUS_NO_MEMORY,
    .rank = -1,
    .message = "reading a row failed, and there is no memory left to say why",
};

static void divide_buffers(struct row_store *store)
{
    enum { ROWS_A_WORKER = 2 };
    const struct placement *placement = pool_placement(store->pool);
    uint64_t count = store->buffer_count, regions = store->region_count;
    for (uint32_t n = 0; n < regions; n++) {
        uint32_t first = (uint32_t)(count * n / regions);
        store->regions[n] =
            (struct region){.first_buffer = first,
                            .buffer_count = (uint32_t)(count * (n + 1) / regions) - first,
                            .first_free = ROW_NONE};
    }
    for (uint32_t i = 0; i < placement->worker_count; i++)
        store->regions[placement->workers[i].numa].enough += ROWS_A_WORKER;
}

static enum status map_region(struct row_store *store, uint32_t numa, struct error *err)
{
    const struct region *region = &store->regions[numa];
    if (region->buffer_count == 0)
        return STATUS_OK;
    void *memory;
    size_t bytes = region->buffer_count * store->row_bytes;
    enum status status = memory_map(bytes, "row store", &memory, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "%u of %u row buffer%s of %s: ", region->buffer_count,
                            store->buffer_count, count_plural(store->buffer_count),
                            size_format(store->row_bytes).text);
    store->memory[numa] = (struct pool_memory){memory, bytes, numa};
    return STATUS_OK;
}

static void push_free(struct row_store *store, int32_t buffer)
{
    struct region *region = &store->regions[row_store_numa(store, buffer)];
    store->buffers[buffer].next_free = region->first_free;
    region->first_free = buffer;
    region->free_count++;
}

static enum status allocate(struct row_store *store, struct error *err)
{
    enum status status = row_index_init(&store->index, store->buffer_count, err);
    if (status != STATUS_OK)
        return status;
    size_t bytes = store->buffer_count * sizeof *store->buffers;
    store->buffers = aligned_alloc(MEMORY_LINE_BYTES, bytes);
    if (store->buffers)
        memset(store->buffers, 0, bytes);
    size_t regions_bytes = store->region_count * sizeof *store->regions;
    store->regions = aligned_alloc(MEMORY_LINE_BYTES, regions_bytes);
    if (store->regions)
        memset(store->regions, 0, regions_bytes);
    store->memory = calloc(store->region_count, sizeof *store->memory);
    if (!store->buffers || !store->regions || !store->memory)
        return error_set(err, STATUS_NO_MEMORY, "row store of %u buffer%s: out of memory",
                         store->buffer_count, count_plural(store->buffer_count));
    divide_buffers(store);
    for (uint32_t n = 0; n < store->region_count && status == STATUS_OK; n++) {
        status = map_region(store, n, err);
        const struct region *region = &store->regions[n];
        for (uint32_t i = region->buffer_count; status == STATUS_OK && i-- > 0;) {
            int32_t buffer = (int32_t)(region->first_buffer + i);
            push_free(store, buffer); /* last one first, so that the first is taken first */
        }
    }
    return status;
}

enum status row_store_new(struct pool *pool, size_t row_bytes, uint32_t buffer_count,
                          struct row_store **ret_store, struct error *err)
{
    uint64_t total_bytes;
    if (buffer_count == 0 || buffer_count > INT32_MAX || row_bytes == 0 ||
        row_bytes % MEMORY_LINE_BYTES != 0 || !size_multiply(row_bytes, buffer_count, &total_bytes))
        return error_set(err, STATUS_INVALID,
                         "row store of %u buffers of %zu bytes: these sizes are not possible",
                         buffer_count, row_bytes);
    struct row_store *store = aligned_alloc(MEMORY_LINE_BYTES, sizeof *store);
    if (!store)
        return error_set(err, STATUS_NO_MEMORY, "row store: out of memory");
    memset(store, 0, sizeof *store);
    store->pool = pool;
    store->row_bytes = row_bytes;
    store->buffer_count = buffer_count;
    store->region_count = pool_placement(pool)->numa_count;
    store->ended = ROW_NONE;
    store->fetched = ROW_NONE;
    enum status status = allocate(store, err);
    if (status != STATUS_OK) {
        row_store_free(store);
        return status;
    }
    if ((errno = pool_populate(pool, store->memory, store->region_count, NULL, NULL))) {
        status = error_set_errno(err, STATUS_NO_MEMORY, "row store of %s",
                                 size_format(total_bytes).text);
        row_store_free(store);
        return status;
    }
    *ret_store = store;
    return STATUS_OK;
}

enum status row_store_add_pages(struct row_store *store, const struct row_paging *paging,
                                struct error *err)
{
    assert(!store->pages);
    return row_pages_new(store->pool, paging, store->buffer_count, &store->pages, err);
}

void row_store_free(struct row_store *store)
{
    if (!store)
        return;
    row_pages_free(store->pages);
    for (uint32_t i = 0; store->buffers && i < store->buffer_count; i++)
        free(store->buffers[i].error);
    for (uint32_t n = 0; store->memory && n < store->region_count; n++)
        memory_unmap(store->memory[n].start, store->memory[n].bytes);
    free(store->memory);
    free(store->regions);
    free(store->buffers);
    row_index_done(&store->index);
    free(store);
}

int32_t row_store_find(const struct row_store *store, uint64_t row)
{
    return row_index_find(&store->index, row);
}

/* The one to read the next row: that of `numa` if it may; else fewest rows loading, then most
 * buffers free; NULL when all are full. */
static struct region *choose_region(struct row_store *store, uint32_t numa)
{
    struct region *best = NULL;
    uint32_t best_loading = 0;
    for (uint32_t n = 0; n < store->region_count; n++) {
        struct region *region = &store->regions[n];
        uint32_t loading = region->loading_count;
        if (region->free_count == 0)
            continue;
        if (!best || loading < best_loading ||
            (loading == best_loading && region->free_count > best->free_count)) {
            best = region;
            best_loading = loading;
        }
    }
    if (!best || numa == ROW_ANY_NUMA)
        return best;
    struct region *own = &store->regions[numa];
    bool may = own->loading_count < own->enough || best_loading >= best->enough;
    return own->free_count > 0 && may ? own : best;
}

int32_t row_store_claim(struct row_store *store, uint64_t row, uint32_t numa)
{
    struct region *region = choose_region(store, numa);
    if (!region)
        return ROW_NONE;
    int32_t index = region->first_free;
    struct buffer *buffer = &store->buffers[index];
    if (store->pages && !row_pages_take(store->pages, index, row_store_numa(store, index), row))
        return ROW_NONE;
    region->first_free = buffer->next_free;
    region->free_count--;
    region->loading_count++;
    buffer->row = row;
    buffer->kept = false;
    buffer->incomplete = false;
    buffer->expected = false;
    atomic_store(&buffer->state, ROW_LOADING);
    row_index_add(&store->index, row, index);
    return index;
}

void row_store_expect(struct row_store *store, int32_t buffer, uint64_t uses)
{
    if (uses == 0)
        return;
    store->buffers[buffer].pending += uses;
    store->buffers[buffer].expected = true;
}

/* Has the owner look at the buffer. */
static void push_ended(struct row_store *store, int32_t index)
{
    struct buffer *buffer = &store->buffers[index];
    if (atomic_exchange(&buffer->queued, true))
        return;
    int32_t top = store->ended;
    do
        buffer->next_ended = top;
    while (!atomic_compare_exchange_weak(&store->ended, &top, index));
}

/* Whether a buffer that is loaded is kept. */
static bool stays(const struct buffer *buffer)
{
    return buffer->kept && buffer->state == ROW_READY && !buffer->incomplete;
}

void row_store_used(struct row_store *store, int32_t index, uint64_t count)
{
    struct buffer *buffer = &store->buffers[index];
    uint64_t before = atomic_fetch_sub(&buffer->pending, count);
    assert(before >= count);
    if (count > 0 && before == count && !stays(buffer))
        push_ended(store, index);
}

static void release(struct row_store *store, int32_t index)
{
    struct buffer *buffer = &store->buffers[index];
    row_index_remove(&store->index, buffer->row);
    if (store->pages)
        row_pages_give_back(store->pages, index);
    store->kept_count -= buffer->kept;
    buffer->kept = false;
    free(buffer->error);
    buffer->error = NULL;
    atomic_store(&buffer->state, ROW_FREE);
    push_free(store, index);
}

void row_store_keep(struct row_store *store, int32_t buffer)
{
    store->kept_count += !store->buffers[buffer].kept;
    store->buffers[buffer].kept = true;
}

uint32_t row_store_kept_count(const struct row_store *store)
{
    return store->kept_count;
}

uint32_t row_store_collect(struct row_store *store)
{
    if (store->stage)
        row_load_submit_fetched(store);
    if (store->ended == ROW_NONE)
        return 0;
    uint32_t freed = 0;
    int32_t next;
    for (int32_t i = atomic_exchange(&store->ended, ROW_NONE); i != ROW_NONE; i = next) {
        struct buffer *buffer = &store->buffers[i];
        next = buffer->next_ended; /* before `queued` is cleared: then it may be pushed again */
        buffer->queued = false;
        bool over = buffer->pending == 0 && buffer->expected;
        if (!over || buffer->state == ROW_FREE || buffer->state == ROW_LOADING || stays(buffer))
            continue;
        release(store, i);
        freed++;
    }
    return freed;
}

void row_store_drop(struct row_store *store, int32_t index)
{
    struct buffer *buffer = &store->buffers[index];
    assert(buffer->state != ROW_FREE);
    if (buffer->state == ROW_LOADING)
        store->regions[row_store_numa(store, index)].loading_count--;
    buffer->pending = 0;
    release(store, index);
}

void row_store_forget_uses(struct row_store *store)
{
    for (uint32_t i = 0; i < store->buffer_count; i++) {
        struct buffer *buffer = &store->buffers[i];
        int state = buffer->state;
        if (state == ROW_FREE)
            continue;
        buffer->pending = 0;
        buffer->expected = true;
        if (state != ROW_LOADING && !stays(buffer))
            release(store, (int32_t)i);
    }
}

/* The load is over. The owner is to look: nobody may want the row any more. */
static void set_loaded(struct row_store *store, int32_t index, enum row_state state)
{
    struct buffer *buffer = &store->buffers[index];
    store->regions[row_store_numa(store, index)].loading_count--;
    atomic_store(&buffer->state, state);
    push_ended(store, index);
}

void row_store_loaded(struct row_store *store, int32_t index)
{
    set_loaded(store, index, ROW_READY);
}

void row_store_loaded_incomplete(struct row_store *store, int32_t index)
{
    store->buffers[index].incomplete = true;
    set_loaded(store, index, ROW_READY);
}

void row_store_failed(struct row_store *store, int32_t index, const struct error *err)
{
    struct buffer *buffer = &store->buffers[index];
    buffer->error = malloc(sizeof *buffer->error);
    if (buffer->error)
        *buffer->error = *err;
    set_loaded(store, index, ROW_FAILED);
}

bool row_store_is_whole(const struct row_store *store, int32_t buffer)
{
    return row_store_state(store, buffer) == ROW_READY && !store->buffers[buffer].incomplete;
}

enum row_state row_store_state(const struct row_store *store, int32_t buffer)
{
    return (enum row_state)atomic_load_explicit(&store->buffers[buffer].state,
                                                memory_order_acquire);
}

const struct error *row_store_error(const struct row_store *store, int32_t buffer)
{
    const struct error *error = store->buffers[buffer].error;
    return error ? error : &no_memory_error;
}

/* Without a look at the buffer, which is in no cache. */
uint32_t row_store_numa(const struct row_store *store, int32_t buffer)
{
    uint32_t numa = store->region_count - 1;
    while ((uint32_t)buffer < store->regions[numa].first_buffer)
        numa--;
    return numa;
}

unsigned char *row_store_data(const struct row_store *store, int32_t buffer)
{
    uint32_t numa = row_store_numa(store, buffer);
    uint32_t index = (uint32_t)buffer - store->regions[numa].first_buffer;
    return store->memory[numa].start + index * store->row_bytes;
}

void row_store_prefetch(const struct row_store *store, int32_t buffer)
{
    __builtin_prefetch(&store->buffers[buffer]);
}

static unsigned char *page_at(const struct dataset_pages *pages, uint32_t page)
{
    const struct row_store_pages *own = (const struct row_store_pages *)pages;
    return row_pages_at(own->of, own->buffer, page);
}

const struct dataset_pages *row_store_pages(const struct row_store *store, int32_t buffer,
                                            struct row_store_pages *ret_pages)
{
    if (!store->pages)
        return NULL;
    *ret_pages = (struct row_store_pages){.pages = {page_at}, .of = store->pages, .buffer = buffer};
    return &ret_pages->pages;
}

uint64_t row_store_row(const struct row_store *store, int32_t buffer)
{
    return store->buffers[buffer].row;
}

uint32_t row_store_free_count(const struct row_store *store)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < store->region_count; n++)
        count += store->regions[n].free_count;
    return count;
}
