/* `penstock inspect`: what a dataset holds, and what a run would make of it. Main thread.
 *
 * Reads metadata, file sizes, and the values of arrays that may be an index. Collects everything in
 * a `struct inspection`; inspect_text.c or inspect_json.c prints the inspection.
 */
#include "cli/inspect/inspect.h"

#include "base/memory.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "config/config.h"
#include "zarr/chunk/separator.h"
#include "zarr/chunk/stock.h"
#include "zarr/hierarchy/group_attributes.h"
#include "zarr/hierarchy/sparse_group.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *uri, *write;
    bool json;
    struct cli_settings settings;
};

static const struct cli_option option_table[] = {
    {"json", 0, NULL, "print one JSON object, for programs", CLI_FLAG(json)},
    {"write", 0, "FILE", "write a configuration to start from, as a new file", CLI_TEXT(write)},
};

static const char help[] =
    "Show the arrays of the Zarr dataset at URI, and the samples that a run would deliver."
    "\v"
    "Metadata and sizes of files are read. Chunks are read only of arrays that may be the index of "
    "a join. Arrays that Penstock cannot read are listed with the reason; they matter only to runs "
    "that use them. The cost of the layout is counted for the configuration's order, global batch "
    "and memory (readers.memory_limit, else half of the free memory). Stores of AnnData, "
    "SpatialData, OME-Zarr, anemoi and xarray, and replay buffers of robots are recognised.\n"
    "\n"
    "Examples:\n"
    "  penstock inspect latents.zarr\n"
    "  penstock inspect s3://bucket/latents.zarr --set store.endpoint=https://minio:9000\n"
    "  penstock inspect latents.zarr --set readers.memory_limit=8GiB\n"
    "  penstock inspect replay.zarr --set dataset.group=data\n"
    "  penstock inspect replay.zarr --write run.yaml\n"
    "  penstock inspect latents.zarr --json | python3 -m json.tool\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "URI",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, uri)},
    .argument_count = 1,
    .missing = "URI is missing: which dataset?",
    .configured = true,
    .settings_offset = offsetof(struct options, settings),
};

/* Of all arrays, those of which no chunk is there; other names are told of fields by the dataset.
 */
static void doubt_stocks(struct inspection *inspection)
{
    char own[ZARR_KEY_BYTES], other[ZARR_KEY_BYTES];
    for (size_t i = 0; i < inspection->hierarchy->node_count; i++) {
        const struct zarr_node *node = &inspection->hierarchy->nodes[i];
        if (node->status != STATUS_OK ||
            zarr_sparse_group_is_empty(inspection->hierarchy, &node->array) ||
            zarr_has_stock(inspection->store, &node->array) ||
            zarr_finds_other_separator(inspection->store, &node->array, own, other))
            continue;
        text_append(&inspection->doubts,
                    "warning: array '%s': ", text_shown(node->array.path).text);
        zarr_describe_no_stock(inspection->store, &node->array, &inspection->doubts);
        text_append(&inspection->doubts, "\n");
    }
}

/* Both name the same folder or file, or are the same uri. */
static bool is_same(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    bool same = strcmp(a, b) == 0 || (x && y && strcmp(x, y) == 0);
    free(x);
    free(y);
    return same;
}

static bool is_stats(const struct inspection *inspection)
{
    struct zarr_texts texts = {0};
    bool found = zarr_group_texts(inspection->store, inspection->hierarchy->format, "",
                                  "penstock_stats", &texts, NULL) == STATUS_OK &&
                 texts.is_there;
    zarr_texts_done(&texts);
    return found;
}

