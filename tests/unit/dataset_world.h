/* For tests of samples: stores with two arrays of random shapes and with arrays that say what
 * samples are, and random steps. */
#ifndef PENSTOCK_TESTS_UNIT_DATASET_WORLD_H
#define PENSTOCK_TESTS_UNIT_DATASET_WORLD_H

#include "base/number.h"
#include "dataset/dataset.h"
#include "zarr_fixture.h"

enum {
    MOST_STORES = 3,
    MOST_STEPS = 8,
    MOST_RUNS = 1024, /* in a store */
    MEBIBYTE = 1 << 20,
    A_BYTES = 12,
    B_BYTES = 6,
};

/* Arrays a, float32 [n, 3], and b, uint16 [n, 3], in each store. */
struct stores {
    char folder[64];
    struct fixture fixtures[MOST_STORES];
    size_t count;
    uint64_t first[MOST_STORES + 1];
    /* Of all stores, one after another: */
    unsigned char *a, *b;
    int64_t *ends; /* of episodes, some without frames: [end_count[store]], counted in the store */
    size_t end_count[MOST_STORES];
    int16_t *ids;                   /* of the frames' episodes */
    unsigned char *missing, *where; /* bool and uint8, of frames */
    uint16_t *gone;                 /* numbers of missing frames in their store */
    size_t gone_count[MOST_STORES];
    int8_t *group; /* of frames, in any order */
};

static inline void put_line(const struct fixture *fixture, const char *path, enum dtype dtype,
                            uint64_t count, const void *items)
{
    struct recipe recipe = {
        .path = path, .rank = 1, .shape = {count}, .chunks = {7}, .dtype = dtype};
    struct zarr_array array;
    recipe_put(fixture, &recipe, items, &array);
}

static inline void put_frame_arrays(const struct stores *stores, size_t i, uint64_t frames)
{
    const struct fixture *fixture = &stores->fixtures[i];
    uint64_t first = stores->first[i];
    put_line(fixture, "ends", DTYPE_INT64, stores->end_count[i], stores->ends + i * MOST_RUNS);
    put_line(fixture, "meta/ids", DTYPE_INT16, frames, stores->ids + first);
    /* Some stores have bools as xarray writes them. */
    put_line(fixture, "missing", frames % 2 ? DTYPE_INT8 : DTYPE_BOOL, frames,
             stores->missing + first);
    put_line(fixture, "where", DTYPE_UINT8, frames, stores->where + first);
    put_line(fixture, "gone", DTYPE_UINT16, stores->gone_count[i], stores->gone + i * MOST_RUNS);
    put_line(fixture, "group", DTYPE_INT8, frames, stores->group + first);
}

/* Draws what the arrays of frames say: episodes of 0 to 15 frames, one frame in 8 missing, two in 3
 * wanted. */
static inline void draw_frames(uint64_t seed, struct stores *stores)
{
    uint64_t all = stores->first[stores->count];
    stores->ends = calloc(MOST_STORES * MOST_RUNS, sizeof *stores->ends);
    stores->gone = calloc(MOST_STORES * MOST_RUNS, sizeof *stores->gone);
    stores->ids = calloc(all, sizeof *stores->ids);
    stores->missing = calloc(all, 1);
    stores->where = calloc(all, 1);
    stores->group = calloc(all, 1);
    for (size_t s = 0; s < stores->count; s++) {
        uint64_t frames = stores->first[s + 1] - stores->first[s], end = 0;
        size_t count = 0;
        while (end < frames) {
            uint64_t begin = end;
            end = min_u64(end + random_below(random_u64(seed, 50 + s, count), 16), frames);
            stores->ends[s * MOST_RUNS + count++] = (int64_t)end;
            for (uint64_t i = begin; i < end; i++)
                stores->ids[stores->first[s] + i] = (int16_t)(2000 * (int)s - 7 * (int)count);
        }
        stores->end_count[s] = count;
        stores->gone[s * MOST_RUNS] = (uint16_t)random_below(random_u64(seed, 60, s), frames);
        stores->gone[s * MOST_RUNS + 1] = (uint16_t)random_below(random_u64(seed, 61, s), frames);
        stores->gone_count[s] = 2;
    }
    for (uint64_t i = 0; i < all; i++) {
        stores->missing[i] = random_below(random_u64(seed, 62, i), 8) == 0;
        stores->where[i] = random_below(random_u64(seed, 63, i), 3) > 0;
        stores->group[i] = (int8_t)((int)random_below(random_u64(seed, 64, i), 11) - 5);
    }
}

