/* A mesh of trainers: each rank has a coordinate along each of a few named axes, the last axis
 * fastest, as in torch's DeviceMesh. Along some axes the global batch is divided, and along all
 * others it repeats. Ranks with equal coordinates on the axes that divide are a group: all of them
 * get the same batches.
 *
 *     mesh [dp: 2, tp: 2], data [dp]     rank   0 1 2 3
 *                                        dp     0 0 1 1
 *                                        tp     0 1 0 1
 *                                        group  0 0 1 1
 *
 * Without a mesh each rank is a group of its own. Pure; any thread.
 */
#ifndef PENSTOCK_MESH_MESH_H
#define PENSTOCK_MESH_MESH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { MESH_MAX_AXES = 8, MESH_NAME_BYTES = 32 };
enum { MESH_TEXT_BYTES = MESH_MAX_AXES * (MESH_NAME_BYTES + 16) }; /* of delivery.mesh, with NUL */

struct mesh_axis {
    char name[MESH_NAME_BYTES]; /* NUL-terminated */
    uint32_t size;              /* at least 1 */
    uint32_t divides;           /* 1: the batch is divided along this axis; 0: it repeats */
};

struct mesh {
    uint32_t rank_count;
    uint32_t axis_count; /* 0: there is no mesh */
    struct mesh_axis axes[MESH_MAX_AXES];
};

/* `axes`: a list (base/text.h) of "NAME:SIZE"; "": no mesh. `data`: a list of the names of the axes
 * that divide the batch. INVALID: a name is empty, too long, twice or unknown; a size is no number
 * from 1 on; the product of sizes is not `rank_count`; `data` without a mesh, or a mesh without
 * data. */
MUST_USE enum status mesh_parse(const char *axes, const char *data, uint32_t rank_count,
                                struct mesh *ret_mesh, struct error *err);

/* The rank of a trainer that tells its coordinates, "pp=0,dp=1": all of them, whatever rank its
 * launcher has given it; or some, which have to be those of that rank. "pp=0/2" tells the size of
 * the axis, too. Axes of size 1 may be left out, or be told although the mesh has none. INVALID:
 * there is no mesh, or no such axis; a size differs; a coordinate is out of range, told twice, or
 * not that of the rank. The message has what is told and the mesh. */
MUST_USE enum status mesh_read_coordinates(const struct mesh *mesh, const char *told, uint32_t rank,
                                           uint32_t *ret_rank, struct error *err);

/* Whether a mesh that came from another process can be used. */
bool mesh_makes_sense(const struct mesh *mesh);

/* A mesh of so many ranks, in which the one axis that divides the batch has another size; without a
 * mesh another number of ranks. False: there are several such axes, or no size fits. */
bool mesh_resize(const struct mesh *mesh, uint32_t rank_count, struct mesh *ret_mesh);

/* The product of all sizes, which is the number of ranks. */
uint64_t mesh_product(const struct mesh *mesh);

/* The axis of that name; -1: there is none. */
int mesh_find_axis(const struct mesh *mesh, const char *name);

/* The coordinates of a rank: [axis_count]. */
void mesh_coordinates(const struct mesh *mesh, uint32_t rank, uint32_t ret_coordinates[]);

/* The rank at coordinates. */
uint32_t mesh_rank_at(const struct mesh *mesh, const uint32_t coordinates[]);

/* Groups are numbered by their coordinates on the axes that divide the batch, the last one fastest.
 */
uint32_t mesh_group_count(const struct mesh *mesh);
uint32_t mesh_group_of(const struct mesh *mesh, uint32_t rank);

/* Whether a rank is the lowest of its group. */
bool mesh_leads(const struct mesh *mesh, uint32_t rank);

/* With ranks in equal blocks (some have one rank more), one block at each of `blocks` readers:
 * *ret_groups is the most groups that one reader serves, and *ret_readers is the most readers that
 * serve one group. False: no memory. */
bool mesh_spread(const struct mesh *mesh, uint32_t blocks, uint32_t *ret_groups,
                 uint32_t *ret_readers);

/* The first rank of such a block: rank r is in block r * blocks / ranks. */
static inline uint32_t mesh_block_first(const struct mesh *mesh, uint32_t blocks, uint32_t block)
{
    return (uint32_t)(((uint64_t)block * mesh->rank_count + blocks - 1) / blocks);
}

/* A rank in messages: "rank 5 (pp 0, dp 1, tp 1)"; "rank 5" without a mesh. */
struct mesh_rank_name {
    char text[MESH_MAX_AXES * (MESH_NAME_BYTES + 14) + 16];
};
struct mesh_rank_name mesh_name(const struct mesh *mesh, uint32_t rank);

#endif
