/* Memory for decompressors that allocate in every call: one mapping, handed out from the start and
 * taken back as a whole. Pages that no call asks for are never touched. An arena belongs to one
 * thread. Internal to src/codec. */
#ifndef PENSTOCK_CODEC_ARENA_H
#define PENSTOCK_CODEC_ARENA_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct arena {
    uint8_t *memory;
    size_t size, used;
};

/* NO_MEMORY, naming `what`. Undone by arena_done(). */
MUST_USE enum status arena_init(struct arena *arena, size_t size, const char *what,
                                struct error *err);
void arena_done(struct arena *arena);

/* Takes back everything. */
void arena_reset(struct arena *arena);

/* Uninitialised, aligned to 64 bytes; NULL if there is not as much left. */
void *arena_take(struct arena *arena, size_t size);

#endif
