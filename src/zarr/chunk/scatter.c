/* See scatter.h: copying boxes of items.
 *
 * Axes are in the order of the destination, so that writes go forward. If the innermost axis is no
 * run of the source, that axis is walked together with the axis along which the source's items are
 * closest. A block of both axes is read and written within a few cache lines.
 */
#include "zarr/chunk/scatter.h"

#include "base/convert.h"
#include "codec/codec.h"

#include <assert.h>
#include <string.h>

enum { BLOCK = 32 };

void scatter_merge(struct scatter *scatter)
{
    int rank = 0;
    assert(scatter->rank >= 0 && scatter->rank <= SCATTER_MAX_RANK);
    for (int i = 0; i < scatter->rank; i++) {
        if (scatter->lengths[i] == 1)
            continue;
        int last = rank - 1;
        bool is_one = last >= 0 && scatter->from[last] == scatter->lengths[i] * scatter->from[i] &&
                      scatter->to[last] == scatter->lengths[i] * scatter->to[i] &&
                      scatter->entries[last] == scatter->lengths[i] * scatter->entries[i];
        int at = is_one ? last : rank++;
        scatter->lengths[at] = (is_one ? scatter->lengths[at] : 1) * scatter->lengths[i];
        scatter->from[at] = scatter->from[i];
        scatter->to[at] = scatter->to[i];
        scatter->entries[at] = scatter->entries[i];
    }
    scatter->rank = rank;
}

/* Whether the innermost axis is a run on that side. */
static bool ends_in_run(const struct scatter *scatter, const size_t *strides)
{
    return scatter->rank > 0 && strides[scatter->rank - 1] == scatter->item_bytes;
}

bool scatter_is_run(const struct scatter *scatter)
{
    return scatter->rank == 0 || (scatter->rank == 1 && ends_in_run(scatter, scatter->from) &&
                                  ends_in_run(scatter, scatter->to));
}

size_t scatter_bytes(const struct scatter *scatter)
{
    size_t bytes = scatter->item_bytes;
    for (int i = 0; i < scatter->rank; i++)
        bytes *= scatter->lengths[i];
    return bytes;
}

/* A walk over the axes that are not handled in one go. */
struct walk {
    int rank;
    uint64_t lengths[SCATTER_MAX_RANK], position[SCATTER_MAX_RANK];
    size_t from[SCATTER_MAX_RANK], to[SCATTER_MAX_RANK], entries[SCATTER_MAX_RANK];
    size_t from_at, to_at; /* byte offsets of the present position */
    size_t entry;          /* in a normal's tables */
};

/* Over all axes but the innermost and `axis` (-1: none). */
static struct walk walk_begin(const struct scatter *scatter, int axis)
{
    struct walk walk = {0};
    for (int i = 0; i + 1 < scatter->rank; i++) {
        if (i == axis)
            continue;
        walk.lengths[walk.rank] = scatter->lengths[i];
        walk.from[walk.rank] = scatter->from[i];
        walk.entries[walk.rank] = scatter->entries[i];
        walk.to[walk.rank++] = scatter->to[i];
    }
    return walk;
}

static bool walk_next(struct walk *walk)
{
    for (int i = walk->rank - 1; i >= 0; i--) {
        walk->from_at += walk->from[i];
        walk->to_at += walk->to[i];
        walk->entry += walk->entries[i];
        if (++walk->position[i] < walk->lengths[i])
            return true;
        walk->from_at -= walk->lengths[i] * walk->from[i];
        walk->to_at -= walk->lengths[i] * walk->to[i];
        walk->entry -= walk->lengths[i] * walk->entries[i];
        walk->position[i] = 0;
    }
    return false;
}

/* `count` items, at fixed distances on both sides. Inlined with the item's size as a constant. */
static inline __attribute__((always_inline)) void copy_line(uint64_t count, size_t item_bytes,
                                                            const unsigned char *from,
                                                            size_t from_stride, unsigned char *to,
                                                            size_t to_stride)
{
    for (uint64_t i = 0; i < count; i++)
        memcpy(to + i * to_stride, from + i * from_stride, item_bytes);
}

