/* The layouts of `penstock synth`: which arrays a dataset has. See synth.h.
 *
 * A table for each layout: a row is an array, in which what the command line says has a name.
 */
#include "base/number.h"
#include "base/size.h"
#include "workshop/synth/synth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In the place of numbers, which are smaller. */
enum {
    SAMPLES = 1 << 30,
    GROUPS,
    ITEMS, /* of all samples */
    ENDS,  /* one more than samples */
    CHUNK,
    GRAIN,
    SIDE_0, /* of a sample's shape */
    SIDE_1,
    SIDE_2,
};

enum { LONG = 65536 }; /* entries of a chunk, of small numbers */

// clang-format off
static const struct synth_array latents[] = {
    /* name, names of axes, dtype, shape, chunk (0: all), range */
    {"base_frames", NULL, DTYPE_FLOAT16, {SAMPLES, 20, 4, 32, 32}, CHUNK, 0, .grain = GRAIN,
     .fill = synth_fill_latents},
    {"clip_emb", NULL, DTYPE_FLOAT16, {GROUPS, 512}, 1024, 0, .fill = synth_fill_embedding},
    {"segment_to_video", NULL, DTYPE_INT64, {SAMPLES}, LONG, GROUPS, .fill = synth_fill_index},
};

/* Of the dtype and the shape that are asked for. */
static const struct synth_array plain[] = {
    {"data", NULL, DTYPE_NONE, {SAMPLES}, CHUNK, 0, .fill = synth_fill_noise},
};

static const struct synth_array robot[] = {
    {"data/img", "frame y x channel", DTYPE_UINT8, {SAMPLES, SIDE_0, SIDE_1, SIDE_2}, CHUNK, GROUPS,
     .fill = synth_fill_camera},
    {"data/state", "frame number", DTYPE_FLOAT32, {SAMPLES, 5}, CHUNK, GROUPS,
     .fill = synth_fill_state},
    {"data/action", "frame target", DTYPE_FLOAT32, {SAMPLES, 2}, CHUNK, GROUPS,
     .fill = synth_fill_action},
    {"data/episode", "frame", DTYPE_INT64, {SAMPLES}, LONG, GROUPS, .fill = synth_fill_episode},
    {"meta/episode_ends", NULL, DTYPE_INT64, {GROUPS}, LONG, SAMPLES,
     .fill = synth_fill_episode_end},
};

static const struct synth_array weather[] = {
    {"data", "time variable latitude longitude", DTYPE_FLOAT32, {SAMPLES, SIDE_0, SIDE_1, SIDE_2},
     CHUNK, 0, .fill = synth_fill_weather},
    {"mean", "variable", DTYPE_FLOAT32, {SIDE_0}, 0, 0, .fill = synth_fill_mean},
    {"std", "variable", DTYPE_FLOAT32, {SIDE_0}, 0, 0, .fill = synth_fill_deviation},
    {"missing", "time", DTYPE_BOOL, {SAMPLES}, 0, 0, .fill = synth_fill_missing},
    {"time", "time", DTYPE_INT64, {SAMPLES}, 0, 0, .fill = synth_fill_hours,
     .attributes = "\"units\": \"hours since 2000-01-01\", "
                   "\"calendar\": \"proleptic_gregorian\""},
    {"variable", "variable", DTYPE_UINT32, {SIDE_0, SYNTH_NAME_CHARACTERS}, 0, 0, .text = true,
     .fill = synth_fill_variable},
    {"latitude", "latitude", DTYPE_FLOAT32, {SIDE_1}, 0, 0, .fill = synth_fill_latitude,
     .attributes = "\"units\": \"degrees_north\""},
    {"longitude", "longitude", DTYPE_FLOAT32, {SIDE_2}, 0, 0, .fill = synth_fill_longitude,
     .attributes = "\"units\": \"degrees_east\""},
    {"orography", "latitude longitude", DTYPE_FLOAT32, {SIDE_1, SIDE_2}, 0, 0,
     .fill = synth_fill_noise, .attributes = "\"units\": \"m\""},
};

