/* Where objects lie: beside the list that names them, or below the prefixes that the configuration
 * allows (store.virtual). Any thread, after opening. */
#include "store/virtual/virtual.h"

#include "store/http/url.h"

#include <stdlib.h>
#include <string.h>

void virtual_append_decoded(const char *text, struct text *out)
{
    for (; *text && *text != '?' && *text != '#'; text++) {
        char c = *text;
        bool escape = url_is_escape(text, &c);
        text_append_bytes(out, &c, 1);
        text += escape ? 2 : 0;
    }
    text_append_bytes(out, "", 0);
}

/* As locations are compared: paths are file:// uris; and what stores decode in their uris is
 * decoded.
 */
static void append_prefix(const char *uri, struct text *out)
{
    bool is_path = !strstr(uri, "://");
    if (strncmp(uri, "file:", 5) == 0 || strncmp(uri, "http", 4) == 0)
        virtual_append_decoded(uri, out);
    else
        text_append(out, "%s%s", is_path ? "file://" : "", uri);
    if (out->data[out->length - 1] != '/')
        text_append(out, "/");
}

const char *virtual_uri_inside(const char *uri, const char *scheme)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const char *rest = uri + strlen(scheme);
    if (strncmp(uri, scheme, strlen(scheme)) != 0)
        return NULL;
    if (strncmp(rest, "://", 3) == 0)
        return rest + 3;
    size_t length = rest[0] == '+' ? strspn(rest + 1, letters) : 0;
    return length > 0 && strncmp(rest + 1 + length, "://", 3) == 0 ? rest + 1 : NULL;
}

static bool is_virtual(const char *uri)
{
    return virtual_uri_inside(uri, "icechunk") || virtual_uri_inside(uri, "reference");
}

static enum status open_prefix(struct virtual_store *store, const char *uri,
                               const struct store_options *options, store_opener *open,
                               struct error *err)
{
    struct virtual_prefix *prefix = &store->prefixes[store->prefix_count];
    struct text text = {0};
    if (store->prefix_count == VIRTUAL_MOST_PREFIXES)
        return error_set(err, STATUS_INVALID, "store.virtual: more than %d prefixes",
                         VIRTUAL_MOST_PREFIXES);
    if ((!strstr(uri, "://") && uri[0] != '/') || is_virtual(uri)) /* which would open itself */
        return error_set(err, STATUS_INVALID,
                         "store.virtual: '%s': write an absolute path, or a uri such as "
                         "s3://BUCKET/PREFIX/",
                         uri);
    enum status status = open(uri, options, &prefix->store, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "store.virtual: ");
    store->prefix_count++;
    append_prefix(uri, &text);
    prefix->prefix = text.data;
    return STATUS_OK;
}

static bool is_any_remote(const struct virtual_store *store)
{
    bool remote = store->base && store->base->operations->fetch;
    for (size_t i = 0; i < store->prefix_count; i++)
        remote |= store->prefixes[i].store->operations->fetch != NULL;
    return remote;
}

enum status virtual_open(struct virtual_store *store, const struct store_options *options,
                         store_opener *open, const struct store_operations *remote,
                         struct error *err)
{
    struct text uri = {0};
    const char *list = options->settings->virtual_prefixes;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &uri))
        status = open_prefix(store, uri.data, options, open, err);
    text_done(&uri);
    if (status != STATUS_OK || !is_any_remote(store))
        return status;
    store->store.operations = remote;
    return virtual_relays_new(store, err);
}

void virtual_done(struct virtual_store *store)
{
    virtual_fetch_stop(&store->store);
    for (size_t i = 0; i < store->prefix_count; i++) {
        store_close(store->prefixes[i].store);
        free(store->prefixes[i].prefix);
    }
    store_close(store->base);
    relays_free(store->relays);
    free(store->uri);
}

static enum status not_allowed(const struct virtual_store *store, const char *location,
                               struct error *err)
{
    const char *slash = strrchr(location, '/'), *whole = store->kind->whole;
    int bytes = slash ? (int)(slash - location) + 1 : 0;
    if (text_has_secret(location))
        return error_set(err, STATUS_INVALID, "it lies outside %s, at a uri with a secret in it",
                         whole);
    return error_set(err, STATUS_INVALID,
                     "it lies outside %s, at '%.300s': if %s may have that read, set "
                     "store.virtual: ['%.*s'], or a prefix of it",
                     whole, location, whole, bytes < 300 ? bytes : 300, location);
}

static enum status find_prefix(const struct virtual_store *store, const char *location,
                               const struct store **ret_store, char ret_key[VIRTUAL_LOCATION_BYTES],
                               struct error *err)
{
    const struct virtual_prefix *longest = NULL;
    for (size_t i = 0; i < store->prefix_count; i++) {
        const struct virtual_prefix *prefix = &store->prefixes[i];
        size_t bytes = strlen(prefix->prefix);
        if (strncmp(location, prefix->prefix, bytes) == 0 &&
            (!longest || bytes > strlen(longest->prefix)))
            longest = prefix;
    }
    if (!longest)
        return not_allowed(store, location, err);
    const char *key = location + strlen(longest->prefix);
    if (strlen(key) >= VIRTUAL_LOCATION_BYTES || !store_key_is_well_formed(key))
        return error_set(err, STATUS_CORRUPT,
                         "its location '%.300s' is malformed, or has '.' or '..' in it", location);
    strcpy(ret_key, key);
    *ret_store = longest->store;
    return STATUS_OK;
}

enum status virtual_object(const struct virtual_store *store, const struct virtual_value *value,
                           const struct store **ret_store, char ret_key[VIRTUAL_LOCATION_BYTES],
                           struct error *err)
{
    struct text location = {0};
    if (value->is_inside) {
        strcpy(ret_key, value->location);
        *ret_store = store->base;
        return STATUS_OK;
    }
    enum status status = store->kind->locate(store, value->location, &location, err);
    if (status == STATUS_OK)
        status = find_prefix(store, location.data, ret_store, ret_key, err);
    text_done(&location);
    return status;
}
