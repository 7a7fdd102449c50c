/* For tests of ragged fields: stores with offsets and columns of random lengths, a model of what
 * they hold, and memory for pages. */
#ifndef PENSTOCK_TESTS_UNIT_RAGGED_WORLD_H
#define PENSTOCK_TESTS_UNIT_RAGGED_WORLD_H

#include "base/number.h"
#include "dataset/dataset.h"
#include "dataset/ragged.h"
#include "zarr_fixture.h"

enum {
    WORLD_STORES = 3,
    WORLD_FRAMES = 400,
    WORLD_ITEMS = 40000,
    WORLD_PAGES = 4096,
    WORLD_RUN = 60
};

/* Column a, int16 in [0, 50); b, uint32 in [0, 70); values v, of any dtype, and w, float32 [, 3].
 */
struct ragged_world {
    struct fixture *fixture;
    char uri[512];
    size_t store_count;
    uint64_t frames[WORLD_STORES + 1]; /* the first of each store; then all */
    uint64_t offsets[WORLD_FRAMES + 1];
    int16_t a[WORLD_ITEMS];
    uint32_t b[WORLD_ITEMS];
    unsigned char v[WORLD_ITEMS * 8];
    float w[WORLD_ITEMS][3];
    enum dtype v_dtype;
};

static inline uint64_t world_random(uint64_t seed, uint64_t what, uint64_t i, uint64_t count)
{
    return random_u64(seed, what, i) % count;
}

/* Mostly short frames, many of them empty, and now and then a giant. */
static inline uint64_t world_length(uint64_t seed, uint64_t frame)
{
    uint64_t kind = world_random(seed, 1, frame, 40);
    return kind < 8     ? 0
           : kind == 39 ? 1500 + world_random(seed, 2, frame, 2000)
           : kind == 38 ? 1
                        : world_random(seed, 2, frame, 30);
}

static inline void world_put(const struct ragged_world *world, size_t store, const char *name,
                             uint64_t seed, enum dtype dtype, uint64_t count, uint64_t width,
                             uint64_t chunk, const void *items)
{
    char path[64];
    struct zarr_array array;
    static const char *const codecs[][2] = {
        {NULL, NULL},
        {"{\"id\": \"zlib\", \"level\": 1}",
         ", {\"name\": \"gzip\", \"configuration\": {\"level\": 1}}"},
        {"{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": "
         "256}",
         ", {\"name\": \"blosc\", \"configuration\": {\"cname\": \"zstd\", \"clevel\": 3, "
         "\"shuffle\": \"shuffle\", \"blocksize\": 512}}"}};
    enum zarr_format format = seed % 2 ? ZARR_V3 : ZARR_V2;
    struct recipe recipe = {.format = format,
                            .codec = codecs[seed % 5 > 2   ? 1
                                            : seed % 5 > 0 ? 2
                                                           : 0][format == ZARR_V3],
                            .path = path,
                            .rank = width > 1 ? 2 : 1,
                            .shape = {count, width},
                            .chunks = {chunk, width},
                            .dtype = dtype,
                            .is_big = seed % 3 == 1};
    snprintf(path, sizeof path, "w%" PRIu64 "/s%zu/%s", seed, store, name);
    recipe_put(world->fixture, &recipe, items, &array);
}

static inline void world_put_offsets(const struct ragged_world *world, size_t store, uint64_t seed)
{
    uint64_t first = world->frames[store], count = world->frames[store + 1] - first + 1;
    uint64_t base = world->offsets[first];
    int32_t narrow[WORLD_FRAMES + 1];
    int64_t wide[WORLD_FRAMES + 1];
    for (uint64_t i = 0; i < count; i++) {
        wide[i] = (int64_t)(world->offsets[first + i] - base);
        narrow[i] = (int32_t)wide[i];
    }
    if (seed % 4 < 2)
        world_put(world, store, "o", seed, DTYPE_INT32, count, 1, 7 + seed % 50, narrow);
    else
        world_put(world, store, "o", seed, DTYPE_INT64, count, 1, 7 + seed % 50, wide);
}

/* Chunks of the columns are of one length in half of the worlds. */
static inline void world_put_store(const struct ragged_world *world, size_t store, uint64_t seed)
{
    uint64_t first = world->offsets[world->frames[store]];
    uint64_t count = world->offsets[world->frames[store + 1]] - first;
    uint64_t chunk = 16 + world_random(seed, 3, 0, 300);
    uint64_t other = world_random(seed, 4, 0, 2) ? chunk : 16 + world_random(seed, 5, 0, 300);
    world_put_offsets(world, store, seed);
    world_put(world, store, "a", seed, DTYPE_INT16, count, 1, chunk, &world->a[first]);
    world_put(world, store, "b", seed, DTYPE_UINT32, count, 1, other, &world->b[first]);
    world_put(world, store, "v", seed, world->v_dtype, count, 1, chunk,
              world->v + first * dtype_bytes(world->v_dtype));
    world_put(world, store, "w", seed, DTYPE_FLOAT32, count, 3, chunk, world->w[first]);
}

