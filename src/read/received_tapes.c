/* See received_tapes.h. A buffer is a page of an arena, and a tape a chain of one page. */
#include "read/received_tapes.h"

#include "base/number.h"
#include "base/size.h"
#include "read/stored_rows_internal.h"

#include <errno.h>
#include <stdlib.h>

struct received_tapes {
    struct page_arena arena;
};

enum status received_tapes_new(struct pool *pool, uint32_t count, uint32_t buffer_bytes,
                               struct received_tapes **ret_tapes, struct error *err)
{
    struct received_tapes *tapes = calloc(1, sizeof *tapes);
    if (!tapes)
        return error_set(err, STATUS_NO_MEMORY, "tapes of other readers: out of memory");
    uint32_t numa_count = pool_placement(pool)->numa_count;
    tapes->arena.purpose = "tapes of other readers";
    tapes->arena.page_bytes = buffer_bytes;
    tapes->arena.numa_count = min_u32(count, numa_count);
    tapes->arena.page_count = count / tapes->arena.numa_count * tapes->arena.numa_count;
    enum status status = page_arena_init(&tapes->arena, err);
    if (!status && (errno = page_arena_populate(&tapes->arena, pool)))
        status =
            error_set_errno(err, STATUS_NO_MEMORY, "%u buffers of %s for tapes of other readers",
                            count, size_format(buffer_bytes).text);
    if (status) {
        received_tapes_free(tapes);
        return status;
    }
    *ret_tapes = tapes;
    return STATUS_OK;
}

void received_tapes_free(struct received_tapes *tapes)
{
    if (!tapes)
        return;
    page_arena_done(&tapes->arena);
    free(tapes);
}

uint32_t received_tapes_count(const struct received_tapes *tapes)
{
    return tapes->arena.page_count;
}

int32_t received_tapes_take(struct received_tapes *tapes, uint32_t numa)
{
    int32_t page;
    return page_arena_take(&tapes->arena, numa, 1, &page) ? page : RECEIVED_NONE;
}

bool received_tapes_has_free(const struct received_tapes *tapes)
{
    return page_arena_free_count(&tapes->arena) > 0;
}

unsigned char *received_tapes_memory(const struct received_tapes *tapes, int32_t buffer)
{
    return page_arena_page(&tapes->arena, buffer);
}

void received_tapes_give_back(struct received_tapes *tapes, int32_t buffer)
{
    page_arena_free(&tapes->arena, buffer);
}

void received_tapes_start(struct received_tapes *tapes, int32_t buffer, uint64_t bytes,
                          struct stored_rows_pass *ret_pass)
{
    stored_rows_play(&tapes->arena, buffer, bytes, ret_pass);
}
