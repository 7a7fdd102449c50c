/* What a kind of store provides; store.c dispatches to it after checking keys.
 *
 * A store embeds `struct store` as its first member. Every function may be called by any number of
 * threads at once and gets keys and prefixes that store.c has found well-formed. The contracts are
 * those of store.h; what a kind may leave out says so.
 *
 * A store around another one (`inner`; faulty.c) stands in the way of values' bytes alone: of get,
 * get_ranges, get_tail and get_text. For anything else store.c asks the inner one.
 */
#ifndef PENSTOCK_STORE_STORE_INTERNAL_H
#define PENSTOCK_STORE_STORE_INTERNAL_H

#include "store/fetch.h"
#include "store/store.h"

#define STORE_ANY_TOTAL UINT64_MAX

/* Ranges that are asked for at once at most, so that nothing has to be allocated. */
enum { STORE_RANGES_AT_ONCE = 16 };

struct store_operations {
    /* `begins` as in store_get_packed(), may be NULL. Kinds whose values have no Content-Encoding
     * do not look at it. */
    enum status (*get)(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err);
    /* `total` as in store_get_range(), or STORE_ANY_TOTAL. Kinds that would have to ask for it do
     * not look at it. */
    enum status (*get_ranges)(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err);
    enum status (*get_tail)(const struct store *store, const char *key, void *buffer, size_t size,
                            uint64_t *ret_total, struct error *err);
    enum status (*get_text)(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err);
    /* NULL: such stores are only read. */
    enum status (*put)(const struct store *store, const char *key, const void *data, size_t size,
                       struct error *err);
    enum status (*list)(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err);
    enum status (*usage)(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err);
    enum status (*stat)(const struct store *store, const char *key, struct store_info *ret_info,
                        struct error *err);
    enum status (*identify)(const struct store *store, struct text *out, struct error *err);
    void (*fetch)(const struct store *store, struct fetch *fetch); /* NULL: not remote */
    void (*fetch_stop)(const struct store *store);                 /* NULL: nothing to stop */
    void (*free)(struct store *store); /* all but `uri`, which store.c frees */
};

struct store {
    const struct store_operations *operations;
    char *uri; /* owned; as the user gave it */
    uint32_t retries;
    struct store_watch *watch; /* borrowed; NULL: none */
    struct store_join *join;   /* joined.c; NULL: this store is one */
    struct store *inner;       /* owned: the store that this one is around; NULL: none */
};

/* fetched.c: takes what was fetched of that key, or of that range of its value; false: nothing, or
 * more than there is room for. *ret_status: how the fetch ended, with its error. `fetched` may be
 * NULL. */
bool fetched_get(struct fetched *fetched, const struct store *store, const char *key, void *buffer,
                 size_t capacity, size_t *ret_size, enum status *ret_status, struct error *err);
bool fetched_get_range(struct fetched *fetched, const struct store *store, const char *key,
                       const struct store_range *range, enum status *ret_status, struct error *err);

/* store.c: asserts that the calling thread may wait. */
void store_may_wait(void);

/* joined.c: whether any of them is remote. */
bool joined_is_remote(const struct store *store);

/* directory.c: `path` is the uri without its scheme. */
MUST_USE enum status directory_open(const char *path, const struct store_options *options,
                                    struct store **ret_store, struct error *err);

/* zip.c: `path` is the uri without its scheme. */
MUST_USE enum status zip_open(const char *path, struct store **ret_store, struct error *err);

/* remote.c: http://, https:// and s3:// uris. */
MUST_USE enum status remote_open(const char *uri, const struct store_options *options,
                                 struct store **ret_store, struct error *err);

/* directory_tree.c: makes the folder, or empties it if `overwrite` allows that (store_create()). */
MUST_USE enum status directory_create(const char *path, bool overwrite, struct error *err);

#endif
