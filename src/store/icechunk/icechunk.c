/* An Icechunk repository as a read-only store, at one snapshot: opening it, and what it says of
 * itself. Any thread, after opening. */
#include "store/icechunk/icechunk.h"

#include "store/icechunk/envelope.h"
#include "store/icechunk/icechunk_internal.h"
#include "store/icechunk/icechunk_uri.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    enum status status = icechunk->base->operations->identify(icechunk->base, out, err);
    text_append(out, "icechunk snapshot %s\n", icechunk->id);
    return status;
}

/* A snapshot's values never change: two processes that read one see the same. */
static enum status stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                         struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    (void)prefix, (void)err;
    *ret_stamp = XXH3_64bits(icechunk->id, strlen(icechunk->id)) | 1;
    return STATUS_OK;
}

static const char *pinned(const struct store *store)
{
    return icechunk_of(store)->pinned;
}

static const char *snapshot_id(const struct store *store)
{
    return icechunk_of(store)->id;
}

static struct inflated **inflated(const struct store *store)
{
    return &icechunk_of(store)->inflated;
}

static void release(struct store *store)
{
    struct icechunk *icechunk = icechunk_of(store);
    icechunk_fetch_stop(store);
    for (size_t i = 0; i < icechunk->prefix_count; i++) {
        store_close(icechunk->prefixes[i].store);
        free(icechunk->prefixes[i].prefix);
    }
    store_close(icechunk->base);
    relays_free(icechunk->relays);
    inflated_free(icechunk->inflated);
    snapshot_done(&icechunk->snapshot);
    free(icechunk->config);
    free(icechunk->uri);
    free(icechunk->pinned);
    pthread_cond_destroy(&icechunk->loaded);
    pthread_mutex_destroy(&icechunk->mutex);
    free(icechunk);
}

#define OPERATIONS                                                                                 \
    .get = icechunk_get, .get_ranges = icechunk_get_ranges, .get_suffix = icechunk_get_suffix,     \
    .get_text = icechunk_get_text, .list = icechunk_list, .names = icechunk_names, .stamp = stamp, \
    .usage = icechunk_usage, .stat = icechunk_stat, .identify = identify, .pinned = pinned,        \
    .snapshot = snapshot_id, .inflated = inflated, .catalogue_below = icechunk_catalogue_below,    \
    .free = release

static const struct store_operations local_operations = {OPERATIONS};
static const struct store_operations remote_operations = {OPERATIONS, .fetch = icechunk_fetch,
                                                          .fetch_stop = icechunk_fetch_stop};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static enum status read_snapshot(struct icechunk *icechunk, struct error *err)
{
    struct text key = {0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    text_append(&key, "snapshots/%s", icechunk->id);
    enum status status =
        icechunk_read_file(icechunk->base, key.data, ENVELOPE_SNAPSHOT, &bytes, &size, err);
    if (status == STATUS_NOT_FOUND)
        status = error_set(err, STATUS_NOT_FOUND,
                           "the Icechunk repository '%s' has no snapshot '%s': was it expired?",
                           icechunk->base->uri, icechunk->id);
    else if (status == STATUS_OK) {
        status = snapshot_read(bytes, size, &icechunk->snapshot, err);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "'%s/%s': ", icechunk->base->uri, key.data);
    }
    text_done(&key);
    return status;
}

static bool is_any_remote(const struct icechunk *icechunk)
{
    bool remote = icechunk->base->operations->fetch;
    for (size_t i = 0; i < icechunk->prefix_count; i++)
        remote |= icechunk->prefixes[i].store->operations->fetch != NULL;
    return remote;
}

/* The uri as given, with the snapshot instead of the reference. */
static void pin_uri(struct icechunk *icechunk, const char *uri)
{
    struct text pinned = {0};
    text_append(&pinned, "%.*s@snapshot:%s", (int)strcspn(uri, "@"), uri, icechunk->id);
    icechunk->pinned = pinned.data;
}

static enum status open_all(struct icechunk *icechunk, const char *uri,
                            const struct icechunk_uri *parts, const struct store_options *options,
                            store_opener *open, struct error *err)
{
    enum status status = icechunk_resolve(icechunk, parts, err);
    if (status == STATUS_OK)
        status = read_snapshot(icechunk, err);
    if (status == STATUS_OK)
        status = icechunk_open_prefixes(icechunk, options, open, err);
    if (status == STATUS_OK && is_any_remote(icechunk)) {
        icechunk->store.operations = &remote_operations;
        status = icechunk_relays_new(icechunk, err);
    }
    if (status == STATUS_OK)
        pin_uri(icechunk, uri);
    return status;
}

/* Takes `base`. */
static enum status open_parts(struct store *base, const char *uri, const struct icechunk_uri *parts,
                              const struct store_options *options, store_opener *open,
                              struct store **ret_store, struct error *err)
{
    struct icechunk *icechunk = calloc(1, sizeof *icechunk);
    struct inflated *kept = inflated_new();
    char *copy = strdup(uri);
    if (!icechunk || !kept || !copy) {
        free(icechunk);
        free(copy);
        inflated_free(kept);
        store_close(base);
        return error_set(err, STATUS_NO_MEMORY, "no memory to open it");
    }
    icechunk->store.operations = &local_operations;
    icechunk->uri = copy;
    icechunk->base = base;
    icechunk->inflated = kept;
    inflated_reserve(kept, ICECHUNK_KEPT_BYTES);
    pthread_mutex_init(&icechunk->mutex, NULL);
    pthread_cond_init(&icechunk->loaded, NULL);
    enum status status = open_all(icechunk, uri, parts, options, open, err);
    if (status != STATUS_OK) {
        release(&icechunk->store);
        return status;
    }
    *ret_store = &icechunk->store;
    return STATUS_OK;
}

enum status icechunk_open_in(struct store *base, const char *uri,
                             const struct store_options *options, store_opener *open,
                             struct store **ret_store, struct error *err)
{
    struct icechunk_uri parts;
    enum status status = icechunk_uri_parse(uri, &parts, err);
    if (status != STATUS_OK) {
        store_close(base);
        return status;
    }
    status = open_parts(base, uri, &parts, options, open, ret_store, err);
    icechunk_uri_done(&parts);
    return status == STATUS_OK ? STATUS_OK : error_prefix(err, status, "store '%s': ", uri);
}

enum status icechunk_open(const char *uri, const struct store_options *options, store_opener *open,
                          struct store **ret_store, struct error *err)
{
    struct icechunk_uri parts;
    struct store *base = NULL;
    enum status status = icechunk_uri_parse(uri, &parts, err);
    if (status != STATUS_OK)
        return status;
    status = open(parts.base, options, &base, err);
    icechunk_uri_done(&parts);
    return status == STATUS_OK ? icechunk_open_in(base, uri, options, open, ret_store, err)
                               : error_prefix(err, status, "store '%s': ", uri);
}
