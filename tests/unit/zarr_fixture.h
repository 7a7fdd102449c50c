/* For tests: a temporary store, and arrays written to it by hand from a reference copy in memory.
 */
#ifndef PENSTOCK_TESTS_UNIT_ZARR_FIXTURE_H
#define PENSTOCK_TESTS_UNIT_ZARR_FIXTURE_H

#include "base/convert.h"
#include "base/random.h"
#include "base/text.h"
#include "store/store.h"
#include "zarr/metadata/array.h"

#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(call, err)                           \
    do {                                               \
        if ((call) != STATUS_OK)                       \
            fail_msg("%s: %s", #call, (err)->message); \
    } while (0)

struct fixture {
    char path[64];
    struct store *store;
};

static inline int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    strcpy(fixture->path, "/tmp/penstock-zarr-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    assert_int_equal(store_open(fixture->path, &fixture->store, NULL), STATUS_OK);
    *state = fixture;
    return 0;
}

static inline int fixture_remove(const char *path, const struct stat *info, int type,
                                 struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static inline int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    store_free(fixture->store);
    nftw(fixture->path, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(fixture);
    return 0;
}

static inline void fixture_put(const struct fixture *fixture, const char *key, const char *text)
{
    struct error err;
    assert_ok(store_put(fixture->store, key, text, strlen(text), &err), &err);
}

/* An array of format 2 without a codec, as its documents say it. */
struct document {
    const char *path, *shape, *type;
    const char *chunks;     /* NULL: one chunk */
    const char *fill;       /* NULL: none */
    const char *order;      /* NULL: "C" */
    const char *attributes; /* a JSON object; NULL: no document of attributes */
};

static inline void document_put(const struct fixture *fixture, struct document array)
{
    char key[128], text[512];
    snprintf(key, sizeof key, "%s/.zarray", array.path);
    snprintf(text, sizeof text,
             "{\"zarr_format\": 2, \"shape\": %s, \"chunks\": %s, \"dtype\": \"%s\", "
             "\"compressor\": null, \"fill_value\": %s, \"order\": \"%s\", \"filters\": null}",
             array.shape, array.chunks ? array.chunks : array.shape, array.type,
             array.fill ? array.fill : "null", array.order ? array.order : "C");
    fixture_put(fixture, key, text);
    snprintf(key, sizeof key, "%s/.zattrs", array.path);
    if (array.attributes)
        fixture_put(fixture, key, array.attributes);
}

/* How an array shall be written; zero is v2, uncompressed, little-endian, separated by ".". */
struct recipe {
    enum zarr_format format;
    const char *path;
    int rank;
    uint64_t shape[ZARR_MAX_RANK];
    uint64_t chunks[ZARR_MAX_RANK];
    enum dtype dtype;
    const char
        *codec; /* v2: the compressor; v3: what follows the bytes codec, with a leading comma */
    const char *fill;
    bool is_big;
    char separator;
};

static inline const char *recipe_v2_type(enum dtype dtype)
{
    static const char *const texts[] = {"",   "b1", "i1", "i2", "i4", "i8", "u1", "u2",
                                        "u4", "u8", "f2", "",   "f4", "f8", "c8", "c16"};
    return texts[dtype];
}

static inline void recipe_lengths(struct text *out, const uint64_t *lengths, int rank)
{
    for (int i = 0; i < rank; i++)
        text_append(out, "%s%" PRIu64, i ? "," : "[", lengths[i]);
    text_append(out, "]");
}

static inline void recipe_write_v2(const struct recipe *recipe, struct text *out)
{
    text_append(out, "{\"zarr_format\": 2, \"shape\": ");
    recipe_lengths(out, recipe->shape, recipe->rank);
    text_append(out, ", \"chunks\": ");
    recipe_lengths(out, recipe->chunks, recipe->rank);
    text_append(out,
                ", \"dtype\": \"%c%s\", \"compressor\": %s, \"fill_value\": %s, \"order\": \"C\", "
                "\"filters\": null, \"dimension_separator\": \"%c\"}",
                dtype_swap_bytes(recipe->dtype) == 1 ? '|' : "<>"[recipe->is_big],
                recipe_v2_type(recipe->dtype), recipe -> codec ? recipe -> codec : "null",
                recipe->fill ? recipe->fill : "null", recipe->separator ? recipe->separator : '.');
}

static inline void recipe_write_v3(const struct recipe *recipe, struct text *out)
{
    text_append(out, "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": ");
    recipe_lengths(out, recipe->shape, recipe->rank);
    text_append(out,
                ", \"data_type\": \"%s\", \"chunk_grid\": {\"name\": \"regular\", "
                "\"configuration\": {\"chunk_shape\": ",
                dtype_name(recipe->dtype));
    recipe_lengths(out, recipe->chunks, recipe->rank);
    text_append(out,
                "}}, \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": "
                "{\"separator\": \"%c\"}}, \"fill_value\": %s, \"codecs\": [{\"name\": \"bytes\", "
                "\"configuration\": {\"endian\": \"%s\"}}%s]}",
                recipe->separator ? recipe->separator : '/', recipe->fill ? recipe->fill : "0",
                recipe->is_big ? "big" : "little", recipe->codec ? recipe->codec : "");
}

/* Writes the metadata document and parses it again. */
static inline void recipe_put_metadata(const struct fixture *fixture, const struct recipe *recipe,
                                       struct zarr_array *array)
{
    bool is_v3 = recipe->format == ZARR_V3;
    struct text document = {0};
    struct error err;
    char key[ZARR_KEY_BYTES];
    if (is_v3)
        recipe_write_v3(recipe, &document);
    else
        recipe_write_v2(recipe, &document);
    snprintf(key, sizeof key, "%s%s%s", recipe->path, recipe->path[0] ? "/" : "",
             is_v3 ? "zarr.json" : ".zarray");
    fixture_put(fixture, key, document.data);
    enum status status = zarr_array_parse(is_v3 ? ZARR_V3 : ZARR_V2, recipe->path, document.data,
                                          document.length, array, &err);
    if (!zarr_array_lacks_items(array))
        assert_ok(status, &err);
    text_done(&document);
}

static inline bool recipe_next(uint64_t *position, const uint64_t *lengths, int rank)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++position[i] < lengths[i])
            return true;
        position[i] = 0;
    }
    return false;
}

