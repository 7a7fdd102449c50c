/* Normalising: what happens to the items of a view beside a cast, while they are put where they
 * belong.
 *
 * An item x, as a number w of the work type (base/convert.h), becomes in this order:
 *
 *     missing   NaN, if w is a missing value
 *     scaling   w * scale + offset, as convert.h says
 *     mean      w - mean, rounded
 *     std       w / std, rounded
 *     dtype     w rounded to the dtype asked for
 *
 * So NumPy says the same: ((x.astype(work) * work(scale) + work(offset) - mean) /
 * std).astype(dtype). Mean and std are tables. An item's entry is found by strides along the view's
 * axes, of which those along which all entries are the same have stride 0.
 *
 * A normal does not change: any thread, and nothing blocks.
 */
#ifndef PENSTOCK_ZARR_METADATA_NORMAL_H
#define PENSTOCK_ZARR_METADATA_NORMAL_H

#include "base/convert.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    NORMAL_MAX_RANK = 8,
    NORMAL_MAX_MISSING = 16,
    NORMAL_ITEMS = 512 /* the most items of one normal_items() */
};

struct zarr_normal {
    enum dtype work; /* float32 or float64 */
    enum dtype from; /* what items are read as: their dtype, or integers of the other sign */
    int missing_count;
    double missing[NORMAL_MAX_MISSING]; /* values that are missing */
    size_t count;                       /* entries of each table */
    void *mean, *std; /* [count] of `work`, owned by who made the normal; NULL: none */
    size_t strides[NORMAL_MAX_RANK]; /* of the view's axes, in entries; the first is 0 */
};

/* The work type of items. */
enum dtype normal_work_type(enum dtype dtype);

/* Whether two normals, which may be NULL, say the same. */
bool normal_same(const struct zarr_normal *a, const struct zarr_normal *b);

/* Appends a text that is equal only for normals that say the same. */
struct text;
void normal_identify(const struct zarr_normal *normal, struct text *out);

/* Turns `count` items (at most NORMAL_ITEMS), one behind another, at `in` into those at `out`.
 * `convert` says dtypes and scaling. The first item's entry of the tables is `entry`, and `stride`
 * is from one to the next. */
void normal_items(const struct zarr_normal *normal, const struct convert *convert, size_t entry,
                  size_t stride, const void *in, size_t count, void *out);

#endif
