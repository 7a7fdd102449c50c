/* Stores: bytes by key. A key is a '/'-separated relative path such as "base_frames/0.0.0".
 *
 * The interface is one table of functions, so that directories, archives and object stores look the
 * same from above. A store is immutable after opening: any number of threads may call any function
 * at once.
 *
 * Keys come from foreign metadata: an absolute key, an empty one, or one with a "." or ".."
 * component is refused as INVALID before anything is opened.
 */
#ifndef PENSTOCK_STORE_STORE_H
#define PENSTOCK_STORE_STORE_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_watch;

/* Opens the store at `uri`:
 *
 *     DIRECTORY, file:///DIRECTORY     a directory
 *     FILE.zip, file:///FILE.zip       a zip archive (zip_directory.h)
 *     http://HOST/PATH, https://...    values by HTTP 1.0 or 1.1; no listing
 *     s3://BUCKET/PREFIX               S3 and servers that speak its protocol
 *
 * Stores behind a network ("remote") have a thread of their own until store_free(). Opening them
 * asks nothing of the server. NOT_FOUND: no such directory or file. UNSUPPORTED: another kind of
 * uri, by name. INVALID: a file, a uri that makes no sense, or one with credentials in it. IO:
 * cannot be opened. */
MUST_USE enum status store_open(const char *uri, struct store **ret_store, struct error *err);

enum store_addressing { ADDRESSING_AUTO, ADDRESSING_PATH, ADDRESSING_VIRTUAL };

enum { STORE_TEXT_BYTES = 256, STORE_MISSING_MOST = 8 };

/* Values of a directory for which there is at least this much room are read past the page cache
 * where that is asked for, into memory that begins on a boundary of pages. */
enum { STORE_DIRECT_BYTES = 1 << 20, STORE_DIRECT_ALIGNMENT = 4096 };

/* How stores are asked, remote ones above all. No pointers and no secrets: it is sent between
 * processes as plain bytes. Where credentials come from is told in credentials.h. */
struct store_settings {
    uint32_t requests;      /* in flight at most; 0: found out while reading */
    uint32_t timeout_s;     /* for one value, all tries together */
    uint64_t fetch_bytes;   /* of values on their way, ahead of decoding (read/fetch_stage.h) */
    uint8_t hedge;          /* whatever takes far longer than usual is asked for a second time */
    uint8_t anonymous;      /* requests to S3 are not signed */
    uint8_t direct;         /* directories: whole large values are read past the page cache */
    uint8_t metadata;       /* credentials may be asked of instance and container endpoints */
    uint8_t addressing;     /* enum store_addressing: where the bucket's name stands */
    uint32_t missing_count; /* HTTP statuses that mean: there is no such value */
    uint16_t missing[STORE_MISSING_MOST];
    char ca_file[STORE_TEXT_BYTES];  /* certificates to trust; "": the system's */
    char endpoint[STORE_TEXT_BYTES]; /* "http://127.0.0.1:9000"; "": of the environment, or AWS */
    char region[STORE_TEXT_BYTES];   /* "": of the environment, or us-east-1 */
};

/* 60 s, 128 MiB, hedging on, 404 alone is missing. */
struct store_settings store_settings_default(void);

/* How reads behave. A read that fails for a cause that may pass (EIO, ESTALE, a lost connection;
 * not a value that is not there) is tried again after a pause, of 0.1 s at first and four times as
 * long each time, more or less by chance, so that readers do not come back all at once. */
struct store_options {
    uint32_t retries;          /* tries after the first; 0: none */
    struct store_watch *watch; /* borrowed, outlives the store; is told of all reads; NULL: none */
    const struct store_settings *settings; /* copied; NULL: the default ones */
    _Atomic int64_t *second_room; /* bytes that values may take which are asked for a second time,
                                   * of all stores that share it; borrowed; NULL: 16 MiB */
};
MUST_USE enum status store_open_with(const char *uri, const struct store_options *options,
                                     struct store **ret_store, struct error *err);

/* Several stores as one, which reads like one: the keys of each begin with its name and a '/'. The
 * name is the last one of its uri, with its number before it ("2-data.zarr") where several have
 * that, or none; with the number in all of them if some would still be equal. It reads values and
 * asks about them (store_get*(), store_stat(), store_identify()); for anything else, see
 * store_joined_at(). Errors are those of store_open(), of the first that cannot be opened. */
MUST_USE enum status store_open_joined(const char *const *uris, size_t count,
                                       const struct store_options *options,
                                       struct store **ret_store, struct error *err);

/* The store number `i` of joined ones, and its name: borrowed. Of any other store, 0 is itself,
 * without a name (NULL). */
const struct store *store_joined_at(const struct store *store, size_t i, const char **ret_name);

/* The store that really has `*key`, which becomes its key there: of a store that is not joined, the
 * store itself. NULL, with an error: none does. For whatever goes around store_get(). */
const struct store *store_resolve(const struct store *store, const char **key, struct error *err);

/* Pauses before try `attempt` + 2 of something that has failed, for callers that find out
 * themselves that what they were given cannot be right. False: it was tried often enough. */
bool store_retry(const struct store *store, uint32_t attempt, const struct error *cause);

/* Creates an empty directory store for writing; an empty directory that is there already will do.
 * INVALID: there is a file, or a directory with something in it and `overwrite` is false; with
 * `overwrite`, refuses what is neither empty nor a Zarr hierarchy, so that a typo deletes nothing.
 * IO: cannot be made or emptied. */
