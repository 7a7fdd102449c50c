/* The arrays that fields are made of, in each store: views, which are checked to fit together.
 * Called while opening, by one thread. */
#include "dataset/open/settle.h"

#include "base/size.h"
#include "dataset/fields/slices.h"
#include "dataset/fields/store_arrays.h"
#include "dataset/ragged/ragged_open.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The index or coordinate of a joined field. */
static enum status make_index(const struct dataset *dataset, size_t store,
                              const struct field_origin *origin, struct error *err)
{
    struct store_field *here = &origin->store_fields[store];
    const struct zarr_node *index = NULL;
    struct zarr_view view = {0};
    enum status status =
        store_fields_find(dataset, store, origin->index->array.path, false, &index, err);
    (void)store_joined_at(dataset->private->store, store, &view.prefix);
    if (status == STATUS_OK)
        status = zarr_view_make(&index->array, &view, &here->index, err);
    if (status == STATUS_OK)
        status = store_fields_compare(dataset, store, origin->name, &origin->store_fields[0].index,
                                      &here->index, err);
    if (status == STATUS_OK && store > 0 && origin->own_store == 0)
        here->first_element = here[-1].first_element + here[-1].array.shape[0];
    return status;
}

static enum status make_store_field(const struct dataset *dataset, size_t store,
                                    const struct field_origin *origin, struct error *err)
{
    struct store_field *here = &origin->store_fields[store];
    const struct zarr_node *array;
    struct zarr_view view = {
        .first_axis = origin->axis, .convert = origin->convert, .normal = origin->normal};
    size_t at = dataset_store_at(origin->own_store, store);
    enum status status =
        store_fields_find(dataset, at, origin->array->array.path, false, &array, err);
    (void)store_joined_at(dataset->private->store, at, &view.prefix);
    if (status == STATUS_OK && array->array.rank != origin->array->array.rank)
        return store_fields_compare(dataset, store, origin->name, &origin->store_fields[0].array,
                                    &array->array, err);
    if (status != STATUS_OK)
        view.convert.from = DTYPE_NONE;
    else if (array->array.dtype != origin->array->array.dtype)
        view.convert.from = array->array.dtype; /* else the other sign's perhaps */
    if (status == STATUS_OK)
        status = slices_select(origin, &array->array, here, &view, err);
    if (status == STATUS_OK)
        status = zarr_view_make(&array->array, &view, &here->array, err);
    if (status == STATUS_OK)
        status = store_fields_compare(dataset, store, origin->name, &origin->store_fields[0].array,
                                      &here->array, err);
    if (status == STATUS_OK && at > 0 && origin->own_store == 0)
        status = encoding_check(dataset, store, origin, array, err);
    return status != STATUS_OK || !origin->index ? status : make_index(dataset, store, origin, err);
}

/* What the samples of a field are counted by: an array, and how many the array says there are. */
struct counted {
    const char *field, *path;
    uint64_t samples;
    bool has_own_store;
    bool by_offsets; /* the array has one item more */
};

static struct counted count_field(const struct field_origin *origin, size_t store)
{
    const struct store_field *here = &origin->store_fields[store];
    const struct zarr_array *array = origin->index ? &here->index : &here->array;
    return (struct counted){.field = origin->name,
                            .path = array->path,
                            .samples = array->shape[0],
                            .has_own_store = origin->own_store > 0 && !origin->index};
}

static struct counted count_ragged(const struct ragged_origin *origin, size_t store)
{
    return (struct counted){.field = origin->name,
                            .path = ragged_counted(origin, store)->path,
                            .samples = ragged_store_frames(origin, store),
                            .has_own_store = origin->own_store > 0 && !origin->index.node,
                            .by_offsets = !origin->is_vlen && !origin->index.node};
}

/* Each counts as many as the first one, which it sets if there was none. */
static enum status compare_counts(struct counted *first, const struct counted *other,
                                  struct error *err)
{
    if (!first->field)
        *first = *other;
    if (other->samples == first->samples)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "fields differ in their number of samples: '%s' (array '%s') has %" PRIu64
                     ", '%s' (array '%s') has %" PRIu64 "%s%s",
                     first->field, first->path, first->samples, other->field, other->path,
                     other->samples,
                     first->by_offsets || other->by_offsets
                         ? "; offsets have one item more than there are samples"
                         : "",
                     first->has_own_store != other->has_own_store
                         ? "; a field with a store of its own has an item for each frame of "
                           "dataset.uri, or finds them by align"
                         : "");
}

static enum status count_samples(const struct dataset *dataset, size_t store, struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct counted first = {0}, other;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < dataset->field_count && status == STATUS_OK; i++) {
        if (!private->origins[i].array)
            continue;
        other = count_field(&private->origins[i], store);
        status = compare_counts(&first, &other, err);
    }
    for (size_t r = 0; r < dataset->ragged_count && status == STATUS_OK; r++) {
        other = count_ragged(&private->ragged_origins[r], store);
        status = compare_counts(&first, &other, err);
    }
    if (status != STATUS_OK)
        return status;
    private->first_frame[store + 1] = private->first_frame[store] + first.samples;
    if (private->first_frame[store + 1] < first.samples)
        return error_set(err, STATUS_INVALID, "the stores have more samples than can be counted");
    return STATUS_OK;
}

/* Arrays of one store: of fields, and of columns of ragged fields. */
static size_t count_arrays(const struct dataset *dataset)
{
    size_t count = 0;
    for (size_t i = 0; i < dataset->field_count; i++)
        count += dataset->private->origins[i].array != NULL;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        count += dataset->private->ragged_origins[r].column_count +
                 (dataset->private->ragged_origins[r].index.node != NULL);
    return count;
}

enum status store_fields_settle(struct dataset *dataset, struct error *err)
{
    struct dataset_private *private = dataset->private;
    size_t arrays = count_arrays(dataset);
    enum status status = STATUS_OK;
    if (private->store_count * arrays > DATASET_MAX_STORE_FIELDS)
        return error_set(err, STATUS_INVALID,
                         "%zu stores with %zu array%s each: at most %d arrays in all can be read",
                         private->store_count, arrays, count_plural(arrays),
                         DATASET_MAX_STORE_FIELDS);
    for (size_t i = 0; i < dataset->field_count; i++) {
        struct field_origin *origin = &private->origins[i];
        if (!origin->array)
            continue;
        origin->store_fields = calloc(private->store_count, sizeof *origin->store_fields);
        if (!origin->store_fields)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the arrays of field '%s'",
                             origin->name);
        for (size_t s = 0; status == STATUS_OK && s < private->store_count; s++)
            status = make_store_field(dataset, s, origin, err);
        if (status != STATUS_OK)
            return status;
    }
    status = ragged_open_stores(dataset, err);
    for (size_t s = 0; status == STATUS_OK && s < private->store_count; s++)
        status = count_samples(dataset, s, err);
    return status;
}
