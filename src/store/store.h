/* Stores: bytes by key. A key is a '/'-separated relative path such as "base_frames/0.0.0".
 *
 * Directories, zip archives, HTTP servers and buckets all have these functions. A store does not
 * change after opening, so any number of threads may call any function at once. Only store_free()
 * must come last, and alone. All calls block, except where a comment says otherwise.
 *
 * Keys come from foreign metadata. So every function refuses an absolute key, an empty key, and a
 * key with an empty, "." or ".." part as INVALID, before anything is opened.
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
 *     FILE, file:///FILE               a zip archive (zip_directory.h), whatever its name
 *     http://HOST/PATH, https://...    values by HTTP 1.0 or 1.1; no listing
 *     s3://BUCKET/PREFIX               S3, and servers with the protocol of S3
 *     gs://BUCKET/PREFIX               Google's cloud
 *     az://CONTAINER/PREFIX, abfs[s]://CONTAINER@ACCOUNT.HOST/PREFIX, https://ACCOUNT.blob.HOST/...
 *                                      Azure's storage
 *     hf://[datasets/]OWNER/NAME[@REVISION]/PATH
 *                                      Hugging Face's hub
 *     URI.zip of a server, zip+URI     a zip archive there; its directory is read at opening
 *     icechunk://DIRECTORY[@...], icechunk+s3://..., ...
 *                                      an Icechunk repository, read-only, in any of the stores
 *                                      above; icechunk_uri.h has what may stand behind the '@'
 *     reference://FILE, reference+s3://BUCKET/FILE, ...
 *                                      references of kerchunk or VirtualiZarr, read-only, in a file
 *                                      of JSON in any of the stores above but Icechunk's
 *
 * Opens with no retries, no watch and default settings. A store behind a network ("remote") has
 * threads of its own until store_free(). Opening a remote store sends its server nothing,
 * unless there is an archive or a repository to be read. Opening a store of a cloud may ask the
 * cloud for credentials (credentials.h).
 *
 * NOT_FOUND: there is no such directory or file. UNSUPPORTED: another kind of uri, which the
 * message names; a zip archive in several parts or with too many values; a profile whose
 * credentials come from elsewhere. INVALID: the path of a plain file; a uri that is empty, is
 * malformed or has credentials in it; no credentials, or an endpoint that is malformed.
 * CORRUPT: a zip archive that is damaged. IO: the store cannot be opened. NO_MEMORY. */
MUST_USE enum status store_open(const char *uri, struct store **ret_store, struct error *err);

enum store_addressing { ADDRESSING_AUTO, ADDRESSING_PATH, ADDRESSING_VIRTUAL };

enum { STORE_TEXT_BYTES = 256, STORE_LIST_BYTES = 1024, STORE_MISSING_MOST = 8 };

/* With store_settings.direct, store_get() reads a directory's values past the page cache where the
 * caller's buffer has STORE_DIRECT_BYTES or more, and begins at a multiple of
 * STORE_DIRECT_ALIGNMENT. */
enum { STORE_DIRECT_BYTES = 1 << 20, STORE_DIRECT_ALIGNMENT = 4096 };

/* How stores are asked, above all the remote ones. The struct has no pointers and no secrets:
 * processes send it to each other as plain bytes. Credentials are found as credentials.h says. */
