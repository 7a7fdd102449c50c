/* See reference_table.h. */
#include "store/references/reference_table.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "store/kind/store_internal.h"

enum { FIRST_BYTES = 4096, FIRST_COUNT = 64, FIRST_BUCKETS = 64 };

static enum status no_memory(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no memory for the table of references");
}

/* Room for `more` members of `size` bytes, of which there are `count`. */
static bool grow(void **memory, size_t count, size_t more, size_t size, size_t first,
                 size_t *capacity)
{
    size_t wanted = *capacity ? *capacity : first;
    while (wanted < count + more)
        wanted *= 2;
    void *grown = wanted > *capacity ? realloc(*memory, wanted * size) : *memory;
    if (!grown)
        return false;
    *memory = grown;
    *capacity = wanted;
    return true;
}

/* Below 4 GiB, since texts are known by 32 bits. */
static enum status append(struct reference_bytes *to, const void *bytes, size_t size,
                          struct error *err)
{
    if (size > UINT32_MAX - to->length)
        return error_set(err, STATUS_UNSUPPORTED,
                         "names, locations or values take more than 4 GiB: split the references");
    if (!grow((void **)&to->bytes, to->length, size, 1, FIRST_BYTES, &to->capacity))
        return no_memory(err);
    if (size > 0)
        memcpy(to->bytes + to->length, bytes, size);
    to->length += size;
    return STATUS_OK;
}

static enum status append_text(struct reference_bytes *to, const char *text, size_t bytes,
                               uint32_t *ret_at, struct error *err)
{
    size_t at = to->length;
    enum status status = append(to, text, bytes, err);
    if (status == STATUS_OK)
        status = append(to, "", 1, err);
    if (status == STATUS_OK)
        *ret_at = (uint32_t)at;
    return status;
}

/* Texts that are there once
 * ---------------------------------------------------------------------------------------------- */

/* The bucket that has the text, or that is free for it. */
static uint32_t *find_bucket(const struct reference_table *table, const char *text, size_t bytes)
{
    size_t mask = table->bucket_count - 1, i = XXH3_64bits(text, bytes) & mask;
    for (; table->buckets[i]; i = (i + 1) & mask) {
        const char *there = reference_text(table, table->buckets[i] - 1);
        if (strncmp(there, text, bytes) == 0 && there[bytes] == '\0')
            break;
    }
    return &table->buckets[i];
}

static enum status grow_buckets(struct reference_table *table, struct error *err)
{
    struct reference_table grown = *table;
    grown.bucket_count = table->bucket_count ? 2 * table->bucket_count : FIRST_BUCKETS;
    grown.buckets = calloc(grown.bucket_count, sizeof *grown.buckets);
    if (!grown.buckets)
        return no_memory(err);
    for (size_t i = 0; i < table->bucket_count; i++)
        if (table->buckets[i]) {
            const char *text = reference_text(table, table->buckets[i] - 1);
            *find_bucket(&grown, text, strlen(text)) = table->buckets[i];
        }
    free(table->buckets);
    *table = grown;
    return STATUS_OK;
}

