/* Random crops of fields: their layout, and whether those of one group can lie at the same place.
 * Pure; called while opening. */
#include "dataset/open/settle.h"

#include "dataset/fields/slices.h"

#include <inttypes.h>
#include <string.h>

void crops_describe(struct dataset *dataset, size_t i)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    const struct zarr_array *array = &origin->store_fields[0].array;
    struct dataset_field *field = &dataset->fields[i];
    uint64_t wanted[ZARR_MAX_RANK] = {0};
    size_t item_bytes = array->item_bytes;
    if (!origin->is_cropped)
        return;
    for (int axis = 1, k = 0; axis < array->rank; axis++) {
        wanted[axis - 1] = origin->crops[slices_axis(origin, axis)];
        if (slices_drop(origin, axis))
            continue;
        if (wanted[axis - 1] > 0)
            field->shape[k] = wanted[axis - 1];
        k++;
    }
    crop_lay_out(&dataset->private->crops[i], origin->crop_group, array->rank - 1, array->shape + 1,
                 wanted, item_bytes);
    field->crop = &dataset->private->crops[i];
}

static void append_cut(const struct dataset_crop *crop, struct text *out)
{
    for (int k = 0; k < crop->axis_count; k++)
        text_append(out, "%s%" PRIu64 " of %" PRIu64, k ? ", " : "", crop->lengths[k],
                    crop->lengths[k] + crop->choices[k] - 1);
}

static bool same_cut(const struct dataset_crop *a, const struct dataset_crop *b)
{
    size_t bytes = (size_t)a->axis_count * sizeof a->lengths[0];
    return a->axis_count == b->axis_count && memcmp(a->lengths, b->lengths, bytes) == 0 &&
           memcmp(a->choices, b->choices, bytes) == 0;
}

static enum status refuse(const struct dataset_field *a, const struct dataset_field *b,
                          struct error *err)
{
    struct text first = {0}, second = {0};
    append_cut(a->crop, &first);
    append_cut(b->crop, &second);
    enum status status =
        error_set(err, STATUS_INVALID,
                  "field '%s' has random crops of %s, and field '%s' of %s, in one group: crops of "
                  "a group lie at the same place; give one of the two another crop.group than "
                  "%" PRIu32,
                  a->name, first.data, b->name, second.data, a->crop->group);
    text_done(&first);
    text_done(&second);
    return status;
}

enum status crops_check(const struct dataset *dataset, struct error *err)
{
    for (size_t i = 0; i < dataset->field_count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct dataset_field *a = &dataset->fields[k], *b = &dataset->fields[i];
            if (a->crop && b->crop && a->crop->group == b->crop->group &&
                !same_cut(a->crop, b->crop))
                return refuse(a, b, err);
        }
    return STATUS_OK;
}
