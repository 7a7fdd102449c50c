/* A zip archive as a store: a key is an entry's name. The directory is read once, at opening, and
 * kept (zip_directory.h). Any thread.
 */
#include "store/zip/zip_internal.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "base/size.h"
#include "store/zip/zip_uri.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entries below a prefix: [begin, end) and the bytes that their names have in front. */
static enum status find_below(const struct zip *zip, const char *prefix, size_t *ret_begin,
                              size_t *ret_end, size_t *ret_skip, struct error *err)
{
    size_t bytes = strlen(prefix), skip = bytes ? bytes + 1 : 0;
    size_t begin = bytes ? zip_find_from(zip, prefix, bytes) : 0, end;
    if (begin < zip->count && bytes && zip->entries[begin].name_bytes == bytes)
        begin++; /* a value of that very name */
    for (end = begin; end < zip->count; end++) {
        const struct zip_entry *entry = &zip->entries[end];
        if (bytes && (entry->name_bytes <= skip || memcmp(entry->name, prefix, bytes) != 0 ||
                      entry->name[bytes] != '/'))
            break;
    }
    if (begin == end)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has nothing below '%s'", zip->path, prefix);
    *ret_begin = begin;
    *ret_end = end;
    *ret_skip = skip;
    return STATUS_OK;
}

/* By either `visit` or `visit_name`; the other is NULL. */
static enum status each_below(const struct zip *zip, const char *prefix, store_visit *visit,
                              store_visit_name *visit_name, void *argument, struct error *err)
{
    size_t begin, end, skip, before_bytes = 0;
    const char *before = NULL;
    enum status status = find_below(zip, prefix, &begin, &end, &skip, err);
    for (size_t i = begin; status == STATUS_OK && i < end; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        const char *at = entry->name + skip, *slash = memchr(at, '/', entry->name_bytes - skip);
        size_t bytes = slash ? (size_t)(slash - at) : entry->name_bytes - skip;
        char name[1024];
        if (slash && before && bytes == before_bytes && memcmp(at, before, bytes) == 0)
            continue;
        before = slash ? at : NULL;
        before_bytes = bytes;
        if (bytes == 0 || bytes >= sizeof name || memchr(at, '\0', bytes))
            continue; /* what no key can reach */
        memcpy(name, at, bytes);
        name[bytes] = '\0';
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        status = visit ? visit(name, slash != NULL, argument, err)
                       : visit_name(name, slash ? 0 : zip_content(entry), argument, err);
    }
    return status;
}

static enum status list(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    return each_below(zip_of(store), prefix, visit, NULL, argument, err);
}

static enum status names(const struct store *store, const char *prefix, store_visit_name *visit,
                         void *argument, struct error *err)
{
    return each_below(zip_of(store), prefix, NULL, visit, argument, err);
}

/* Entries are in order of their names. */
static enum status stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                         struct error *err)
{
    const struct zip *zip = zip_of(store);
    size_t begin, end, skip;
    enum status status = find_below(zip, prefix, &begin, &end, &skip, err);
    if (status != STATUS_OK)
        return status;
    uint64_t sum = 0;
    for (size_t i = begin; i < end; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        for (size_t k = skip; k < entry->name_bytes; k++) /* FNV-1a's step */
            sum = (sum ^ (unsigned char)entry->name[k]) * UINT64_C(0x100000001b3);
        sum = random_u64(sum, zip_content(entry), entry->name_bytes);
    }
    *ret_stamp = sum;
    return STATUS_OK;
}

static enum status usage(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err)
{
    (void)most;
    const struct zip *zip = zip_of(store);
    size_t begin, end, skip;
    uint64_t bytes = 0;
    enum status status = find_below(zip, prefix, &begin, &end, &skip, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = begin; i < end; i++)
        if (__builtin_add_overflow(bytes, zip->entries[i].stored_bytes, &bytes))
            return error_set(err, STATUS_CORRUPT, "the sizes in '%s' exceed 2^64 bytes", zip->path);
    *ret_usage = (struct store_usage){.bytes = bytes, .count = end - begin};
    return STATUS_OK;
}

static enum status stat_entry(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    struct zip_entry *entry;
    enum status status = zip_find_entry(zip_of(store), key, &entry, err);
    if (status == STATUS_OK)
        *ret_info = (struct store_info){.bytes = entry->bytes, .version = zip_content(entry)};
    return status;
}

/* With size and time: archives are written as a whole. Behind a network, where one name may stand
 * for several servers, with size and directory. */
static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    const struct zip *zip = zip_of(store);
    if (zip->base) {
        uint64_t directory = 0;
        (void)!stamp(store, "", &directory, NULL); /* an empty archive has none */
        text_append(out, "zip %s %" PRIu64 " %" PRIx64 " in ", zip->key, zip->file_bytes,
                    directory);
        return zip->base->operations->identify(zip->base, out, err);
    }
    char *path = realpath(zip->path, NULL);
    if (!path)
        return error_set_errno(err, STATUS_IO, "find the real path of '%s'", zip->path);
    text_append(out, "zip://%s %" PRIu64 " %" PRIu64 "\n", path, zip->file_bytes, zip->modified_ns);
    free(path);
    return STATUS_OK;
}

