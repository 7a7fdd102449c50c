/* See coordinates.h. */
#include "dataset/fields/coordinates.h"

#include "base/dtype.h"
#include "base/spelling.h"
#include "base/text.h"
#include "dataset/fields/small_array.h"
#include "zarr/hierarchy/axes.h"
#include "zarr/hierarchy/group_attributes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "group/channel" of "group/x" and the dimension "channel". */
static enum status find_path(const struct zarr_node *node, int axis, struct coordinates *ret,
                             struct error *err)
{
    const char *path = node->array.path, *slash = strrchr(path, '/');
    int group = slash ? (int)(slash - path) + 1 : 0;
    struct zarr_axis_names names;
    if (!zarr_node_axis_names(node, &names) || !names.names[axis][0])
        return error_set(err, STATUS_NOT_FOUND,
                         "axis %d of array '%s' has no name, by which its coordinates would be "
                         "found: write numbers",
                         axis, path);
    int length = snprintf(ret->path, sizeof ret->path, "%.*s%s", group, path, names.names[axis]);
    if (length < 0 || (size_t)length >= sizeof ret->path)
        return error_set(err, STATUS_INVALID, "the path of the coordinates is too long");
    return STATUS_OK;
}

static double number_at(const struct zarr_array *array, const unsigned char *items, uint64_t i)
{
    const unsigned char *item = items + i * array->item_bytes;
    double wide;
    float narrow;
    switch (array->dtype) {
    case DTYPE_FLOAT64:
        memcpy(&wide, item, sizeof wide);
        return wide;
    case DTYPE_FLOAT32:
        memcpy(&narrow, item, sizeof narrow);
        return (double)narrow;
    default:
        return (double)dtype_integer(array->dtype, items, i);
    }
}

