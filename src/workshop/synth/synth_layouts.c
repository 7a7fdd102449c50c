/* The layouts of `penstock synth`: which arrays a dataset has. See synth.h. */
#include "workshop/synth/synth_layouts.h"
#include "base/number.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

struct synth_layout {
    const char *name;
    struct synth_sizes defaults;
    uint64_t group_samples; /* by default of a group; 0: the layout has no groups */
    void (*add)(const struct synth_sizes *sizes, struct synth_dataset *dataset);
};

void synth_add_array(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                     struct synth_array array)
{
    array.seed = sizes->seed;
    array.stream = dataset->array_count;
    array.entry_items = 1;
    for (int i = 1; i < array.rank; i++)
        array.entry_items *= array.shape[i];
    if (array.chunk_length == 0 || array.chunk_length > array.shape[0])
        array.chunk_length = array.shape[0];
    dataset->arrays[dataset->array_count++] = array;
}

static void add_latents(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "base_frames",
                                         .dtype = DTYPE_FLOAT16,
                                         .rank = 5,
                                         .shape = {sizes->samples, 20, 4, 32, 32},
                                         .chunk_length = sizes->chunk,
                                         .grain = sizes->grain > 0 ? sizes->grain : 25,
                                         .fill = synth_fill_latents});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "clip_emb",
                                         .dtype = DTYPE_FLOAT16,
                                         .rank = 2,
                                         .shape = {sizes->groups, 512},
                                         .chunk_length = 1024,
                                         .fill = synth_fill_embedding});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "segment_to_video",
                                         .dtype = DTYPE_INT64,
                                         .rank = 1,
                                         .shape = {sizes->samples},
                                         .chunk_length = 65536,
                                         .range = sizes->groups,
                                         .fill = synth_fill_index});
}

static void add_plain(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    struct synth_array array = {.name = "data",
                                .dtype = sizes->dtype,
                                .rank = 1 + sizes->rank,
                                .shape = {sizes->samples},
                                .chunk_length = sizes->chunk,
                                .fill = synth_fill_noise};
    memcpy(&array.shape[1], sizes->shape, sizeof sizes->shape);
    synth_add_array(sizes, dataset, array);
}

/* The frame behind each episode or document. */
static void add_ends(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                     const char *name)
{
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = name,
                                         .dtype = DTYPE_INT64,
                                         .rank = 1,
                                         .shape = {sizes->groups},
                                         .chunk_length = 65536,
                                         .range = sizes->samples,
                                         .fill = synth_fill_episode_end});
}

static void add_robot(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    uint64_t frames = sizes->samples, chunk = sizes->chunk, episodes = sizes->groups;

    synth_add_array(
        sizes, dataset,
        (struct synth_array){.name = "data/img",
                             .dimensions = "frame y x channel",
                             .dtype = DTYPE_UINT8,
                             .rank = 4,
                             .shape = {frames, sizes->shape[0], sizes->shape[1], sizes->shape[2]},
                             .chunk_length = chunk,
                             .range = episodes,
                             .fill = synth_fill_camera});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "data/state",
                                         .dimensions = "frame number",
                                         .dtype = DTYPE_FLOAT32,
                                         .rank = 2,
                                         .shape = {frames, 5},
                                         .chunk_length = chunk,
                                         .range = episodes,
                                         .fill = synth_fill_state});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "data/action",
                                         .dimensions = "frame target",
                                         .dtype = DTYPE_FLOAT32,
                                         .rank = 2,
                                         .shape = {frames, 2},
                                         .chunk_length = chunk,
                                         .range = episodes,
                                         .fill = synth_fill_action});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "data/episode",
                                         .dimensions = "frame",
                                         .dtype = DTYPE_INT64,
                                         .rank = 1,
                                         .shape = {frames},
                                         .chunk_length = 65536,
                                         .range = episodes,
                                         .fill = synth_fill_episode});
    add_ends(sizes, dataset, "meta/episode_ends");
}

/* A float32 array with one number for each entry of an axis. */
static void add_axis(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                     const char *name, const char *dimension, uint64_t length, synth_fill *fill,
                     const char *attributes)
{
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = name,
                                         .dimensions = dimension,
                                         .attributes = attributes,
                                         .dtype = DTYPE_FLOAT32,
                                         .rank = 1,
                                         .shape = {length},
                                         .fill = fill});
}

