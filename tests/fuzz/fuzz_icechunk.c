/* Fuzz target for Icechunk repositories: references, snapshot, manifest and the repository's
 * configuration.
 *
 * The input is the sizes of three files, two bytes each, and the files: `repo`, the snapshot and
 * the manifest, whatever their names. The highest bit of a size: the file is whole as it is, else a
 * header is put in front. A repository of these is walked through. */
#include "fuzz_walk.h"

#include "store/icechunk/icechunk.h"
#include "store/kind/store_internal.h"

enum { FILES = 3, HEADER = 39 };

struct base {
    struct store store;
    unsigned char *files[FILES];
    size_t sizes[FILES];
};

static int file_of(const char *key)
{
    return strcmp(key, "repo") == 0              ? 0
           : strncmp(key, "snapshots/", 10) == 0 ? 1
           : strncmp(key, "manifests/", 10) == 0 ? 2
                                                 : FILES;
}

/* The manifest has as many bytes as the snapshot says: zeros follow what there is. */
static enum status get(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    const struct base *base = (const struct base *)store;
    int i = file_of(key);
    (void)begins;
    if (i == FILES || capacity > VALUE_BYTES)
        return error_set(err, STATUS_NOT_FOUND, "no '%s'", key);
    memset(buffer, 0, capacity);
    memcpy(buffer, base->files[i], capacity < base->sizes[i] ? capacity : base->sizes[i]);
    *ret_size = capacity;
    return STATUS_OK;
}

static enum status get_text(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err)
{
    const struct base *base = (const struct base *)store;
    int i = file_of(key);
    if (i == FILES || base->sizes[i] > limit)
        return error_set(err, STATUS_NOT_FOUND, "no '%s'", key);
    *ret_text = malloc(base->sizes[i] + 1);
    CHECK(*ret_text);
    memcpy(*ret_text, base->files[i], base->sizes[i]);
    (*ret_text)[base->sizes[i]] = '\0';
    *ret_size = base->sizes[i];
    return STATUS_OK;
}

/* Objects of chunks have any bytes. */
static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err)
{
    (void)store, (void)key, (void)total, (void)err;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ranges[i].size; k++)
            ((unsigned char *)ranges[i].buffer)[k] = (unsigned char)(ranges[i].offset + k);
    return STATUS_OK;
}

static enum status stat_value(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    (void)store, (void)ret_info;
    return error_set(err, STATUS_NOT_FOUND, "no '%s'", key);
}

static enum status list(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    (void)store, (void)visit, (void)argument;
    return error_set(err, STATUS_NOT_FOUND, "no '%s'", prefix);
}

static void release(struct store *store)
{
    struct base *base = (struct base *)store;
    for (int i = 0; i < FILES; i++)
        free(base->files[i]);
    free(base);
}

static const struct store_operations operations = {.get = get,
                                                   .get_text = get_text,
                                                   .get_ranges = get_ranges,
                                                   .stat = stat_value,
                                                   .list = list,
                                                   .free = release};

/* The file `i`, of `size` bytes at `data`. */
static void put_file(struct base *base, int i, const uint8_t *data, size_t size, bool is_whole)
{
    static const unsigned char kinds[FILES] = {6, 1, 2};
    size_t before = is_whole ? 0 : HEADER;
    base->files[i] = calloc(1, before + size + 1);
    CHECK(base->files[i]);
    if (before > 0) {
        memcpy(base->files[i],
               "ICE\xf0\x9f\xa7\x8a"
               "CHUNK",
               12);
        base->files[i][36] = 2;
        base->files[i][37] = kinds[i];
    }
    memcpy(base->files[i] + before, data, size);
    base->sizes[i] = before + size;
}

static struct store *make_base(const uint8_t *data, size_t size)
{
    struct base *base = calloc(1, sizeof *base);
    CHECK(base);
    base->store.operations = &operations;
    base->store.uri = strdup("fuzz");
    size_t used = 2 * FILES;
    for (int i = 0; i < FILES; i++) {
        unsigned number = data[2 * i] | (unsigned)data[2 * i + 1] << 8;
        size_t bytes = number & 0x7fff;
        bytes = bytes < size - used ? bytes : size - used;
        put_file(base, i, data + used, bytes, number >> 15);
        used += bytes;
    }
    return &base->store;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const uris[] = {"icechunk://fuzz", "icechunk://fuzz@tag:t",
                                       "icechunk://fuzz@snapshot:00000000000000000000"};
    const struct store_settings settings = store_settings_default();
    const struct store_options options = {.settings = &settings};
    struct error err;
    if (size < 2 * FILES)
        return 0;
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct store *store = NULL;
        enum status status =
            icechunk_open_in(make_base(data, size), uris[i], &options, NULL, &store, &err);
        CHECK(status == STATUS_OK || err.message[0]);
        if (status != STATUS_OK)
            continue;
        store->uri = strdup(uris[i]);
        walk_store(store, false);
        store_free(store);
    }
    return 0;
}