struct store_settings {
    uint32_t requests; /* most requests under way; 0: the store finds out while reading */
    uint32_t threads;  /* for requests; 0: one, or with TLS one for every two cores, four at most */
    uint32_t timeout_s;     /* for one value, all tries together */
    uint64_t fetch_bytes;   /* of values on their way, ahead of decoding (read/fetch_stage.h) */
    uint8_t hedge;          /* a request that takes far longer than usual is sent a second time */
    uint8_t anonymous;      /* requests to clouds are not signed */
    uint8_t direct;         /* directories: large values are read whole past the page cache */
    uint8_t metadata;       /* the cloud's endpoints may be asked for credentials */
    uint8_t addressing;     /* enum store_addressing: where a url has the bucket's name */
    uint32_t missing_count; /* how many of `missing` are set */
    uint16_t missing[STORE_MISSING_MOST]; /* HTTP statuses that mean: there is no such value */
    char ca_file[STORE_TEXT_BYTES];       /* certificates to trust; "": those of the system */
    char endpoint[STORE_TEXT_BYTES]; /* "http://127.0.0.1:9000"; "": of the environment, or AWS */
    char region[STORE_TEXT_BYTES];   /* "": of the environment, or us-east-1 */
    char headers[STORE_TEXT_BYTES];  /* "env:VARIABLE", or a file of headers; "": none */
    char proxy[STORE_TEXT_BYTES];    /* "http://HOST:PORT"; "": none */
    char payer[STORE_TEXT_BYTES]; /* who pays for requests: "true", or a project; "": the owner */
    char virtual_prefixes[STORE_LIST_BYTES]; /* a list (base/text.h): where chunks of an Icechunk
                                                repository, or of references, may lie */
};

/* 60 s, 128 MiB, hedging on, and 404 alone for a missing value. All other members are 0 or "". */
struct store_settings store_settings_default(void);

/* How reads behave. A read that fails for a cause that may pass (EIO, ESTALE, a lost connection) is
 * tried again after a pause. Missing values, damage and refused permissions are not tried again.
 * The first pause is 0.1 s, the second 0.4 s, the third 1.6 s, and each later one 6.4 s. Chance
 * makes a pause up to half shorter or longer, so that readers do not all come back at once. */
struct store_options {
    uint32_t retries;          /* tries after the first; 0: none */
    struct store_watch *watch; /* borrowed, outlives the store; gets all calls; NULL: none */
    const struct store_settings *settings; /* copied; NULL: store_settings_default() */
    /* Borrowed, outlives the store. The bytes that second requests may still take, of all stores
     * that share this number. NULL: 16 MiB for this store alone. */
    _Atomic int64_t *second_room;
};

/* As store_open(), with options. */
MUST_USE enum status store_open_with(const char *uri, const struct store_options *options,
                                     struct store **ret_store, struct error *err);

/* Opens `count` stores as one joined store. A key of the joined store is a store's name, '/' and a
 * key of that store. A store's name is the last part of its uri ("data.zarr"). Stores whose uris
 * have the same last part get their number, from 1, in front ("2-data.zarr"). A store whose uri has
 * no last part but dots is named by its number alone. If two names are still equal, all stores get
 * their number in front.
 *
 * A joined store has the functions that take a key, except where they list: store_list() and
 * store_usage() take a prefix in one of the stores, never the root. Errors are those of
 * store_open(), of the first store that cannot be opened. */
MUST_USE enum status store_open_joined(const char *const *uris, size_t count,
                                       const struct store_options *options,
                                       struct store **ret_store, struct error *err);

/* Returns store `i` of joined ones and its name, both borrowed from `store`. `i` must be below
 * their number. Of any other store: the store itself, with *ret_name NULL. Does not block. */
const struct store *store_joined_at(const struct store *store, size_t i, const char **ret_name);

/* For callers that need the one store behind a key. Returns the store that has `*key`, borrowed,
 * and moves `*key` on to the key within that store. Of a store that is not joined: the store
 * itself, with `*key` unchanged. NULL, with INVALID in *err: no joined store has the name that
 * `*key` begins with. Does not block. */
const struct store *store_resolve(const struct store *store, const char **key, struct error *err);

/* For callers that find out themselves that the bytes they got cannot be right. `attempt` is the
 * number of tries again so far, from 0. If the store's options allow another try: counts the try
 * and its cause in the watch, pauses, and returns true. Otherwise returns false at once. */
bool store_retry(const struct store *store, uint32_t attempt, const struct error *cause);

/* The path of the directory that store_create() would make, malloc'ed and returned. INVALID: the
 * uri is malformed. UNSUPPORTED: it is not a directory's. NO_MEMORY. */
