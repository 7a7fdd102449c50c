/* What a kind of store provides. store.c checks keys, then calls the operations of the kind.
 *
 * A store embeds `struct store` as its first member. Any number of threads may call every operation
 * at once. Keys and prefixes are well-formed: store.c has checked them. The contracts are those of
 * store.h. An operation that may be NULL says so.
 *
 * A store around another store (`inner`; faulty.c) has get, get_ranges, get_suffix and get_text
 * alone, and is not remote. For all other calls store.c asks the inner store.
 * A joined store (joined.c) has identify, fetch_stop and free alone: store.c first finds the store
 * that has the key.
 */
#ifndef PENSTOCK_STORE_KIND_STORE_INTERNAL_H
#define PENSTOCK_STORE_KIND_STORE_INTERNAL_H

#include "store/kind/fetch.h"
#include "store/store.h"

/* A value may have any number of bytes. */
#define STORE_ANY_TOTAL UINT64_MAX

/* The most ranges that are asked for at once: their array lies on the stack. */
enum { STORE_RANGES_AT_ONCE = 16 };

struct store_operations {
    /* `begins` as in store_get_packed(), may be NULL. Kinds whose values have no Content-Encoding
     * ignore `begins`. */
    enum status (*get)(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err);
    /* `total` as in store_get_range(), or STORE_ANY_TOTAL. Kinds that would need a request to check
     * `total` ignore it. */
    enum status (*get_ranges)(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err);
    enum status (*get_suffix)(const struct store *store, const char *key, void *buffer, size_t size,
                              uint64_t *ret_total, struct error *err);
    enum status (*get_text)(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err);
    /* NULL: such stores are read-only. */
    enum status (*put)(const struct store *store, const char *key, const void *data, size_t size,
                       struct error *err);
    enum status (*list)(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err);
    /* NULL: as by `list`. */
    enum status (*names)(const struct store *store, const char *prefix, store_visit_name *visit,
                         void *argument, struct error *err);
    /* NULL: remote. */
    enum status (*stamp)(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                         struct error *err);
    enum status (*usage)(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err);
    enum status (*stat)(const struct store *store, const char *key, struct store_info *ret_info,
                        struct error *err);
    enum status (*identify)(const struct store *store, struct text *out, struct error *err);
    /* As store_inflate_below(). NULL: values are not inflated. */
    struct store_inflate (*inflate_below)(const struct store *store, const char *prefix);
    /* As store_catalogue_below(). NULL: there are no manifests. */
    enum status (*catalogue_below)(const struct store *store, const char *prefix,
                                   struct store_catalogue *ret_catalogue, struct error *err);
    /* As store_table_bytes(). NULL: none. */
    uint64_t (*table_bytes)(const struct store *store);
    /* Where the store has what it inflated (inflated.h). NULL: nothing is inflated. */
    struct inflated **(*inflated)(const struct store *store);
    /* As store_pinned_uri() and store_snapshot(). Both NULL: the store has no snapshots. */
    const char *(*pinned)(const struct store *store);
    const char *(*snapshot)(const struct store *store);
    void (*fetch)(const struct store *store, struct fetch *fetch); /* NULL: not remote */
    void (*fetch_stop)(const struct store *store);                 /* NULL: nothing to stop */
    void (*free)(struct store *store); /* all but `uri`, which store.c frees */
};

struct store {
    const struct store_operations *operations;
    char *uri; /* owned; as the user gave it */
    uint32_t retries;
    struct store_watch *watch; /* borrowed; NULL: none */
    struct store_join *join;   /* owned: the stores of a joined store; NULL: not joined */
    struct store *inner;       /* owned: the store that this store is around; NULL: none */
};

/* fetched.c: takes the fetched value of `key`. True: *ret_status is the status that the fetch ended
 * with; if OK, `buffer` and *ret_size are set, else *err. False: there is no such fetch, or the
 * value has more than `capacity` bytes. `fetched` may be NULL. */
bool fetched_get(struct fetched *fetched, const struct store *store, const char *key, void *buffer,
                 size_t capacity, size_t *ret_size, enum status *ret_status, struct error *err);

