/* Offsets of ragged fields: checked, and numbered through all stores. Pure; any thread. */
#include "dataset/ragged/ragged_offsets.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

/* "-3", also of uint64 beyond int64. */
struct value_text {
    char text[32];
};
static struct value_text value_text(enum dtype dtype, int64_t value)
{
    struct value_text out;
    snprintf(out.text, sizeof out.text, dtype == DTYPE_UINT64 ? "%" PRIu64 : "%" PRId64, value);
    return out;
}

static enum status refuse(const struct zarr_array *view, uint64_t position, int64_t value,
                          int64_t before, struct error *err)
{
    struct value_text here = value_text(view->dtype, value);
    if (position == 0)
        return error_set(err, STATUS_INVALID,
                         "array '%s': item 0 is %s: offsets begin with 0, the first item of the "
                         "store; write the array anew, each offset less the first one",
                         view->path, here.text);
    return error_set(err, STATUS_INVALID,
                     "array '%s': item %" PRIu64 " is %s, and the one before is %s: offsets never "
                     "fall; write the array anew (np.cumsum of the lengths, with 0 in front)",
                     view->path, position, here.text, value_text(view->dtype, before).text);
}

static enum status check_last(const struct ragged_origin *origin, size_t store, uint64_t last,
                              struct error *err)
{
    const struct zarr_array *view = &origin->offsets.views[store];
    const struct zarr_array *column = &origin->columns[0].views[store];
    if (last == column->shape[0])
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "array '%s' ends with %" PRIu64 ", and array '%s' has %" PRIu64
                     " item%s: the last offset is the number of items; one of the arrays was "
                     "written for another dataset, or only in part",
                     view->path, last, column->path, column->shape[0],
                     column->shape[0] == 1 ? "" : "s");
}

static enum status take(const struct zarr_array *view, uint64_t base, const void *items,
                        uint64_t *out, struct error *err)
{
    int64_t before = 0;
    for (uint64_t i = 0; i < view->shape[0]; i++) {
        int64_t value = dtype_integer(view->dtype, items, i);
        if (value < before || (i == 0 && value != 0))
            return refuse(view, i, value, before, err);
        out[i] = base + (uint64_t)value;
        before = value;
    }
    return STATUS_OK;
}

enum status ragged_take_offsets(const struct ragged_origin *origin, size_t store, const void *items,
                                uint64_t *out, struct error *err)
{
    const struct zarr_array *view = &origin->offsets.views[store];
    enum status status = take(view, origin->first_item[store], items, out, err);
    return status == STATUS_OK ? check_last(origin, store, out[view->shape[0] - 1] - out[0], err)
                               : status;
}

enum status ragged_check_given(const struct ragged_origin *origin, size_t store, struct error *err)
{
    const struct zarr_array *view = &origin->given.views[store];
    const struct zarr_array *values = &origin->columns[0].views[store];
    if (view->shape[0] == values->shape[0] + 1)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "array '%s' has %" PRIu64 " offsets, and array '%s' has %" PRIu64
                     " values: there is one offset more than values; one of the arrays was written "
                     "for another dataset, or only in part",
                     view->path, view->shape[0], values->path, values->shape[0]);
}

enum status ragged_take_given(struct ragged_origin *origin, size_t store, const void *items,
                              uint64_t *out, struct error *err)
{
    const struct zarr_array *view = &origin->given.views[store];
    enum status status = take(view, origin->first_item[store], items, out, err);
    if (status == STATUS_OK)
        origin->first_item[store + 1] = out[view->shape[0] - 1];
    return status;
}

uint64_t ragged_hash_offsets(const uint64_t *offsets, uint64_t entry_count, const int64_t *entries,
                             uint64_t frame_count)
{
    uint64_t hash = XXH3_64bits(offsets, (entry_count + 1) * sizeof *offsets);
    return entries ? XXH3_64bits_withSeed(entries, frame_count * sizeof *entries, hash) : hash;
}
