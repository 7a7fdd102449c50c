/* Values that lie elsewhere. Any thread; all wait. */
#include "store/virtual/virtual.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum status virtual_explain(const struct virtual_store *store, const struct virtual_value *value,
                            enum status status, struct error *err)
{
    const char *refers = store->kind->refers;
    if (status != STATUS_NOT_FOUND)
        return status;
    if (value->is_inside)
        return error_prefix(err, STATUS_IO,
                            "%s to this chunk, which was removed, or never copied: ", refers);
    return error_prefix(err, STATUS_IO,
                        "%s to this chunk, which lies outside %s, and was removed, or never "
                        "copied: ",
                        refers, store->kind->whole);
}

void virtual_let_go(const struct virtual_store *store, struct virtual_value *value)
{
    if (value->pinned)
        store->kind->let_go(store, value);
    value->pinned = NULL;
}

/* A file that was changed later than the reference says has other chunks. */
static enum status check_unchanged(const struct store *store, const struct virtual_value *value,
                                   const char *key, struct error *err)
{
    struct store_info info;
    if (value->modified_s == 0 || value->etag[0])
        return STATUS_OK;
    enum status status = store->operations->stat(store, key, &info, err);
    if (status != STATUS_OK || info.modified_s <= (int64_t)value->modified_s)
        return status;
    return error_set(err, STATUS_CORRUPT,
                     "'%s/%s' was changed after the repository's reference to it was written",
                     store->uri, key);
}

/* Of a store that is not remote. */
static enum status read_here(const struct store *store, const struct virtual_value *value,
                             const char *key, const struct store_range *ranges, size_t count,
                             struct error *err)
{
    struct store_range moved[STORE_RANGES_AT_ONCE];
    enum status status = check_unchanged(store, value, key, err);
    for (size_t i = 0; i < count && status == STATUS_OK;) {
        size_t used = 0;
        for (; i < count && used < STORE_RANGES_AT_ONCE; i++)
            moved[used++] = (struct store_range){value->offset + ranges[i].offset, ranges[i].size,
                                                 ranges[i].buffer};
        status = store->operations->get_ranges(store, key, moved, used, STORE_ANY_TOTAL, err);
    }
    return status;
}

enum status virtual_read_object(const struct virtual_store *virtual,
                                const struct virtual_value *value, const struct store_range *ranges,
                                size_t count, struct error *err)
{
    char key[VIRTUAL_LOCATION_BYTES];
    const struct store *store;
    enum status status = virtual_object(virtual, value, &store, key, err);
    if (status != STATUS_OK || value->length == 0)
        return status;
    if (store->operations->fetch) {
        const struct fetch of = {.key = key,
                                 .offset = value->offset,
                                 .etag = value->etag,
                                 .modified_s = value->etag[0] ? 0 : value->modified_s};
        status = fetch_run_ranges(store, &of, ranges, count, err);
    } else {
        status = read_here(store, value, key, ranges, count, err);
    }
    return virtual_explain(virtual, value, status, err);
}

/* Asks a store as a fetch would. */
static enum status ask(const struct store *store, const char *key, struct fetch *fetch,
                       struct error *err)
{
    const struct store_operations *operations = store->operations;
    const struct store_range range = {fetch->offset, fetch->size, fetch->buffer};
    struct store_info info = {0};
    enum status status;
    switch (fetch->kind) {
    case FETCH_WHOLE:
        return operations->get(store, key, fetch->begins, fetch->buffer, fetch->capacity,
                               &fetch->got, err);
    case FETCH_RANGE:
        fetch->got = fetch->size;
        return operations->get_ranges(store, key, &range, 1, STORE_ANY_TOTAL, err);
    case FETCH_SUFFIX:
        fetch->got = fetch->size;
        return operations->get_suffix(store, key, fetch->buffer, fetch->size, &fetch->total, err);
    default:
        status = operations->stat(store, key, &info, err);
        fetch->total = info.bytes;
        fetch->version += info.version;
        return status;
    }
}

