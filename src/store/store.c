/* Stores: which kind a uri means, which keys are allowed, and dispatch. See store.h; called by any
 * thread. */
#include "store/store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The path of a directory uri: it points into `uri`. */
static enum status path_of(const char *uri, const char **ret_path, struct error *err)
{
    static const char file_scheme[] = "file://";
    const char *path = uri;
    const char *colon = strstr(uri, "://");
    if (strncmp(uri, file_scheme, strlen(file_scheme)) == 0) {
        path = uri + strlen(file_scheme);
        if (path[0] != '/')
            return error_set(err, STATUS_INVALID,
                             "store '%s': a file:// uri needs an absolute path (file:///...)", uri);
    } else if (colon && !memchr(uri, '/', (size_t)(colon - uri))) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "store '%s': %.*s stores are not supported: copy it to a directory", uri,
                         (int)(colon - uri), uri);
    }
    if (path[0] == '\0')
        return error_set(err, STATUS_INVALID, "store: the uri is empty: name a directory");
    *ret_path = path;
    return STATUS_OK;
}

/* Well-formed: no empty, "." or ".." component anywhere, so that a key cannot leave the store. */
static bool is_well_formed(const char *key)
{
    for (;;) {
        size_t length = strcspn(key, "/");
        if (length == 0 || (length == 1 && key[0] == '.') ||
            (length == 2 && key[0] == '.' && key[1] == '.'))
            return false;
        if (key[length] == '\0')
            return true;
        key += length + 1;
    }
}

static enum status check_key(const struct store *store, const char *key, struct error *err)
{
    if (is_well_formed(key))
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "store '%s': key '%s' is not a relative path without empty, '.' and '..' parts", store->uri,
        key);
}

static enum status check_prefix(const struct store *store, const char *prefix, struct error *err)
{
    return prefix[0] == '\0' ? STATUS_OK : check_key(store, prefix, err);
}

enum status store_open(const char *uri, struct store **ret_store, struct error *err)
{
    const char *path = NULL;
    enum status status = path_of(uri, &path, err);
    if (status)
        return status;
    char *copy = strdup(uri);
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    struct store *store = NULL;
    status = directory_open(path, &store, err);
    if (status) {
        free(copy);
        return status;
    }
    store->uri = copy;
    *ret_store = store;
    return STATUS_OK;
}

enum status store_create(const char *uri, bool overwrite, struct store **ret_store,
                         struct error *err)
{
    const char *path = NULL;
    enum status status = path_of(uri, &path, err);
    if (!status)
        status = directory_create(path, overwrite, err);
    return status ? status : store_open(uri, ret_store, err);
}

enum status store_get(const struct store *store, const char *key, void *buffer, size_t capacity,
                      size_t *ret_size, struct error *err)
{
    enum status status = check_key(store, key, err);
    if (status)
        return status;
    return store->operations->get(store, key, buffer, capacity, ret_size, err);
}

enum status store_get_text(const struct store *store, const char *key, size_t limit,
                           char **ret_text, size_t *ret_size, struct error *err)
{
    enum status status = check_key(store, key, err);
    if (status)
        return status;
    return store->operations->get_text(store, key, limit, ret_text, ret_size, err);
}

enum status store_put(const struct store *store, const char *key, const void *data, size_t size,
                      struct error *err)
{
    enum status status = check_key(store, key, err);
    return status ? status : store->operations->put(store, key, data, size, err);
}

enum status store_list(const struct store *store, const char *prefix, store_visit *visit,
                       void *argument, struct error *err)
{
    enum status status = check_prefix(store, prefix, err);
    return status ? status : store->operations->list(store, prefix, visit, argument, err);
}

enum status store_usage(const struct store *store, const char *prefix, uint64_t *ret_bytes,
                        uint64_t *ret_count, struct error *err)
{
    enum status status = check_prefix(store, prefix, err);
    return status ? status : store->operations->usage(store, prefix, ret_bytes, ret_count, err);
}

enum status store_stat(const struct store *store, const char *key, struct store_info *ret_info,
                       struct error *err)
{
    enum status status = check_key(store, key, err);
    return status ? status : store->operations->stat(store, key, ret_info, err);
}

enum status store_identify(const struct store *store, struct text *out, struct error *err)
{
    return store->operations->identify(store, out, err);
}

const char *store_uri(const struct store *store)
{
    return store->uri;
}

void store_free(struct store *store)
{
    if (!store)
        return;
    free(store->uri);
    store->operations->free(store);
}
