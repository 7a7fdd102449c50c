/* Values of an Icechunk repository. Any thread; all wait. */
#include "store/icechunk/icechunk_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum status icechunk_explain(const struct chunk_ref *ref, enum status status, struct error *err)
{
    const char *where = ref->kind == CHUNK_VIRTUAL ? "lies outside the repository, and was" : "was";
    if (status == STATUS_NOT_FOUND)
        return error_prefix(err, STATUS_IO,
                            "the manifest refers to this chunk, which %s removed, or never "
                            "copied: ",
                            where);
    return status;
}

/* A file that was changed later than the reference says has other chunks. */
static enum status check_unchanged(const struct store *store, const struct chunk_ref *ref,
                                   const char *key, struct error *err)
{
    struct store_info info;
    if (ref->modified_s == 0 || ref->etag[0])
        return STATUS_OK;
    enum status status = store->operations->stat(store, key, &info, err);
    if (status != STATUS_OK || info.modified_s <= (int64_t)ref->modified_s)
        return status;
    return error_set(err, STATUS_CORRUPT,
                     "'%s/%s' was changed after the repository's reference to it was written",
                     store->uri, key);
}

enum status icechunk_read_object(const struct icechunk *icechunk, const struct chunk_ref *ref,
                                 uint64_t offset, size_t size, void *buffer, struct error *err)
{
    char key[ICECHUNK_KEY_BYTES];
    const struct store *store;
    struct store_range range = {ref->offset + offset, size, buffer};
    enum status status = icechunk_object(icechunk, ref, &store, key, err);
    if (status != STATUS_OK || size == 0)
        return status;
    if (store->operations->fetch) {
        struct fetch fetch = {.kind = FETCH_RANGE,
                              .key = key,
                              .offset = range.offset,
                              .size = size,
                              .buffer = buffer,
                              .etag = ref->etag,
                              .modified_s = ref->etag[0] ? 0 : ref->modified_s};
        return icechunk_explain(ref, fetch_run(store, &fetch, err), err);
    }
    status = check_unchanged(store, ref, key, err);
    if (status == STATUS_OK)
        status = store->operations->get_ranges(store, key, &range, 1, STORE_ANY_TOTAL, err);
    return icechunk_explain(ref, status, err);
}

/* Operations
 * ---------------------------------------------------------------------------------------------- */

/* A value that was found: a document's text, or a chunk. */
struct value {
    const unsigned char *bytes; /* NULL: it is in an object */
    uint64_t length;
    struct icechunk_chunk chunk;
};

static enum status find_value(const struct icechunk *icechunk, const char *key,
                              struct value *ret_value, struct error *err)
{
    struct icechunk_key parts;
    icechunk_read_key(icechunk, key, &parts);
    *ret_value = (struct value){0};
    if (!parts.node)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has no '%s'", icechunk->uri, key);
    if (parts.is_document) {
        ret_value->bytes = parts.node->document;
        ret_value->length = parts.node->document_bytes;
        return STATUS_OK;
    }
    enum status status = icechunk_find(icechunk, &parts, true, NULL, &ret_value->chunk, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return error_prefix(err, status, "'%s': chunk '%s': ", icechunk->uri, key);
    ret_value->bytes =
        ret_value->chunk.ref.kind == CHUNK_INLINE ? ret_value->chunk.ref.bytes : NULL;
    ret_value->length = ret_value->chunk.ref.length;
    if (!ret_value->bytes)
        icechunk_let_go(icechunk, &ret_value->chunk);
    return status;
}

static enum status read_piece(const struct icechunk *icechunk, const char *key,
                              const struct value *value, uint64_t offset, size_t size, void *buffer,
                              struct error *err)
{
    if (offset > value->length || size > value->length - offset)
        return error_set(err, STATUS_CORRUPT,
                         "'%s': '%s' has %" PRIu64 " bytes, more are needed: it was cut short",
                         icechunk->uri, key, value->length);
    if (value->bytes) {
        memcpy(buffer, value->bytes + offset, size);
        return STATUS_OK;
    }
    enum status status =
        icechunk_read_object(icechunk, &value->chunk.ref, offset, size, buffer, err);
    return status == STATUS_OK
               ? STATUS_OK
               : error_prefix(err, status, "'%s': chunk '%s': ", icechunk->uri, key);
}

static enum status check_capacity(const struct icechunk *icechunk, const char *key,
                                  const struct value *value, uint64_t capacity, struct error *err)
{
    if (value->length <= capacity)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "'%s': '%s' has %" PRIu64 " bytes, at most %" PRIu64 " can be right",
                     icechunk->uri, key, value->length, capacity);
}

