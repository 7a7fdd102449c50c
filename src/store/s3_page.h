/* Pages of listings (ListObjectsV2): foreign XML, of which a few elements are looked for. Pure. */
#ifndef PENSTOCK_STORE_S3_PAGE_H
#define PENSTOCK_STORE_S3_PAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { S3_KEY_BYTES = 1025, S3_MARK_BYTES = 2048 };

struct s3_page {
    bool more;                /* there are further pages */
    char next[S3_MARK_BYTES]; /* what the next one is asked with */
};

/* Told of each key (with its size), and of each common prefix. Anything but OK ends it. */
typedef enum status s3_entry(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                             struct error *err);

/* Takes a page apart; `text` is NUL-terminated. CORRUPT: not such a page. */
MUST_USE enum status s3_page_read(const char *text, s3_entry *entry, void *argument,
                                  struct s3_page *ret_page, struct error *err);

#endif
