/* See frame_coordinate.h. */
#include "dataset/frames/frame_coordinate.h"

#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/axes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finding
 * ---------------------------------------------------------------------------------------------- */

static bool holds_times(const struct zarr_node *node)
{
    struct zarr_encoding encoding;
    zarr_node_encoding(node, &encoding);
    return strstr(encoding.units, " since ") || strchr(node->array.stored_type, 'M');
}

/* An array of one item for each frame that holds times. */
static bool is_times(const struct zarr_node *node, uint64_t frames)
{
    return node->status == STATUS_OK && node->array.rank == 1 && node->array.shape[0] == frames &&
           node->array.item_length == 0 && holds_times(node);
}

/* What the sample axis of the first field that has one is called, and the group of the field. */
struct sample_axis {
    char group[ZARR_PATH_BYTES]; /* with a '/' behind; "": the root */
    char name[ZARR_PATH_BYTES];  /* "": none */
};

static bool find_axis(const struct dataset *dataset, struct sample_axis *ret)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        struct zarr_axis_names names;
        if (!origin->array || origin->index || origin->own_store > 0)
            continue;
        const char *path = origin->array->array.path, *slash = strrchr(path, '/');
        (void)zarr_node_axis_names(origin->array, &names);
        snprintf(ret->group, sizeof ret->group, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
        snprintf(ret->name, sizeof ret->name, "%s", names.names[origin->axis]);
        return true;
    }
    return false;
}

/* Of the arrays that are known: the coordinate of the axis, or the first other array of times. */
static const struct zarr_node *choose(const struct zarr_hierarchy *hierarchy,
                                      const struct sample_axis *axis, uint64_t frames)
{
    const struct zarr_node *found = NULL;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        const char *slash = strrchr(node->array.path, '/');
        struct zarr_axis_names names;
        if (!is_times(node, frames))
            continue;
        (void)zarr_node_axis_names(node, &names);
        if (strcmp(names.names[0], axis->name) != 0)
            continue;
        if (!found || strcmp(slash ? slash + 1 : node->array.path, axis->name) == 0)
            found = node;
    }
    return found;
}

/* Opens the arrays that may be of times in the first store: all where one request tells of them. If
 * each array is asked for, the coordinate of the axis ("time" of an axis without a name), and
 * `dates`, as anemoi has it. */
static enum status open_arrays(const struct dataset *dataset, const struct sample_axis *axis,
                               struct zarr_hierarchy **ret, struct error *err)
{
    char path[2 * ZARR_PATH_BYTES], dates[2 * ZARR_PATH_BYTES];
    const char *name, *paths[] = {path, dates};
    struct zarr_wanted wanted = {.paths = paths, .path_count = 2};
    snprintf(path, sizeof path, "%s%s", axis->group, axis->name[0] ? axis->name : "time");
    snprintf(dates, sizeof dates, "%sdates", axis->group);
    wanted.path_count -= strcmp(path, dates) == 0;
    if (dataset->private->hierarchies[0]->consolidated)
        wanted = (struct zarr_wanted){.group = ""};
    return zarr_hierarchy_open_wanted(store_joined_at(dataset->private->store, 0, &name), &wanted,
                                      ret, err);
}

enum status frame_coordinate_find(const struct dataset *dataset, char ret_path[ZARR_PATH_BYTES],
                                  struct error *err)
{
    struct zarr_hierarchy *hierarchy = NULL;
    struct sample_axis axis = {0};
    enum status status =
        find_axis(dataset, &axis) ? open_arrays(dataset, &axis, &hierarchy, err) : STATUS_NOT_FOUND;
    const struct zarr_node *node =
        status == STATUS_OK ? choose(hierarchy, &axis, dataset->store_frames[1]) : NULL;
    if (node)
        snprintf(ret_path, ZARR_PATH_BYTES, "%s", node->array.path);
    zarr_hierarchy_free(hierarchy);
    if (node || (status != STATUS_OK && status != STATUS_NOT_FOUND))
        return status;
    return error_set(err, STATUS_NOT_FOUND,
                     "there is no array of times along the sample axis%s%s%s: it has one for each "
                     "frame, and is of datetime64 or has units such as 'hours since 1900-01-01'",
                     *axis.name ? " '" : "", text_shown(axis.name).text, *axis.name ? "'" : "");
}

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static void take_meaning(struct frame_coordinate *coordinate)
{
    const struct zarr_node *node = coordinate->array.node;
    struct zarr_encoding encoding;
    zarr_node_encoding(node, &encoding);
    coordinate->is_time = holds_times(node);
    coordinate->scale = dates_scale(node->array.stored_type, encoding.units, encoding.calendar);
}

