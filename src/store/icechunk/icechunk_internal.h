/* An Icechunk repository as a store: what the files of this room share. Inside src/store.
 *
 *     key "a/b/c/3/0" --> node "/a/b", index [3,0]             (icechunk_find.c)
 *         --> manifest of the node with that index, in memory    (icechunk_manifests.c)
 *         --> reference --> bytes in it, `chunks/ID`, or an object elsewhere (icechunk_virtual.c)
 *         --> read by the store that has the object      (icechunk_read.c; icechunk_fetch.c)
 *
 * Snapshot and configuration are read at opening, and do not change. Manifests come and go
 * (kind/inflated.h). What a manifest refers to is there, or its lack is an error: never NOT_FOUND.
 */
#ifndef PENSTOCK_STORE_ICECHUNK_ICECHUNK_INTERNAL_H
#define PENSTOCK_STORE_ICECHUNK_ICECHUNK_INTERNAL_H

#include "store/icechunk/manifest.h"
#include "store/icechunk/snapshot.h"
#include "store/kind/inflated.h"
#include "store/kind/relay.h"

#include <pthread.h>

enum {
    ICECHUNK_KEY_BYTES = 2048,      /* of a key in the store that has an object, with its NUL */
    ICECHUNK_LOADS = 4,             /* manifests that are read at once */
    ICECHUNK_KEPT_BYTES = 32 << 20, /* of manifests that are kept in any case */
    ICECHUNK_MOST_PREFIXES = 16,
};

/* A prefix outside the repository that chunks may lie below. */
struct virtual_prefix {
    char *prefix; /* owned; ends in '/' */
    struct store *store;
};

struct icechunk {
    struct store store;
    char *uri;          /* owned: as given, for messages */
    struct store *base; /* owned: where the repository lies */
    char id[ICECHUNK_ID_TEXT_BYTES];
    char *pinned; /* owned: the uri of this very snapshot */
    struct snapshot snapshot;
    unsigned char *config; /* owned: the repository's, as FlexBuffers; NULL: none */
    size_t config_bytes;
    struct virtual_prefix prefixes[ICECHUNK_MOST_PREFIXES];
    size_t prefix_count;
    struct inflated *inflated; /* held; manifests */
    pthread_mutex_t mutex;
    pthread_cond_t loaded; /* one load fewer */
    uint32_t loads;        /* under way */
    struct relays *relays; /* owned; NULL: nothing is behind a network */
};

static inline struct icechunk *icechunk_of(const struct store *store)
{
    return (struct icechunk *)store;
}

/* What a key means. */
struct icechunk_key {
    const struct snapshot_node *node; /* NULL: nothing */
    bool is_document;                 /* zarr.json of the node; else a chunk */
    uint32_t axes, index[MANIFEST_MOST_AXES];
};

/* A chunk that was found. Its manifest is pinned until icechunk_let_go(). */
struct icechunk_chunk {
    struct snapshot_manifest *manifest; /* NULL: none is pinned */
    struct chunk_ref ref;
};

/* icechunk_find.c: Pure. Of a key that is none, ret_key->node is NULL. */
void icechunk_read_key(const struct icechunk *icechunk, const char *key,
                       struct icechunk_key *ret_key);

/* icechunk_find.c: finds a chunk. `may_wait`: reads manifests as needed; else *ret_absent says that
 * one would have to be read. NOT_FOUND: no manifest has the chunk; CORRUPT, UNSUPPORTED, NO_MEMORY,
 * IO. */
MUST_USE enum status icechunk_find(const struct icechunk *icechunk, const struct icechunk_key *key,
                                   bool may_wait, bool *ret_absent,
                                   struct icechunk_chunk *ret_chunk, struct error *err);
void icechunk_let_go(const struct icechunk *icechunk, struct icechunk_chunk *chunk);

/* icechunk_find.c: a number that tells chunks apart, for versions of values. */
uint64_t icechunk_content(const struct chunk_ref *ref);

