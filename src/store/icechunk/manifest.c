/* See manifest.h. */
#include "store/icechunk/manifest.h"

#include <string.h>
#include <zstd.h>

/* Fields of the tables. */
enum { MANIFEST_ARRAYS = 1, MANIFEST_DICTIONARY };
enum { ARRAY_NODE, ARRAY_REFS };
enum {
    REF_INDEX,
    REF_INLINE,
    REF_OFFSET,
    REF_LENGTH,
    REF_CHUNK,
    REF_LOCATION,
    REF_ETAG,
    REF_MODIFIED,
    REF_PACKED_LOCATION
};

/* The index of a chunk: its numbers, four bytes each. */
static const unsigned char *index_of(struct flat *flat, uint32_t refs, uint32_t i,
                                     uint32_t *ret_count)
{
    uint32_t at = flat_vector(flat, flat_item(flat, refs, i), REF_INDEX, 4, ret_count);
    return flat->bytes + at;
}

static bool check_refs(struct flat *flat, uint32_t refs, uint32_t count)
{
    uint32_t axes = 0, before_axes = 0;
    const unsigned char *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *index = index_of(flat, refs, i, &axes);
        bool above = !before;
        if (flat->bad || axes > MANIFEST_MOST_AXES || (before && axes != before_axes))
            return false;
        for (uint32_t k = 0; k < axes && !above; k++) {
            uint32_t a = flat_u32(before + 4 * (size_t)k), b = flat_u32(index + 4 * (size_t)k);
            if (b < a)
                return false;
            above = b > a;
        }
        if (!above)
            return false;
        before = index;
        before_axes = axes;
    }
    return true;
}

enum status manifest_check(const unsigned char *bytes, size_t size, struct error *err)
{
    struct flat flat = {bytes, size, false};
    uint32_t count, refs_count;
    uint32_t arrays = flat_vector(&flat, flat_root(&flat, "Ichk"), MANIFEST_ARRAYS, 4, &count);
    const unsigned char *before = NULL;
    uint64_t all = 0; /* chunks, each of which takes four bytes at least */
    bool ordered = true;
    for (uint32_t i = 0; i < count && ordered && !flat.bad; i++) {
        uint32_t table = flat_item(&flat, arrays, i);
        const unsigned char *node = flat_struct(&flat, table, ARRAY_NODE, ICECHUNK_NODE_BYTES);
        uint32_t refs = flat_vector(&flat, table, ARRAY_REFS, 4, &refs_count);
        all += refs_count;
        ordered = all <= size / 4 && node &&
                  (!before || memcmp(before, node, ICECHUNK_NODE_BYTES) < 0) &&
                  check_refs(&flat, refs, refs_count);
        before = node;
    }
    if (flat.bad)
        return error_set(err, STATUS_CORRUPT, "what is in it leads out of its %zu bytes", size);
    return ordered ? STATUS_OK
                   : error_set(err, STATUS_CORRUPT,
                               "its arrays or their chunks are not in order, so they cannot be "
                               "found");
}

