/* A store whose values come from a fuzz target's input. It is linked instead of the directory
 * store, behind the same interface, so that a million inputs make no files. */
#ifndef PENSTOCK_TESTS_FUZZ_MEMORY_STORE_H
#define PENSTOCK_TESTS_FUZZ_MEMORY_STORE_H

#include "fuzz.h"

#include "store/kind/store_internal.h"

enum { MEMORY_STORE_VALUES = 16 };

struct memory_store {
    struct store store; /* first: what the readers see */
    size_t count;
    struct memory_value {
        char *key;
        char *bytes;
        size_t size;
    } values[MEMORY_STORE_VALUES];
};

/* Fills a zeroed store: the input is cut at NULs into key, value, key, value and so on. */
void memory_store_fill(struct memory_store *memory, struct input *input);

/* An empty one; the values put are copied, those beyond MEMORY_STORE_VALUES dropped. */
void memory_store_init(struct memory_store *memory);
void memory_store_put(struct memory_store *memory, const char *key, const void *bytes, size_t size);
void memory_store_done(struct memory_store *memory);

#endif
