/* See arena.h. */
#include "codec/arena.h"

#include "base/memory.h"

enum status arena_init(struct arena *arena, size_t size, const char *what, struct error *err)
{
    void *memory = NULL;
    enum status status = memory_map(size, what, &memory, err);
    if (status != STATUS_OK)
        return status;
    *arena = (struct arena){.memory = memory, .size = size};
    return STATUS_OK;
}

void arena_done(struct arena *arena)
{
    memory_unmap(arena->memory, arena->size);
}

void arena_reset(struct arena *arena)
{
    arena->used = 0;
}

void *arena_take(struct arena *arena, size_t size)
{
    if (size > arena->size - arena->used)
        return NULL;
    size_t rounded = (size + MEMORY_LINE_BYTES - 1) / MEMORY_LINE_BYTES * MEMORY_LINE_BYTES;
    uint8_t *block = arena->memory + arena->used;
    arena->used += rounded < arena->size - arena->used ? rounded : arena->size - arena->used;
    return block;
}
