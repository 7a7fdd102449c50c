/* Stores behind a network. The operations of a store are made of fetches (fetch.h), which
 * http_client.c answers. Servers differ in how requests are made, and in whether there are listings
 * (remote_internal.h). Any thread.
 */
#include "store/remote/remote_internal.h"

#include "store/http/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct remote *remote_of(const struct store *store)
{
    return (const struct remote *)store;
}

/* Operations
 * ---------------------------------------------------------------------------------------------- */

static enum status get(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    struct fetch fetch = {
        .kind = FETCH_WHOLE, .key = key, .buffer = buffer, .capacity = capacity, .begins = begins};
    enum status status = fetch_run(store, &fetch, 1, err);
    if (status == STATUS_OK)
        *ret_size = fetch.got;
    return status;
}

static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err)
{
    const struct fetch of = {.key = key};
    (void)total;
    return fetch_run_ranges(store, &of, ranges, count, err);
}

static enum status stat_value(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    struct fetch fetch = {.kind = FETCH_STAT, .key = key};
    enum status status = fetch_run(store, &fetch, 1, err);
    if (status == STATUS_OK)
        *ret_info = (struct store_info){.bytes = fetch.total, .version = fetch.version};
    return status;
}

/* By a range from the end; servers that have none of those are asked for the size first. */
static enum status get_suffix(const struct store *store, const char *key, void *buffer, size_t size,
                              uint64_t *ret_total, struct error *err)
{
    struct fetch fetch = {.kind = FETCH_SUFFIX, .key = key, .size = size, .buffer = buffer};
    enum status status = size > 0 ? fetch_run(store, &fetch, 1, err) : STATUS_UNSUPPORTED;
    if (status == STATUS_OK)
        *ret_total = fetch.total;
    if (status != STATUS_UNSUPPORTED)
        return status;
    fetch = (struct fetch){.kind = FETCH_STAT, .key = key};
    status = fetch_run(store, &fetch, 1, err);
    if (status == STATUS_OK && fetch.encoded)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "'%s/%s': the server does not give the end of this value, nor its "
                           "length without the Content-Encoding: store the value without one",
                           store->uri, key);
    if (status == STATUS_OK && fetch.total < size)
        status = error_set(err, STATUS_CORRUPT,
                           "'%s/%s' has %llu bytes, %zu are needed: it was cut short", store->uri,
                           key, (unsigned long long)fetch.total, size);
    if (status == STATUS_OK)
        status = get_ranges(store, key, &(struct store_range){fetch.total - size, size, buffer}, 1,
                            STORE_ANY_TOTAL, err);
    if (status == STATUS_OK)
        *ret_total = fetch.total;
    return status;
}

/* Most documents are small: a second request is made for those that are not. */
static enum status get_text(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err)
{
    size_t capacity = limit < 64 << 10 ? limit : 64 << 10;
    for (;;) {
        char *text = malloc(capacity + 1);
        if (!text)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the %zu bytes of '%s/%s'",
                             capacity, store->uri, key);
        struct fetch fetch = {
            .kind = FETCH_WHOLE, .key = key, .buffer = text, .capacity = capacity};
        enum status status = fetch_run(store, &fetch, 1, err);
        if (status == STATUS_OK) {
            text[fetch.got] = '\0';
            *ret_text = text;
            *ret_size = fetch.got;
            return STATUS_OK;
        }
        free(text);
        if (status != STATUS_CORRUPT || capacity == limit || fetch.total > limit)
            return status;
        size_t more = fetch.total > capacity ? (size_t)fetch.total : 8 * capacity;
        capacity = more < limit ? more : limit;
    }
}

static enum status no_listing(const struct store *store, const char *prefix, struct error *err)
{
    return error_set(
        err, STATUS_UNSUPPORTED,
        "list '%s/%s': plain HTTP has no listings, so arrays are found by consolidated "
        "metadata alone: write it with zarr.consolidate_metadata(), or name "
        "the uri of one array",
        store->uri, prefix);
}

static enum status list(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    const struct remote *remote = remote_of(store);
    return remote->origin->kind->query ? remote_list(remote, prefix, visit, argument, err)
                                       : no_listing(store, prefix, err);
}