static inline void put_store(struct stores *stores, size_t i, uint64_t seed, uint64_t frames)
{
    static const char *const codecs[] = {NULL, "{\"id\": \"zstd\", \"level\": 1}",
                                         "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, "
                                         "\"shuffle\": 1, \"blocksize\": 64}"};
    struct fixture *fixture = &stores->fixtures[i];
    struct recipe a = {.path = "a",
                       .rank = 2,
                       .shape = {frames, 3},
                       .chunks = {1 + random_below(random_u64(seed, 1, 1), 9), 3},
                       .dtype = DTYPE_FLOAT32,
                       .codec = codecs[random_below(random_u64(seed, 1, 2), 3)]};
    struct recipe b = {.path = "b",
                       .rank = 2,
                       .shape = {frames, 3},
                       .chunks = {1 + random_below(random_u64(seed, 1, 3), 9), 2},
                       .dtype = DTYPE_UINT16,
                       .codec = codecs[random_below(random_u64(seed, 1, 4), 3)]};
    struct zarr_array array;
    struct error err;
    char path[64];
    snprintf(path, sizeof path, "%.40s/%" PRIu64 "%c.zarr", stores->folder, seed, (char)('a' + i));
    memcpy(fixture->path, path, sizeof fixture->path);
    assert_ok(store_create(fixture->path, false, &fixture->store, &err), &err);
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    recipe_put(fixture, &a, stores->a + stores->first[i] * A_BYTES, &array);
    recipe_put(fixture, &b, stores->b + stores->first[i] * B_BYTES, &array);
    put_frame_arrays(stores, i, frames);
}

static inline void put_stores(const char *folder, uint64_t seed, struct stores *stores)
{
    *stores = (struct stores){.count = 1 + random_below(random_u64(seed, 0, 0), MOST_STORES)};
    snprintf(stores->folder, sizeof stores->folder, "%s", folder);
    for (size_t i = 0; i < stores->count; i++)
        stores->first[i + 1] = stores->first[i] + 1 + random_below(random_u64(seed, 0, i + 1), 40);
    stores->a = random_items(seed, stores->first[stores->count] * A_BYTES);
    stores->b = random_items(seed + 1, stores->first[stores->count] * B_BYTES);
    draw_frames(seed, stores);
    for (size_t i = 0; i < stores->count; i++)
        put_store(stores, i, seed, stores->first[i + 1] - stores->first[i]);
}

static inline void stores_done(struct stores *stores)
{
    for (size_t i = 0; i < stores->count; i++)
        store_free(stores->fixtures[i].store);
    free(stores->a);
    free(stores->b);
    free(stores->ends);
    free(stores->gone);
    free(stores->ids);
    free(stores->missing);
    free(stores->where);
    free(stores->group);
}

static inline struct text list_of(const struct stores *stores)
{
    struct text list = {0};
    for (size_t i = 0; i < stores->count; i++)
        text_list_put(&list, stores->fixtures[i].path);
    return list;
}

/* Some steps around 0, with holes. */
static inline size_t draw_steps(uint64_t seed, uint64_t stream, int32_t *steps)
{
    size_t count = random_below(random_u64(seed, stream, 0), MOST_STEPS + 1);
    int32_t step = (int32_t)random_below(random_u64(seed, stream, 1), 9) - 6;
    for (size_t i = 0; i < count; i++) {
        steps[i] = step;
        step += 1 + (int32_t)(random_below(random_u64(seed, stream, i + 2), 4) == 0);
    }
    return count;
}

#endif
