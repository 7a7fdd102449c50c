/* See store.h: opening stores, of the kind that a uri means. Any thread. */
#include "store/kind/store_internal.h"

#include "store/directory/file_kind.h"
#include "store/faulty.h"
#include "store/icechunk/icechunk.h"
#include "store/icechunk/icechunk_uri.h"
#include "store/kind/watch.h"
#include "store/references/references.h"
#include "store/uri.h"
#include "store/zip/zip_uri.h"

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

/* By the name's end or the file's start, but for a directory that is called so. */
static bool is_zip(const char *path)
{
    size_t length = strlen(path);
    struct stat info;
    if (length > 4 && strcasecmp(path + length - 4, ".zip") == 0)
        return !(stat(path, &info) == 0 && S_ISDIR(info.st_mode));
    return file_is_zip(path);
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

static enum status open_part(const char *uri, const struct store_options *options,
                             struct store **ret_store, struct error *err);

static enum status open_kind(const char *uri, const struct store_options *options,
                             struct store **ret_store, struct error *err)
{
    char *path = NULL;
    const char *archive = zip_uri_inside(uri), *at = archive ? archive : uri;
    if (icechunk_uri_inside(uri))
        return icechunk_open(uri, options, open_part, ret_store, err);
    if (references_uri_inside(uri))
        return references_open(uri, options, open_part, ret_store, err);
    enum status status = uri_parse(at, &path, err);
    if (status != STATUS_OK)
        return status;
    if (!path)
        return archive || zip_uri_is_archive(at)
                   ? zip_open_remote(at, options, open_part, ret_store, err)
                   : remote_open(at, options, ret_store, err);
    status = archive || is_zip(path) ? zip_open(path, ret_store, err)
                                     : directory_open(path, options, ret_store, err);
    free(path);
    return status;
}

/* A store that another one is made of: a store_opener. */
static enum status open_part(const char *uri, const struct store_options *options,
                             struct store **ret_store, struct error *err)
{
    char *copy = strdup(uri);
    enum status status =
        copy ? open_kind(uri, options, ret_store, err)
             : error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    if (status != STATUS_OK) {
        free(copy);
        return status;
    }
    (*ret_store)->uri = copy;
    return STATUS_OK;
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
    if (status != STATUS_OK) {
        free(copy);
        return status;
    }
    store->uri = copy;
    store->retries = options.retries;
    store->watch = options.watch;
    status = add_faults(&store, err);
    if (status != STATUS_OK) {
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

enum status store_path(const char *uri, char **ret_path, struct error *err)
{
    char *path = NULL;
    bool is_other = icechunk_uri_inside(uri) || references_uri_inside(uri) || zip_uri_inside(uri);
    enum status status = is_other ? STATUS_OK : uri_parse(uri, &path, err);
    if (status != STATUS_OK)
        return status;
    if (!path || is_zip(path)) {
        free(path);
        return error_set(err, STATUS_UNSUPPORTED, "store '%s': only directories are written", uri);
    }
    *ret_path = path;
    return STATUS_OK;
}

enum status store_create(const char *uri, bool overwrite, struct store **ret_store,
                         struct error *err)
{
    char *path = NULL;
    enum status status = store_path(uri, &path, err);
    if (status == STATUS_OK)
        status = directory_create(path, overwrite, err);
    free(path);
    return status != STATUS_OK ? status : store_open(uri, ret_store, err);
}
