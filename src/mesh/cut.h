/* A cut: the indices of one axis of a field, divided among the ranks along axes of the mesh. All
 * fields with the same cut are divided alike.
 *
 *     contiguous  part i has one run of indices
 *     zigzag      the axis has 2 n pieces of equal length, and part i of n has the pieces i and
 *                 2 n - 1 - i, in this order: with causal attention all parts have as much to do
 *                 (Megatron-LM, Transformer Engine and torch's head-tail balancer number so)
 *
 * Pure; any thread.
 */
#ifndef PENSTOCK_MESH_CUT_H
#define PENSTOCK_MESH_CUT_H

#include "mesh/mesh.h"

enum { CUT_MOST_PARTS = 256 };

enum cut_order { CUT_CONTIGUOUS, CUT_ZIGZAG };
enum cut_split {
    CUT_EXACT, /* all parts are of one length, or the cut is refused */
    CUT_CHUNK, /* 5 over 4: 2 2 1 0, as torch.chunk() and DTensor */
    CUT_EVEN,  /* 5 over 4: 2 1 1 1 */
    CUT_SIZES, /* as given */
};

struct cut {
    uint32_t axis_count;
    uint8_t axes[MESH_MAX_AXES]; /* [axis_count] of the mesh; parts follow the last one fastest */
    uint32_t part_count;         /* the product of their sizes, 1 to CUT_MOST_PARTS */
    enum cut_order order;
    enum cut_split split;
    uint64_t sizes[CUT_MOST_PARTS]; /* [part_count] CUT_SIZES */
};

/* The indices of a part: `length` from `begin` on, and with CUT_ZIGZAG as many from `second` on. */
struct cut_run {
    uint64_t begin, second, length;
    bool has_second;
};

/* `over`: a list of axes of the mesh. `order`: "contiguous", "zigzag" or "" (contiguous). `split`:
 * "chunk", "even", "" (exact), or a list of sizes. INVALID: an axis is unknown, twice, or divides
 * the batch; there are too many parts; a word is no choice; sizes that are not as many as parts;
 * zigzag with another split than the default. */
MUST_USE enum status cut_parse(const struct mesh *mesh, const char *over, const char *order,
                               const char *split, struct cut *ret_cut, struct error *err);

/* Whether the cut can divide an axis of that length. INVALID: the parts do not divide it. */
MUST_USE enum status cut_check(const struct cut *cut, uint64_t length, struct error *err);

/* The part of a rank. */
uint32_t cut_part_of(const struct cut *cut, const struct mesh *mesh, uint32_t rank);

/* The indices of a part along an axis of that length, which cut_check() has accepted. */
struct cut_run cut_run_of(const struct cut *cut, uint64_t length, uint32_t part);

/* Whether the parts of an axis of that length are those of torch.chunk(), which DTensor expects. */
bool cut_is_torch_chunk(const struct cut *cut, uint64_t length);

/* How many indices these are. */
static inline uint64_t cut_run_indices(struct cut_run run)
{
    return run.has_second ? 2 * run.length : run.length;
}

#endif