MUST_USE enum status store_path(const char *uri, char **ret_path, struct error *err);

/* Creates an empty directory store for writing, and opens the store. An empty directory that is
 * there already will do. With `overwrite`, a directory that holds a Zarr hierarchy is emptied. Any
 * other directory with something in it is refused, so that a typo deletes nothing.
 *
 * INVALID: a file is there, or a directory with something in it that may not be emptied.
 * UNSUPPORTED: `uri` is not a directory's, or a folder to be removed is over 64 levels deep. IO:
 * the directory cannot be made, emptied or opened. NO_MEMORY. */
MUST_USE enum status store_create(const char *uri, bool overwrite, struct store **ret_store,
                                  struct error *err);

/* Reads the whole value of `key` into `buffer`, trying again as the store's options say. A
 * directory is read without memory of the call's own, and without a stat before.
 *
 * If a remote value has a Content-Encoding that is known (gzip, deflate), the functions that read
 * give the decoded bytes.
 *
 * INVALID: the key is malformed, or names no joined store. NOT_FOUND: there is no such key.
 * But if the whole directory of a store was removed, the error is IO. CORRUPT: the value has more
 * than `capacity` bytes, or is damaged in its zip archive. UNSUPPORTED: a Content-Encoding that is
 * not known, or a zip entry that is encrypted or compressed by another method than deflate.
 * TIMEOUT: a remote store did not give the value within timeout_s. LOST: fetch_stop() was called.
 * NO_MEMORY. IO: everything else, with the path. */
MUST_USE enum status store_get(const struct store *store, const char *key, void *buffer,
                               size_t capacity, size_t *ret_size, struct error *err);

/* As store_get(), for values that are packed in a format of their own. `begins` tells whether bytes
 * begin as that format does; NULL: nothing is known of the format. Writers sometimes label such a
 * value with a Content-Encoding. The label names either the value's own format, or an encoding on
 * top of the format. So where decoding fails, or the decoded bytes do not begin as `begins` wants,
 * the value is taken as the server stores the value.
 *
 * `fetched` (fetch.h) has what was fetched already; borrowed, and changed; NULL: nothing. */
typedef bool store_begins(const void *bytes, size_t size);
struct fetched;
MUST_USE enum status store_get_packed(const struct store *store, const char *key,
                                      store_begins *begins, struct fetched *fetched, void *buffer,
                                      size_t capacity, size_t *ret_size, struct error *err);

/* A piece of a value: `size` bytes at `offset`, which are read into `buffer` (borrowed). */
struct store_range {
    uint64_t offset;
    size_t size;
    void *buffer;
};

/* Reads `count` pieces of the value of `key`, for shards and other values of which a part is
 * needed. A piece may have no bytes. A remote store is asked for up to 16 pieces at once. Errors as
 * of store_get(). CORRUPT also: the value ends before a piece does. UNSUPPORTED also: the server
 * has no ranges, and the piece begins more than 256 MiB into the value; or the value is a deflated
 * zip entry of more than 4 GiB. `fetched` as of store_get_packed(). */
MUST_USE enum status store_get_ranges(const struct store *store, const char *key,
                                      const struct store_range *ranges, size_t count,
                                      struct fetched *fetched, struct error *err);

/* Reads one piece of a value that must have `total` bytes in all. Errors as of store_get_ranges().
 * CORRUPT also: the value has more bytes, or fewer. Remote stores do not check `total`: they only
 * notice a value that ends within the piece. `fetched` as of store_get_packed(). */
MUST_USE enum status store_get_range(const struct store *store, const char *key,
                                     const struct store_range *range, uint64_t total,
                                     struct fetched *fetched, struct error *err);

/* Takes from `fetched` (fetch.h) the value of `key`, of at most `capacity` bytes, or `range` of the
 * value unless `range` is NULL, and does not copy: *ret_bytes is the memory of the fetch, borrowed
 * as long as that is the caller's. range->buffer is not used. False: this was not fetched, or not
 * with OK, and nothing is taken; a read tells. */