static struct store_inflate inflate_below(const struct store *store, const char *prefix)
{
    const struct zip *zip = zip_of(store);
    size_t begin = 0, end = 0, skip;
    struct store_inflate inflate = {0};
    (void)!find_below(zip, prefix, &begin, &end, &skip, NULL);
    for (size_t i = begin; i < end; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        uint64_t bytes = size_round_up(entry->bytes, MEMORY_PAGE_BYTES);
        if (entry->method != ZIP_DEFLATED)
            continue;
        inflate.most_bytes = max_u64(inflate.most_bytes, add_sat(bytes, entry->stored_bytes));
        inflate.all_bytes = add_sat(inflate.all_bytes, bytes);
    }
    return inflate;
}

static struct inflated **inflated(const struct store *store)
{
    return &zip_of(store)->inflated;
}

static uint64_t table_bytes(const struct store *store)
{
    return zip_of(store)->directory_bytes;
}

static void release(struct store *store)
{
    struct zip *zip = zip_of(store);
    zip_fetch_stop(store);
    if (zip->fd >= 0)
        close(zip->fd);
    store_close(zip->base);
    relays_free(zip->relays);
    free(zip->key);
    free(zip->tail);
    inflated_free(zip->inflated);
    free(zip->entries);
    free(zip->directory);
    free(zip->path);
    free(zip);
}

#define OPERATIONS                                                                          \
    .get = zip_get, .get_ranges = zip_get_ranges, .get_suffix = zip_get_suffix,             \
    .get_text = zip_get_text, .list = list, .names = names, .stamp = stamp, .usage = usage, \
    .stat = stat_entry, .identify = identify, .inflate_below = inflate_below,               \
    .inflated = inflated, .table_bytes = table_bytes, .free = release

static const struct store_operations file_operations = {OPERATIONS};
static const struct store_operations remote_operations = {OPERATIONS, .fetch = zip_fetch,
                                                          .fetch_stop = zip_fetch_stop};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

/* A local header is read cheaply from a file, and not from a server. */
static enum status settle_entries(struct zip *zip, const struct zip_extent *extent,
                                  struct error *err)
{
    uint64_t *headers = malloc((extent->entry_count + 1) * sizeof *headers);
    if (!headers)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the directory of '%s'", zip->path);
    zip_settle_entries(zip->directory, extent, zip->entries, zip->count, headers);
    free(headers);
    return STATUS_OK;
}

static enum status read_directory(struct zip *zip, struct error *err)
{
    struct zip_extent extent;
    enum status status = zip_find_directory(zip->tail, zip->tail_bytes, zip->file_bytes,
                                            zip_read_at, zip, &extent, err);
    if (status != STATUS_OK)
        return status;
    size_t entries_bytes = (extent.entry_count + 1) * sizeof *zip->entries;
    zip->directory_bytes = extent.bytes + entries_bytes;
    zip->directory = malloc(extent.bytes ? extent.bytes : 1);
    zip->entries = calloc(1, entries_bytes);
    if (!zip->directory || !zip->entries)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the directory of '%s'", zip->path);
    status = zip_read_at(zip, extent.offset, zip->directory, extent.bytes, err);
    if (status == STATUS_OK)
        status = zip_read_directory(zip->directory, &extent, zip->entries, &zip->count, err);
    return status == STATUS_OK && zip->base ? settle_entries(zip, &extent, err) : status;
}

/* Takes `base` and `key`, which are NULL of a file. */
static enum status open_parts(const char *path, struct store *base, char *key,
                              struct store **ret_store, struct error *err)
{
    struct zip *zip = calloc(1, sizeof *zip);
    if (!zip) {
        store_close(base);
        free(key);
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", path);
    }
    zip->store.operations = base ? &remote_operations : &file_operations;
    zip->fd = -1;
    zip->base = base;
    zip->key = key;
    zip->path = strdup(path);
    zip->inflated = inflated_new();
    enum status status =
        zip->path && zip->inflated
            ? zip_open_bytes(zip, err)
            : error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", path);
    if (status == STATUS_OK) {
        status = read_directory(zip, err);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "zip archive '%s': ", path);
    }
    if (status == STATUS_OK && base)
        status = zip_relays_new(zip, err);
    if (status != STATUS_OK) {
        release(&zip->store);
        return status;
    }
    free(zip->tail);
    zip->tail = NULL;
    *ret_store = &zip->store;
    return STATUS_OK;
}

enum status zip_open(const char *path, struct store **ret_store, struct error *err)
{
    return open_parts(path, NULL, NULL, ret_store, err);
}

enum status zip_open_remote(const char *uri, const struct store_options *options,
                            store_opener *open, struct store **ret_store, struct error *err)
{
    char *at = NULL, *key = NULL;
    struct store *base = NULL;
    enum status status = zip_uri_split(uri, &at, &key, err);
    if (status == STATUS_OK && !store_key_is_well_formed(key))
        status = error_set(err, STATUS_INVALID, "'%s' is no name of a value", key);
    if (status == STATUS_OK)
        status = open(at, options, &base, err);
    else
        status = error_prefix(err, status, "store '%s': ", uri);
    free(at);
    if (status == STATUS_OK)
        return open_parts(uri, base, key, ret_store, err);
    free(key);
    return status;
}