struct manifest_array manifest_array(const unsigned char *bytes, size_t size,
                                     const unsigned char node[ICECHUNK_NODE_BYTES])
{
    struct manifest_array array = {.flat = {bytes, size, false}};
    struct flat *flat = &array.flat;
    array.root = flat_root(flat, "Ichk");
    uint32_t high, low = 0, arrays = flat_vector(flat, array.root, MANIFEST_ARRAYS, 4, &high);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, table = flat_item(flat, arrays, middle);
        const unsigned char *here = flat_struct(flat, table, ARRAY_NODE, ICECHUNK_NODE_BYTES);
        int order = here ? memcmp(here, node, ICECHUNK_NODE_BYTES) : 1;
        if (order == 0) {
            array.refs = flat_vector(flat, table, ARRAY_REFS, 4, &array.count);
            break;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return array;
}

/* Compares the first `fixed` numbers of a chunk's index. */
static int compare(struct manifest_array *array, uint32_t i, const uint32_t *index, uint32_t fixed)
{
    uint32_t count;
    const unsigned char *here = index_of(&array->flat, array->refs, i, &count);
    for (uint32_t k = 0; k < fixed && k < count; k++) {
        uint32_t number = flat_u32(here + 4 * (size_t)k);
        if (number != index[k])
            return number < index[k] ? -1 : 1;
    }
    return count < fixed ? -1 : 0;
}

uint32_t manifest_find_from(struct manifest_array *array, const uint32_t *index, uint32_t fixed)
{
    uint32_t low = 0, high = array->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(array, middle, index, fixed) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool manifest_begins(struct manifest_array *array, uint32_t i, const uint32_t *index,
                     uint32_t fixed, uint32_t *ret_next)
{
    uint32_t count;
    if (i >= array->count || compare(array, i, index, fixed) != 0)
        return false;
    const unsigned char *here = index_of(&array->flat, array->refs, i, &count);
    if (ret_next)
        *ret_next = count > fixed ? flat_u32(here + 4 * (size_t)fixed) : 0;
    return true;
}

bool manifest_find(struct manifest_array *array, const uint32_t *index, uint32_t axes,
                   uint32_t *ret_i)
{
    uint32_t count, i = manifest_find_from(array, index, axes);
    if (!manifest_begins(array, i, index, axes, NULL))
        return false;
    (void)index_of(&array->flat, array->refs, i, &count);
    *ret_i = i;
    return count == axes || axes == 0;
}

/* Chunks
 * ---------------------------------------------------------------------------------------------- */

/* A text that fits; an absent one is "". */
static bool copy_text(struct flat *flat, uint32_t table, int entry, char *out, size_t capacity)
{
    uint32_t size = 0;
    const unsigned char *text = flat_bytes(flat, table, entry, &size);
    if (size >= capacity || (size > 0 && memchr(text, '\0', size)))
        return false;
    if (size > 0)
        memcpy(out, text, size);
    out[size] = '\0';
    return true;
}

/* A location that is packed by zstd, with the manifest's dictionary if it has one. */
static bool unpack_location(struct manifest_array *array, uint32_t table, char *out)
{
    struct flat *flat = &array->flat;
    uint32_t size, dictionary_size;
    const unsigned char *packed = flat_bytes(flat, table, REF_PACKED_LOCATION, &size);
    const unsigned char *dictionary =
        flat_bytes(flat, array->root, MANIFEST_DICTIONARY, &dictionary_size);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    size_t got = context ? ZSTD_decompress_usingDict(context, out, MANIFEST_LOCATION_BYTES - 1,
                                                     packed, size, dictionary, dictionary_size)
                         : 0;
    ZSTD_freeDCtx(context);
    if (!context || ZSTD_isError(got) || memchr(out, '\0', got))
        return false;
    out[got] = '\0';
    return true;
}

enum status manifest_ref(struct manifest_array *array, uint32_t i, struct chunk_ref *ret_ref,
                         struct error *err)
{
    struct flat *flat = &array->flat;
    uint32_t table = flat_item(flat, array->refs, i), size, packed_size;
    struct chunk_ref ref = {.offset = flat_number(flat, table, REF_OFFSET, 8, 0),
                            .length = flat_number(flat, table, REF_LENGTH, 8, 0),
                            .modified_s = (uint32_t)flat_number(flat, table, REF_MODIFIED, 4, 0)};
    const unsigned char *id = flat_struct(flat, table, REF_CHUNK, ICECHUNK_ID_BYTES);
    bool packed = flat_bytes(flat, table, REF_PACKED_LOCATION, &packed_size) != NULL, good = true;
    ref.bytes = flat_bytes(flat, table, REF_INLINE, &size);
    if (ref.bytes) {
        ref.kind = CHUNK_INLINE;
        ref.offset = 0;
        ref.length = size;
    } else if (id) {
        ref.kind = CHUNK_NATIVE;
        memcpy(ref.id, id, ICECHUNK_ID_BYTES);
    } else {
        ref.kind = CHUNK_VIRTUAL;
        good = (packed ? unpack_location(array, table, ref.location)
                       : copy_text(flat, table, REF_LOCATION, ref.location, sizeof ref.location)) &&
               copy_text(flat, table, REF_ETAG, ref.etag, sizeof ref.etag);
        if (good && !ref.location[0])
            return error_set(err, STATUS_UNSUPPORTED,
                             "its reference is neither inline, nor native, nor virtual");
    }
    if (!good || flat->bad || ref.offset + ref.length < ref.offset)
        return error_set(err, STATUS_CORRUPT, "its reference is damaged, or its location too long");
    *ret_ref = ref;
    return STATUS_OK;
}
