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
    if (strlen(axes) >= MESH_TEXT_BYTES || strlen(data) >= MESH_TEXT_BYTES)
        return error_set(err, STATUS_INVALID,
                         "delivery.mesh or delivery.data has more than %d characters",
                         MESH_TEXT_BYTES - 1);
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

/* The numbers of "1", or of "1/4": a coordinate, and the size of its axis; 0: it is not told. */
static bool read_coordinate(const char *text, uint64_t *ret_coordinate, uint64_t *ret_size)
{
    char number[24] = "";
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    *ret_size = 0;
    if (length >= sizeof number)
        return false;
    memcpy(number, text, length);
    return number_parse(number, 0, UINT32_MAX, ret_coordinate) &&
           (!slash || number_parse(slash + 1, 1, UINT32_MAX, ret_size));
}

/* Takes one of a trainer's coordinates, "dp=1" or "dp=1/4". An axis of size 1 may be known to one
 * side alone. */
static enum status take_coordinate(const struct mesh *mesh, const char *item, bool is_told[],
                                   uint32_t coordinates[], struct error *err)
{
    char name[MESH_NAME_BYTES] = "";
    const char *equals = strchr(item, '=');
    size_t length = equals ? (size_t)(equals - item) : 0;
    uint64_t coordinate, size;
    if (length < sizeof name)
        memcpy(name, item, length);
    bool is_read = equals && read_coordinate(equals + 1, &coordinate, &size);
    int axis = length < sizeof name ? mesh_find_axis(mesh, name) : -1;
    if (axis < 0 && is_read && size == 1)
        return STATUS_OK;
    if (axis < 0)
        return error_set(err, STATUS_INVALID, "it tells '%s', and delivery.mesh has no such axis",
                         item);
    if (is_read && size > 0 && size != mesh->axes[axis].size)
        return error_set(err, STATUS_INVALID,
                         "it tells %s, and axis '%s' of delivery.mesh has size %" PRIu32, item,
                         name, mesh->axes[axis].size);
    if (!is_read || coordinate >= mesh->axes[axis].size || is_told[axis])
        return error_set(err, STATUS_INVALID,
                         "it tells %s, and axis '%s' of delivery.mesh has coordinates 0 to %" PRIu32
                         ", one for each trainer",
                         item, name, mesh->axes[axis].size - 1);
    is_told[axis] = true;
    coordinates[axis] = (uint32_t)coordinate;
    return STATUS_OK;
}

/* All that a trainer tells. */
static enum status take_coordinates(const struct mesh *mesh, const char *told, bool is_told[],
                                    uint32_t coordinates[], struct error *err)
{
    struct text item = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&told, &item))
        status = take_coordinate(mesh, item.data ? item.data : "", is_told, coordinates, err);
    text_done(&item);
    return status;
}

/* Says both: what is told, and the mesh. */
static enum status misfit(const struct mesh *mesh, const char *told, const struct error *reason,
                          struct error *err)
{
    struct text axes = {0};
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        text_append(&axes, "%s%s: %" PRIu32, a > 0 ? ", " : "", mesh->axes[a].name,
                    mesh->axes[a].size);
    error_set(err, STATUS_INVALID, "%s (told: %s; delivery.mesh: [%s])", reason->message, told,
              axes.data ? axes.data : "");
    text_done(&axes);
    return STATUS_INVALID;
}

enum status mesh_read_coordinates(const struct mesh *mesh, const char *told, uint32_t rank,
                                  uint32_t *ret_rank, struct error *err)
{
    bool is_told[MESH_MAX_AXES] = {false}, all = true;
    uint32_t coordinates[MESH_MAX_AXES];
    struct error reason;
    if (mesh->axis_count == 0)
        return error_set(err, STATUS_INVALID,
                         "it tells its coordinates (%s), and delivery.mesh is not set", told);
    mesh_coordinates(mesh, rank, coordinates);
    enum status status = take_coordinates(mesh, told, is_told, coordinates, &reason);
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        all = all && (is_told[a] || mesh->axes[a].size == 1);
    if (status == STATUS_OK && !all && mesh_rank_at(mesh, coordinates) != rank)
        status = error_set(&reason, STATUS_INVALID,
                           "it tells that it is at %s, and by delivery.mesh it is %s: tell all "
                           "axes, or none",
                           told, mesh_name(mesh, rank).text);
    if (status != STATUS_OK)
        return misfit(mesh, told, &reason, err);
    *ret_rank = mesh_rank_at(mesh, coordinates);
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