MUST_USE enum status store_create(const char *uri, bool overwrite, struct store **ret_store,
                                  struct error *err);

/* Reads the whole value of `key` into `buffer`, trying again as the store was opened with.
 * Allocates nothing; opens without a stat before. NOT_FOUND: there is no such key (and only then:
 * not when the store itself is gone). CORRUPT: the value is longer than `capacity`. IO: the rest,
 * with the path. Of remote stores: a value that comes with a Content-Encoding (gzip) is what is
 * decoded from it, also for the ones below; UNSUPPORTED: one that is not known. */
MUST_USE enum status store_get(const struct store *store, const char *key, void *buffer,
                               size_t capacity, size_t *ret_size, struct error *err);

/* The same for values that are packed in a way of their own, which begins() tells by their first
 * bytes; NULL: by nothing. Writers label such values with a Content-Encoding, which then either
 * names that way, or what they are encoded in besides: where what is decoded does not begin so, or
 * nothing can be decoded, the value is taken as it is stored. `fetched` (fetch.h): what was fetched
 * already; NULL: nothing. */
typedef bool store_begins(const void *bytes, size_t size);
struct fetched;
MUST_USE enum status store_get_packed(const struct store *store, const char *key,
                                      store_begins *begins, struct fetched *fetched, void *buffer,
                                      size_t capacity, size_t *ret_size, struct error *err);

/* A piece of a value. */
struct store_range {
    uint64_t offset;
    size_t size;
    void *buffer;
};

/* Reads `count` pieces of the value of `key`, for shards and other values of which a range is
 * needed; a piece of no bytes is fine. Stores that wait for an answer ask for all at once. Errors
 * as above; CORRUPT: the value ends before a piece does. UNSUPPORTED: the server has no ranges, and
 * the piece begins more than 256 MiB into the value. `fetched` as above. */
MUST_USE enum status store_get_ranges(const struct store *store, const char *key,
                                      const struct store_range *ranges, size_t count,
                                      struct fetched *fetched, struct error *err);

/* Reads one piece of a value that has to have `total` bytes in all. Errors as above; CORRUPT: it
 * has more or fewer. Remote stores only find out what ends within the piece. `fetched` as above. */
MUST_USE enum status store_get_range(const struct store *store, const char *key,
                                     const struct store_range *range, uint64_t total,
                                     struct fetched *fetched, struct error *err);

/* Reads the last `size` bytes of the value of `key`; *ret_total is how many it has. Errors as
 * above; CORRUPT: it has fewer. */
MUST_USE enum status store_get_tail(const struct store *store, const char *key, void *buffer,
                                    size_t size, uint64_t *ret_total, struct error *err);

/* The same as store_get() into malloc'ed, NUL-terminated memory (returned): for metadata. CORRUPT
 * beyond `limit` bytes. */
MUST_USE enum status store_get_text(const struct store *store, const char *key, size_t limit,
                                    char **ret_text, size_t *ret_size, struct error *err);

/* Writes a value, making folders as needed: complete or not at all (temporary name, then rename).
 */
MUST_USE enum status store_put(const struct store *store, const char *key, const void *data,
                               size_t size, struct error *err);

/* Calls visit(name, is_prefix, argument) for what lies directly below `prefix` ("" is the root), in
 * order of name. A status other than OK from visit ends the listing and is returned. NOT_FOUND: no
 * such prefix. UNSUPPORTED: plain HTTP has no listings; store_usage() likewise. */
typedef enum status store_visit(const char *name, bool is_prefix, void *argument,
                                struct error *err);
MUST_USE enum status store_list(const struct store *store, const char *prefix, store_visit *visit,
                                void *argument, struct error *err);

/* What the values below a prefix come to. */
struct store_usage {
    uint64_t bytes, count;
    bool more; /* there are others, which were not looked at */
};

/* Sum of sizes and number of values below `prefix`. Walks the store, but not through symbolic links
 * to folders; where that takes requests, not much further than `most` values. NOT_FOUND: no such
 * prefix. */
MUST_USE enum status store_usage(const struct store *store, const char *prefix, uint64_t most,
                                 struct store_usage *ret_usage, struct error *err);

/* What is known of a value without reading it. */
struct store_info {
    uint64_t bytes;   /* as stored: with a Content-Encoding, of what is encoded */
    uint64_t version; /* differs, in all likelihood, after the value was written anew */
};

/* NOT_FOUND: there is no such key. IO: the rest, with the path. */
MUST_USE enum status store_stat(const struct store *store, const char *key,
                                struct store_info *ret_info, struct error *err);

/* Appends what tells this store from all others, the same however its uri was spelt: an absolute
 * path without symbolic links, for a directory. IO: it cannot be found out. */
MUST_USE enum status store_identify(const struct store *store, struct text *out, struct error *err);

/* The uri as messages show it; borrowed. */
const char *store_uri(const struct store *store);

/* Whether reads wait for a network, and fetch_start() (fetch.h) is there to overlap them; of joined
 * stores, whether those of any do. */
bool store_is_remote(const struct store *store);

/* For a thread that has others to serve: from now on it may wait for no store and no disk cache;
 * a call that would is a programming error, and ends the program. */
void store_forbid_waiting(bool forbidden);

void store_free(struct store *store);

#endif
