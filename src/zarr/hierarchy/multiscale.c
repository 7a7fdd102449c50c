/* See multiscale.h. */
#include "zarr/hierarchy/multiscale.h"

#include "base/text.h"
#include "zarr/hierarchy/hierarchy_internal.h"
#include "zarr/metadata/document.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum status zarr_ome_attributes(const struct store *store, enum zarr_format format,
                                const char *path, struct json_object **ret_root,
                                struct json_object **ret_ome, struct error *err)
{
    struct json_object *ome;
    enum status status = discover_check_path(path, err); /* which attributes may have said */
    if (status == STATUS_OK)
        status = group_attributes_read(store, format, path, ret_root, ret_ome, err);
    if (status == STATUS_OK && *ret_ome && json_object_object_get_ex(*ret_ome, "ome", &ome) &&
        json_object_is_type(ome, json_type_object))
        *ret_ome = ome;
    return status;
}

/* The member `name` of an object if it has that type; else NULL. */
static struct json_object *member(struct json_object *object, const char *name, enum json_type type)
{
    struct json_object *value;
    return json_object_is_type(object, json_type_object) &&
                   json_object_object_get_ex(object, name, &value) &&
                   json_object_is_type(value, type)
               ? value
               : NULL;
}

static void take_name(const char *text, char *ret_name, size_t capacity)
{
    if (strlen(text) < capacity && text_is_plain(text))
        strcpy(ret_name, text);
}

/* A name, as of 0.3, or an object with the name. Before 0.3 there are no axes: t, c, z, y and x. */
static enum status take_axes(struct json_object *image, struct zarr_multiscale *to,
                             struct error *err)
{
    static const char *const first_names[] = {"t", "c", "z", "y", "x"};
    struct json_object *axes = member(image, "axes", json_type_array);
    size_t count = axes ? json_object_array_length(axes) : sizeof first_names / sizeof *first_names;
    if (count == 0 || count > ZARR_MAX_RANK)
        return error_set(err, STATUS_CORRUPT, "multiscales has %zu axes: 1 to %d are read", count,
                         ZARR_MAX_RANK);
    to->axis_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        struct json_object *axis = axes ? json_object_array_get_idx(axes, i) : NULL;
        struct json_object *name = member(axis, "name", json_type_string);
        struct json_object *unit = member(axis, "unit", json_type_string);
        if (axis && !name && json_object_is_type(axis, json_type_string))
            name = axis;
        take_name(!axes  ? first_names[i]
                  : name ? json_object_get_string(name)
                         : "",
                  to->axes.names[i], sizeof to->axes.names[i]);
        if (unit)
            take_name(json_object_get_string(unit), to->units[i], sizeof to->units[i]);
    }
    return STATUS_OK;
}

/* Multiplies by the scales in a list of transformations. What is no such list says nothing. */
static void take_scale(struct json_object *holder, int axis_count, double *scale, bool *found)
{
    struct json_object *list = member(holder, "coordinateTransformations", json_type_array);
    for (size_t k = 0; list && k < json_object_array_length(list); k++) {
        struct json_object *factors =
            member(json_object_array_get_idx(list, k), "scale", json_type_array);
        if (!factors || json_object_array_length(factors) != (size_t)axis_count)
            continue;
        *found = true;
        for (int i = 0; i < axis_count; i++) {
            double factor = json_object_get_double(json_object_array_get_idx(factors, (size_t)i));
            scale[i] *= isfinite(factor) && factor > 0 ? factor : 0;
        }
    }
}

static enum status take_level(struct json_object *image, struct json_object *level,
                              const char *group, struct zarr_multiscale *to, struct error *err)
{
    struct json_object *path = member(level, "path", json_type_string);
    char *at = to->levels[to->level_count].path;
    double *scale = to->levels[to->level_count].scale;
    bool found = false;
    if (!path)
        return error_set(err, STATUS_CORRUPT, "multiscales: level %zu has no path",
                         to->level_count);
    int length = snprintf(at, ZARR_PATH_BYTES, "%s%s%s", group, *group ? "/" : "",
                          json_object_get_string(path));
    enum status status =
        length < ZARR_PATH_BYTES && text_is_plain(json_object_get_string(path))
            ? discover_check_path(at, err)
            : error_set(err, STATUS_CORRUPT, "multiscales: the path of level %zu is not valid",
                        to->level_count);
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i < to->axis_count; i++)
        scale[i] = 1;
    take_scale(level, to->axis_count, scale, &found);
    take_scale(image, to->axis_count, scale, &found);
    for (int i = 0; i < to->axis_count && !found; i++)
        scale[i] = 0;
    to->level_count++;
    return STATUS_OK;
}