/* icechunk_manifests.c: pins a manifest, which is read if it is not in memory. Waits. The caller
 * has nothing pinned. Errors as of store_get() but NOT_FOUND. */
MUST_USE enum status icechunk_pin(const struct icechunk *icechunk,
                                  struct snapshot_manifest *manifest,
                                  const unsigned char **ret_bytes, struct error *err);

/* icechunk_manifests.c: reads and decompresses a file, malloc'ed: the caller's. Errors as of
 * store_get(), with the key. */
MUST_USE enum status icechunk_read_file(const struct store *base, const char *key, int kind,
                                        unsigned char **ret_bytes, size_t *ret_size,
                                        struct error *err);

/* icechunk_manifests.c: as store_catalogue_below(). */
MUST_USE enum status icechunk_catalogue_below(const struct store *store, const char *prefix,
                                              struct store_catalogue *ret_catalogue,
                                              struct error *err);

/* icechunk_refs.c: the snapshot that a reference names; and the repository's configuration, if it
 * has one, malloc'ed. NOT_FOUND: no such reference, or no repository. */
struct icechunk_uri;
MUST_USE enum status icechunk_resolve(struct icechunk *icechunk, const struct icechunk_uri *uri,
                                      struct error *err);

/* icechunk_virtual.c: opens the stores of the prefixes that the settings allow. */
MUST_USE enum status icechunk_open_prefixes(struct icechunk *icechunk,
                                            const struct store_options *options, store_opener *open,
                                            struct error *err);

/* icechunk_virtual.c: which store has the object of a chunk that is not inline, and its key there.
 * INVALID: it lies where the configuration does not allow. CORRUPT. Pure. */
MUST_USE enum status icechunk_object(const struct icechunk *icechunk, const struct chunk_ref *ref,
                                     const struct store **ret_store,
                                     char ret_key[ICECHUNK_KEY_BYTES], struct error *err);

/* icechunk_read.c: operations of the kind, and what they share. */
MUST_USE enum status icechunk_get(const struct store *store, const char *key, store_begins *begins,
                                  void *buffer, size_t capacity, size_t *ret_size,
                                  struct error *err);
MUST_USE enum status icechunk_get_ranges(const struct store *store, const char *key,
                                         const struct store_range *ranges, size_t count,
                                         uint64_t total, struct error *err);
MUST_USE enum status icechunk_get_suffix(const struct store *store, const char *key, void *buffer,
                                         size_t size, uint64_t *ret_total, struct error *err);
MUST_USE enum status icechunk_get_text(const struct store *store, const char *key, size_t limit,
                                       char **ret_text, size_t *ret_size, struct error *err);
MUST_USE enum status icechunk_stat(const struct store *store, const char *key,
                                   struct store_info *ret_info, struct error *err);

/* icechunk_read.c: reads a piece of a chunk that is not inline. Waits. */
MUST_USE enum status icechunk_read_object(const struct icechunk *icechunk,
                                          const struct chunk_ref *ref, uint64_t offset, size_t size,
                                          void *buffer, struct error *err);

/* icechunk_read.c: what is told of an object that a manifest refers to, and that was not read. */
enum status icechunk_explain(const struct chunk_ref *ref, enum status status, struct error *err);

/* icechunk_list.c: operations of the kind. */
MUST_USE enum status icechunk_list(const struct store *store, const char *prefix,
                                   store_visit *visit, void *argument, struct error *err);
MUST_USE enum status icechunk_names(const struct store *store, const char *prefix,
                                    store_visit_name *visit, void *argument, struct error *err);
MUST_USE enum status icechunk_usage(const struct store *store, const char *prefix, uint64_t most,
                                    struct store_usage *ret_usage, struct error *err);

/* icechunk_fetch.c: the fetches of a repository of which anything is behind a network. */
MUST_USE enum status icechunk_relays_new(struct icechunk *icechunk, struct error *err);
void icechunk_fetch(const struct store *store, struct fetch *fetch);
void icechunk_fetch_stop(const struct store *store);

#endif