enum status virtual_read_whole(const struct virtual_store *virtual,
                               const struct virtual_value *value, struct fetch *fetch,
                               struct error *err)
{
    char key[VIRTUAL_LOCATION_BYTES];
    const struct store *store;
    enum status status = virtual_object(virtual, value, &store, key, err);
    if (status == STATUS_OK)
        status = ask(store, key, fetch, err);
    return virtual_explain(virtual, value, status, err);
}

/* Operations
 * ---------------------------------------------------------------------------------------------- */

static enum status tell(const struct virtual_store *virtual, const char *key, enum status status,
                        struct error *err)
{
    return status == STATUS_OK || status == STATUS_NOT_FOUND
               ? status
               : error_prefix(err, status, "'%s': chunk '%s': ", virtual->uri, key);
}

static enum status find_value(const struct virtual_store *virtual, const char *key,
                              struct virtual_value *ret_value, struct error *err)
{
    bool absent;
    *ret_value = (struct virtual_value){0};
    return tell(virtual, key, virtual->kind->find(virtual, key, true, &absent, ret_value, err),
                err);
}

/* Reads an object that is a value, as `fetch` says. */
static enum status read_whole(const struct virtual_store *virtual, const char *key,
                              const struct virtual_value *value, struct fetch *fetch,
                              struct error *err)
{
    return tell(virtual, key, virtual_read_whole(virtual, value, fetch, err), err);
}

static enum status read_pieces(const struct virtual_store *virtual, const char *key,
                               const struct virtual_value *value, const struct store_range *ranges,
                               size_t count, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; value->is_whole && i < count && status == STATUS_OK; i++) {
        struct fetch fetch = {.kind = FETCH_RANGE,
                              .offset = ranges[i].offset,
                              .size = ranges[i].size,
                              .buffer = ranges[i].buffer};
        status = read_whole(virtual, key, value, &fetch, err);
    }
    if (value->is_whole)
        return status;
    for (size_t i = 0; i < count; i++)
        if (ranges[i].offset > value->length || ranges[i].size > value->length - ranges[i].offset)
            return error_set(err, STATUS_CORRUPT,
                             "'%s': '%s' has %" PRIu64 " bytes, more are needed: it was cut short",
                             virtual->uri, key, value->length);
    if (!value->bytes)
        return tell(virtual, key, virtual_read_object(virtual, value, ranges, count, err), err);
    for (size_t i = 0; i < count; i++)
        memcpy(ranges[i].buffer, value->bytes + ranges[i].offset, ranges[i].size);
    return STATUS_OK;
}

static enum status read_piece(const struct virtual_store *virtual, const char *key,
                              const struct virtual_value *value, uint64_t offset, size_t size,
                              void *buffer, struct error *err)
{
    return read_pieces(virtual, key, value, &(struct store_range){offset, size, buffer}, 1, err);
}

static enum status check_capacity(const struct virtual_store *virtual, const char *key,
                                  const struct virtual_value *value, uint64_t capacity,
                                  struct error *err)
{
    if (value->length <= capacity)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "'%s': '%s' has %" PRIu64 " bytes, at most %" PRIu64 " can be right",
                     virtual->uri, key, value->length, capacity);
}

enum status virtual_get(const struct store *store, const char *key, store_begins *begins,
                        void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    const struct virtual_store *virtual = virtual_of(store);
    struct virtual_value value;
    struct fetch fetch = {
        .kind = FETCH_WHOLE, .buffer = buffer, .capacity = capacity, .begins = begins};
    enum status status = find_value(virtual, key, &value, err);
    if (status != STATUS_OK)
        return status;
    if (value.is_whole) {
        status = read_whole(virtual, key, &value, &fetch, err);
        value.length = fetch.got;
    } else {
        status = check_capacity(virtual, key, &value, capacity, err);
        if (status == STATUS_OK)
            status = read_piece(virtual, key, &value, 0, value.length, buffer, err);
    }
    virtual_let_go(virtual, &value);
    if (status == STATUS_OK)
        *ret_size = value.length;
    return status;
}

