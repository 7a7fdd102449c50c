/* See mesh.h. */
#include "mesh/mesh.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mesh_find_axis(const struct mesh *mesh, const char *name)
{
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        if (strcmp(mesh->axes[a].name, name) == 0)
            return (int)a;
    return -1;
}

uint64_t mesh_product(const struct mesh *mesh)
{
    uint64_t ranks = 1;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        ranks = mul_sat(ranks, mesh->axes[a].size);
    return ranks;
}

bool mesh_makes_sense(const struct mesh *mesh)
{
    bool sound = mesh->axis_count <= MESH_MAX_AXES;
    for (uint32_t a = 0; sound && a < mesh->axis_count; a++)
        sound = memchr(mesh->axes[a].name, '\0', MESH_NAME_BYTES) && mesh->axes[a].size > 0 &&
                mesh->axes[a].divides <= 1;
    return sound && (mesh->axis_count == 0 || mesh_product(mesh) == mesh->rank_count);
}

void mesh_coordinates(const struct mesh *mesh, uint32_t rank, uint32_t ret_coordinates[])
{
    for (uint32_t a = mesh->axis_count; a-- > 0;) {
        ret_coordinates[a] = rank % mesh->axes[a].size;
        rank /= mesh->axes[a].size;
    }
}

uint32_t mesh_rank_at(const struct mesh *mesh, const uint32_t coordinates[])
{
    uint32_t rank = 0;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        rank = rank * mesh->axes[a].size + coordinates[a];
    return rank;
}

uint32_t mesh_group_count(const struct mesh *mesh)
{
    uint32_t count = mesh->axis_count > 0 ? 1 : mesh->rank_count;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        count *= mesh->axes[a].divides ? mesh->axes[a].size : 1;
    return count;
}

bool mesh_resize(const struct mesh *mesh, uint32_t rank_count, struct mesh *ret_mesh)
{
    struct mesh resized = *mesh;
    uint32_t groups = mesh_group_count(mesh), divided = 0;
    if (rank_count == mesh->rank_count) {
        *ret_mesh = resized;
        return true;
    }
    if (rank_count == 0 || rank_count % (mesh->rank_count / groups) != 0)
        return false;
    resized.rank_count = rank_count;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        if (mesh->axes[a].divides) {
            resized.axes[a].size = rank_count / (mesh->rank_count / groups);
            divided++;
        }
    if (mesh->axis_count > 0 && divided != 1)
        return false;
    *ret_mesh = resized;
    return true;
}

uint32_t mesh_group_of(const struct mesh *mesh, uint32_t rank)
{
    uint32_t coordinates[MESH_MAX_AXES], group = 0;
    if (mesh->axis_count == 0)
        return rank;
    mesh_coordinates(mesh, rank, coordinates);
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        if (mesh->axes[a].divides)
            group = group * mesh->axes[a].size + coordinates[a];
    return group;
}

bool mesh_leads(const struct mesh *mesh, uint32_t rank)
{
    uint32_t coordinates[MESH_MAX_AXES];
    mesh_coordinates(mesh, rank, coordinates);
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        if (!mesh->axes[a].divides && coordinates[a] > 0)
            return false;
    return true;
}

/* What is known of a group: the last block with a rank of it, plus 1, and how many there were. */
struct spread {
    uint32_t last, count;
};

bool mesh_spread(const struct mesh *mesh, uint32_t blocks, uint32_t *ret_groups,
                 uint32_t *ret_readers)
{
    struct spread *spreads = calloc(mesh_group_count(mesh), sizeof *spreads);
    *ret_groups = *ret_readers = 1;
    for (uint32_t block = 0; spreads && block < blocks; block++) {
        uint32_t groups = 0, end = mesh_block_first(mesh, blocks, block + 1);
        for (uint32_t rank = mesh_block_first(mesh, blocks, block); rank < end; rank++) {
            struct spread *spread = &spreads[mesh_group_of(mesh, rank)];
            if (spread->last == block + 1)
                continue;
            spread->last = block + 1;
            spread->count++;
            groups++;
            *ret_readers = spread->count > *ret_readers ? spread->count : *ret_readers;
        }
        *ret_groups = groups > *ret_groups ? groups : *ret_groups;
    }
    free(spreads);
    return spreads != NULL;
}

struct mesh_rank_name mesh_name(const struct mesh *mesh, uint32_t rank)
{
    struct mesh_rank_name name;
    uint32_t coordinates[MESH_MAX_AXES];
    size_t room = sizeof name.text;
    size_t at = (size_t)snprintf(name.text, room, "rank %" PRIu32, rank);
    mesh_coordinates(mesh, rank, coordinates);
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        at += (size_t)snprintf(name.text + at, room - at, "%s%s %" PRIu32, a == 0 ? " (" : ", ",
                               mesh->axes[a].name, coordinates[a]);
    if (mesh->axis_count > 0)
        snprintf(name.text + at, room - at, ")");
    return name;
}