bool store_lend(const struct store *store, const char *key, const struct store_range *range,
                size_t capacity, struct fetched *fetched, const void **ret_bytes, size_t *ret_size);

/* Reads the last `size` bytes of the value of `key`. *ret_total is the number of bytes of the
 * value. Errors as of store_get_ranges(). CORRUPT also: the value has fewer than `size` bytes.
 * UNSUPPORTED also: a server gives neither the end of the value nor its decoded length. */
MUST_USE enum status store_get_suffix(const struct store *store, const char *key, void *buffer,
                                      size_t size, uint64_t *ret_total, struct error *err);

/* As store_get(), into malloc'ed memory that is NUL-terminated and returned: the caller frees
 * *ret_text. For metadata. CORRUPT: the value has more than `limit` bytes. */
MUST_USE enum status store_get_text(const struct store *store, const char *key, size_t limit,
                                    char **ret_text, size_t *ret_size, struct error *err);

/* Writes a value, and makes folders as needed. The value appears complete or not at all: under a
 * temporary name, then by a rename. Nothing is flushed to the disk, and nothing is tried again.
 * `data` is borrowed. INVALID: as of store_get(). UNSUPPORTED: only directories are written. IO:
 * with the path. NO_MEMORY. */
MUST_USE enum status store_put(const struct store *store, const char *key, const void *data,
                               size_t size, struct error *err);

/* Calls visit(name, is_prefix, argument) on the caller's thread for each entry directly below
 * `prefix` ("" is the root), in order of name. `name` is borrowed until visit() returns. A status
 * other than OK from visit() ends the listing, and is returned. A directory's listing is not tried
 * again. NOT_FOUND: there is no such prefix. UNSUPPORTED: plain HTTP has no listings. INVALID: a
 * malformed prefix, or more than a million names directly below a prefix of a bucket. IO,
 * NO_MEMORY; of buckets also CORRUPT, TIMEOUT and LOST. */
typedef enum status store_visit(const char *name, bool is_prefix, void *argument,
                                struct error *err);
MUST_USE enum status store_list(const struct store *store, const char *prefix, store_visit *visit,
                                void *argument, struct error *err);

/* As store_list(), but in the order in which the store finds the names, and without memory for all
 * of them. `content` is a number that differs for values with other bytes, if the store knows one
 * without reading the value (a zip archive does); else 0. Not of a joined store. */
typedef enum status store_visit_name(const char *name, uint64_t content, void *argument,
                                     struct error *err);
MUST_USE enum status store_names(const struct store *store, const char *prefix,
                                 store_visit_name *visit, void *argument, struct error *err);

/* A number that is the same in two processes only if both see the same values below the prefix. Of
 * a directory the number says which folder that is: inode, and time of the last change, which no
 * program can copy. So copies of one folder have different numbers, and the same values. Of a zip
 * archive: a hash of the names and contents below the prefix. *ret_stamp is 0 if there is no such
 * prefix, and for a remote store, which is the same for all processes. Not of a joined store. IO;
 * INVALID: a malformed prefix. */
MUST_USE enum status store_stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                                 struct error *err);

/* How much lies below a prefix. */
struct store_usage {
    uint64_t bytes; /* as stored: of a zip archive, compressed */
    uint64_t count; /* values */
    bool more;      /* there are further values, which were not counted */
};

/* Adds up the sizes, and the number, of the values below `prefix`. A directory is walked to its
 * end, but not through symbolic links to folders. A bucket is listed in pages of 1000 values,
 * `most` / 1000 pages but at least one. UNSUPPORTED: plain HTTP, or folders more than 64 levels
 * deep. Other errors as of store_list(). */
MUST_USE enum status store_usage(const struct store *store, const char *prefix, uint64_t most,
                                 struct store_usage *ret_usage, struct error *err);

