/* Datasets of xarray: arrays with names of dimensions, and coordinates, which have the name of
 * their dimension. Samples lie along the first dimension of the largest array. */
#include "cli/kinds/kinds_internal.h"

#include "base/size.h"
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/axes.h"

#include <string.h>

/* A data variable in the group itself: with names, and no coordinate. */
static bool is_variable(const struct kind_look *look, const struct zarr_node *node)
{
    struct zarr_axis_names names;
    const char *path = kind_path(look, node);
    return path && *path && !strchr(path, '/') && node->status == STATUS_OK &&
           zarr_node_axis_names(node, &names) && !zarr_node_is_coordinate(node);
}

static const struct zarr_node *find_largest(const struct kind_look *look)
{
    const struct zarr_node *largest = NULL;
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        if (is_variable(look, node) &&
            (!largest || node->array.total_bytes > largest->array.total_bytes))
            largest = node;
    }
    return largest;
}

static void put_variable(const struct kind_look *look, const struct zarr_node *node,
                         struct text *out)
{
    struct zarr_encoding encoding;
    const char *path = kind_path(look, node);
    zarr_node_encoding(node, &encoding);
    kind_put_field("", path, path, out);
    if (zarr_encoding_changes(&encoding) && !look->refused)
        text_append(out, ", cf: true}    # decoded as xarray does");
    else if (zarr_encoding_changes(&encoding))
        text_append(out, "}    # as stored: cf: true is refused: %s",
                    text_shown(look->refused).text);
    else
        text_append(out, "}");
    text_append(out, "\n");
}

/* "# constants: [lat, lon]": arrays without the sample dimension. */
static void put_constants(const struct kind_look *look, const char *samples, struct text *out)
{
    size_t count = 0;
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        const char *path = kind_path(look, node);
        struct zarr_axis_names names;
        if (!path || strchr(path, '/') || node->status != STATUS_OK ||
            !zarr_node_axis_names(node, &names) || zarr_node_axis(node, samples) >= 0)
            continue;
        text_append(out, "%s", count++ > 0 ? ", " : "  # constants: [");
        kind_put_scalar(path, out);
    }
    if (count > 0)
        text_append(out, "]    # without the sample axis: each trainer gets them once\n");
}

bool kind_xarray(const struct kind_look *look, struct kind_finding *finding)
{
    const struct zarr_node *largest = find_largest(look);
    struct zarr_axis_names names;
    if (!largest || !zarr_node_axis_names(largest, &names) || !names.names[0][0])
        return false;
    const char *samples = names.names[0];
    const struct zarr_node *coordinate = kind_array(look, samples);
    bool has_times =
        coordinate && zarr_node_is_coordinate(coordinate) && strstr(samples, "time") != NULL;
    size_t count = 0;
    finding->name = "xarray";
    text_append(&finding->dataset, "  sample_axis: ");
    kind_put_scalar(samples, &finding->dataset);
    text_append(&finding->dataset, "\n  fields:\n");
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        if (is_variable(look, node) && zarr_node_axis(node, samples) >= 0 &&
            count++ < DATASET_MAX_FIELDS)
            put_variable(look, node, &finding->dataset);
    }
    put_constants(look, samples, &finding->dataset);
    text_append(
        &finding->about,
        "This is a dataset of xarray. A sample is an index along the dimension %s, of %s, "
        "in %zu data variable%s. Coordinates are no fields; they name indices in slices and "
        "splits.",
        text_shown(samples).text, count_format(largest->array.shape[0]).text, count,
        count_plural(count));
    text_append(&finding->rest, "# steps: \"-1:2\" in a field's braces: the indices before and "
                                "behind a sample, too\n");
    if (has_times)
        text_append(&finding->rest,
                    "# samples: {split: {range: \":2018-12\"}}    # these times alone\n");
    return true;
}
