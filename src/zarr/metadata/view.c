/* See view.h. */
#include "zarr/metadata/view.h"

#include "base/size.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Axis `first` of `array` becomes axis 0. */
static void turn_axes(const struct zarr_array *array, int first, struct zarr_array *view)
{
    uint8_t view_axes[ZARR_MAX_RANK]; /* in the view, of each axis of the array */
    for (int axis = 0; axis < ZARR_MAX_RANK; axis++)
        view_axes[axis] = (uint8_t)(axis == first ? 0 : axis < first ? axis + 1 : axis);
    for (int axis = 0; axis < array->rank; axis++) {
        view->shape[view_axes[axis]] = array->shape[axis];
        view->chunk_shape[view_axes[axis]] = array->chunk_shape[axis];
        view->chunk_counts[view_axes[axis]] = array->chunk_counts[axis];
        view->last_lengths[view_axes[axis]] = array->last_lengths[axis];
    }
    for (int i = 0; i < array->rank; i++) {
        view->storage_axes[i] = view_axes[array->storage_axes[i]];
        view->key_axes[i] = view_axes[array->key_axes[i]];
    }
    for (int level = 0; level < array->shard_level_count; level++)
        for (int axis = 0; axis < array->rank; axis++) {
            const struct zarr_shard_level *from = &array->shard_levels[level];
            struct zarr_shard_level *to = &view->shard_levels[level];
            to->counts[view_axes[axis]] = from->counts[axis];
            to->spans[view_axes[axis]] = from->spans[axis];
            to->axes[axis] = view_axes[from->axes[axis]];
        }
}

static enum status convert(const struct convert *convert, struct zarr_array *view,
                           struct error *err)
{
    if (view->item_length > 0 || view->stored_type[0] ||
        !convert_is_possible(view->dtype, convert->to))
        return error_set(
            err, STATUS_INVALID,
            "array '%s': items of %s cannot become %s: that takes integers or floating "
            "point, and float16, bfloat16, float32 or float64",
            view->path, view->stored_type[0] ? view->stored_type : dtype_name(view->dtype),
            dtype_name(convert->to));
    unsigned char fill[DTYPE_MAX_BYTES];
    uint64_t total_bytes;

    if (!size_multiply(view->total_bytes / view->item_bytes, dtype_bytes(convert->to),
                       &total_bytes) ||
        total_bytes > INT64_MAX)
        return error_set(err, STATUS_INVALID,
                         "array '%s': its size does not fit 63 bits as %s items", view->path,
                         dtype_name(convert->to));
    view->convert = *convert;
    memcpy(fill, view->fill, view->item_bytes);
    if (!view->normal)
        convert_items(convert, fill, 1, view->fill);
    view->total_bytes = total_bytes;
    view->item_bytes = dtype_bytes(convert->to);
    view->dtype = convert->to;
    return STATUS_OK;
}

/* The selections' axes are those of the array. The view has fewer items than the array, so sizes
 * fit. */
static void select_indices(const struct zarr_view *from, int rank, struct zarr_array *view)
{
    for (int axis = 0; axis < rank; axis++) {
        const struct zarr_selection *selection = from->selections[axis];
        int to = axis < from->first_axis ? axis + 1 : axis;
        if (!selection)
            continue;
        assert(axis != from->first_axis);
        view->total_bytes = view->total_bytes / view->shape[to] * selection->count;
        view->shape[to] = selection->count;
        view->selections[to] = selection;
    }
}

enum status zarr_view_make(const struct zarr_array *array, const struct zarr_view *view,
                           struct zarr_array *ret_view, struct error *err)
{
    enum status status = STATUS_OK;
    assert(view->first_axis >= 0 && view->first_axis < array->rank);
    *ret_view = *array;
    turn_axes(array, view->first_axis, ret_view);
    select_indices(view, array->rank, ret_view);
    ret_view->normal = view->normal;
    if (view->normal || convert_is_needed(&view->convert))
        status = convert(&view->convert, ret_view, err);
    if (status != STATUS_OK || !view->prefix)
        return status;
    int length = snprintf(ret_view->path, sizeof ret_view->path, "%s%s%s", view->prefix,
                          array->key_path_bytes > 0 ? "/" : "", array->path);
    if (length < 0 || (size_t)length >= sizeof ret_view->path)
        return error_set(err, STATUS_INVALID, "array '%s' of store '%s': the path is too long",
                         array->path, view->prefix);
    ret_view->key_path_bytes += (size_t)length - strlen(array->path);
    return STATUS_OK;
}
