/* A zip archive as a store. What zip.c (opening, looking) and zip_read.c share. Inside src/store.
 */
#ifndef PENSTOCK_STORE_ZIP_ZIP_INTERNAL_H
#define PENSTOCK_STORE_ZIP_ZIP_INTERNAL_H

#include "store/kind/inflated.h"
#include "store/kind/store_internal.h"
#include "store/zip/zip_directory.h"

struct zip {
    struct store store;
    char *path; /* owned, for messages */
    int fd;
    uint64_t file_bytes, modified_ns;
    struct inflated *inflated; /* held; values of which parts are read */
    unsigned char *directory;  /* owned: the bytes of the directory */
    struct zip_entry *entries; /* owned: [count] values, in order of store_key_compare() */
    size_t count;
};

static inline struct zip *zip_of(const struct store *store)
{
    return (struct zip *)store;
}

/* Reads `size` bytes at `offset` of the archive `context`: a zip_read. CORRUPT: the archive ends
 * before. IO. */
MUST_USE enum status zip_read_at(void *context, uint64_t offset, void *buffer, size_t size,
                                 struct error *err);

/* The index of the first entry at or behind `name`; `count` if there is none. */
size_t zip_find_from(const struct zip *zip, const char *name, size_t bytes);

/* Finds the entry of a key; *ret_entry is borrowed from the archive. NOT_FOUND; UNSUPPORTED: the
 * entry is encrypted, or compressed by another method than deflate; CORRUPT: the entry's sizes
 * differ though it is not compressed. */
MUST_USE enum status zip_find_entry(const struct zip *zip, const char *key,
                                    struct zip_entry **ret_entry, struct error *err);
/* zip_read.c: operations of the kind. */
MUST_USE enum status zip_get(const struct store *store, const char *key, store_begins *begins,
                             void *buffer, size_t capacity, size_t *ret_size, struct error *err);
MUST_USE enum status zip_get_ranges(const struct store *store, const char *key,
                                    const struct store_range *ranges, size_t count, uint64_t total,
                                    struct error *err);
MUST_USE enum status zip_get_suffix(const struct store *store, const char *key, void *buffer,
                                    size_t size, uint64_t *ret_total, struct error *err);
MUST_USE enum status zip_get_text(const struct store *store, const char *key, size_t limit,
                                  char **ret_text, size_t *ret_size, struct error *err);

#endif