/* fetched.c: the same for a range of the value of `key`, into range->buffer. */
bool fetched_get_range(struct fetched *fetched, const struct store *store, const char *key,
                       const struct store_range *range, enum status *ret_status, struct error *err);

/* fetched.c: as store_lend(), of the store that has the key. */
bool fetched_lend(struct fetched *fetched, const struct store *store, const char *key,
                  const struct store_range *range, size_t capacity, const void **ret_bytes,
                  size_t *ret_size);

/* store.c: the store that nothing is around any more. */
const struct store *store_innermost(const struct store *store);

/* joined.c: as store_inflate_below(); and where joined stores have what they inflated. */
struct store_inflate joined_inflate_below(const struct store *store, const char *prefix);
struct inflated *joined_inflated(const struct store *store);

/* joined.c: as store_catalogue_below(). */
MUST_USE enum status joined_catalogue_below(const struct store *store, const char *prefix,
                                            struct store_catalogue *ret_catalogue,
                                            struct error *err);

/* joined.c: as store_table_bytes(). */
uint64_t joined_table_bytes(const struct store *store);

/* Opens a store of the kind that the uri means, and sets its uri; for stores that are made of
 * others. Errors are those of store_open(). options->settings must not be NULL. */
typedef enum status store_opener(const char *uri, const struct store_options *options,
                                 struct store **ret_store, struct error *err);

/* parts.c: whether a key has no empty, "." or ".." part, and so cannot leave the store. */
bool store_key_is_well_formed(const char *key);

/* parts.c: compares keys, as listings need them: below 0, 0 or above 0. '/' comes before all other
 * bytes, so what is below a key follows it. */
int store_key_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

/* Where names of a listing go: one of the two functions is NULL. */
struct store_visitor {
    store_visit *visit;
    store_visit_name *visit_name;
    void *argument;
};

static inline enum status store_tell(const struct store_visitor *visitor, const char *name,
                                     bool is_prefix, uint64_t content, struct error *err)
{
    return visitor->visit ? visitor->visit(name, is_prefix, visitor->argument, err)
                          : visitor->visit_name(name, content, visitor->argument, err);
}

/* parts.c: closes a store that another one is made of. NULL is fine. */
void store_close(struct store *store);

/* waiting.c: starts [count] fetches of a remote store together and waits until all are done. Sets
 * their done() and argument. Any thread but the store's own. */
void fetch_wait(const struct store *store, struct fetch *fetches, size_t count);

/* waiting.c: the same. The status and error are those of the first one that failed. */
MUST_USE enum status fetch_run(const struct store *store, struct fetch *fetches, size_t count,
                               struct error *err);

/* waiting.c: the same for ranges of a value: key and conditions are those of `of`, and offsets
 * count from of->offset. */
MUST_USE enum status fetch_run_ranges(const struct store *store, const struct fetch *of,
                                      const struct store_range *ranges, size_t count,
                                      struct error *err);

/* waiting.c: asserts that the calling thread may wait. */
void store_may_wait(void);

/* joined.c: whether any store of the joined store is remote. */
bool joined_is_remote(const struct store *store);

/* These functions open a store of one kind, with the errors of store_open(). The caller sets uri,
 * retries and watch of the store. options->settings must not be NULL. */

/* directory.c: `path` is the uri without its scheme. */
MUST_USE enum status directory_open(const char *path, const struct store_options *options,
                                    struct store **ret_store, struct error *err);

/* zip.c: `path` is the uri without its scheme. */
MUST_USE enum status zip_open(const char *path, struct store **ret_store, struct error *err);

/* zip.c: an archive that is a value of a remote store, which open() opens. */
MUST_USE enum status zip_open_remote(const char *uri, const struct store_options *options,
                                     store_opener *open, struct store **ret_store,
                                     struct error *err);

/* remote.c: uris of servers. */
MUST_USE enum status remote_open(const char *uri, const struct store_options *options,
                                 struct store **ret_store, struct error *err);

/* directory_tree.c: makes the directory `path`, or empties it as store_create() says. Errors are
 * those of store_create(). */
MUST_USE enum status directory_create(const char *path, bool overwrite, struct error *err);

#endif