/* What the store is by name; with `path` the configuration that follows from this. */
static enum status recognise(struct inspection *inspection, const char *path, struct error *err)
{
    char group[ZARR_PATH_BYTES];
    const char *given = inspection->group + strspn(inspection->group, "/");
    snprintf(group, sizeof group, "%s", given);
    for (size_t length = strlen(group); length > 0 && group[length - 1] == '/'; length--)
        group[length - 1] = '\0';
    const struct kind_look look = {
        .uri = inspection->uri,
        .store = inspection->store,
        .hierarchy = inspection->hierarchy,
        .group = group,
        .dataset = inspection->configured || inspection->is_stats ? NULL : inspection->dataset,
        .no_dataset = inspection->is_stats ? "statistics of penstock stats are no samples"
                                           : inspection->dataset_error.message,
        .index = inspection->index,
        .joined = inspection->joined,
        .ends = inspection->ends};
    kind_recognise(&look, &inspection->kind);
    if (!path)
        return STATUS_OK;
    enum status status = kind_write(&look, inspection->settings, path, err);
    if (status == STATUS_OK)
        inspection->written = path;
    return status;
}

static enum status collect(const char *uri, const struct config *config,
                           struct inspection *inspection, struct error *err)
{
    inspection->uri = uri;
    inspection->group = config->group ? config->group : "";
    inspection->root = inspection->group[0] ? "/" : "";
    if (config->source_count > 0)
        return error_set(err, STATUS_INVALID,
                         "the configuration is a mix: inspect a source with the source's own "
                         "configuration (-c %s)",
                         config->sources[0].name);
    enum status status = cli_open_store(config, uri, &inspection->store, err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_open_wanted(inspection->store,
                                            &(struct zarr_wanted){.group = config->group},
                                            &inspection->hierarchy, err);
    if (status == STATUS_OK)
        status = inspect_measure(inspection, err);
    if (status != STATUS_OK)
        return status;
    inspection->has_uri = is_same(config->uri, uri);
    inspection->is_stats = is_stats(inspection);
    doubt_stocks(inspection);
    struct text list = {0}; /* of one: a comma in the name is no separator */
    text_list_put(&list, uri);
    struct dataset_options all = config_dataset_options(config, NULL);
    inspection->configured = all.fields;
    struct dataset_options options = {.uri = list.data ? list.data : uri,
                                      .group = config->group,
                                      .exclude = all.exclude,
                                      .sample_axis = all.sample_axis,
                                      .multiscale = all.multiscale,
                                      .hold_limit_bytes = config->hold_limit_bytes,
                                      .fills_empty = all.fills_empty,
                                      .retries = all.retries,
                                      .store = all.store,
                                      .fields = all.fields,
                                      .field_count = all.field_count,
                                      .samples = all.samples};
    bool opened =
        dataset_open(&options, &inspection->dataset, &inspection->dataset_error) == STATUS_OK;
    if (opened) {
        error_clear(&inspection->dataset_error);
        dataset_describe_doubts(inspection->dataset, &inspection->doubts);
        if (!options.fields)
            inspect_find_joins(inspection, &options);
    }
    text_done(&list);
    if (!opened)
        return STATUS_OK;
    uint64_t memory = config->memory_limit_bytes;
    inspection->global_batch = config->global_batch;
    inspect_count_cost(inspection, config->window_rows, config->global_batch,
                       memory ? memory : memory_available_bytes() / 2, &inspection->cost);
    return STATUS_OK;
}

static void inspection_done(struct inspection *inspection)
{
    kind_finding_done(&inspection->kind);
    dataset_free(inspection->dataset);
    free(inspection->joined);
    text_done(&inspection->doubts);
    free(inspection->stored);
    zarr_hierarchy_free(inspection->hierarchy);
    store_free(inspection->store);
}

int cli_inspect(int argc, char **argv)
{
    struct options options = {0};
    struct inspection inspection = {0};
    struct config config;
    struct error err;
    int code = EXIT_SUCCESS;
    cli_parse(&command, argc, argv, &options);
    inspection.settings = &options.settings;
    enum status status = cli_settings_read(&options.settings, &config, &err);
    if (status == STATUS_OK)
        status = collect(options.uri, &config, &inspection, &err);
    if (status == STATUS_OK)
        status = recognise(&inspection, options.write, &err);
    if (status != STATUS_OK)
        code = cli_fail(argv[0], &err);
    else if (options.json)
        inspect_print_json(&inspection);
    else
        inspect_print_text(&inspection);
    inspection_done(&inspection);
    config_done(&config);
    cli_settings_done(&options.settings);
    return code;
}
