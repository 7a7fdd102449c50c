/* See cut.h. */
#include "mesh/cut.h"

#include "base/number.h"

#include <inttypes.h>

enum status cut_check(const struct cut *cut, uint64_t length, struct error *err)
{
    uint64_t pieces = (cut->order == CUT_ZIGZAG ? 2 : 1) * (uint64_t)cut->part_count, sum = 0;
    if (cut->split == CUT_EXACT && length % pieces != 0)
        return error_set(
            err, STATUS_INVALID, "%" PRIu64 " indices are not a multiple of %" PRIu64 "%s", length,
            pieces,
            cut->order == CUT_ZIGZAG
                ? ", two for each part"
                : " parts; write split: chunk (as torch.chunk), split: even, or sizes");
    for (uint32_t part = 0; cut->split == CUT_SIZES && part < cut->part_count; part++)
        sum = add_sat(sum, cut->sizes[part]);
    if (cut->split == CUT_SIZES && sum != length)
        return error_set(err, STATUS_INVALID,
                         "the sizes of split add up to %" PRIu64 ", and there are %" PRIu64
                         " indices",
                         sum, length);
    return STATUS_OK;
}

uint32_t cut_part_of(const struct cut *cut, const struct mesh *mesh, uint32_t rank)
{
    uint32_t coordinates[MESH_MAX_AXES], part = 0;
    mesh_coordinates(mesh, rank, coordinates);
    for (uint32_t i = 0; i < cut->axis_count; i++)
        part = part * mesh->axes[cut->axes[i]].size + coordinates[cut->axes[i]];
    return part;
}

struct cut_run cut_run_of(const struct cut *cut, uint64_t length, uint32_t part)
{
    uint64_t parts = cut->part_count, begin = 0;
    if (cut->order == CUT_ZIGZAG) {
        uint64_t piece = length / (2 * parts);
        return (struct cut_run){.begin = part * piece,
                                .second = (2 * parts - 1 - part) * piece,
                                .length = piece,
                                .has_second = true};
    }
    if (cut->split == CUT_SIZES) {
        for (uint32_t i = 0; i < part; i++)
            begin += cut->sizes[i];
        return (struct cut_run){.begin = begin, .length = cut->sizes[part]};
    }
    uint64_t each = length / parts, rest = length % parts;
    if (cut->split == CUT_EVEN)
        return (struct cut_run){.begin = part * each + min_u64(part, rest),
                                .length = each + (part < rest)};
    uint64_t chunk = each + (rest > 0);
    begin = min_u64(part * chunk, length);
    return (struct cut_run){.begin = begin, .length = min_u64(chunk, length - begin)};
}

bool cut_is_torch_chunk(const struct cut *cut, uint64_t length)
{
    struct cut chunk = *cut;
    bool same = cut->order == CUT_CONTIGUOUS;
    chunk.split = CUT_CHUNK;
    for (uint32_t part = 0; same && part < cut->part_count; part++)
        same = cut_run_of(cut, length, part).length == cut_run_of(&chunk, length, part).length;
    return same;
}