static enum status take_image(struct json_object *image, const char *group,
                              struct zarr_multiscale *to, struct error *err)
{
    struct json_object *levels = member(image, "datasets", json_type_array);
    size_t count = levels ? json_object_array_length(levels) : 0;
    enum status status = take_axes(image, to, err);
    if (status == STATUS_OK && (count == 0 || count > MULTISCALE_MAX_LEVELS))
        return error_set(err, STATUS_CORRUPT, "multiscales has %zu levels: 1 to %d are read", count,
                         MULTISCALE_MAX_LEVELS);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = take_level(image, json_object_array_get_idx(levels, i), group, to, err);
    return status;
}

enum status zarr_multiscale_read(const struct store *store, enum zarr_format format,
                                 const char *path, struct zarr_multiscale *ret_multiscale,
                                 struct error *err)
{
    struct json_object *root, *ome, *images = NULL;
    struct zarr_multiscale found = {.is_there = true};
    enum status status = zarr_ome_attributes(store, format, path, &root, &ome, err);
    if (status != STATUS_OK)
        return status;
    if (json_object_is_type(ome, json_type_object))
        images = member(ome, "multiscales", json_type_array);
    if (images)
        status = take_image(json_object_array_get_idx(images, 0), path, &found, err);
    json_object_put(root);
    if (status != STATUS_OK)
        return error_prefix(err, status, "group '%s', attribute ", *path ? path : "/");
    *ret_multiscale = images ? found : (struct zarr_multiscale){0};
    return STATUS_OK;
}

enum status zarr_multiscale_labels(const struct store *store, enum zarr_format format,
                                   const char *path, struct zarr_texts *ret_names,
                                   struct error *err)
{
    struct json_object *root, *ome, *list;
    char group[ZARR_PATH_BYTES + sizeof "/labels"];
    struct zarr_texts names = {0};
    snprintf(group, sizeof group, "%s%slabels", path, *path ? "/" : "");
    enum status status = zarr_ome_attributes(store, format, group, &root, &ome, err);
    if (status != STATUS_OK)
        return status;
    list = member(ome, "labels", json_type_array);
    if (list)
        status = zarr_texts_take(list, &names, err);
    json_object_put(root);
    if (status == STATUS_OK)
        *ret_names = names;
    return status;
}

/* "0: c 2, y 512 (0.5 micrometer), x 512 (0.5 micrometer)". */
static void describe_level(const struct zarr_multiscale *image, size_t level,
                           const struct zarr_hierarchy *hierarchy, struct text *out)
{
    const struct zarr_node *node =
        hierarchy ? zarr_hierarchy_find(hierarchy, image->levels[level].path) : NULL;
    text_append(out, "%s%zu:", level > 0 ? "; " : "", level);
    for (int i = 0; i < image->axis_count; i++) {
        double scale = image->levels[level].scale[i];
        text_append(out, "%s %s", i > 0 ? "," : "", image->axes.names[i]);
        if (node && node->array.rank == image->axis_count)
            text_append(out, " %" PRIu64, node->array.shape[i]);
        if (scale > 0 && (image->units[i][0] || scale < 1 || scale > 1))
            text_append(out, " (%g%s%s)", scale, image->units[i][0] ? " " : "", image->units[i]);
    }
}

void zarr_multiscale_describe(const struct zarr_multiscale *image,
                              const struct zarr_hierarchy *hierarchy, struct text *out)
{
    for (size_t i = 0; i < image->level_count; i++)
        describe_level(image, i, hierarchy, out);
}