/* What a store knows of a value without reading the value. */
struct store_info {
    uint64_t bytes;     /* length of the value; of a value with a Content-Encoding, as encoded */
    uint64_t version;   /* differs, in all likelihood, after the value was written anew */
    int64_t modified_s; /* of a file: when it was last written, since 1970; 0: not known */
};

/* Looks up a value. Errors as of store_get(). */
MUST_USE enum status store_stat(const struct store *store, const char *key,
                                struct store_info *ret_info, struct error *err);

/* The memory that reading values takes beside the caller's. Zip archives inflate deflated values
 * whole; of all other stores, and all other values, both numbers are 0. */
struct store_inflate {
    uint64_t most_bytes; /* to read the value that takes most, or part of it */
    uint64_t all_bytes;  /* of all values, once inflated */
};

/* Of the values below a prefix. Does not block. */
struct store_inflate store_inflate_below(const struct store *store, const char *prefix);

/* The memory that manifests take, which say where an Icechunk repository has chunks; of all other
 * stores, all is 0. */
struct store_catalogue {
    uint64_t most_bytes;   /* of the manifest that takes most */
    uint64_t all_bytes;    /* of all manifests */
    uint64_t stored_bytes; /* of files that are read at once, as they are stored */
    uint64_t kept_bytes;   /* that the store reserved for manifests when it was opened */
};

/* Of the arrays below a prefix. Reads a few manifests of each array, the largest: all_bytes is
 * estimated by those. Errors of store_get() but NOT_FOUND. */
MUST_USE enum status store_catalogue_below(const struct store *store, const char *prefix,
                                           struct store_catalogue *ret_catalogue,
                                           struct error *err);

/* The memory of tables that say where references or entries of zip archives lie, which are there as
 * long as the store is; of joined stores, of all; of other stores 0. Does not block. */
uint64_t store_table_bytes(const struct store *store);

/* Reserves memory for such values and manifests, beside what others have reserved; or gives it up,
 * where `bytes` is below 0. All threads' reads together take no more, and wait for each other, but
 * one value may always be read. What is reserved holds values that were inflated, for their next
 * parts. */
void store_reserve(const struct store *store, int64_t bytes);

/* Appends a text that tells this store from all others, however the uri was spelt: of a directory,
 * its absolute path without symbolic links; of a zip archive, also size and time; of a bucket, also
 * the server; of joined stores, a line for each. IO: the path cannot be found out. */
MUST_USE enum status store_identify(const struct store *store, struct text *out, struct error *err);

/* A uri that opens the very same values, in any process, at any time: of an Icechunk repository the
 * uri of its snapshot. Borrowed. Not of a joined store. Does not block. */
const char *store_pinned_uri(const struct store *store);

/* The id of the snapshot that the store reads; NULL: it has none. Borrowed. Not of a joined store.
 * Does not block. */
const char *store_snapshot(const struct store *store);

/* The uri as messages show it; borrowed. Of joined stores: all uris. Does not block. */
const char *store_uri(const struct store *store);

/* Whether the store is behind a network, so that fetch_start() (fetch.h) works; of joined stores,
 * whether any of them is. Does not block. */
bool store_is_remote(const struct store *store);

/* Whether a store of that uri would be behind a network, and whether its requests may have a
 * signature with the time in it: those of clouds. Pure. */
bool store_uri_is_remote(const char *uri, bool *ret_signs);

/* Whether the store is a zip archive. Does not block. */
bool store_is_archive(const struct store *store);

/* For a thread that has others to serve. After store_forbid_waiting(true), the calling thread must
 * not read, list or look up values of any store, nor use a disk cache: such a call is a programming
 * error, and ends the program. Opening, writing and store_identify() are not checked. */
void store_forbid_waiting(bool forbidden);

/* Closes the store. No call may be under way, and none may follow. Of a remote store: ends its
 * threads, after fetches under way are done with LOST. NULL is fine. */
void store_free(struct store *store);

#endif
