/* Pages of listings: foreign XML or JSON, of which a few elements are read. Pure. */
#ifndef PENSTOCK_STORE_REMOTE_PAGE_H
#define PENSTOCK_STORE_REMOTE_PAGE_H

#include "base/error.h"
#include "store/kind/fetch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_KEY_BYTES = 1025, PAGE_MARK_BYTES = FETCH_MARK_BYTES };

/* Entries that a page is asked for. */
enum { PAGE_ENTRIES = 1000 };

struct page {
    bool more;                  /* there are further pages */
    char next[PAGE_MARK_BYTES]; /* the mark of the next page; "": none */
};

/* What a kind of server calls the elements of a page. JSON, without `root`, is an array of objects,
 * each with a key, a size, and a type: `entry` or `folder`. */
struct page_format {
    const char *root, *entry, *key, *size, *folder, *folder_key;
    const char *more; /* "true": there are further pages; NULL: if there is a mark for the next */
    const char *next;
};

extern const struct page_format page_s3;    /* ListObjectsV2 */
extern const struct page_format page_azure; /* List Blobs */
extern const struct page_format page_hub;   /* the hub's trees, in JSON; a header has the mark */

/* Called for each key, with its size, and for each common prefix. `key` is borrowed until the
 * return. A status other than OK ends the page. */
typedef enum status page_entry(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                               struct error *err);

/* Takes a page apart; `text` is NUL-terminated. CORRUPT: the text is no such page. Or the first
 * status of entry() that is not OK. */
MUST_USE enum status page_read(const struct page_format *format, const char *text,
                               page_entry *entry, void *argument, struct page *ret_page,
                               struct error *err);

/* page_json.c: page_read() of a format without a root. */
MUST_USE enum status page_read_json(const struct page_format *format, const char *text,
                                    page_entry *entry, void *argument, struct error *err);

#endif