/* One code point as UTF-8 at `out`; returns its bytes. */
static size_t put_utf8(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};

    out[0] = (char)(marks[more] | (point >> (6 * more) & 0x3f));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (point >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* A string of fixed length, malloc'ed, without the NULs behind it. */
static char *name_at(const struct zarr_array *array, const unsigned char *items, uint64_t i)
{
    char *name = calloc(array->item_length + 1, 4);
    size_t length = 0;
    for (uint64_t c = 0; name && c < array->item_length; c++) {
        const unsigned char *at = items + i * array->item_bytes + c * dtype_bytes(array->dtype);
        uint32_t point = *at;
        if (array->dtype == DTYPE_UINT32)
            memcpy(&point, at, sizeof point);
        if (point == 0 || point > 0x10ffff)
            break;
        if (array->dtype == DTYPE_UINT32)
            length += put_utf8(point, name + length);
        else
            name[length++] = (char)point;
    }
    return name;
}

static bool are_names(const struct zarr_array *array)
{
    return array->item_length > 0 && (array->dtype == DTYPE_UINT8 || array->dtype == DTYPE_UINT32);
}

static bool are_numbers(const struct zarr_array *array)
{
    return array->item_length == 0 &&
           (dtype_is_integer(array->dtype) || array->dtype == DTYPE_FLOAT32 ||
            array->dtype == DTYPE_FLOAT64);
}

static enum status take_items(const struct zarr_array *array, const unsigned char *items,
                              struct coordinates *ret, struct error *err)
{
    bool ok;
    ret->count = array->shape[0];
    ret->is_single = array->dtype == DTYPE_FLOAT32;
    if (are_names(array))
        ok = (ret->names = calloc(ret->count, sizeof *ret->names)) != NULL;
    else
        ok = (ret->values = calloc(ret->count, sizeof *ret->values)) != NULL;
    for (uint64_t i = 0; ok && i < ret->count; i++) {
        if (ret->names)
            ok = (ret->names[i] = name_at(array, items, i)) != NULL;
        else
            ret->values[i] = number_at(array, items, i);
    }
    return ok ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for coordinates");
}

static enum status check_array(const struct zarr_array *array, uint64_t length, struct error *err)
{
    if (array->rank != 1 || array->shape[0] != length || (!are_names(array) && !are_numbers(array)))
        return error_set(err, STATUS_INVALID,
                         "array '%s' is not one of coordinates: it takes %" PRIu64
                         " numbers, or strings of fixed length, along one axis",
                         array->path, length);
    return STATUS_OK;
}

/* Without such an array: names in an attribute of the group, "variable" or, as anemoi has it,
 * "variables". */
static enum status read_attribute(const struct store *store, const struct zarr_node *node, int axis,
                                  struct coordinates *coordinates, struct error *err)
{
    const char *slash = strrchr(coordinates->path, '/');
    char group[ZARR_PATH_BYTES], name[sizeof coordinates->path + 1];
    struct zarr_texts texts = {0};
    enum status status = STATUS_OK;
    snprintf(group, sizeof group, "%.*s", slash ? (int)(slash - coordinates->path) : 0,
             coordinates->path);
    for (int plural = 0; plural < 2 && !texts.is_there && status == STATUS_OK; plural++) {
        snprintf(name, sizeof name, "%s%s", slash ? slash + 1 : coordinates->path,
                 plural ? "s" : "");
        status = zarr_group_texts(store, node->array.format, group, name, &texts, err);
    }
    if (status != STATUS_OK)
        return error_prefix(err, status, "attributes of the group '%s': ", group);
    if (!texts.is_there)
        return error_set(err, STATUS_NOT_FOUND,
                         "there is no array '%s' of coordinates, and no list of names in the "
                         "attribute '%s' of its group: write numbers, or such an array",
                         coordinates->path, name);
    if (texts.count != node->array.shape[axis]) {
        status = error_set(err, STATUS_INVALID,
                           "attribute '%s' of the group has %zu names, and the axis has %" PRIu64
                           " indices: write numbers, or an array '%s' of coordinates",
                           name, texts.count, node->array.shape[axis], coordinates->path);
        zarr_texts_done(&texts);
        return status;
    }
    snprintf(coordinates->path, sizeof coordinates->path, "attribute %.400s", name);
    coordinates->count = texts.count;
    coordinates->names = texts.items;
    return STATUS_OK;
}

enum status coordinates_read_array(const struct dataset *dataset, const struct store *store,
                                   const char *path, struct coordinates *ret_coordinates,
                                   struct error *err)
{
    struct coordinates coordinates = {0};
    struct zarr_hierarchy *hierarchy = NULL;
    unsigned char *items = NULL;
    const struct zarr_node *found;
    enum status status = small_array_read(dataset, store, path, &hierarchy, &found, &items, err);
    snprintf(coordinates.path, sizeof coordinates.path, "%.511s", path);
    if (status == STATUS_OK)
        status = check_array(&found->array, found->array.shape[0], err);
    if (status == STATUS_OK)
        status = take_items(&found->array, items, &coordinates, err);
    zarr_hierarchy_free(hierarchy);
    free(items);
    if (status == STATUS_OK)
        *ret_coordinates = coordinates;
    else
        coordinates_done(&coordinates);
    return status;
}

static void take_attributes(const struct zarr_node *node, struct coordinates *ret)
{
    struct zarr_encoding encoding;
    zarr_node_encoding(node, &encoding);
    memcpy(ret->units, encoding.units, sizeof ret->units);
    memcpy(ret->calendar, encoding.calendar, sizeof ret->calendar);
}

enum status coordinates_read(const struct dataset *dataset, const struct store *store,
                             const struct zarr_node *node, int axis,
                             struct coordinates *ret_coordinates, struct error *err)
{
    struct coordinates coordinates = {0};
    struct zarr_hierarchy *hierarchy = NULL;
    unsigned char *items = NULL;
    const struct zarr_node *found;
    enum status status = find_path(node, axis, &coordinates, err);
    if (status != STATUS_OK)
        return status;
    status = small_array_read(dataset, store, coordinates.path, &hierarchy, &found, &items, err);
    if (status == STATUS_OK)
        status = check_array(&found->array, node->array.shape[axis], err);
    if (status == STATUS_OK)
        status = take_items(&found->array, items, &coordinates, err);
    if (status == STATUS_OK)
        take_attributes(found, &coordinates);
    zarr_hierarchy_free(hierarchy);
    free(items);
    if (status == STATUS_NOT_FOUND) {
        status = read_attribute(store, node, axis, &coordinates, err);
        if (status != STATUS_OK)
            return status;
    }
    if (status == STATUS_OK) {
        *ret_coordinates = coordinates;
        return STATUS_OK;
    }
    error_prefix(err, status, "coordinates: ");
    coordinates_done(&coordinates);
    return status;
}

static enum status no_name(const struct coordinates *coordinates, const char *text,
                           struct error *err)
{
    const char *nearest =
        spelling_nearest(text, (const char *const *)coordinates->names, coordinates->count);
    return error_set(err, STATUS_NOT_FOUND, "'%s' is none of the %" PRIu64 " names in '%s'%s%s%s",
                     text, coordinates->count, coordinates->path, nearest ? ": did you mean '" : "",
                     nearest ? text_shown(nearest).text : "", nearest ? "'?" : "");
}

static enum status no_number(const struct coordinates *coordinates, const char *text, double value,
                             struct error *err)
{
    double nearest = coordinates->values[0];
    for (uint64_t i = 1; i < coordinates->count; i++)
        if (fabs(coordinates->values[i] - value) < fabs(nearest - value))
            nearest = coordinates->values[i];
    return error_set(err, STATUS_NOT_FOUND,
                     "'%s' is none of the %" PRIu64 " numbers in '%s'; the nearest is %.9g", text,
                     coordinates->count, coordinates->path, nearest);
}

/* Whether a number as written is that coordinate, in the coordinates' precision. */
static bool same_number(const struct coordinates *coordinates, double coordinate, double written)
{
    if (coordinates->is_single)
        written = (double)(float)written;
    return !(coordinate < written || coordinate > written) && !isnan(coordinate);
}

/* In order of name, and of index where names are the same. */
static int compare_names(const void *a, const void *b, void *names)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    char *const *of = names;
    int order = strcmp(of[left], of[right]);
    return order != 0 ? order : (left > right) - (left < right);
}