static const struct synth_array tokens[] = {
    {"tokens", NULL, DTYPE_UINT16, {SAMPLES}, CHUNK, 0, .fill = synth_fill_tokens},
    {"document_ends", NULL, DTYPE_INT64, {GROUPS}, LONG, SAMPLES, .fill = synth_fill_episode_end},
};

/* Samples of unequal lengths: offsets, and items one sample after another. */
static const struct synth_array events[] = {
    {"events/offsets", NULL, DTYPE_INT64, {ENDS}, LONG, ITEMS, .long_tail = true,
     .fill = synth_fill_offset},
    {"events/bin", NULL, DTYPE_UINT16, {ITEMS}, CHUNK, SAMPLES, .side = SIDE_0, .long_tail = true,
     .fill = synth_fill_event_bin},
    {"events/y", NULL, DTYPE_UINT16, {ITEMS}, CHUNK, SAMPLES, .side = SIDE_1, .long_tail = true,
     .fill = synth_fill_event_coordinate},
    {"events/x", NULL, DTYPE_UINT16, {ITEMS}, CHUNK, SAMPLES, .side = SIDE_2, .long_tail = true,
     .fill = synth_fill_event_coordinate},
    {"events/count", NULL, DTYPE_UINT8, {ITEMS}, CHUNK, SAMPLES, .long_tail = true,
     .fill = synth_fill_event_count},
    {"label", NULL, DTYPE_INT64, {SAMPLES}, LONG, 0, .fill = synth_fill_label},
};

static const struct synth_array csr[] = {
    {"X/indptr", NULL, DTYPE_INT64, {ENDS}, LONG, ITEMS, .fill = synth_fill_offset},
    {"X/indices", NULL, DTYPE_INT32, {ITEMS}, CHUNK, SAMPLES, .side = SIDE_0,
     .fill = synth_fill_gene},
    {"X/data", NULL, DTYPE_FLOAT32, {ITEMS}, CHUNK, SAMPLES, .fill = synth_fill_expression},
};

static const struct synth_array documents[] = {
    {"tokens/offsets", NULL, DTYPE_INT64, {ENDS}, LONG, ITEMS, .long_tail = true,
     .fill = synth_fill_offset},
    {"tokens/values", NULL, DTYPE_UINT16, {ITEMS}, CHUNK, SAMPLES, .long_tail = true,
     .fill = synth_fill_tokens},
};

struct synth_layout {
    const char *name;
    const struct synth_array *arrays;
    size_t array_count;
    uint64_t group_samples; /* by default of a group; 0: the layout has no groups */
    struct synth_sizes defaults;
};

#define ARRAYS(name) #name, name, sizeof name / sizeof name[0]
static const struct synth_layout layouts[] = {
    {ARRAYS(latents), 10, {.samples = 5000, .chunk = 1}},
    {ARRAYS(plain), 0,
     {.samples = 5000, .chunk = 1, .dtype = DTYPE_FLOAT32, .rank = 3, .shape = {3, 32, 32}}},
    {ARRAYS(robot), 100, {.samples = 5000, .chunk = 8, .rank = 3, .shape = {96, 96, 3}}},
    {ARRAYS(weather), 0, {.samples = 5000, .chunk = 1, .rank = 3, .shape = {69, 16, 32}}},
    {ARRAYS(tokens), 500, {.samples = 10000000, .chunk = 65536}},
    {ARRAYS(events), 0,
     {.samples = 200, .items = 97000, .chunk = 131072, .rank = 3, .shape = {20, 360, 640}}},
    {ARRAYS(csr), 0,
     {.samples = 5000, .items = 1000, .chunk = 131072, .rank = 1, .shape = {20000}}},
    {ARRAYS(documents), 0, {.samples = 20000, .items = 500, .chunk = 131072}},
};
// clang-format on

const char *synth_layout_names(void)
{
    return "latents, plain, robot, weather, tokens, events, csr and documents";
}

const struct synth_layout *synth_layout_find(const char *name)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (strcmp(layouts[i].name, name) == 0)
            return &layouts[i];
    return NULL;
}

