/* Fuzz target for references of kerchunk and VirtualiZarr: the input is their JSON. A table of them
 * is in order, and has each key once. A store of them lists, and whatever it lists can be asked
 * for: the answer is the value or an error, and pieces agree with the whole. Objects below /x/ have
 * 100 bytes each. */
#include "fuzz.h"

#include "store/kind/store_internal.h"
#include "store/references/reference_json.h"
#include "store/references/references.h"

enum { MOST_REFERENCES = 4096, OBJECT_BYTES = 100, VALUE_BYTES = 1 << 16, DEPTH = 8 };

/* The file of references, or all objects. */
struct base {
    struct store store;
    const uint8_t *data; /* NULL: objects */
    size_t size;
};

static uint8_t byte_of(const struct base *base, uint64_t i)
{
    return base->data ? base->data[i] : (uint8_t)i;
}

static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err)
{
    const struct base *base = (const struct base *)store;
    (void)total;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > base->size || ranges[i].size > base->size - ranges[i].offset)
            return error_set(err, STATUS_CORRUPT, "'%s' ends before", key);
        for (size_t k = 0; k < ranges[i].size; k++)
            ((uint8_t *)ranges[i].buffer)[k] = byte_of(base, ranges[i].offset + k);
    }
    return STATUS_OK;
}

static enum status get(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    const struct base *base = (const struct base *)store;
    const struct store_range range = {0, base->size, buffer};
    (void)begins;
    if (base->size > capacity)
        return error_set(err, STATUS_CORRUPT, "'%s' is too long", key);
    *ret_size = base->size;
    return get_ranges(store, key, &range, 1, STORE_ANY_TOTAL, err);
}

static enum status get_suffix(const struct store *store, const char *key, void *buffer, size_t size,
                              uint64_t *ret_total, struct error *err)
{
    const struct base *base = (const struct base *)store;
    const struct store_range range = {size <= base->size ? base->size - size : 0, size, buffer};
    *ret_total = base->size;
    return get_ranges(store, key, &range, 1, STORE_ANY_TOTAL, err);
}

static enum status get_text(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err)
{
    const struct base *base = (const struct base *)store;
    char *text = malloc(base->size + 1);
    CHECK(text);
    enum status status = get(store, key, NULL, text, limit, ret_size, err);
    text[base->size] = '\0';
    if (status == STATUS_OK)
        *ret_text = text;
    else
        free(text);
    return status;
}

static enum status stat_value(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    (void)key, (void)err;
    *ret_info = (struct store_info){.bytes = ((const struct base *)store)->size};
    return STATUS_OK;
}

static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    (void)store, (void)err;
    text_append(out, "fuzz\n");
    return STATUS_OK;
}

static void release(struct store *store)
{
    free(store);
}

static const struct store_operations operations = {.get = get,
                                                   .get_ranges = get_ranges,
                                                   .get_suffix = get_suffix,
                                                   .get_text = get_text,
                                                   .stat = stat_value,
                                                   .identify = identify,
                                                   .free = release};

static struct store *make_base(const uint8_t *data, size_t size)
{
    struct base *base = calloc(1, sizeof *base);
    CHECK(base);
    base->store.operations = &operations;
    base->store.uri = strdup("fuzz");
    base->data = data;
    base->size = size;
    return &base->store;
}

static enum status open_objects(const char *uri, const struct store_options *options,
                                struct store **ret_store, struct error *err)
{
    (void)uri, (void)options, (void)err;
    *ret_store = make_base(NULL, OBJECT_BYTES);
    return STATUS_OK;
}

struct walk {
    const struct store *store;
    const char *prefix;
    int depth;
    uint64_t *visited;
};

static void look_at(const struct store *store, const char *key)
{
    static unsigned char value[VALUE_BYTES], piece[VALUE_BYTES];
    struct store_info info;
    struct error err;
    size_t size = 0;
    uint64_t total = 0;
    enum status status = store_stat(store, key, &info, &err);
    enum status got = store_get(store, key, value, sizeof value, &size, &err);
    CHECK(got != STATUS_NOT_FOUND);
    if (got != STATUS_OK) {
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

static enum status visit(const char *name, bool is_prefix, void *argument, struct error *err)
{
    struct walk *walk = argument;
    char key[4096];
    CHECK(name[0] && !strchr(name, '/'));
    if (++*walk->visited > 64)
        return error_set(err, STATUS_ENDED, "enough");
    if (snprintf(key, sizeof key, "%s%s%s", walk->prefix, *walk->prefix ? "/" : "", name) >=
        (int)sizeof key)
        return STATUS_OK;
    if (!is_prefix) {
        look_at(walk->store, key);
        return STATUS_OK;
    }
    struct walk below = {walk->store, key, walk->depth + 1, walk->visited};
    struct store_usage usage;
    (void)!store_usage(walk->store, key, 1, &usage, NULL);
    enum status status =
        below.depth < DEPTH ? store_list(walk->store, key, visit, &below, err) : STATUS_OK;
    CHECK(status == STATUS_OK || status == STATUS_ENDED);
    return status;
}

static void check_store(const uint8_t *data, size_t size)
{
    struct store_settings settings = store_settings_default();
    const struct store_options options = {.settings = &settings};
    struct store *store = NULL;
    struct error err;
    uint64_t visited = 0;
    strcpy(settings.virtual_prefixes, "/x");
    CHECK(references_open_in(make_base(data, size), "f.json", "reference://f.json", &options,
                             open_objects, &store, &err) == STATUS_OK);
    store->uri = strdup("reference://f.json");
    struct walk walk = {store, "", 0, &visited};
    enum status status = store_list(store, "", visit, &walk, &err);
    CHECK(status == STATUS_OK || err.message[0]);
    store_free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reference_table table = {.most = MOST_REFERENCES};
    struct error err = {0};
    enum status status = reference_json_read((const char *)data, size, &table, &err);
    CHECK(status == STATUS_OK || err.message[0]);
    for (size_t i = 0; status == STATUS_OK && i < table.count; i++) {
        char key[2 * REFERENCE_KEY_BYTES];
        const struct reference *reference = &table.references[i];
        const char *folder = reference_text(&table, reference->folder);
        snprintf(key, sizeof key, "%s%s%s", folder, *folder ? "/" : "",
                 reference_text(&table, reference->name));
        CHECK(reference_table_find(&table, key) == reference);
    }
    reference_table_done(&table);
    if (status == STATUS_OK)
        check_store(data, size);
    return 0;
}