enum status icechunk_get(const struct store *store, const char *key, store_begins *begins,
                         void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    struct value value;
    (void)begins;
    enum status status = find_value(icechunk, key, &value, err);
    if (status != STATUS_OK)
        return status;
    status = check_capacity(icechunk, key, &value, capacity, err);
    if (status == STATUS_OK)
        status = read_piece(icechunk, key, &value, 0, value.length, buffer, err);
    icechunk_let_go(icechunk, &value.chunk);
    if (status == STATUS_OK)
        *ret_size = value.length;
    return status;
}

enum status icechunk_get_ranges(const struct store *store, const char *key,
                                const struct store_range *ranges, size_t count, uint64_t total,
                                struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    struct value value;
    enum status status = find_value(icechunk, key, &value, err);
    if (status != STATUS_OK)
        return status;
    if (total != STORE_ANY_TOTAL && value.length != total)
        status = error_set(err, STATUS_CORRUPT,
                           "'%s': '%s' has %" PRIu64 " bytes instead of %" PRIu64
                           ": it was cut short, or written for another array",
                           icechunk->uri, key, value.length, total);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = read_piece(icechunk, key, &value, ranges[i].offset, ranges[i].size,
                            ranges[i].buffer, err);
    icechunk_let_go(icechunk, &value.chunk);
    return status;
}

enum status icechunk_get_suffix(const struct store *store, const char *key, void *buffer,
                                size_t size, uint64_t *ret_total, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    struct value value;
    enum status status = find_value(icechunk, key, &value, err);
    if (status != STATUS_OK)
        return status;
    status = read_piece(icechunk, key, &value, size <= value.length ? value.length - size : 0, size,
                        buffer, err);
    icechunk_let_go(icechunk, &value.chunk);
    if (status == STATUS_OK)
        *ret_total = value.length;
    return status;
}

enum status icechunk_get_text(const struct store *store, const char *key, size_t limit,
                              char **ret_text, size_t *ret_size, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    struct value value;
    char *text = NULL;
    enum status status = find_value(icechunk, key, &value, err);
    if (status != STATUS_OK)
        return status;
    status = check_capacity(icechunk, key, &value, limit, err);
    if (status == STATUS_OK && !(text = malloc(value.length + 1)))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for '%s' of '%s'", key, icechunk->uri);
    if (status == STATUS_OK)
        status = read_piece(icechunk, key, &value, 0, value.length, text, err);
    icechunk_let_go(icechunk, &value.chunk);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    text[value.length] = '\0';
    *ret_text = text;
    *ret_size = value.length;
    return STATUS_OK;
}

enum status icechunk_stat(const struct store *store, const char *key, struct store_info *ret_info,
                          struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    struct icechunk_key parts;
    struct value value;
    enum status status = find_value(icechunk, key, &value, err);
    if (status != STATUS_OK)
        return status;
    icechunk_read_key(icechunk, key, &parts);
    *ret_info = (struct store_info){.bytes = value.length};
    ret_info->version = parts.is_document ? XXH3_64bits(value.bytes, value.length)
                                          : icechunk_content(&value.chunk.ref);
    icechunk_let_go(icechunk, &value.chunk);
    return STATUS_OK;
}
