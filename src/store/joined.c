/* Several stores as one. See store.h. A function that gets a key first finds the store that has the
 * key, and goes on with that store. So retries, watching and messages are those of that store. */
#include "store/icechunk/icechunk_uri.h"
#include "store/kind/inflated.h"
#include "store/kind/store_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store_join {
    size_t count;
    struct joined_store {
        struct store *store;
        char *name;
    } stores[];
};

static enum status joined_identify(const struct store *store, struct text *out, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < store->join->count && status == STATUS_OK; i++) {
        status = store_identify(store->join->stores[i].store, out, err);
        text_append(out, "\n");
    }
    return status;
}

static void joined_free(struct store *store)
{
    for (size_t i = 0; i < store->join->count; i++) {
        store_free(store->join->stores[i].store);
        free(store->join->stores[i].name);
    }
    free(store->join);
    free(store);
}

static void joined_fetch_stop(const struct store *store)
{
    for (size_t i = 0; i < store->join->count; i++)
        fetch_stop(store->join->stores[i].store);
}

bool joined_is_remote(const struct store *store)
{
    for (size_t i = 0; i < store->join->count; i++)
        if (store_is_remote(store->join->stores[i].store))
            return true;
    return false;
}

/* Joined stores inflate into the same memory, which the first of them that inflates has. */
struct inflated *joined_inflated(const struct store *store)
{
    for (size_t i = 0; i < store->join->count; i++) {
        const struct store *inner = store_innermost(store->join->stores[i].store);
        if (inner->operations->inflated)
            return *inner->operations->inflated(inner);
    }
    return NULL;
}

/* Before anybody reads. */
static void share_inflated(struct store *store)
{
    struct inflated *first = joined_inflated(store);
    for (size_t i = 0; i < store->join->count; i++) {
        const struct store *inner = store_innermost(store->join->stores[i].store);
        struct inflated **own =
            inner->operations->inflated ? inner->operations->inflated(inner) : NULL;
        if (!own || *own == first)
            continue;
        inflated_free(*own);
        *own = inflated_share(first);
    }
}

/* The store that a prefix lies in, and the prefix there; NULL: none. An array at the root of a
 * store has the path "NAME". */
static const struct store *find_prefix(const struct store *store, const char **prefix)
{
    for (size_t i = 0; i < store->join->count; i++) {
        const struct joined_store *joined = &store->join->stores[i];
        size_t length = strlen(joined->name);
        if (strncmp(*prefix, joined->name, length) != 0 || !strchr("/", (*prefix)[length]))
            continue;
        *prefix += length + ((*prefix)[length] == '/');
        return joined->store;
    }
    return NULL;
}

struct store_inflate joined_inflate_below(const struct store *store, const char *prefix)
{
    const struct store *inner = find_prefix(store, &prefix);
    return inner ? store_inflate_below(inner, prefix) : (struct store_inflate){0};
}

uint64_t joined_directory_bytes(const struct store *store)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < store->join->count; i++)
        sum += store_directory_bytes(store->join->stores[i].store);
    return sum;
}

enum status joined_catalogue_below(const struct store *store, const char *prefix,
                                   struct store_catalogue *ret_catalogue, struct error *err)
{
    const struct store *inner = find_prefix(store, &prefix);
    *ret_catalogue = (struct store_catalogue){0};
    return inner ? store_catalogue_below(inner, prefix, ret_catalogue, err) : STATUS_OK;
}

static const struct store_operations operations = {
    .identify = joined_identify, .fetch_stop = joined_fetch_stop, .free = joined_free};

