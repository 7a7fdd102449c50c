/* See mesh.h and cut.h: what the configuration says of both. Only programs have this file:
 * base/text.h says why. */
#include "base/number.h"
#include "base/text.h"
#include "mesh/cut.h"

#include <inttypes.h>
#include <string.h>

static enum status add_axis(struct mesh *mesh, const char *item, struct error *err)
{
    const char *colon = strrchr(item, ':');
    size_t length = colon ? (size_t)(colon - item) : 0;
    uint64_t size;
    if (!colon || !number_parse(colon + 1, 1, UINT32_MAX, &size))
        return error_set(err, STATUS_INVALID,
                         "delivery.mesh: '%s' is no axis; write NAME: SIZE, such as tp: 2", item);
    if (length == 0 || length >= MESH_NAME_BYTES)
        return error_set(err, STATUS_INVALID,
                         "delivery.mesh: the name of an axis has 1 to %d bytes, not '%.*s'",
                         MESH_NAME_BYTES - 1, (int)length, item);
    if (mesh->axis_count == MESH_MAX_AXES)
        return error_set(err, STATUS_INVALID, "delivery.mesh: more than %d axes", MESH_MAX_AXES);
    struct mesh_axis axis = {.size = (uint32_t)size};
    memcpy(axis.name, item, length);
    if (mesh_find_axis(mesh, axis.name) >= 0)
        return error_set(err, STATUS_INVALID, "delivery.mesh: axis '%s' is there twice", axis.name);
    mesh->axes[mesh->axis_count++] = axis;
    return STATUS_OK;
}

static enum status add_data(struct mesh *mesh, const char *name, struct error *err)
{
    int axis = mesh_find_axis(mesh, name);
    if (axis < 0)
        return error_set(err, STATUS_INVALID, "delivery.data: delivery.mesh has no axis '%s'",
                         name);
    if (mesh->axes[axis].divides)
        return error_set(err, STATUS_INVALID, "delivery.data: axis '%s' is there twice", name);
    mesh->axes[axis].divides = 1;
    return STATUS_OK;
}

/* Calls `add` with each item of a list. */
static enum status each_item(struct mesh *mesh, const char *list,
                             enum status (*add)(struct mesh *mesh, const char *item,
                                                struct error *err),
                             struct error *err)
{
    struct text item = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &item))
        status = add(mesh, item.data ? item.data : "", err);
    text_done(&item);
    return status;
}

enum status mesh_parse(const char *axes, const char *data, uint32_t rank_count,
                       struct mesh *ret_mesh, struct error *err)
{
    struct mesh mesh = {.rank_count = rank_count};
    enum status status = each_item(&mesh, axes, add_axis, err);
    if (status == STATUS_OK && mesh.axis_count == 0 && *data)
        return error_set(err, STATUS_INVALID,
                         "delivery.data names axes of delivery.mesh, which is not given");
    if (status == STATUS_OK && mesh.axis_count > 0 && !*data)
        return error_set(err, STATUS_INVALID,
                         "delivery.mesh: write delivery.data, too: the axes along which the batch "
                         "is divided; an axis of size 1 will do if all ranks get the same");
    if (status == STATUS_OK)
        status = each_item(&mesh, data, add_data, err);
    if (status == STATUS_OK && mesh.axis_count > 0 && mesh_product(&mesh) != rank_count)
        status = error_set(err, STATUS_INVALID,
                           "delivery.mesh has %" PRIu64 " ranks, the product of its sizes, and "
                           "delivery.trainers is %" PRIu32,
                           mesh_product(&mesh), rank_count);
    if (status == STATUS_OK)
        *ret_mesh = mesh;
    return status;
}

/* One of a trainer's coordinates, "dp=1". */
static enum status read_coordinate(const struct mesh *mesh, const char *item, bool is_told[],
                                   uint32_t coordinates[], struct error *err)
{
    char name[MESH_NAME_BYTES] = "";
    const char *equals = strchr(item, '=');
    size_t length = equals ? (size_t)(equals - item) : 0;
    uint64_t coordinate;
    if (length < sizeof name)
        memcpy(name, item, length);
    int axis = length < sizeof name ? mesh_find_axis(mesh, name) : -1;
    if (axis < 0)
        return error_set(err, STATUS_INVALID, "it tells '%s', and delivery.mesh has no such axis",
                         item);
    if (!number_parse(equals + 1, 0, mesh->axes[axis].size - 1, &coordinate) || is_told[axis])
        return error_set(err, STATUS_INVALID,
                         "it tells %s, and axis '%s' of delivery.mesh has coordinates 0 to %" PRIu32
                         ", one for each trainer",
                         item, name, mesh->axes[axis].size - 1);
    is_told[axis] = true;
    coordinates[axis] = (uint32_t)coordinate;
    return STATUS_OK;
}

