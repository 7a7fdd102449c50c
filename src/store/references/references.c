/* References as a read-only store: opening it, and what it says of itself. Any thread, after
 * opening. */
#include "store/references/references.h"

#include "store/references/reference_json.h"
#include "store/references/references_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

enum { FILE_MOST_BYTES = 1 << 30 };

static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    (void)err;
    text_append(out, "%s", references_of(store)->identity.data);
    return STATUS_OK;
}

/* The file was read once: two processes that read the same bytes see the same values. */
static enum status stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                         struct error *err)
{
    (void)prefix, (void)err;
    *ret_stamp = references_of(store)->content | 1;
    return STATUS_OK;
}

static uint64_t table_bytes(const struct store *store)
{
    return reference_table_bytes(&references_of(store)->table);
}

static void release(struct store *store)
{
    struct references *references = (struct references *)store;
    virtual_done(&references->virtual);
    reference_table_done(&references->table);
    text_done(&references->identity);
    free(references);
}

#define OPERATIONS                                                                          \
    .get = virtual_get, .get_ranges = virtual_get_ranges, .get_suffix = virtual_get_suffix, \
    .get_text = virtual_get_text, .list = references_list, .names = references_names,       \
    .stamp = stamp, .usage = references_usage, .stat = virtual_stat, .identify = identify,  \
    .table_bytes = table_bytes, .free = release

static const struct store_operations local_operations = {OPERATIONS};
static const struct store_operations remote_operations = {OPERATIONS, .fetch = virtual_fetch,
                                                          .fetch_stop = virtual_fetch_stop};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), bytes = strlen(end);
    return length >= bytes && strcasecmp(text + length - bytes, end) == 0;
}

/* References as Parquet are a folder, mostly one that is called so. */
static bool is_parquet(const struct store *base, const char *key)
{
    struct text metadata = {0};
    struct store_info info;
    if (ends_in(key, ".json"))
        return false;
    text_append(&metadata, "%s/.zmetadata", key);
    bool is = ends_in(key, ".parq") || ends_in(key, ".parquet") ||
              base->operations->stat(base, metadata.data, &info, NULL) == STATUS_OK;
    text_done(&metadata);
    return is;
}

static enum status refuse_parquet(const char *key, struct error *err)
{
    return error_set(err, STATUS_UNSUPPORTED,
                     "'%s' has references as Parquet, which are not read: write them once as JSON: "
                     "python3 -m penstock.references %s refs.json (pip install "
                     "'penstock-loader[parquet]')",
                     key, key);
}

static enum status read_file(struct references *references, const struct store *base,
                             const char *key, struct error *err)
{
    char *text = NULL;
    size_t size = 0;
    if (is_parquet(base, key))
        return refuse_parquet(key, err);
    enum status status = base->operations->get_text(base, key, FILE_MOST_BYTES, &text, &size, err);
    if (status == STATUS_OK)
        status = base->operations->identify(base, &references->identity, err);
    if (status == STATUS_OK)
        status = reference_json_read(text, size, &references->table, err);
    if (status == STATUS_OK) {
        references->content = XXH3_64bits(text, size);
        text_append(&references->identity, "references %s %016" PRIx64 "\n", key,
                    references->content);
    }
    free(text);
    return status;
}

enum status references_open_in(struct store *base, const char *key, const char *uri,
                               const struct store_options *options, store_opener *open,
                               struct store **ret_store, struct error *err)
{
    struct references *references = calloc(1, sizeof *references);
    char *copy = strdup(uri);
    if (!references || !copy) {
        free(references);
        free(copy);
        store_close(base);
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    }
    references->virtual = (struct virtual_store){
        .store.operations = &local_operations, .kind = &references_kind, .uri = copy};
    enum status status = read_file(references, base, key, err);
    store_close(base);
    if (status == STATUS_OK)
        status = virtual_open(&references->virtual, options, open, &remote_operations, err);
    if (status != STATUS_OK) {
        release(&references->virtual.store);
        return error_prefix(err, status, "store '%s': ", uri);
    }
    *ret_store = &references->virtual.store;
    return STATUS_OK;
}

const char *references_uri_inside(const char *uri)
{
    return virtual_uri_inside(uri, "reference");
}

/* Takes a file's uri apart: its folder, and its name there; ""s if it has none. */
static void split(const char *file, struct text *ret_folder, struct text *ret_key)
{
    size_t bytes = strlen(file), slash;
    while (bytes > 0 && file[bytes - 1] == '/')
        bytes--;
    for (slash = bytes; slash > 0 && file[slash - 1] != '/'; slash--)
        ;
    bool is_root = slash >= 2 && file[slash - 2] == '/'; /* "s3://BUCKET" */
    bool is_path = !strstr(file, "://");
    text_append_bytes(ret_key, file + slash, is_root && !is_path ? 0 : bytes - slash);
    text_append_bytes(ret_key, "", 0);
    text_append_bytes(ret_folder, file, slash > 1 ? slash - 1 : slash);
    text_append(ret_folder, "%s", slash == 0 ? "." : "");
}

enum status references_open(const char *uri, const struct store_options *options,
                            store_opener *open, struct store **ret_store, struct error *err)
{
    struct text folder = {0}, key = {0};
    struct store *base = NULL;
    if (text_has_secret(uri))
        return error_set(err, STATUS_INVALID,
                         "the store's uri has a user, a password or a signature in it: credentials "
                         "are taken from the environment and files alone");
    split(references_uri_inside(uri), &folder, &key);
    enum status status = key.length > 0
                             ? open(folder.data, options, &base, err)
                             : error_set(err, STATUS_INVALID,
                                         "it names no file: write reference:///FOLDER/refs.json or "
                                         "reference+s3://BUCKET/PREFIX/refs.json");
    if (status == STATUS_OK)
        status = references_open_in(base, key.data, uri, options, open, ret_store, err);
    else
        status = error_prefix(err, status, "store '%s': ", uri);
    text_done(&folder);
    text_done(&key);
    return status;
}