enum status virtual_get_ranges(const struct store *store, const char *key,
                               const struct store_range *ranges, size_t count, uint64_t total,
                               struct error *err)
{
    const struct virtual_store *virtual = virtual_of(store);
    struct virtual_value value;
    enum status status = find_value(virtual, key, &value, err);
    if (status != STATUS_OK)
        return status;
    if (total != STORE_ANY_TOTAL && !value.is_whole && value.length != total)
        status = error_set(err, STATUS_CORRUPT,
                           "'%s': '%s' has %" PRIu64 " bytes instead of %" PRIu64
                           ": it was cut short, or written for another array",
                           virtual->uri, key, value.length, total);
    if (status == STATUS_OK)
        status = read_pieces(virtual, key, &value, ranges, count, err);
    virtual_let_go(virtual, &value);
    return status;
}

enum status virtual_get_suffix(const struct store *store, const char *key, void *buffer,
                               size_t size, uint64_t *ret_total, struct error *err)
{
    const struct virtual_store *virtual = virtual_of(store);
    struct virtual_value value;
    struct fetch fetch = {.kind = FETCH_SUFFIX, .size = size, .buffer = buffer};
    enum status status = find_value(virtual, key, &value, err);
    if (status != STATUS_OK)
        return status;
    if (value.is_whole) {
        status = read_whole(virtual, key, &value, &fetch, err);
        value.length = fetch.total;
    } else
        status = read_piece(virtual, key, &value, size <= value.length ? value.length - size : 0,
                            size, buffer, err);
    virtual_let_go(virtual, &value);
    if (status == STATUS_OK)
        *ret_total = value.length;
    return status;
}

/* Of a whole object, which has other operations for texts. */
static enum status get_whole_text(const struct virtual_store *virtual, const char *key,
                                  const struct virtual_value *value, size_t limit, char **ret_text,
                                  size_t *ret_size, struct error *err)
{
    char inner_key[VIRTUAL_LOCATION_BYTES];
    const struct store *store;
    enum status status = virtual_object(virtual, value, &store, inner_key, err);
    if (status == STATUS_OK)
        status = store->operations->get_text(store, inner_key, limit, ret_text, ret_size, err);
    return tell(virtual, key, virtual_explain(virtual, value, status, err), err);
}

enum status virtual_get_text(const struct store *store, const char *key, size_t limit,
                             char **ret_text, size_t *ret_size, struct error *err)
{
    const struct virtual_store *virtual = virtual_of(store);
    struct virtual_value value;
    char *text = NULL;
    enum status status = find_value(virtual, key, &value, err);
    if (status != STATUS_OK)
        return status;
    if (value.is_whole)
        return get_whole_text(virtual, key, &value, limit, ret_text, ret_size, err);
    status = check_capacity(virtual, key, &value, limit, err);
    if (status == STATUS_OK && !(text = malloc(value.length + 1)))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for '%s' of '%s'", key, virtual->uri);
    if (status == STATUS_OK)
        status = read_piece(virtual, key, &value, 0, value.length, text, err);
    virtual_let_go(virtual, &value);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    text[value.length] = '\0';
    *ret_text = text;
    *ret_size = value.length;
    return STATUS_OK;
}

enum status virtual_stat(const struct store *store, const char *key, struct store_info *ret_info,
                         struct error *err)
{
    const struct virtual_store *virtual = virtual_of(store);
    struct virtual_value value;
    struct fetch fetch = {.kind = FETCH_STAT};
    enum status status = find_value(virtual, key, &value, err);
    if (status == STATUS_OK && value.is_whole)
        status = read_whole(virtual, key, &value, &fetch, err);
    if (status != STATUS_OK)
        return status;
    virtual_let_go(virtual, &value);
    *ret_info = (struct store_info){.bytes = value.is_whole ? fetch.total : value.length,
                                    .version = value.version + fetch.version};
    return STATUS_OK;
}