enum status mesh_read_coordinates(const struct mesh *mesh, const char *told, uint32_t rank,
                                  uint32_t *ret_rank, struct error *err)
{
    bool is_told[MESH_MAX_AXES] = {false}, all = true;
    uint32_t coordinates[MESH_MAX_AXES];
    const char *at = told;
    struct text item = {0};
    enum status status = STATUS_OK;
    if (mesh->axis_count == 0)
        return error_set(err, STATUS_INVALID,
                         "it tells its coordinates (%s), and delivery.mesh is not set", told);
    mesh_coordinates(mesh, rank, coordinates);
    while (status == STATUS_OK && text_list_take(&at, &item))
        status = read_coordinate(mesh, item.data ? item.data : "", is_told, coordinates, err);
    text_done(&item);
    if (status != STATUS_OK)
        return status;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        all = all && is_told[a];
    uint32_t placed = mesh_rank_at(mesh, coordinates);
    if (!all && placed != rank)
        return error_set(err, STATUS_INVALID,
                         "it tells that it is at %s, and by delivery.mesh it is %s: tell all axes, "
                         "or none",
                         told, mesh_name(mesh, rank).text);
    *ret_rank = placed;
    return STATUS_OK;
}

static enum status add_cut_axis(const struct mesh *mesh, struct cut *cut, const char *name,
                                struct error *err)
{
    int axis = mesh_find_axis(mesh, name);
    if (axis < 0)
        return error_set(err, STATUS_INVALID, "delivery.mesh has no axis '%s'", name);
    if (mesh->axes[axis].divides)
        return error_set(err, STATUS_INVALID,
                         "axis '%s' divides the batch (delivery.data): ranks along it have "
                         "different samples, and not parts of one",
                         name);
    for (uint32_t i = 0; i < cut->axis_count; i++)
        if (cut->axes[i] == axis)
            return error_set(err, STATUS_INVALID, "axis '%s' is there twice", name);
    cut->axes[cut->axis_count++] = (uint8_t)axis;
    uint64_t parts = (uint64_t)cut->part_count * mesh->axes[axis].size;
    if (parts > CUT_MOST_PARTS)
        return error_set(err, STATUS_INVALID, "%" PRIu64 " parts; at most %d are possible", parts,
                         CUT_MOST_PARTS);
    cut->part_count = (uint32_t)parts;
    return STATUS_OK;
}

static enum status put_over(const struct mesh *mesh, struct cut *cut, const char *over,
                            struct error *err)
{
    struct text item = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&over, &item))
        status = add_cut_axis(mesh, cut, item.data ? item.data : "", err);
    text_done(&item);
    if (status == STATUS_OK && cut->axis_count == 0)
        status = error_set(err, STATUS_INVALID,
                           "write over: the axis of delivery.mesh whose ranks get a part each");
    return status;
}

static enum status put_sizes(struct cut *cut, const char *sizes, struct error *err)
{
    struct text item = {0};
    uint32_t count = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&sizes, &item)) {
        uint64_t size;
        if (!number_parse(item.data ? item.data : "", 0, INT64_MAX, &size))
            status = error_set(err, STATUS_INVALID,
                               "split: '%s' is no choice; it takes chunk, even, or a list of sizes",
                               item.data ? item.data : "");
        else if (count++ < cut->part_count)
            cut->sizes[count - 1] = size;
    }
    text_done(&item);
    if (status == STATUS_OK && count != cut->part_count)
        status = error_set(err, STATUS_INVALID,
                           "split: %" PRIu32 " sizes, and there are %" PRIu32 " parts", count,
                           cut->part_count);
    cut->split = CUT_SIZES;
    return status;
}

enum status cut_parse(const struct mesh *mesh, const char *over, const char *order,
                      const char *split, struct cut *ret_cut, struct error *err)
{
    struct cut cut = {.part_count = 1};
    enum status status = put_over(mesh, &cut, over, err);
    if (status != STATUS_OK)
        return status;
    if (strcmp(order, "zigzag") == 0)
        cut.order = CUT_ZIGZAG;
    else if (*order && strcmp(order, "contiguous") != 0)
        return error_set(err, STATUS_INVALID,
                         "order: '%s' is no choice; it takes contiguous or zigzag", order);
    if (strcmp(split, "chunk") == 0)
        cut.split = CUT_CHUNK;
    else if (strcmp(split, "even") == 0)
        cut.split = CUT_EVEN;
    else if (*split)
        status = put_sizes(&cut, split, err);
    if (status == STATUS_OK && cut.order == CUT_ZIGZAG && cut.split != CUT_EXACT)
        status = error_set(err, STATUS_INVALID,
                           "order: zigzag takes pieces of one length, and no split");
    if (status == STATUS_OK)
        *ret_cut = cut;
    return status;
}