struct plane {
    uint64_t rows, columns; /* columns: the destination's innermost axis */
    size_t from_row, from_column, to_row, to_column;
};

static inline __attribute__((always_inline)) void copy_plane(const struct plane *plane,
                                                             size_t item_bytes,
                                                             const unsigned char *from,
                                                             unsigned char *to)
{
    for (uint64_t row = 0; row < plane->rows; row += BLOCK)
        for (uint64_t column = 0; column < plane->columns; column += BLOCK) {
            uint64_t rows = plane->rows - row < BLOCK ? plane->rows - row : BLOCK;
            uint64_t columns = plane->columns - column < BLOCK ? plane->columns - column : BLOCK;
            for (uint64_t i = row; i < row + rows; i++)
                copy_line(columns, item_bytes,
                          from + i * plane->from_row + column * plane->from_column,
                          plane->from_column, to + i * plane->to_row + column * plane->to_column,
                          plane->to_column);
        }
}

static void copy_any_plane(const struct plane *plane, size_t item_bytes, const unsigned char *from,
                           unsigned char *to)
{
    switch (item_bytes) {
    case 1:
        copy_plane(plane, 1, from, to);
        break;
    case 2:
        copy_plane(plane, 2, from, to);
        break;
    case 4:
        copy_plane(plane, 4, from, to);
        break;
    case 8:
        copy_plane(plane, 8, from, to);
        break;
    case 16:
        copy_plane(plane, 16, from, to);
        break;
    default:
        copy_plane(plane, item_bytes, from, to);
    }
}

/* The axis but the innermost along which the source's items are closest, if closer than along that;
 * else -1. */
static int closest_axis(const struct scatter *scatter)
{
    int closest = scatter->rank - 1;
    for (int i = 0; i < scatter->rank; i++)
        if (scatter->from[i] < scatter->from[closest])
            closest = i;
    return closest == scatter->rank - 1 ? -1 : closest;
}

static void copy_planes(const struct scatter *scatter, const unsigned char *source,
                        unsigned char *destination)
{
    int last = scatter->rank - 1, axis = closest_axis(scatter);
    struct plane plane = {.rows = 1,
                          .columns = scatter->lengths[last],
                          .from_column = scatter->from[last],
                          .to_column = scatter->to[last]};
    struct walk walk = walk_begin(scatter, axis);
    if (axis >= 0) {
        plane.rows = scatter->lengths[axis];
        plane.from_row = scatter->from[axis];
        plane.to_row = scatter->to[axis];
    }
    do
        copy_any_plane(&plane, scatter->item_bytes, source + walk.from_at,
                       destination + walk.to_at);
    while (walk_next(&walk));
}

void scatter_copy(const struct scatter *scatter, const void *source, void *destination)
{
    const unsigned char *from = source;
    unsigned char *to = destination;
    if (scatter->rank == 0) {
        memcpy(to, from, scatter->item_bytes);
        return;
    }
    if (!ends_in_run(scatter, scatter->from) || !ends_in_run(scatter, scatter->to)) {
        copy_planes(scatter, from, to);
        return;
    }
    struct walk walk = walk_begin(scatter, -1);
    size_t run_bytes = scatter->lengths[scatter->rank - 1] * scatter->item_bytes;
    do
        memcpy(to + walk.to_at, from + walk.from_at, run_bytes);
    while (walk_next(&walk));
}

enum { CONVERT_ITEMS = NORMAL_ITEMS };

/* Items of one line on their way through the first-level cache: put together where they do not lie
 * so, converted, and put where they belong. */
struct conversion {
    const struct convert *convert;
    const struct zarr_normal *normal; /* NULL: none */
    size_t entry, entry_stride;       /* of the line's first item, and from one to the next */
    size_t swap_bytes;
    size_t from_bytes, from_stride, to_bytes, to_stride;
};