static enum status intern(struct reference_table *table, const char *text, size_t bytes,
                          uint32_t *ret_at, struct error *err)
{
    enum status status =
        2 * table->used_buckets >= table->bucket_count ? grow_buckets(table, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    uint32_t *bucket = find_bucket(table, text, bytes), at;
    if (*bucket) {
        *ret_at = *bucket - 1;
        return STATUS_OK;
    }
    status = append_text(&table->texts, text, bytes, &at, err);
    if (status != STATUS_OK)
        return status;
    *bucket = at + 1;
    table->used_buckets++;
    *ret_at = at;
    return STATUS_OK;
}

/* Adding
 * ---------------------------------------------------------------------------------------------- */

/* The bytes of a key's folder, and its name. */
static size_t split(const char *key, const char **ret_name)
{
    const char *slash = strrchr(key, '/');
    *ret_name = slash ? slash + 1 : key;
    return slash ? (size_t)(slash - key) : 0;
}

size_t reference_table_room(const struct reference_table *table)
{
    return (table->most ? table->most : REFERENCE_MOST) - table->count;
}

static enum status add(struct reference_table *table, const char *key,
                       const struct reference *reference, struct error *err)
{
    struct reference added = *reference;
    const char *name;
    size_t bytes = split(key, &name);
    if (strlen(key) >= REFERENCE_KEY_BYTES)
        return error_set(err, STATUS_INVALID, "its key has more than %d bytes",
                         REFERENCE_KEY_BYTES - 1);
    if (reference_table_room(table) == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "there are more than %zu references: split them into several stores",
                         table->count);
    enum status status = intern(table, key, bytes, &added.folder, err);
    if (status == STATUS_OK)
        status = append_text(&table->texts, name, strlen(name), &added.name, err);
    if (status != STATUS_OK)
        return status;
    if (!grow((void **)&table->references, table->count, 1, sizeof added, FIRST_COUNT,
              &table->capacity))
        return no_memory(err);
    table->references[table->count++] = added;
    return STATUS_OK;
}

enum status reference_table_add(struct reference_table *table, const char *key,
                                const char *location, uint64_t offset, uint64_t length,
                                struct error *err)
{
    struct reference reference = {.offset = offset, .length = length};
    size_t bytes = strlen(location);
    if (bytes >= REFERENCE_LOCATION_BYTES)
        return error_set(err, STATUS_INVALID, "its url has more than %d bytes",
                         REFERENCE_LOCATION_BYTES - 1);
    enum status status = intern(table, location, bytes, &reference.location, err);
    return status == STATUS_OK ? add(table, key, &reference, err) : status;
}

enum status reference_table_add_value(struct reference_table *table, const char *key,
                                      const void *value, size_t size, struct error *err)
{
    struct reference reference = {
        .location = REFERENCE_INLINE, .offset = table->data.length, .length = size};
    enum status status = append(&table->data, value, size, err);
    return status == STATUS_OK ? add(table, key, &reference, err) : status;
}

/* Sorting
 * ---------------------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right, void *context)
{
    const struct reference_table *table = context;
    const struct reference *a = left, *b = right;
    if (a->folder != b->folder) {
        const char *one = reference_text(table, a->folder), *two = reference_text(table, b->folder);
        return store_key_compare(one, strlen(one), two, strlen(two));
    }
    return strcmp(reference_text(table, a->name), reference_text(table, b->name));
}

static enum status check_keys(const struct reference_table *table, struct error *err)
{
    for (size_t i = 1; i < table->count; i++) {
        const struct reference *reference = &table->references[i];
        const char *folder = reference_text(table, reference->folder);
        if (compare(reference - 1, reference, (void *)table) == 0)
            return error_set(err, STATUS_CORRUPT, "two references have the key '%s%s%s'", folder,
                             *folder ? "/" : "", reference_text(table, reference->name));
    }
    return STATUS_OK;
}

static size_t count_folders(const struct reference_table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++)
        count += i == 0 || table->references[i].folder != table->references[i - 1].folder;
    return count;
}

static enum status make_folders(struct reference_table *table, struct error *err)
{
    size_t count = count_folders(table), made = 0;
    struct reference_folder *folders = malloc((count + 1) * sizeof *folders);
    if (!folders)
        return no_memory(err);
    for (size_t i = 0; i < table->count; i++) {
        uint32_t path = table->references[i].folder;
        if (i == 0 || path != table->references[i - 1].folder)
            folders[made++] = (struct reference_folder){path, (uint32_t)i};
    }
    folders[count] = (struct reference_folder){0, (uint32_t)table->count};
    table->folders = folders;
    table->folder_count = count;
    return STATUS_OK;
}

static void shrink(void **memory, size_t bytes, size_t *capacity, size_t count)
{
    void *shrunk = bytes > 0 ? realloc(*memory, bytes) : NULL;
    if (!shrunk)
        return;
    *memory = shrunk;
    *capacity = count;
}

enum status reference_table_sort(struct reference_table *table, struct error *err)
{
    free(table->buckets);
    table->buckets = NULL;
    table->bucket_count = table->used_buckets = 0;
    if (table->count > 0)
        qsort_r(table->references, table->count, sizeof *table->references, compare, table);
    enum status status = check_keys(table, err);
    if (status == STATUS_OK)
        status = make_folders(table, err);
    shrink((void **)&table->references, table->count * sizeof *table->references, &table->capacity,
           table->count);
    shrink((void **)&table->texts.bytes, table->texts.length, &table->texts.capacity,
           table->texts.length);
    shrink((void **)&table->data.bytes, table->data.length, &table->data.capacity,
           table->data.length);
    return status;
}

uint64_t reference_table_bytes(const struct reference_table *table)
{
    return table->capacity * sizeof *table->references +
           (table->folder_count + 1) * sizeof *table->folders + table->texts.capacity +
           table->data.capacity;
}

void reference_table_done(struct reference_table *table)
{
    free(table->references);
    free(table->folders);
    free(table->texts.bytes);
    free(table->data.bytes);
    free(table->buckets);
    *table = (struct reference_table){0};
}

/* Searching
 * ---------------------------------------------------------------------------------------------- */

size_t reference_table_folder(const struct reference_table *table, const char *path, size_t bytes)
{
    size_t low = 0, high = table->folder_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *here = reference_text(table, table->folders[middle].path);
        if (store_key_compare(here, strlen(here), path, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool reference_table_is_below(const struct reference_table *table, size_t folder, const char *path,
                              size_t bytes, const char **ret_rest)
{
    if (folder == table->folder_count)
        return false;
    const char *here = reference_text(table, table->folders[folder].path);
    if (bytes > 0 && (strncmp(here, path, bytes) != 0 || (here[bytes] && here[bytes] != '/')))
        return false;
    *ret_rest = here + bytes + (bytes > 0 && here[bytes] == '/');
    return true;
}

const struct reference *reference_table_find(const struct reference_table *table, const char *key)
{
    const char *name, *rest;
    size_t bytes = split(key, &name), folder = reference_table_folder(table, key, bytes);
    if (!reference_table_is_below(table, folder, key, bytes, &rest) || *rest)
        return NULL;
    size_t low = table->folders[folder].first, high = table->folders[folder + 1].first;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(reference_text(table, table->references[middle].name), name);
        if (order == 0)
            return &table->references[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

uint64_t reference_content(const struct reference_table *table, const struct reference *reference)
{
    if (reference->location == REFERENCE_INLINE)
        return XXH3_64bits(table->data.bytes + reference->offset, reference->length);
    const char *location = reference_text(table, reference->location);
    uint64_t hash =
        XXH3_64bits_withSeed(&reference->offset, sizeof reference->offset, reference->length);
    return XXH3_64bits_withSeed(location, strlen(location), hash);
}
