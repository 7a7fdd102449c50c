/* What a key means in an Icechunk repository, and where its chunk lies. Any thread. */
#include "store/icechunk/icechunk_internal.h"

#include <string.h>
#include <xxhash.h>

static const char document_name[] = "zarr.json";

/* A number at the end of `key`, as keys have it, behind a '/'. */
static bool take_number(const char *key, size_t *bytes, uint32_t *ret_number)
{
    uint64_t number = 0, factor = 1;
    size_t begin = *bytes;
    while (begin > 0 && key[begin - 1] >= '0' && key[begin - 1] <= '9' && factor < UINT32_MAX) {
        number += factor * (uint64_t)(key[--begin] - '0');
        factor *= 10;
    }
    size_t digits = *bytes - begin;
    if (digits == 0 || number > UINT32_MAX || (digits > 1 && key[begin] == '0') || begin == 0 ||
        key[begin - 1] != '/')
        return false;
    *bytes = begin - 1;
    *ret_number = (uint32_t)number;
    return true;
}

static bool ends_in(const char *key, size_t bytes, const char *name, size_t *ret_bytes)
{
    size_t length = strlen(name);
    if (bytes < length || memcmp(key + bytes - length, name, length) != 0 ||
        (bytes > length && key[bytes - length - 1] != '/'))
        return false;
    *ret_bytes = bytes == length ? 0 : bytes - length - 1;
    return true;
}

void icechunk_read_key(const struct icechunk *icechunk, const char *key,
                       struct icechunk_key *ret_key)
{
    size_t bytes = strlen(key), path;
    *ret_key = (struct icechunk_key){.is_document = true};
    if (ends_in(key, bytes, document_name, &path)) {
        ret_key->node = snapshot_find(&icechunk->snapshot, key, path);
        return;
    }
    ret_key->is_document = false;
    uint32_t *index = ret_key->index, axes = 0;
    while (axes < MANIFEST_MOST_AXES && take_number(key, &bytes, &index[axes]))
        axes++;
    for (uint32_t i = 0; i < axes / 2; i++) {
        uint32_t swap = index[i];
        index[i] = index[axes - 1 - i];
        index[axes - 1 - i] = swap;
    }
    ret_key->axes = axes;
    if (ends_in(key, bytes, "c", &path))
        ret_key->node = snapshot_find(&icechunk->snapshot, key, path);
    if (ret_key->node && !ret_key->node->is_array)
        ret_key->node = NULL;
}

/* Looks in a manifest that is pinned. */
static enum status look(const unsigned char *bytes, const struct snapshot_manifest *manifest,
                        const struct icechunk_key *key, struct chunk_ref *ret_ref,
                        struct error *err)
{
    uint32_t i;
    struct manifest_array array = manifest_array(bytes, manifest->decoded_bytes, key->node->id);
    bool found = manifest_find(&array, key->index, key->axes, &i);
    if (found)
        return manifest_ref(&array, i, ret_ref, err);
    return array.flat.bad ? error_set(err, STATUS_CORRUPT, "its manifest is damaged")
                          : STATUS_NOT_FOUND;
}

enum status icechunk_find(const struct icechunk *icechunk, const struct icechunk_key *key,
                          bool may_wait, bool *ret_absent, struct icechunk_chunk *ret_chunk,
                          struct error *err)
{
    struct snapshot_walk walk = snapshot_walk(&icechunk->snapshot, key->node);
    for (;;) {
        const unsigned char *bytes = NULL;
        struct snapshot_manifest *manifest;
        enum status status = snapshot_next(&icechunk->snapshot, &walk, key->index, key->axes,
                                           key->axes, &manifest, err);
        if (status == STATUS_OK && !manifest)
            return error_set(err, STATUS_NOT_FOUND, "no manifest of array '/%.*s' has the chunk",
                             (int)key->node->path_bytes, key->node->path);
        if (status == STATUS_OK && may_wait)
            status = icechunk_pin(icechunk, manifest, &bytes, err);
        else if (status == STATUS_OK)
            bytes = inflated_find(icechunk->inflated, manifest);
        if (status != STATUS_OK)
            return status;
        if (ret_absent && !bytes) {
            *ret_absent = true;
            return STATUS_OK;
        }
        status = look(bytes, manifest, key, &ret_chunk->ref, err);
        ret_chunk->manifest = manifest;
        if (status == STATUS_OK)
            return STATUS_OK;
        icechunk_let_go(icechunk, ret_chunk);
        if (status != STATUS_NOT_FOUND)
            return status;
    }
}

void icechunk_let_go(const struct icechunk *icechunk, struct icechunk_chunk *chunk)
{
    if (chunk->manifest)
        inflated_unpin(icechunk->inflated, chunk->manifest);
    chunk->manifest = NULL;
}

uint64_t icechunk_content(const struct chunk_ref *ref)
{
    uint64_t hash = XXH3_64bits_withSeed(&ref->offset, sizeof ref->offset, ref->length);
    if (ref->kind == CHUNK_INLINE)
        return XXH3_64bits_withSeed(ref->bytes, ref->length, hash);
    if (ref->kind == CHUNK_NATIVE)
        return XXH3_64bits_withSeed(ref->id, sizeof ref->id, hash);
    hash = XXH3_64bits_withSeed(ref->location, strlen(ref->location), hash);
    return XXH3_64bits_withSeed(ref->etag, strlen(ref->etag), hash + ref->modified_s);
}