enum status coordinates_sort(struct coordinates *coordinates, struct error *err)
{
    if (!coordinates->names)
        return STATUS_OK;
    coordinates->order = calloc(coordinates->count, sizeof *coordinates->order);
    if (!coordinates->order)
        return error_set(err, STATUS_NO_MEMORY, "no memory for coordinates");
    for (uint64_t i = 0; i < coordinates->count; i++)
        coordinates->order[i] = i;
    qsort_r(coordinates->order, coordinates->count, sizeof *coordinates->order, compare_names,
            coordinates->names);
    return STATUS_OK;
}

static enum status refuse_twice(const struct coordinates *coordinates, const char *text,
                                uint64_t first, uint64_t second, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "'%s' is there twice in '%s', at %" PRIu64 " and %" PRIu64 ": write a number",
                     text, coordinates->path, first, second);
}

static enum status find_sorted(const struct coordinates *coordinates, const char *text,
                               uint64_t *ret_index, struct error *err)
{
    const uint64_t *order = coordinates->order;
    uint64_t low = 0, high = coordinates->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (strcmp(coordinates->names[order[middle]], text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == coordinates->count || strcmp(coordinates->names[order[low]], text) != 0)
        return no_name(coordinates, text, err);
    if (low + 1 < coordinates->count && strcmp(coordinates->names[order[low + 1]], text) == 0)
        return refuse_twice(coordinates, text, order[low], order[low + 1], err);
    *ret_index = order[low];
    return STATUS_OK;
}

enum status coordinates_find(const struct coordinates *coordinates, const char *text,
                             uint64_t *ret_index, struct error *err)
{
    if (coordinates->order)
        return find_sorted(coordinates, text, ret_index, err);

    uint64_t found = coordinates->count;
    double value = 0.0;
    if (!coordinates->names) {
        char *end;
        value = strtod(text, &end);
        if (end == text || *end || !isfinite(value))
            return error_set(err, STATUS_NOT_FOUND, "'%s' is no number, as those in '%s' are", text,
                             coordinates->path);
    }
    for (uint64_t i = 0; i < coordinates->count; i++) {
        if (coordinates->names ? strcmp(coordinates->names[i], text) != 0
                               : !same_number(coordinates, coordinates->values[i], value))
            continue;
        if (found < coordinates->count)
            return refuse_twice(coordinates, text, found, i, err);
        found = i;
    }
    if (found == coordinates->count)
        return coordinates->names ? no_name(coordinates, text, err)
                                  : no_number(coordinates, text, value, err);
    *ret_index = found;
    return STATUS_OK;
}

void coordinates_done(struct coordinates *coordinates)
{
    for (uint64_t i = 0; coordinates->names && i < coordinates->count; i++)
        free(coordinates->names[i]);
    free(coordinates->names);
    free(coordinates->values);
    free(coordinates->order);
    *coordinates = (struct coordinates){0};
}
