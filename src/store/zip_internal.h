/* A zip archive as a store, inside src/store: what zip.c (opening, looking) and zip_read.c share.
 */
#ifndef PENSTOCK_STORE_ZIP_INTERNAL_H
#define PENSTOCK_STORE_ZIP_INTERNAL_H

#include "store/store_internal.h"
#include "store/zip_directory.h"

struct zip {
    struct store store;
    char *path; /* owned, for messages */
    int fd;
    uint64_t file_bytes, modified_ns;
    unsigned char *directory;
    struct zip_entry *entries;
    size_t count;
};

static inline struct zip *zip_of(const struct store *store)
{
    return (struct zip *)store;
}

/* All of `size` bytes at `offset` of the archive `context`: a zip_read. CORRUPT: the archive ends
 * before. */
MUST_USE enum status zip_read_at(void *context, uint64_t offset, void *buffer, size_t size,
                                 struct error *err);

/* The first entry at or behind `name`; `count` if there is none. */
size_t zip_find_from(const struct zip *zip, const char *name, size_t bytes);

/* The entry of a key. NOT_FOUND; UNSUPPORTED: encrypted, or compressed in a way that is not read;
 * CORRUPT. */
MUST_USE enum status zip_find_entry(const struct zip *zip, const char *key,
                                    struct zip_entry **ret_entry, struct error *err);

/* Operations of the kind. */
MUST_USE enum status zip_get(const struct store *store, const char *key, store_begins *begins,
                             void *buffer, size_t capacity, size_t *ret_size, struct error *err);
MUST_USE enum status zip_get_ranges(const struct store *store, const char *key,
                                    const struct store_range *ranges, size_t count, uint64_t total,
                                    struct error *err);
MUST_USE enum status zip_get_tail(const struct store *store, const char *key, void *buffer,
                                  size_t size, uint64_t *ret_total, struct error *err);
MUST_USE enum status zip_get_text(const struct store *store, const char *key, size_t limit,
                                  char **ret_text, size_t *ret_size, struct error *err);

#endif
