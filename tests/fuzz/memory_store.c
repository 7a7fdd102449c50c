/* See memory_store.h. */
#include "memory_store.h"

#include <errno.h>
#include <stdbool.h>

static const struct memory_store *of(const struct store *store)
{
    return (const struct memory_store *)store;
}

static enum status get(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    (void)begins;
    const struct memory_store *memory = of(store);
    for (size_t i = 0; i < memory->count; i++) {
        if (strcmp(memory->values[i].key, key) != 0)
            continue;
        if (memory->values[i].size > capacity)
            return error_set(err, STATUS_CORRUPT, "'%s' is too long", key);
        memcpy(buffer, memory->values[i].bytes, memory->values[i].size);
        *ret_size = memory->values[i].size;
        return STATUS_OK;
    }
    return error_set(err, STATUS_NOT_FOUND, "there is no '%s'", key);
}

static const struct memory_value *find(const struct memory_store *memory, const char *key)
{
    for (size_t i = 0; i < memory->count; i++)
        if (strcmp(memory->values[i].key, key) == 0)
            return &memory->values[i];
    return NULL;
}

static enum status stat_value(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    const struct memory_value *value = find(of(store), key);
    if (!value)
        return error_set(err, STATUS_NOT_FOUND, "there is no '%s'", key);
    *ret_info = (struct store_info){.bytes = value->size};
    return STATUS_OK;
}

static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err)
{
    (void)total;
    const struct memory_value *value = find(of(store), key);
    if (!value)
        return error_set(err, STATUS_NOT_FOUND, "there is no '%s'", key);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > value->size || ranges[i].size > value->size - ranges[i].offset)
            return error_set(err, STATUS_CORRUPT, "'%s' ends early", key);
        if (ranges[i].size > 0)
            memcpy(ranges[i].buffer, (const char *)value->bytes + ranges[i].offset, ranges[i].size);
    }
    return STATUS_OK;
}

static enum status get_suffix(const struct store *store, const char *key, void *buffer, size_t size,
                              uint64_t *ret_total, struct error *err)
{
    const struct memory_value *value = find(of(store), key);
    if (!value)
        return error_set(err, STATUS_NOT_FOUND, "there is no '%s'", key);
    if (value->size < size)
        return error_set(err, STATUS_CORRUPT, "'%s' ends early", key);
    *ret_total = value->size;
    return get_ranges(store, key, &(struct store_range){value->size - size, size, buffer}, 1,
                      STORE_ANY_TOTAL, err);
}

static enum status get_text(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err)
{
    char *text = calloc(1, limit < 1 << 20 ? limit + 1 : 1 << 20);
    CHECK(text);
    enum status status =
        get(store, key, NULL, text, limit < 1 << 20 ? limit : (1 << 20) - 1, ret_size, err);
    if (status == STATUS_OK)
        *ret_text = realloc(text, *ret_size + 1);
    else
        free(text);
    return status;
}

/* The name of what lies directly below `prefix` in a key; 0: it does not lie there. */
static size_t name_below(const char *key, const char *prefix, const char **ret_name)
{
    size_t length = strlen(prefix);
    if (strncmp(key, prefix, length) != 0 || (length > 0 && key[length] != '/'))
        return 0;
    *ret_name = key + length + (length > 0);
    return strcspn(*ret_name, "/");
}

/* Whether a value before number `end` has made this name known. */
static bool listed_before(const struct memory_store *memory, size_t end, const char *prefix,
                          const char *name, size_t length)
{
    for (size_t i = 0; i < end; i++) {
        const char *below;
        if (name_below(memory->values[i].key, prefix, &below) == length &&
            memcmp(below, name, length) == 0)
            return true;
    }
    return false;
}

static enum status list(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    const struct memory_store *memory = of(store);
    bool found = false;
    for (size_t i = 0; i < memory->count; i++) {
        const char *below;
        size_t length = name_below(memory->values[i].key, prefix, &below);
        if (length == 0 || length > 255 /* as of any file */ ||
            listed_before(memory, i, prefix, below, length))
            continue;
        char name[256];
        memcpy(name, below, length);
        name[length] = '\0';
        found = true;
        enum status status = visit(name, below[length] == '/', argument, err);
        if (status != STATUS_OK)
            return status;
    }
    return found ? STATUS_OK : error_set(err, STATUS_NOT_FOUND, "there is no '%s'", prefix);
}

static void release(struct store *store)
{
    (void)store;
}

static const struct store_operations operations = {
    .get = get,
    .get_ranges = get_ranges,
    .get_suffix = get_suffix,
    .get_text = get_text,
    .stat = stat_value,
    .list = list,
    .free = release,
};

void memory_store_put(struct memory_store *memory, const char *key, const void *bytes, size_t size)
{
    if (memory->count == MEMORY_STORE_VALUES)
        return;
    size_t i = memory->count++;
    memory->values[i].key = strdup(key);
    memory->values[i].bytes = malloc(size ? size : 1);
    memory->values[i].size = size;
    CHECK(memory->values[i].key && memory->values[i].bytes);
    memcpy(memory->values[i].bytes, bytes, size);
}

void memory_store_init(struct memory_store *memory)
{
    *memory = (struct memory_store){.store = {.operations = &operations, .uri = (char *)"memory"}};
}

void memory_store_fill(struct memory_store *memory, struct input *input)
{
    memory_store_init(memory);
    char *text = NULL;
    while (input->left > 0) {
        size_t size = strnlen((const char *)input->at, input->left), skipped;
        const uint8_t *part = take_bytes(input, size, &size);
        take_bytes(input, 1, &skipped);
        if (!text) {
            text = strndup((const char *)part, size);
            CHECK(text);
            continue;
        }
        memory_store_put(memory, text, part, size);
        free(text);
        text = NULL;
    }
    free(text);
}

void memory_store_done(struct memory_store *memory)
{
    for (size_t i = 0; i < memory->count; i++) {
        free(memory->values[i].key);
        free(memory->values[i].bytes);
    }
}