static void convert_line(const struct conversion *line, uint64_t count, const unsigned char *from,
                         unsigned char *to)
{
    unsigned char in[CONVERT_ITEMS * sizeof(uint64_t)], out[CONVERT_ITEMS * sizeof(uint64_t)];
    bool gathers = line->from_stride != line->from_bytes || line->swap_bytes > 1;
    bool spreads = line->to_stride != line->to_bytes;
    if (!gathers && !spreads && !line->normal) {
        convert_items(line->convert, from, count, to);
        return;
    }
    for (uint64_t done = 0; done < count; done += CONVERT_ITEMS) {
        uint64_t items = count - done < CONVERT_ITEMS ? count - done : CONVERT_ITEMS;
        const unsigned char *source = from + done * line->from_stride;
        if (gathers) {
            for (uint64_t i = 0; i < items; i++)
                memcpy(in + i * line->from_bytes, source + i * line->from_stride, line->from_bytes);
            convert_swap(in, items * line->from_bytes, line->swap_bytes);
            source = in;
        }
        unsigned char *target = to + done * line->to_bytes;

        if (spreads)
            target = out;
        if (line->normal)
            normal_items(line->normal, line->convert, line->entry + done * line->entry_stride,
                         line->entry_stride, source, items, target);
        else
            convert_items(line->convert, source, items, target);
        for (uint64_t i = 0; spreads && i < items; i++)
            memcpy(to + (done + i) * line->to_stride, target + i * line->to_bytes, line->to_bytes);
    }
}

void scatter_convert(const struct scatter *scatter, const struct convert *convert,
                     const struct zarr_normal *normal, size_t entry, size_t swap_bytes,
                     const void *source, void *destination)
{
    int last = scatter->rank - 1;
    struct conversion line = {.convert = convert,
                              .normal = normal,
                              .swap_bytes = swap_bytes,
                              .from_bytes = dtype_bytes(convert->from),
                              .to_bytes = dtype_bytes(convert->to)};
    struct walk walk = walk_begin(scatter, -1);
    line.entry_stride = last < 0 ? 0 : scatter->entries[last];
    line.from_stride = last < 0 ? line.from_bytes : scatter->from[last];
    line.to_stride = last < 0 ? line.to_bytes : scatter->to[last];
    do {
        line.entry = entry + walk.entry;
        convert_line(&line, last < 0 ? 1 : scatter->lengths[last],
                     (const unsigned char *)source + walk.from_at,
                     (unsigned char *)destination + walk.to_at);
    } while (walk_next(&walk));
}

/* Repeats the item over `size` bytes, doubling what is already there. */
static void fill_run(const void *item, size_t item_bytes, unsigned char *out, size_t size)
{
    size_t done = item_bytes;
    memcpy(out, item, done);
    while (done < size) {
        size_t count = done < size - done ? done : size - done;
        memcpy(out + done, out, count);
        done += count;
    }
}

/* The runs of the destination: how many one line of the innermost axis is, and how long each is. */
struct line {
    uint64_t count;
    size_t run_bytes, stride;
};

static struct line line_of(const struct scatter *scatter)
{
    int last = scatter->rank - 1;
    if (scatter->rank == 0)
        return (struct line){1, scatter->item_bytes, 0};
    if (ends_in_run(scatter, scatter->to))
        return (struct line){1, scatter->lengths[last] * scatter->item_bytes, 0};
    return (struct line){scatter->lengths[last], scatter->item_bytes, scatter->to[last]};
}

void scatter_fill(const struct scatter *scatter, const void *item, void *destination)
{
    struct walk walk = walk_begin(scatter, -1);
    struct line line = line_of(scatter);
    do
        for (uint64_t i = 0; i < line.count; i++)
            fill_run(item, scatter->item_bytes,
                     (unsigned char *)destination + walk.to_at + i * line.stride, line.run_bytes);
    while (walk_next(&walk));
}

void scatter_swap(const struct scatter *scatter, size_t unit_bytes, void *destination)
{
    struct walk walk = walk_begin(scatter, -1);
    struct line line = line_of(scatter);
    do
        for (uint64_t i = 0; i < line.count; i++)
            convert_swap((unsigned char *)destination + walk.to_at + i * line.stride,
                         line.run_bytes, unit_bytes);
    while (walk_next(&walk));
}
