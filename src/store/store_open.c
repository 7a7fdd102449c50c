/* See store.h: opening stores, of the kind that a uri means. Any thread. */
#include "store/store_internal.h"

#include "store/faulty.h"
#include "store/watch.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct store_settings store_settings_default(void)
{
    return (struct store_settings){.timeout_s = 60,
                                   .fetch_bytes = 128 << 20,
                                   .hedge = true,
                                   .missing_count = 1,
                                   .missing = {404}};
}

/* Kinds of uris. */
enum kind { KIND_DIRECTORY, KIND_ZIP, KIND_REMOTE };

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* By name, but for a directory that is called so. */
static bool is_zip(const char *path)
{
    size_t length = strlen(path);
    struct stat info;
    return length > 4 && strcasecmp(path + length - 4, ".zip") == 0 &&
           !(stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* The kind, and the path of a directory or file, which points into `uri`. */
static enum status parse_uri(const char *uri, enum kind *ret_kind, const char **ret_path,
                             struct error *err)
{
    static const char file_scheme[] = "file://";
    const char *path = uri;
    const char *colon = strstr(uri, "://");
    if (!starts_with(uri, file_scheme) && text_has_secret(uri))
        return error_set(err, STATUS_INVALID,
                         "the store's uri has a user, a password or a signature in it: credentials "
                         "are taken from the environment and files alone (see docs/datasets.md)");
    if (starts_with(uri, "http://") || starts_with(uri, "https://") || starts_with(uri, "s3://")) {
        *ret_kind = KIND_REMOTE;
        return STATUS_OK;
    }
    if (starts_with(uri, file_scheme)) {
        path = uri + strlen(file_scheme);
        if (path[0] != '/')
            return error_set(err, STATUS_INVALID,
                             "store '%s': a file:// uri needs an absolute path (file:///...)", uri);
    } else if (colon && !memchr(uri, '/', (size_t)(colon - uri))) {
        return error_set(
            err, STATUS_UNSUPPORTED,
            "store '%s': %.*s stores are not supported; supported are directories, .zip "
            "files, http://, https:// and s3://",
            uri, (int)(colon - uri), uri);
    }
    if (path[0] == '\0')
        return error_set(err, STATUS_INVALID,
                         "the store's uri is empty: name a directory, a .zip file or a uri");
    *ret_kind = is_zip(path) ? KIND_ZIP : KIND_DIRECTORY;
    *ret_path = path;
    return STATUS_OK;
}

/* Tests may have each store fail on purpose; a build for use must not do so unnoticed. */
static enum status add_faults(struct store **store, struct error *err)
{
    const char *spec = getenv("PENSTOCK_FAULTS");
    if (!spec || !*spec)
        return STATUS_OK;
#ifdef PENSTOCK_FAULTS
    return faulty_wrap(*store, spec, store, err);
#else
    (*store)->operations->free(*store);
    return error_set(err, STATUS_UNSUPPORTED,
                     "PENSTOCK_FAULTS is set, and this build cannot fail on purpose: unset it, or "
                     "build with -DPENSTOCK_FAULTS=ON");
#endif
}

static enum status open_kind(const char *uri, const struct store_options *options,
                             struct store **ret_store, struct error *err)
{
    enum kind kind;
    const char *path = NULL;
    enum status status = parse_uri(uri, &kind, &path, err);
    if (status)
        return status;
    if (kind == KIND_REMOTE)
        return remote_open(uri, options, ret_store, err);
    if (kind == KIND_ZIP)
        return zip_open(path, ret_store, err);
    return directory_open(path, options, ret_store, err);
}

enum status store_open_with(const char *uri, const struct store_options *given,
                            struct store **ret_store, struct error *err)
{
    const struct store_settings preset = store_settings_default();
    struct store_options options = *given;
    struct store *store = NULL;
    char *copy = strdup(uri);
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    if (!options.settings)
        options.settings = &preset;
    int call = store_watch_begin(options.watch, uri, "");
    enum status status = open_kind(uri, &options, &store, err);
    store_watch_end(options.watch, call);
    if (status) {
        free(copy);
        return status;
    }
    store->uri = copy;
    store->retries = options.retries;
    store->watch = options.watch;
    status = add_faults(&store, err);
    if (status) {
        free(copy);
        return status;
    }
    *ret_store = store;
    return STATUS_OK;
}

enum status store_open(const char *uri, struct store **ret_store, struct error *err)
{
    const struct store_options plain = {0};
    return store_open_with(uri, &plain, ret_store, err);
}

enum status store_create(const char *uri, bool overwrite, struct store **ret_store,
                         struct error *err)
{
    const char *path = NULL;
    enum kind kind;
    enum status status = parse_uri(uri, &kind, &path, err);
    if (!status && kind != KIND_DIRECTORY)
        status =
            error_set(err, STATUS_UNSUPPORTED, "store '%s': only directories are written", uri);
    if (!status)
        status = directory_create(path, overwrite, err);
    return status ? status : store_open(uri, ret_store, err);
}
