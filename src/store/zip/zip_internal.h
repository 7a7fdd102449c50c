/* A zip archive as a store: a file, or a value of a remote store. What the files of this room
 * share. Inside src/store.
 *
 *     zip.c         opening, looking        zip_bytes.c    the archive's bytes
 *     zip_read.c    values                  zip_fetch.c    values of a remote archive, by fetches
 */
#ifndef PENSTOCK_STORE_ZIP_ZIP_INTERNAL_H
#define PENSTOCK_STORE_ZIP_ZIP_INTERNAL_H

#include "store/kind/inflated.h"
#include "store/kind/relay.h"
#include "store/zip/zip_directory.h"

struct zip {
    struct store store;
    char *path;          /* owned, for messages: the file's, or the uri */
    int fd;              /* of the file; -1: remote */
    struct store *base;  /* owned: the remote store that has the archive; NULL: a file */
    char *key;           /* owned: of the archive in `base` */
    uint64_t version;    /* of a remote archive; 0: not known */
    unsigned char *tail; /* owned: the archive's last bytes, while it is opened; else NULL */
    size_t tail_bytes;
    struct relays *relays; /* owned; NULL: a file */
    uint64_t file_bytes, modified_ns;
    struct inflated *inflated; /* held; values of which parts are read */
    unsigned char *directory;  /* owned: the bytes of the directory */
    struct zip_entry *entries; /* owned: [count] values, in order of store_key_compare() */
    size_t count;
    uint64_t directory_bytes; /* of memory: both */
};

static inline struct zip *zip_of(const struct store *store)
{
    return (struct zip *)store;
}

/* A number that tells values apart. */
static inline uint64_t zip_content(const struct zip_entry *entry)
{
    return (entry->crc ^ entry->bytes << 32) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* zip_bytes.c: opens the file, or asks for the size of the remote archive; and reads the tail.
 * NOT_FOUND; UNSUPPORTED: a server without ranges; IO and others. */
MUST_USE enum status zip_open_bytes(struct zip *zip, struct error *err);

/* zip_bytes.c: a fetch of a range of a remote archive; and what it ended with: CORRUPT: the archive
 * was changed after it was opened. Never NOT_FOUND: the archive was there. */
struct fetch zip_ask(const struct zip *zip, uint64_t offset, size_t size, void *buffer);
enum status zip_judge(const struct zip *zip, const struct fetch *fetch, struct error *err);

/* zip_bytes.c: reads [count] ranges of the archive, whose offsets are behind `begin`. Waits.
 * CORRUPT: the archive ends before. IO; remote: the errors of a fetch. */
MUST_USE enum status zip_read_ranges(const struct zip *zip, uint64_t begin,
                                     const struct store_range *ranges, size_t count,
                                     struct error *err);

/* zip_bytes.c: the same of one range of the archive `context`: a zip_read. */
MUST_USE enum status zip_read_at(void *context, uint64_t offset, void *buffer, size_t size,
                                 struct error *err);

/* The index of the first entry at or behind `name`; `count` if there is none. */
size_t zip_find_from(const struct zip *zip, const char *name, size_t bytes);

/* Finds the entry of a key; *ret_entry is borrowed from the archive. NOT_FOUND; UNSUPPORTED: the
 * entry is encrypted, or compressed by another method than deflate; CORRUPT: the entry's sizes
 * differ though it is not compressed. */
MUST_USE enum status zip_find_entry(const struct zip *zip, const char *key,
                                    struct zip_entry **ret_entry, struct error *err);

/* zip_read.c: where an entry's bytes begin. `may_wait`: looks that up if need be; else *ret_offset
 * is 0 then. CORRUPT: not where the directory says. Errors of zip_read_at(). */
MUST_USE enum status zip_find_data(const struct zip *zip, const char *key, struct zip_entry *entry,
                                   bool may_wait, uint64_t *ret_offset, struct error *err);

/* zip_read.c: CORRUPT: a whole value fails its checksum. */
MUST_USE enum status zip_check(const struct zip *zip, const char *key,
                               const struct zip_entry *entry, const void *value, struct error *err);

/* zip_fetch.c: operations of remote archives. */
MUST_USE enum status zip_relays_new(struct zip *zip, struct error *err);
void zip_fetch(const struct store *store, struct fetch *fetch);
void zip_fetch_stop(const struct store *store);

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
