/* Stores whose values lie elsewhere: a list of some kind says in which part of which object. What
 * such kinds share. Inside src/store.
 *
 *     key --> find() of the kind --> bytes in memory, which are the value
 *                                \-> a location --> locate() --> below which prefix --> its store
 *
 * A list is foreign data, and may name any uri. So objects outside the list's own store are read
 * only below the prefixes that the configuration allows (store.virtual). What a list refers to is
 * there, or its lack is an error: never NOT_FOUND.
 *
 * A kind embeds `struct virtual_store` as its first member, and has the operations below in its
 * table. Any thread, after opening.
 */
#ifndef PENSTOCK_STORE_VIRTUAL_VIRTUAL_H
#define PENSTOCK_STORE_VIRTUAL_VIRTUAL_H

#include "store/kind/relay.h"
#include "store/kind/store_internal.h"

enum {
    VIRTUAL_LOCATION_BYTES = 2048, /* of a location, or a key in the store that has an object */
    VIRTUAL_ETAG_BYTES = 256,
    VIRTUAL_MOST_PREFIXES = 16,
};

struct virtual_store;

/* A value that was found. */
struct virtual_value {
    const unsigned char *bytes; /* the value, borrowed until let_go(); NULL: it is in an object */
    uint64_t length, version;
    const void *pinned; /* the kind's own; NULL: nothing is to be let go */
    bool is_inside;     /* the location is a key in the list's own store */
    bool is_whole;      /* the value is all of the object: `length` is not known */
    uint64_t offset;    /* in the object */
    char location[VIRTUAL_LOCATION_BYTES]; /* of the object, as the list has it */
    char etag[VIRTUAL_ETAG_BYTES];         /* of the object, as servers have it; "": not said */
    uint32_t modified_s; /* the latest time of its last change, since 1970; 0: not said */
};

struct virtual_kind {
    const char *whole;  /* for messages: "the repository" */
    const char *refers; /* "the manifest refers" */
    /* Finds a value. `may_wait`: reads what is needed; else *ret_absent says that something would
     * have to be read. NOT_FOUND: there is no such key, or no such chunk; CORRUPT, UNSUPPORTED,
     * NO_MEMORY, IO: without the key. */
    enum status (*find)(const struct virtual_store *store, const char *key, bool may_wait,
                        bool *ret_absent, struct virtual_value *ret_value, struct error *err);
    /* Called once for a value with something pinned. NULL: nothing ever is. */
    void (*let_go)(const struct virtual_store *store, struct virtual_value *value);
    /* Appends a location as prefixes are compared: a uri, with nothing encoded that stores encode.
     * CORRUPT, UNSUPPORTED. */
    enum status (*locate)(const struct virtual_store *store, const char *location, struct text *out,
                          struct error *err);
};

/* A prefix that objects may lie below. */
struct virtual_prefix {
    char *prefix; /* owned; ends in '/' */
    struct store *store;
};

struct virtual_store {
    struct store store;
    const struct virtual_kind *kind;
    char *uri;          /* owned: as given, for messages */
    struct store *base; /* owned: where the list lies; NULL: no value does */
    struct virtual_prefix prefixes[VIRTUAL_MOST_PREFIXES];
    size_t prefix_count;
    struct relays *relays; /* owned; NULL: nothing is behind a network */
};

static inline struct virtual_store *virtual_of(const struct store *store)
{
    return (struct virtual_store *)store;
}

/* virtual_prefixes.c: opens the stores of the prefixes that the settings allow. If any of them, or
 * `base`, is behind a network, the store gets the operations `remote`, and can be asked by fetches.
 * INVALID, and errors of `open`. */
MUST_USE enum status virtual_open(struct virtual_store *store, const struct store_options *options,
                                  store_opener *open, const struct store_operations *remote,
                                  struct error *err);

/* virtual_prefixes.c: closes what virtual_open() opened, and `base`. Half-built ones are fine. */
void virtual_done(struct virtual_store *store);

/* virtual_prefixes.c: which store has the object of a value, and its key there. INVALID: it lies
 * where the configuration does not allow. CORRUPT. Pure. */
MUST_USE enum status virtual_object(const struct virtual_store *store,
                                    const struct virtual_value *value,
                                    const struct store **ret_store,
                                    char ret_key[VIRTUAL_LOCATION_BYTES], struct error *err);

/* virtual_prefixes.c: of a uri "SCHEME://PATH" or "SCHEME+INNER://...", the PATH or "INNER://...";
 * else NULL. Points into `uri`. */
const char *virtual_uri_inside(const char *uri, const char *scheme);

/* virtual_prefixes.c: appends a text without a '?' or '#' and what is behind, percent-decoded. A
 * NUL ends it, and so matches no more. */
void virtual_append_decoded(const char *text, struct text *out);

/* virtual_read.c: operations of the kind. */
MUST_USE enum status virtual_get(const struct store *store, const char *key, store_begins *begins,
                                 void *buffer, size_t capacity, size_t *ret_size,
                                 struct error *err);
MUST_USE enum status virtual_get_ranges(const struct store *store, const char *key,
                                        const struct store_range *ranges, size_t count,
                                        uint64_t total, struct error *err);
MUST_USE enum status virtual_get_suffix(const struct store *store, const char *key, void *buffer,
                                        size_t size, uint64_t *ret_total, struct error *err);
MUST_USE enum status virtual_get_text(const struct store *store, const char *key, size_t limit,
                                      char **ret_text, size_t *ret_size, struct error *err);
MUST_USE enum status virtual_stat(const struct store *store, const char *key,
                                  struct store_info *ret_info, struct error *err);

/* virtual_read.c: what virtual_fetch.c reads, too: pieces of a value in an object, together. Waits.
 */
MUST_USE enum status virtual_read_object(const struct virtual_store *store,
                                         const struct virtual_value *value,
                                         const struct store_range *ranges, size_t count,
                                         struct error *err);

/* virtual_read.c: reads of a value that is a whole object what `fetch` says. Waits. */
MUST_USE enum status virtual_read_whole(const struct virtual_store *store,
                                        const struct virtual_value *value, struct fetch *fetch,
                                        struct error *err);

/* virtual_read.c: frees what a value has pinned. */
void virtual_let_go(const struct virtual_store *store, struct virtual_value *value);

/* virtual_read.c: what is told of an object that a list refers to, and that was not read. */
enum status virtual_explain(const struct virtual_store *store, const struct virtual_value *value,
                            enum status status, struct error *err);

/* virtual_fetch.c: the fetches of a store of which anything is behind a network. */
MUST_USE enum status virtual_relays_new(struct virtual_store *virtual, struct error *err);
void virtual_fetch(const struct store *store, struct fetch *fetch);
void virtual_fetch_stop(const struct store *store);

#endif