/* Which item of the whole array, in C order, a chunk has at `position`; false: beyond the edge. */
static inline bool recipe_item(const struct zarr_array *array, const uint64_t *chunk_index,
                               const uint64_t *position, uint64_t *ret_item)
{
    uint64_t item = 0;
    bool is_inside = true;
    for (int i = 0; i < array->rank; i++) {
        uint64_t at = chunk_index[i] * array->chunk_shape[i] + position[i];
        is_inside = is_inside && at < array->shape[i];
        item = item * array->shape[i] + at;
    }
    *ret_item = item;
    return is_inside;
}

/* One chunk out of `items` (the whole array, C order); beyond the edge it holds 0xee. Item by item,
 * on purpose unlike the code under test. */
static inline void recipe_cut_chunk(const struct zarr_array *array, const uint64_t *chunk_index,
                                    const unsigned char *items, unsigned char *chunk)
{
    uint64_t position[ZARR_MAX_RANK] = {0};
    size_t item = array->item_bytes;
    do {
        uint64_t number;
        if (recipe_item(array, chunk_index, position, &number))
            memcpy(chunk, items + number * item, item);
        else
            memset(chunk, 0xee, item);
        chunk += item;
    } while (recipe_next(position, array->chunk_shape, array->rank));
}

/* Encodes and stores one chunk. */
static inline void recipe_put_chunk(const struct fixture *fixture, const struct zarr_array *array,
                                    const uint64_t *chunk_index, const unsigned char *items)
{
    size_t capacity = codec_chain_stored_bound(&array->codecs, array->chunk_bytes), size;
    unsigned char *chunk = malloc(array->chunk_bytes), *stored = malloc(capacity);
    char key[ZARR_KEY_BYTES];
    struct error err;
    recipe_cut_chunk(array, chunk_index, items, chunk);
    if (array->byte_swapped)
        convert_swap(chunk, array->chunk_bytes, dtype_swap_bytes(array->dtype));
    assert_ok(
        codec_encode(&array->codecs, chunk, array->chunk_bytes, stored, capacity, &size, &err),
        &err);
    zarr_chunk_key(array, chunk_index, key);
    assert_ok(store_put(fixture->store, key, stored, size, &err), &err);
    free(chunk);
    free(stored);
}

/* Writes metadata and all chunks of `items`. */
static inline void recipe_put(const struct fixture *fixture, const struct recipe *recipe,
                              const void *items, struct zarr_array *array)
{
    uint64_t chunk_index[ZARR_MAX_RANK] = {0};
    recipe_put_metadata(fixture, recipe, array);
    if (array->is_empty)
        return;
    do
        recipe_put_chunk(fixture, array, chunk_index, items);
    while (recipe_next(chunk_index, array->chunk_counts, array->rank));
}

/* `size` bytes that are a function of the seed; half of them zero, so that codecs have something to
 * do. Returned, malloc'ed. */
static inline unsigned char *random_items(uint64_t seed, size_t size)
{
    unsigned char *items = malloc(size);
    for (size_t i = 0; i < size; i++)
        items[i] = i % 2 ? 0 : (unsigned char)random_u64(seed, 7, i);
    return items;
}

#endif
