/* See stored_rows.h, the worker's side: one load's pass over a tape, which records a row's chunks,
 * or plays them.
 *
 * A tape is a stream of bytes over a chain of pages. For each chunk the stream has the chunk's size
 * in 32 bits (or MISSING, or a mark for a damaged chunk), then the chunk's bytes.
 */
#include "read/stored_rows_internal.h"

#include "base/size.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* What stands instead of a size: a chunk that is not there, or is damaged. */
static const uint32_t missing = UINT32_MAX, damaged = UINT32_MAX - 1;

static struct stored_rows_pass *pass_of(struct zarr_tape *tape)
{
    return (struct stored_rows_pass *)((char *)tape - offsetof(struct stored_rows_pass, tape));
}

/* The next run of the tape, up to `size` bytes and to the end of a page. There must be one. */
static unsigned char *next_run(struct stored_rows_pass *pass, size_t size, size_t *ret_size)
{
    const struct page_arena *arena = pass->arena;
    if (pass->at == arena->page_bytes) {
        pass->page = pass->page == NO_PAGE ? pass->first_page : arena->next_page[pass->page];
        pass->at = 0;
    }
    assert(pass->page != NO_PAGE);
    unsigned char *run = page_arena_page(arena, pass->page) + pass->at;
    size_t room = arena->page_bytes - pass->at;
    *ret_size = size < room ? size : room;
    pass->at += *ret_size;
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

/* Whether the next `size` bytes of the tape lie in one run, on pages that follow one another in
 * memory, too. */
static bool is_one_run(const struct stored_rows_pass *pass, size_t size)
{
    const struct page_arena *arena = pass->arena;
    size_t room = arena->page_bytes - pass->at;
    for (int32_t page = pass->page; size > room; room += arena->page_bytes, page++)
        if (arena->next_page[page] != page + 1 || (uint32_t)(page + 1) % arena->numa_pages == 0)
            return false;
    return true;
}

/* The next `size` bytes of the tape, which lie in one run. NULL at the end of the tape. */
static const void *lend_bytes(struct stored_rows_pass *pass, size_t size)
{
    const void *first = NULL;
    if (size > pass->bytes)
        return NULL;
    pass->bytes -= size;
    do {
        size_t run_bytes;
        const void *run = next_run(pass, size, &run_bytes);
        first = first ? first : run;
        size -= run_bytes;
    } while (size > 0);
    return first;
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
    struct page_arena *arena = pass->arena;
    size_t room = arena->page_bytes - pass->at;
    if (size <= room)
        return true;
    uint64_t count = size_divide_up(size - room, arena->page_bytes);
    uint64_t limit = arena->page_count;
    int32_t first;
    if (count > limit || !page_arena_take(arena, pass->numa, (uint32_t)count, &first))
        return false;
    if (pass->page == NO_PAGE)
        pass->first_page = first;
    else
        arena->next_page[pass->page] = first;
    return true;
}

static void record(struct zarr_tape *tape, enum status failure, const void *bytes, size_t size)
{
    struct stored_rows_pass *pass = pass_of(tape);
    uint32_t mark = bytes ? (uint32_t)size : failure != STATUS_OK ? damaged : missing;
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

static bool play_bytes(struct stored_rows_pass *pass, void *buffer, const void **ret_lent,
                       size_t size)
{
    if (!ret_lent || size == 0 || !is_one_run(pass, size))
        return read_bytes(pass, buffer, size);
    *ret_lent = lend_bytes(pass, size);
    return *ret_lent != NULL;
}

static enum status play(struct zarr_tape *tape, void *buffer, size_t capacity,
                        const void **ret_lent, size_t *ret_size, struct error *err)
{
    struct stored_rows_pass *pass = pass_of(tape);
    uint32_t mark;
    if (!read_bytes(pass, &mark, sizeof mark))
        return error_set(err, STATUS_CORRUPT, "the row's stored bytes in memory end early");
    if (mark == missing)
        return error_set(err, STATUS_NOT_FOUND,
                         "there was no such chunk when the row was first read");
    if (mark == damaged)
        return error_set(err, STATUS_CORRUPT, "it was damaged when the row was first read");
    if (mark > capacity || !play_bytes(pass, buffer, ret_lent, mark))
        return error_set(err, STATUS_CORRUPT,
                         "the row's stored bytes in memory have %u for the chunk, at most %zu can "
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
                                  .arena = &rows->arena,
                                  .entry = index,
                                  .numa = numa,
                                  .first_page = recorded ? entry->first_page : NO_PAGE,
                                  .page = NO_PAGE,
                                  .at = rows->arena.page_bytes,
                                  .bytes = recorded ? entry->bytes : 0};
}

static void end_recording(struct stored_rows_pass *pass, bool loaded)
{
    struct stored_rows *rows = pass->rows;
    struct entry *entry = &rows->entries[pass->entry];
    if (!loaded || pass->full) {
        page_arena_free(&rows->arena, pass->first_page);
        rows->full_count += pass->full;
        return;
    }
    entry->first_page = pass->first_page;
    entry->bytes = pass->bytes;
    rows->recorded_rows++;
    entry->state = ENTRY_RECORDED;
}

void stored_rows_end(struct stored_rows_pass *pass, bool loaded)
{
    if (pass->tape.play)
        pass->rows->played_count++;
    else
        end_recording(pass, loaded);
}