/* The number that a row has, or that stands for it. */
static uint64_t resolve(const struct synth_sizes *sizes, uint64_t number)
{
    switch (number) {
    case SAMPLES:
        return sizes->samples;
    case GROUPS:
        return sizes->groups;
    case ITEMS:
        return sizes->samples * sizes->items;
    case ENDS:
        return sizes->samples + 1;
    case CHUNK:
        return sizes->chunk;
    case GRAIN:
        return sizes->grain > 0 ? sizes->grain : 25;
    case SIDE_0:
    case SIDE_1:
    case SIDE_2:
        return sizes->shape[number - SIDE_0];
    default:
        return number;
    }
}

/* Adds an array with a random stream of its own. */
static void add_array(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                      const struct synth_array *row)
{
    struct synth_array array = *row;
    array.seed = sizes->seed;
    array.stream = dataset->array_count;
    array.range = resolve(sizes, row->range);
    array.side = resolve(sizes, row->side);
    array.grain = resolve(sizes, row->grain);
    if (row->dtype == DTYPE_NONE) {
        array.dtype = sizes->dtype;
        memcpy(&array.shape[1], sizes->shape, (size_t)sizes->rank * sizeof *sizes->shape);
    }
    array.entry_items = 1;
    for (array.rank = 0; array.rank < ZARR_MAX_RANK && array.shape[array.rank] > 0; array.rank++) {
        array.shape[array.rank] = resolve(sizes, array.shape[array.rank]);
        array.entry_items *= array.rank > 0 ? array.shape[array.rank] : 1;
    }
    array.chunk_length = min_u64(resolve(sizes, row->chunk_length), array.shape[0]);
    if (array.chunk_length == 0)
        array.chunk_length = array.shape[0];
    dataset->arrays[dataset->array_count++] = array;
}

static void set_defaults(const struct synth_layout *layout, struct synth_sizes *sizes)
{
    const struct synth_sizes *defaults = &layout->defaults;
    sizes->samples = sizes->samples ? sizes->samples : defaults->samples;
    sizes->items = sizes->items ? sizes->items : defaults->items;
    sizes->chunk = sizes->chunk ? sizes->chunk : defaults->chunk;
    sizes->dtype = sizes->dtype ? sizes->dtype : defaults->dtype;
    if (sizes->rank == 0) {
        sizes->rank = defaults->rank;
        memcpy(sizes->shape, defaults->shape, sizeof sizes->shape);
    }
    if (sizes->groups == 0 && layout->group_samples > 0)
        sizes->groups = size_divide_up(sizes->samples, layout->group_samples);
}

/* As AnnData has cells and genes. */
static enum status describe_csr(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                                struct error *err)
{
    if (sizes->items > sizes->shape[0] / 4)
        return error_set(err, STATUS_INVALID,
                         "--items %" PRIu64 ": cells of %" PRIu64 " genes have at most %" PRIu64
                         " on average",
                         sizes->items, sizes->shape[0], sizes->shape[0] / 4);
    snprintf(dataset->group_attributes, sizeof dataset->group_attributes,
             "{\"encoding-type\": \"csr_matrix\", \"encoding-version\": \"0.1.0\", \"shape\": "
             "[%" PRIu64 ", %" PRIu64 "]}",
             sizes->samples, sizes->shape[0]);
    return STATUS_OK;
}

enum status synth_layout_add(const struct synth_layout *layout, struct synth_sizes *sizes,
                             struct synth_dataset *dataset, struct error *err)
{
    if (layout->arrays != plain && sizes->rank > 0 && sizes->rank != layout->defaults.rank)
        return error_set(err, STATUS_INVALID, "--shape has %d number%s: layout '%s' takes %d",
                         sizes->rank, count_plural((uint64_t)sizes->rank), layout->name,
                         layout->defaults.rank);
    set_defaults(layout, sizes);
    enum status status = layout->arrays == csr ? describe_csr(sizes, dataset, err) : STATUS_OK;
    for (size_t i = 0; i < layout->array_count && status == STATUS_OK; i++)
        add_array(sizes, dataset, &layout->arrays[i]);
    return status;
}
