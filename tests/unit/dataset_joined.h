/* For tests of opening: a store with frames, labels, and texts that an array joins to the frames;
 * and a dataset that is opened over it, or refused. */
#ifndef PENSTOCK_TESTS_UNIT_DATASET_JOINED_H
#define PENSTOCK_TESTS_UNIT_DATASET_JOINED_H

#include "dataset_refusal.h"

enum { MEBIBYTE = 1 << 20 };

/* An array of the reference dataset, kept to compare with. */
struct reference {
    struct recipe recipe;
    struct zarr_array array;
    unsigned char *items;
};

static inline void put_reference(const struct fixture *fixture, struct reference *reference,
                                 uint64_t seed)
{
    size_t size = dtype_bytes(reference->recipe.dtype);
    for (int i = 0; i < reference->recipe.rank; i++)
        size *= reference->recipe.shape[i];
    if (!reference->items)
        reference->items = random_items(seed, size);
    recipe_put(fixture, &reference->recipe, reference->items, &reference->array);
}

static inline void put_group(const struct fixture *fixture)
{
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
}

/* Metadata of an array without chunks. */
static inline void put_empty(const struct fixture *fixture, const char *path, const char *type,
                             const char *shape, const char *chunks)
{
    document_put(fixture,
                 (struct document){
                     .path = path, .shape = shape, .type = type, .chunks = chunks, .fill = "0"});
}

static inline struct dataset *open_with(const struct fixture *fixture,
                                        const struct dataset_field_spec *fields, size_t count,
                                        uint64_t hold_limit_bytes)
{
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = fields,
                                      .field_count = count,
                                      .hold_limit_bytes = hold_limit_bytes};
    struct dataset *dataset;
    struct error err;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    return dataset;
}

static inline void refuse_with(const struct fixture *fixture,
                               const struct dataset_field_spec *fields, size_t count,
                               uint64_t hold_limit_bytes, enum status expected, const char *message)
{
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = fields,
                                      .field_count = count,
                                      .hold_limit_bytes = hold_limit_bytes};
    refuse_options(&options, expected, message);
}

static inline void refuse_default(const struct fixture *fixture, enum status expected,
                                  const char *message)
{
    refuse_with(fixture, NULL, 0, MEBIBYTE, expected, message);
}

/* N = 21 samples; frames give rows of `row_length`; labels are in chunks of 5, text is joined. */
struct world {
    struct reference frames, labels, text, join;
};

enum { SAMPLES = 21, TEXTS = 6 };

static inline void put_world(const struct fixture *fixture, struct world *world,
                             uint64_t row_length)
{
    *world = (struct world){
        .frames.recipe = {.path = "frames",
                          .rank = 4,
                          .shape = {SAMPLES, 3, 4, 5},
                          .chunks = {row_length, 2, 4, 5},
                          .dtype = DTYPE_FLOAT16,
                          .codec = "{\"id\": \"zstd\", \"level\": 1}"},
        .labels.recipe = {.path = "labels",
                          .rank = 1,
                          .shape = {SAMPLES},
                          .chunks = {5},
                          .dtype = DTYPE_INT32,
                          .is_big = true},
        .text.recipe = {.path = "text",
                        .rank = 2,
                        .shape = {TEXTS, 7},
                        .chunks = {4, 7},
                        .dtype = DTYPE_FLOAT32},
        .join.recipe = {.path = "join",
                        .rank = 1,
                        .shape = {SAMPLES},
                        .chunks = {8},
                        .dtype = DTYPE_UINT16,
                        .is_big = true},
    };
    uint16_t *index = malloc(SAMPLES * sizeof *index);

    for (uint64_t i = 0; i < SAMPLES; i++)
        index[i] = (uint16_t)random_below(random_u64(3, 3, i), TEXTS);
    world->join.items = (unsigned char *)index;
    put_group(fixture);
    put_reference(fixture, &world->frames, 1);
    put_reference(fixture, &world->labels, 2);
    put_reference(fixture, &world->text, 3);
    put_reference(fixture, &world->join, 4);
    /* Labels are stored big-endian; in memory they are what random bytes say. */
}

static inline void world_done(struct world *world)
{
    free(world->frames.items);
    free(world->labels.items);
    free(world->text.items);
    free(world->join.items);
}

static const struct dataset_field_spec world_fields[] = {
    {.name = "words", .array = "text", .index = "join"},
    {.name = "label", .array = "labels"},
    {.name = "frames", .array = "frames"},
};

#endif
