/* A directory as a store; inside src/store. What directory.c (opening, looking), directory_read.c,
 * directory_write.c and directory_tree.c share.
 */
#ifndef PENSTOCK_STORE_DIRECTORY_DIRECTORY_INTERNAL_H
#define PENSTOCK_STORE_DIRECTORY_DIRECTORY_INTERNAL_H

#include "store/kind/store_internal.h"

struct directory {
    struct store store;
    char *path; /* owned, for messages */
    int fd;
    _Atomic bool direct; /* store.direct, until the file system refuses it */
};

static inline const struct directory *directory_of(const struct store *store)
{
    return (const struct directory *)store;
}

/* Says why `key` could not be opened, from the errno `number`. NOT_FOUND: there is no such file.
 * IO: any other errno, or the whole directory was removed. Chunks of a removed directory must not
 * be NOT_FOUND: readers fill missing chunks. */
MUST_USE enum status directory_open_failed(const struct directory *directory, const char *key,
                                           int number, struct error *err);

/* directory_read.c: operations of the kind. */
MUST_USE enum status directory_get(const struct store *store, const char *key, store_begins *begins,
                                   void *buffer, size_t capacity, size_t *ret_size,
                                   struct error *err);
MUST_USE enum status directory_get_ranges(const struct store *store, const char *key,
                                          const struct store_range *ranges, size_t count,
                                          uint64_t total, struct error *err);
MUST_USE enum status directory_get_suffix(const struct store *store, const char *key, void *buffer,
                                          size_t size, uint64_t *ret_total, struct error *err);
MUST_USE enum status directory_get_text(const struct store *store, const char *key, size_t limit,
                                        char **ret_text, size_t *ret_size, struct error *err);

/* directory_write.c: an operation of the kind. */
MUST_USE enum status directory_put(const struct store *store, const char *key, const void *data,
                                   size_t size, struct error *err);

/* directory_tree.c: adds up the values below the directory `fd`. Takes `fd`. Does not follow
 * symbolic links to folders. `path` is for messages. IO; UNSUPPORTED: folders more than 64 levels
 * deep. */
MUST_USE enum status directory_sum(int fd, const char *path, uint64_t *bytes, uint64_t *count,
                                   struct error *err);

/* How the name of a value begins while the value is written. Listings leave such names out. */
#define DIRECTORY_PARTIAL_PREFIX ".penstock-partial-"

#endif
