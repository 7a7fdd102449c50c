/* A walk through a store of foreign bytes: whatever it lists can be asked for. The answer is the
 * value or an error, and pieces agree with the whole. */
#ifndef PENSTOCK_TESTS_FUZZ_WALK_H
#define PENSTOCK_TESTS_FUZZ_WALK_H

#include "fuzz.h"

#include "store/store.h"

enum { DEPTH = 5, VALUE_BYTES = 1 << 16, MOST_VISITED = 64 };

struct walk {
    const struct store *store;
    const char *prefix;
    int depth;
    uint64_t *visited;
    bool is_there; /* what is listed is, and its values may only be damaged */
};

static inline void look_at(const struct store *store, const char *key, bool is_there)
{
    static unsigned char value[VALUE_BYTES], piece[VALUE_BYTES];
    struct store_info info;
    struct error err;
    size_t size = 0;
    uint64_t total = 0;
    enum status status = store_stat(store, key, &info, &err);
    CHECK(!is_there || status != STATUS_NOT_FOUND);
    if (store_get(store, key, value, sizeof value, &size, &err) != STATUS_OK) {
        CHECK(err.message[0]);
        return;
    }
    CHECK(status == STATUS_OK && info.bytes == size);
    CHECK(store_get_suffix(store, key, piece, size / 2, &total, &err) == STATUS_OK);
    CHECK(total == size && memcmp(piece, value + size - size / 2, size / 2) == 0);
    const struct store_range range = {size / 3, size / 3, piece};
    CHECK(store_get_ranges(store, key, &range, 1, NULL, &err) == STATUS_OK);
    CHECK(memcmp(piece, value + size / 3, size / 3) == 0);
}

static inline enum status walk_visit(const char *name, bool is_prefix, void *argument,
                                     struct error *err)
{
    struct walk *walk = argument;
    char key[4096];
    CHECK(name[0] && !strchr(name, '/'));
    if (++*walk->visited > MOST_VISITED)
        return error_set(err, STATUS_ENDED, "enough");
    if (snprintf(key, sizeof key, "%s%s%s", walk->prefix, *walk->prefix ? "/" : "", name) >=
        (int)sizeof key)
        return STATUS_OK;
    if (!is_prefix) {
        look_at(walk->store, key, walk->is_there);
        return STATUS_OK;
    }
    struct walk below = *walk;
    below.prefix = key;
    below.depth++;
    struct store_usage usage;
    struct store_catalogue catalogue;
    enum status status = store_usage(walk->store, key, 1, &usage, NULL);
    CHECK(!walk->is_there || status != STATUS_NOT_FOUND);
    (void)!store_catalogue_below(walk->store, key, &catalogue, NULL);
    status =
        below.depth < DEPTH ? store_list(walk->store, key, walk_visit, &below, err) : STATUS_OK;
    return status == STATUS_ENDED ? status : STATUS_OK;
}

/* Walks from the root of an open store. */
static inline void walk_store(const struct store *store, bool is_there)
{
    uint64_t visited = 0;
    struct error err;
    struct walk walk = {store, "", 0, &visited, is_there};
    enum status status = store_list(store, "", walk_visit, &walk, &err);
    CHECK(status == STATUS_OK || err.message[0]);
}

#endif