/* Values of 4 bytes or more whose upper or lower half is zero: runs of such items may be narrow. */
static inline void world_clear_half(unsigned char *values, size_t bytes, uint64_t i, uint64_t kind)
{
    if (bytes >= 4 && kind > 0)
        memset(values + i * bytes + (kind == 1 ? 0 : bytes / 2), 0, bytes / 2);
}

static inline void world_fill(struct ragged_world *world, uint64_t seed)
{
    for (uint64_t i = 0; i < WORLD_ITEMS; i++) {
        world->a[i] = (int16_t)world_random(seed, 6, i, 50);
        world->b[i] = (uint32_t)world_random(seed, 7, i, 70);
        for (int k = 0; k < 3; k++)
            world->w[i][k] = (float)(3 * i + (uint64_t)k);
    }
    for (size_t i = 0; i < sizeof world->v; i++)
        world->v[i] = (unsigned char)(random_u64(seed, 8, i) % 120);
    for (uint64_t i = 0; i < WORLD_ITEMS; i++)
        world_clear_half(world->v, dtype_bytes(world->v_dtype), i,
                         world_random(seed, 11, i / WORLD_RUN, 4));
}

/* Stores of a few worlds have no item at all. */
enum { WORLD_BARE = 12, WORLD_BARE_END = 18 };
static inline bool world_is_bare(uint64_t seed, size_t store)
{
    return seed >= WORLD_BARE && seed < WORLD_BARE_END &&
           (seed < WORLD_BARE + 2 || world_random(seed, 12, store, 2));
}

/* Returned, malloc'ed. The last frame of each other store has an item. */
static inline struct ragged_world *world_make(struct fixture *fixture, uint64_t seed,
                                              enum dtype v_dtype)
{
    struct ragged_world *world = calloc(1, sizeof *world);
    uint64_t items = 0, frame = 0;
    world->fixture = fixture;
    world->v_dtype = v_dtype;
    world->store_count = 1 + world_random(seed, 9, 0, WORLD_STORES);
    world_fill(world, seed);
    for (size_t s = 0; s < world->store_count; s++) {
        uint64_t count = 1 + world_random(seed, 10, s, WORLD_FRAMES / WORLD_STORES);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t length = world_length(seed, frame);
            if (world_is_bare(seed, s))
                length = 0;
            else if (items + length > WORLD_ITEMS - WORLD_FRAMES || (i + 1 == count && length == 0))
                length = 1;
            items += length;
            world->offsets[++frame] = items;
        }
        world->frames[s + 1] = frame;
        snprintf(world->uri + strlen(world->uri), 128, "%s%s/w%" PRIu64 "/s%zu", s ? "," : "",
                 fixture->path, seed, s);
    }
    for (size_t s = 0; s < world->store_count; s++)
        world_put_store(world, s, seed);
    return world;
}

/* Pages, each with a wall of bytes behind it. */
struct world_pages {
    struct dataset_pages pages;
    unsigned char *memory; /* owned */
    size_t page_bytes, stride;
    uint32_t count;
};

static inline unsigned char *world_page_at(const struct dataset_pages *pages, uint32_t page)
{
    const struct world_pages *of = (const struct world_pages *)pages;
    assert_true(page < of->count);
    return of->memory + page * of->stride;
}

static inline void world_pages_init(struct world_pages *pages, const struct dataset *dataset,
                                    uint32_t count)
{
    *pages = (struct world_pages){.pages.at = world_page_at,
                                  .page_bytes = dataset->page_bytes,
                                  .stride = dataset->page_bytes + 64,
                                  .count = count};
    pages->memory = aligned_alloc(64, (pages->stride * count + 63) / 64 * 64 + 64);
    memset(pages->memory, 0xa5, pages->stride * count);
}

/* Nothing was written behind a page. */
static inline void world_pages_done(struct world_pages *pages)
{
    for (uint32_t i = 0; i < pages->count; i++)
        for (size_t k = pages->page_bytes; k < pages->stride; k++)
            assert_int_equal(pages->memory[i * pages->stride + k], 0xa5);
    free(pages->memory);
}

/* How many items were found narrow. */
static uint64_t world_narrow_items;

/* Item `item` of a column, whole, until the next call but one. */
static inline const unsigned char *world_item(const struct world_pages *pages,
                                              const struct ragged *ragged,
                                              const struct ragged_row *lies, size_t column,
                                              uint64_t item)
{
    static unsigned char items[2][ZARR_MAX_ITEM_BYTES];
    static unsigned turn;
    uint64_t number = item - lies->page_begin;
    unsigned char *whole = items[turn++ % 2];
    assert_true(item >= lies->items.begin && item < lies->items.end);
    const unsigned char *page =
        pages->pages.at(&pages->pages, lies->first_page + (uint32_t)(number / ragged->page_items));
    struct ragged_extent extent =
        ragged_page_extent(ragged, column, page, number % ragged->page_items);
    narrow_copy(whole, extent.items, 1, ragged->columns[column].item_bytes, extent.width, NULL, 0);
    world_narrow_items += extent.width != NARROW_NOT;
    return whole;
}

#endif