enum status frame_coordinate_open(const struct dataset *dataset, size_t s, const char *option,
                                  const char *path, uint64_t items, struct frame_coordinate *ret,
                                  struct error *err)
{
    const struct zarr_wanted wanted = {.paths = &path, .path_count = 1};
    struct frame_coordinate coordinate = {0};
    const struct zarr_node *node = NULL;
    const char *name;
    enum status status = zarr_hierarchy_open_wanted(
        store_joined_at(dataset->private->store, s, &name), &wanted, &coordinate.hierarchy, err);
    if (status == STATUS_OK)
        node = zarr_hierarchy_find(coordinate.hierarchy, path);
    if (status == STATUS_NOT_FOUND || (status == STATUS_OK && !node))
        status = error_set(err, STATUS_NOT_FOUND, "%s: there is no array '%s' in the store %s",
                           option, path, dataset_store_text(dataset, s).text);
    else if (status == STATUS_OK)
        status = frame_array_init(dataset, s, option, node, &coordinate.array, err);
    if (status == STATUS_OK && items != FRAME_COORDINATE_FRAMES)
        coordinate.array.frames = items;
    if (status == STATUS_OK)
        status = frame_array_expect_numbers(&coordinate.array, err);
    if (status == STATUS_OK)
        status = frame_array_expect_frames(&coordinate.array, err);
    if (status != STATUS_OK) {
        frame_coordinate_done(&coordinate);
        return status;
    }
    take_meaning(&coordinate);
    *ret = coordinate;
    return STATUS_OK;
}

void frame_coordinate_done(struct frame_coordinate *coordinate)
{
    zarr_hierarchy_free(coordinate->hierarchy);
    coordinate->hierarchy = NULL;
}

/* Dates for people
 * ---------------------------------------------------------------------------------------------- */

/* Reads one item. */
static enum status read_number(const struct frame_coordinate *coordinate, uint64_t frame,
                               double *ret_number)
{
    const struct zarr_array *view = &coordinate->array.view;
    const struct dataset_private *private = coordinate->array.dataset->private;
    struct zarr_read_stats stats = {0};
    struct zarr_chunk_reader *reader;
    unsigned char item[8];
    enum status status =
        zarr_chunk_reader_new_with(private->store, &view, 1, &private->read, &reader, NULL);
    if (status != STATUS_OK)
        return status;
    status = zarr_read_samples(reader, view, frame, frame + 1, item, &stats, NULL);
    zarr_chunk_reader_free(reader);
    if (status == STATUS_OK)
        *ret_number = frame_array_number(&coordinate->array, item, 0);
    return status;
}

void dataset_date(const struct dataset *dataset, const char *coordinate, uint64_t frame,
                  char ret_date[DATASET_DATE_BYTES])
{
    char path[ZARR_PATH_BYTES] = "";
    struct frame_coordinate opened;
    size_t store = 0;
    double number;
    ret_date[0] = '\0';
    while (dataset->store_frames[store + 1] <= frame)
        store++;
    if (!coordinate && frame_coordinate_find(dataset, path, NULL) != STATUS_OK)
        return;
    if (frame_coordinate_open(dataset, store, "", coordinate ? coordinate : path,
                              FRAME_COORDINATE_FRAMES, &opened, NULL) != STATUS_OK)
        return;
    if (read_number(&opened, frame - dataset->store_frames[store], &number) == STATUS_OK) {
        if (!opened.is_time)
            snprintf(ret_date, DATASET_DATE_BYTES, "%.10g", number);
        else
            (void)!dates_write(opened.scale.calendar,
                               opened.scale.origin + number * opened.scale.unit, ret_date);
    }
    frame_coordinate_done(&opened);
}
