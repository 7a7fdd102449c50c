/* Views of arrays: the same chunks, seen with another axis first, with some of the indices along
 * other axes, with converted items, or with a store's name in front of the path.
 *
 * A view is a `struct zarr_array`, and is read like one (chunk.h). Shape, chunk grid, dtype, item
 * size, fill value and total size are the view's. Chunks that hold nothing of the view are not
 * read. Chunks are found, decoded and byte-swapped as the array says, then converted. Pure; any
 * thread.
 */
#ifndef PENSTOCK_ZARR_METADATA_VIEW_H
#define PENSTOCK_ZARR_METADATA_VIEW_H

#include "base/convert.h"
#include "zarr/metadata/array.h"

struct zarr_view {
    int first_axis;         /* of the array: becomes axis 0; the other axes keep their order */
    struct convert convert; /* `from` is the array's dtype; `to` DTYPE_NONE: no conversion */
    /* The indices along each of the array's axes that the view has; NULL: all. Not of the first
     * axis. Borrowed, as long as the view. */
    const struct zarr_selection *selections[ZARR_MAX_RANK];
    /* With a conversion: how items are normalised; NULL: not. Borrowed, as long as the view. */
    const struct zarr_normal *normal;
    const char *prefix; /* in front of the path, and so of keys, with a '/' behind; NULL: none */
};

/* Makes a view of `array`. `array` need not be kept, but its codecs must be.
 * `first_axis` is below the rank. INVALID: the path becomes too long, an item cannot be converted
 * so, or an item's size overflows. */
MUST_USE enum status zarr_view_make(const struct zarr_array *array, const struct zarr_view *view,
                                    struct zarr_array *ret_view, struct error *err);

#endif
