/* The arrays of stores: whether those of other stores than the first are there, and the same, and
 * whether values are. An array without any value is a folder that is not mounted, or has fill
 * values. Called while opening, by one thread. */
#include "dataset/fields/store_arrays.h"

#include "zarr/chunk/separator.h"
#include "zarr/chunk/stock.h"

#include <inttypes.h>
#include <string.h>

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

enum status stock_refuse(const struct store *store, const struct zarr_array *array,
                         struct error *err)
{
    char own[ZARR_KEY_BYTES], other[ZARR_KEY_BYTES];
    if (zarr_finds_other_separator(store, array, own, other)) {
        struct text text = {0};
        zarr_describe_other_separator(own, other, &text);
        error_set(err, STATUS_INVALID, "%s", text.data);
        text_done(&text);
        return STATUS_INVALID;
    }
    return error_set(err, STATUS_NOT_FOUND,
                     "the metadata is there, and no chunk at all: a folder that is not mounted, or "
                     "a copy without its chunks? If every item is the fill value, and a writer "
                     "left the chunks out, say so: errors.missing_chunk: fill");
}

enum status stock_expect(const struct dataset *dataset, const struct store *store,
                         const struct zarr_array *array, struct error *err)
{
    const struct dataset_private *private = dataset->private;
    if (private->fills_empty || private->missing_is_bad || zarr_has_stock(store, array))
        return STATUS_OK;
    return stock_refuse(store, array, err);
}
