/* References in memory: for each key the value, or where an object has it. Sorted once, then
 * searched: 32 bytes for each reference, its name, and each folder and location once.
 *
 *     folders [texts of them, first reference] --> references, by folder and name --> texts, data
 *
 * One thread adds; afterwards any thread searches.
 */
#ifndef PENSTOCK_STORE_REFERENCES_REFERENCE_TABLE_H
#define PENSTOCK_STORE_REFERENCES_REFERENCE_TABLE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REFERENCE_KEY_BYTES = 1024,      /* with its NUL */
    REFERENCE_LOCATION_BYTES = 2048, /* with its NUL */
    REFERENCE_MOST = 1 << 25,
};

#define REFERENCE_INLINE UINT32_MAX /* instead of a location */
#define REFERENCE_WHOLE  UINT64_MAX /* instead of a length: all of the object */

struct reference {
    uint32_t folder, name, location; /* where `texts` has them */
    uint64_t offset, length;         /* in the object; or of the value in `data` */
};

_Static_assert(sizeof(struct reference) == 32, "reference_table.h says so");

struct reference_folder {
    uint32_t path;  /* where `texts` has it; "" is the root */
    uint32_t first; /* its first reference; the others follow, up to the next folder's */
};

/* Bytes that grow. */
struct reference_bytes {
    char *bytes; /* owned */
    size_t length, capacity;
};

/* Empty if zero. */
struct reference_table {
    struct reference *references; /* owned */
    size_t count, capacity;
    size_t most;                      /* so many at most; 0: REFERENCE_MOST */
    struct reference_folder *folders; /* owned; [folder_count + 1], in order of path */
    size_t folder_count;
    struct reference_bytes texts, data;
    uint32_t *buckets; /* owned, while references are added: texts by hash, + 1; 0: free */
    size_t bucket_count, used_buckets;
};

void reference_table_done(struct reference_table *table);

/* Add a reference to a key, which must be well-formed; REFERENCE_WHOLE as `length`: to all of the
 * object. Or a value, which is copied. INVALID: the key, or the location, is too long. UNSUPPORTED:
 * the table is full. NO_MEMORY. */
MUST_USE enum status reference_table_add(struct reference_table *table, const char *key,
                                         const char *location, uint64_t offset, uint64_t length,
                                         struct error *err);
MUST_USE enum status reference_table_add_value(struct reference_table *table, const char *key,
                                               const void *value, size_t size, struct error *err);

/* Sorts the table, and frees what only adding needs. CORRUPT: two references have one key. */
MUST_USE enum status reference_table_sort(struct reference_table *table, struct error *err);

/* How many references may be added. Pure. */
size_t reference_table_room(const struct reference_table *table);

/* How many bytes the sorted table takes. */
uint64_t reference_table_bytes(const struct reference_table *table);

/* The reference of a key; NULL: there is none. */
const struct reference *reference_table_find(const struct reference_table *table, const char *key);

/* The first folder at or behind a path of `bytes` bytes. A path's folders follow one another. */
size_t reference_table_folder(const struct reference_table *table, const char *path, size_t bytes);

/* Whether a folder is at a path or below; *ret_rest is what its own path has behind, or "". */
bool reference_table_is_below(const struct reference_table *table, size_t folder, const char *path,
                              size_t bytes, const char **ret_rest);

static inline const char *reference_text(const struct reference_table *table, uint32_t at)
{
    return table->texts.bytes + at;
}

/* A number that tells values apart. */
uint64_t reference_content(const struct reference_table *table, const struct reference *reference);

#endif
