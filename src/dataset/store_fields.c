/* The arrays that fields are made of, in each store: views, which are checked to fit together.
 * Called while opening, by one thread. */
#include "dataset/dataset_internal.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store_text dataset_store_text(const struct dataset *dataset, size_t i)
{
    struct store_text out;
    const char *name;
    const struct store *store = store_joined_at(dataset->private->store, i, &name);

    snprintf(out.text, sizeof out.text, "'%.250s'", store_uri(store));
    return out;
}

enum status store_fields_find(const struct dataset *dataset, size_t store, const char *path,
                              bool may_be_empty, const struct zarr_node **ret_node,
                              struct error *err)
{
    const struct zarr_node *node = zarr_hierarchy_find(dataset->private->hierarchies[store], path);

    if (!node)
        return error_set(err, STATUS_NOT_FOUND,
                         "store %s has no array '%s', which %s has: joined stores have the same "
                         "arrays",
                         dataset_store_text(dataset, store).text, path,
                         dataset_store_text(dataset, 0).text);
    bool is_fine = node->status == STATUS_OK ||
                   zarr_array_has_values(&node->array) || /* see store_fields_compare() */
                   (may_be_empty && zarr_array_lacks_items(&node->array));
    if (!is_fine)
        return error_set(err, node->status, "store %s: array '%s': %s",
                         dataset_store_text(dataset, store).text, path, node->reason);
    *ret_node = node;
    return STATUS_OK;
}

static void describe_items(const struct zarr_array *array, struct text *out)
{
    text_append(out, "%s items [",
                array->stored_type[0] ? array->stored_type : dtype_name(array->dtype));
    for (int i = 0; i < array->rank; i++)
        text_append(out, i ? ", %" PRIu64 : "N", array->shape[i]);
    text_append(out, "]");
}

static bool same_items(const struct zarr_array *a, const struct zarr_array *b)
{
    bool same = a->dtype == b->dtype && a->item_bytes == b->item_bytes && a->rank == b->rank &&
                a->convert.from == b->convert.from && strcmp(a->stored_type, b->stored_type) == 0;

    for (int i = 1; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

/* Both are views; `b` of `store`, `a` of the first one. */
enum status store_fields_compare(const struct dataset *dataset, size_t store, const char *field,
                                 const struct zarr_array *a, const struct zarr_array *b,
                                 struct error *err)
{
    struct text first = {0}, other = {0};

    if (same_items(a, b))
        return STATUS_OK;
    describe_items(a, &first);
    describe_items(b, &other);
    error_set(err, STATUS_INVALID,
              "field '%s' differs between the stores %s and %s: %s there, %s here", field,
              dataset_store_text(dataset, 0).text, dataset_store_text(dataset, store).text,
              first.data, other.data);
    text_done(&first);
    text_done(&other);
    return STATUS_INVALID;
}

static enum status make_store_field(const struct dataset *dataset, size_t store,
                                    const struct field_origin *origin, struct error *err)
{
    struct store_field *here = &origin->store_fields[store];
    const struct zarr_node *array, *index = NULL;
    struct zarr_view view = {
        .first_axis = origin->axis, .convert = origin->convert, .normal = origin->normal};
    enum status status =
        store_fields_find(dataset, store, origin->array->array.path, false, &array, err);

    (void)store_joined_at(dataset->private->store, store, &view.prefix);
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
    if (status == STATUS_OK && store > 0)
        status = encoding_check(dataset, store, origin, array, err);
    if (status != STATUS_OK || !origin->index)
        return status;
    view.first_axis = 0;
    view.convert = (struct convert){0};
    view.normal = NULL;
    memset(view.selections, 0, sizeof view.selections);
    status = store_fields_find(dataset, store, origin->index->array.path, false, &index, err);
    if (status == STATUS_OK)
        status = zarr_view_make(&index->array, &view, &here->index, err);
    if (status == STATUS_OK)
        status = store_fields_compare(dataset, store, origin->name, &origin->store_fields[0].index,
                                      &here->index, err);
    if (status == STATUS_OK && store > 0)
        here->first_element = here[-1].first_element + here[-1].array.shape[0];
    return status;
}

/* What the samples of a field are counted by: an array, and how many the array says there are. */
struct counted {
    const char *field, *path;
    uint64_t samples;
    bool by_offsets; /* the array has one item more */
};

static struct counted count_field(const struct field_origin *origin, size_t store)
{
    const struct store_field *here = &origin->store_fields[store];
    const struct zarr_array *array = origin->index ? &here->index : &here->array;

    return (struct counted){.field = origin->name, .path = array->path, .samples = array->shape[0]};
}

static struct counted count_ragged(const struct ragged_origin *origin, size_t store)
{
    return (struct counted){.field = origin->name,
                            .path = ragged_counted(origin, store)->path,
                            .samples = ragged_store_frames(origin, store),
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
                     ", '%s' (array '%s') has %" PRIu64 "%s",
                     first->field, first->path, first->samples, other->field, other->path,
                     other->samples,
                     first->by_offsets || other->by_offsets
                         ? "; offsets have one item more than there are samples"
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