static void add_weather(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    uint64_t dates = sizes->samples, variables = sizes->shape[0], rows = sizes->shape[1],
             columns = sizes->shape[2];

    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "data",
                                         .dimensions = "time variable latitude longitude",
                                         .dtype = DTYPE_FLOAT32,
                                         .rank = 4,
                                         .shape = {dates, variables, rows, columns},
                                         .chunk_length = sizes->chunk,
                                         .fill = synth_fill_weather});
    add_axis(sizes, dataset, "mean", "variable", variables, synth_fill_mean, NULL);
    add_axis(sizes, dataset, "std", "variable", variables, synth_fill_deviation, NULL);
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "missing",
                                         .dimensions = "time",
                                         .dtype = DTYPE_BOOL,
                                         .rank = 1,
                                         .shape = {dates},
                                         .fill = synth_fill_missing});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "time",
                                         .dimensions = "time",
                                         .attributes = "\"units\": \"hours since 2000-01-01\", "
                                                       "\"calendar\": \"proleptic_gregorian\"",
                                         .dtype = DTYPE_INT64,
                                         .rank = 1,
                                         .shape = {dates},
                                         .fill = synth_fill_hours});
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "variable",
                                         .dimensions = "variable",
                                         .text = true,
                                         .dtype = DTYPE_UINT32,
                                         .rank = 2,
                                         .shape = {variables, SYNTH_NAME_CHARACTERS},
                                         .fill = synth_fill_variable});
    add_axis(sizes, dataset, "latitude", "latitude", rows, synth_fill_latitude,
             "\"units\": \"degrees_north\"");
    add_axis(sizes, dataset, "longitude", "longitude", columns, synth_fill_longitude,
             "\"units\": \"degrees_east\"");
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "orography",
                                         .dimensions = "latitude longitude",
                                         .attributes = "\"units\": \"m\"",
                                         .dtype = DTYPE_FLOAT32,
                                         .rank = 2,
                                         .shape = {rows, columns},
                                         .fill = synth_fill_noise});
}

static void add_tokens(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "tokens",
                                         .dtype = DTYPE_UINT16,
                                         .rank = 1,
                                         .shape = {sizes->samples},
                                         .chunk_length = sizes->chunk,
                                         .fill = synth_fill_tokens});
    add_ends(sizes, dataset, "document_ends");
}

static const struct synth_layout layouts[] = {
    {"latents", {.samples = 5000, .chunk = 1}, 10, add_latents},
    {"plain",
     {.samples = 5000, .chunk = 1, .dtype = DTYPE_FLOAT32, .rank = 3, .shape = {3, 32, 32}},
     0,
     add_plain},
    {"robot", {.samples = 5000, .chunk = 8, .rank = 3, .shape = {96, 96, 3}}, 100, add_robot},
    {"weather", {.samples = 5000, .chunk = 1, .rank = 3, .shape = {69, 16, 32}}, 0, add_weather},
    {"tokens", {.samples = 10000000, .chunk = 65536}, 500, add_tokens},
    {"events",
     {.samples = 200, .items = 97000, .chunk = 131072, .rank = 3, .shape = {20, 360, 640}},
     0,
     synth_add_events},
    {"csr",
     {.samples = 5000, .items = 1000, .chunk = 131072, .rank = 1, .shape = {20000}},
     0,
     synth_add_csr},
    {"documents", {.samples = 20000, .items = 500, .chunk = 131072}, 0, synth_add_documents},
};

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

enum status synth_layout_add(const struct synth_layout *layout, struct synth_sizes *sizes,
                             struct synth_dataset *dataset, struct error *err)
{
    const struct synth_sizes *defaults = &layout->defaults;

    if (layout->add != add_plain && sizes->rank > 0 && sizes->rank != defaults->rank)
        return error_set(err, STATUS_INVALID, "--shape has %d number%s: layout '%s' takes %d",
                         sizes->rank, count_plural((uint64_t)sizes->rank), layout->name,
                         defaults->rank);
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
    if (layout->add == synth_add_csr && sizes->items > sizes->shape[0] / 4)
        return error_set(err, STATUS_INVALID,
                         "--items %" PRIu64 ": cells of %" PRIu64 " genes have at most %" PRIu64
                         " on average",
                         sizes->items, sizes->shape[0], sizes->shape[0] / 4);
    layout->add(sizes, dataset);
    return STATUS_OK;
}