static enum status usage(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err)
{
    const struct remote *remote = remote_of(store);
    return remote->origin->kind->query ? remote_usage(remote, prefix, most, ret_usage, err)
                                       : no_listing(store, prefix, err);
}

static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    const struct remote *remote = remote_of(store);
    (void)err;
    if (remote->origin->identity)
        text_append(out, "%s ", remote->origin->identity);
    text_append(out, "%s\n", remote->uri);
    return STATUS_OK;
}

static void start(const struct store *store, struct fetch *fetch)
{
    http_client_start(remote_of(store)->client, fetch);
}

static void stop(const struct store *store)
{
    http_client_stop(remote_of(store)->client);
}

static void release(struct store *store)
{
    struct remote *remote = (struct remote *)store;
    http_client_free(remote->client);
    origin_free(remote->origin);
    free(remote->uri);
    free(remote);
}

static const struct store_operations operations = {
    .get = get,
    .get_ranges = get_ranges,
    .get_suffix = get_suffix,
    .get_text = get_text,
    .list = list,
    .usage = usage,
    .stat = stat_value,
    .identify = identify,
    .fetch = start,
    .fetch_stop = stop,
    .free = release,
};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

/* A bucket is no host: the prefix of its uri may have any characters but these. */
static enum status check_uri(const char *uri, struct error *err)
{
    const char *bucket = strstr(uri, "://") + 3;
    if (strcspn(bucket, "/?#") == 0)
        return error_set(err, STATUS_INVALID, "store '%s': no bucket in it", uri);
    for (const char *c = uri; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return error_set(err, STATUS_INVALID, "a store's uri has a control character in it");
    return STATUS_OK;
}

static enum status check_proxy(const char *proxy, struct error *err)
{
    struct text plain = {0};
    enum status status = *proxy ? origin_endpoint("store.proxy", proxy, &plain, err) : STATUS_OK;
    text_done(&plain);
    return status;
}

static bool begins(const char *uri, const char *scheme)
{
    return strncmp(uri, scheme, strlen(scheme)) == 0;
}

static enum status open_origin(struct remote *remote, const struct store_options *options,
                               struct error *err)
{
    const char *uri = remote->uri;
    const struct store_settings *settings = options->settings;
    bool is_s3 = begins(uri, "s3:") || begins(uri, "gs:");
    bool is_azure = begins(uri, "az:") || begins(uri, "abfs") || azure_is(uri);
    enum status status = check_proxy(settings->proxy, err);
    if (status == STATUS_OK && (is_s3 || is_azure))
        status = check_uri(uri, err);
    if (status != STATUS_OK)
        return status;
    return is_s3      ? s3_new(uri, settings, &remote->origin, err)
           : is_azure ? azure_new(uri, settings, &remote->origin, err)
                      : web_new(uri, settings, &remote->origin, err);
}

static bool refresh(void *context, uint64_t sent_ns)
{
    const struct origin *origin = context;
    return credentials_renew(origin->provider, sent_ns);
}

static struct http_target target_of(struct origin *origin)
{
    return (struct http_target){.context = origin,
                                .encrypts = origin->encrypts,
                                .no_end = origin->kind->no_end,
                                .is_coded = origin->kind->is_coded,
                                .prepare = origin->kind->prepare,
                                .refresh = refresh,
                                .moved = origin->kind->moved,
                                .explain = origin->kind->explain};
}

enum status remote_open(const char *uri, const struct store_options *options,
                        struct store **ret_store, struct error *err)
{
    struct remote *remote = calloc(1, sizeof *remote);
    char *copy = strdup(uri);
    if (!remote || !copy) {
        free(remote);
        free(copy);
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    }
    size_t length = strlen(copy);
    while (copy[length - 1] == '/' && copy[length - 2] != '/')
        copy[--length] = '\0';
    remote->store.operations = &operations;
    remote->uri = copy;
    struct http_target target;
    enum status status = open_origin(remote, options, err);
    if (status == STATUS_OK)
        target = target_of(remote->origin);
    if (status == STATUS_OK)
        status = http_client_new(&target, options, copy, &remote->client, err);
    if (status != STATUS_OK) {
        release(&remote->store);
        return status;
    }
    *ret_store = &remote->store;
    return STATUS_OK;
}
