/* Pages of listings (ListObjectsV2): foreign XML, of which a few elements are read. Pure. */
#ifndef PENSTOCK_STORE_REMOTE_S3_PAGE_H
#define PENSTOCK_STORE_REMOTE_S3_PAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { S3_KEY_BYTES = 1025, S3_MARK_BYTES = 2048 };

struct s3_page {
    bool more;                /* there are further pages */
    char next[S3_MARK_BYTES]; /* the continuation token of the next page; "": none */
};

/* Called for each key, with its size, and for each common prefix. `key` is borrowed until the
 * return. A status other than OK ends the page. */
typedef enum status s3_entry(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                             struct error *err);

/* Takes a page apart; `text` is NUL-terminated. CORRUPT: the text is no such page. Or the first
 * status of entry() that is not OK. */
MUST_USE enum status s3_page_read(const char *text, s3_entry *entry, void *argument,
                                  struct s3_page *ret_page, struct error *err);

#endif