/* The last name of a uri, without a reference: "b.zarr" of "a/b.zarr/"; *ret_length may be 0. */
static const char *last_name(const char *uri, size_t *ret_length)
{
    size_t end = icechunk_uri_path_bytes(uri), begin;
    while (end > 0 && uri[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && uri[begin - 1] != '/'; begin--)
        ;
    *ret_length = end - begin;
    return uri + begin;
}

static bool same_last_name(const char *a, const char *b)
{
    size_t a_length, b_length;
    a = last_name(a, &a_length);
    b = last_name(b, &b_length);
    return a_length == b_length && memcmp(a, b, a_length) == 0;
}

/* The name of store i, malloc'ed; `numbered`: with its number in any case. NULL: no memory. */
static char *make_name(const char *const *uris, size_t count, size_t i, bool numbered)
{
    size_t length, same = 0;
    const char *last = last_name(uris[i], &length);
    char *name = NULL;
    for (size_t k = 0; k < count; k++)
        same += same_last_name(uris[k], uris[i]);
    if (length == 0 || strspn(last, ".") >= length)
        return asprintf(&name, "%zu", i + 1) < 0 ? NULL : name;
    if (same == 1 && !numbered)
        return strndup(last, length);
    return asprintf(&name, "%zu-%.*s", i + 1, (int)length, last) < 0 ? NULL : name;
}

static enum status name_stores(struct store_join *join, const char *const *uris, bool numbered,
                               struct error *err)
{
    for (size_t i = 0; i < join->count; i++) {
        free(join->stores[i].name);
        join->stores[i].name = make_name(uris, join->count, i, numbered);
        if (!join->stores[i].name)
            return error_set(err, STATUS_NO_MEMORY, "no memory to open %zu stores", join->count);
    }
    return STATUS_OK;
}

/* Whether two have one name: "1" and "y/1" of [".", "y/1"]. */
static bool names_collide(const struct store_join *join)
{
    for (size_t i = 0; i < join->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(join->stores[i].name, join->stores[k].name) == 0)
                return true;
    return false;
}

static enum status open_stores(struct store *store, const char *const *uris, size_t count,
                               const struct store_options *options, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct joined_store *joined = &store->join->stores[i];
        enum status status = store_open_with(uris[i], options, &joined->store, err);
        if (status != STATUS_OK)
            return status;
        store->join->count = i + 1;
    }
    enum status status = name_stores(store->join, uris, false, err);
    share_inflated(store);
    if (status == STATUS_OK && names_collide(store->join))
        status = name_stores(store->join, uris, true, err);
    return status;
}

enum status store_open_joined(const char *const *uris, size_t count,
                              const struct store_options *options, struct store **ret_store,
                              struct error *err)
{
    struct store *store = calloc(1, sizeof *store);
    struct text uri = {0};
    if (!store)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open %zu stores", count);
    store->join = calloc(1, sizeof *store->join + count * sizeof store->join->stores[0]);
    if (!store->join) {
        free(store);
        return error_set(err, STATUS_NO_MEMORY, "no memory to open %zu stores", count);
    }
    for (size_t i = 0; i < count; i++)
        text_list_put(&uri, uris[i]);
    store->operations = &operations;
    store->uri = uri.data;
    store->retries = options->retries;
    store->watch = options->watch;
    enum status status = open_stores(store, uris, count, options, err);
    if (status != STATUS_OK) {
        store_free(store);
        return status;
    }
    *ret_store = store;
    return STATUS_OK;
}

const struct store *store_joined_at(const struct store *store, size_t i, const char **ret_name)
{
    *ret_name = store->join ? store->join->stores[i].name : NULL;
    return store->join ? store->join->stores[i].store : store;
}

const struct store *store_resolve(const struct store *store, const char **key, struct error *err)
{
    if (!store->join)
        return store;
    for (size_t i = 0; i < store->join->count; i++) {
        const struct joined_store *joined = &store->join->stores[i];
        size_t length = strlen(joined->name);
        if (strncmp(*key, joined->name, length) != 0 || (*key)[length] != '/')
            continue;
        *key += length + 1;
        return joined->store;
    }
    error_set(err, STATUS_INVALID,
              "key '%s' does not begin with the name of one of the stores '%s'", *key, store->uri);
    return NULL;
}
