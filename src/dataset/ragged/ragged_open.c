/* The arrays of ragged fields in each store: views, which are checked to fit together. Called while
 * opening, by one thread. */
#include "dataset/ragged/ragged_open.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/fields/store_arrays.h"
#include "dataset/join.h"
#include "dataset/ragged/panel_open.h"
#include "dataset/ragged/ragged_vlen.h"
#include "zarr/hierarchy/sparse_group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sparse groups
 * ---------------------------------------------------------------------------------------------- */

static enum status check_encoding(const struct ragged_origin *origin,
                                  const struct zarr_sparse_group *group, struct error *err)
{
    if (strcmp(group->encoding, "csc_matrix") == 0)
        return error_set(err, STATUS_INVALID,
                         "group '%s' is a csc_matrix, whose items lie column by column: samples "
                         "are rows; write the matrix anew as CSR (anndata: adata.X = "
                         "adata.X.tocsr())",
                         origin->group);
    if (group->encoding[0] && strcmp(group->encoding, "csr_matrix") != 0)
        return error_set(err, STATUS_INVALID,
                         "group '%s' has the encoding-type '%s': only csr_matrix is read",
                         origin->group, group->encoding);
    return STATUS_OK;
}

static enum status read_group(const struct dataset *dataset, size_t store,
                              struct ragged_origin *origin, struct error *err)
{
    struct dataset_deliver_spec *deliver = &origin->deliver;
    struct zarr_sparse_group group;
    size_t at = dataset_store_at(origin->own_store, store);
    const char *name;
    enum status status = zarr_sparse_group_read(store_joined_at(dataset->private->store, at, &name),
                                                dataset->private->hierarchies[at]->format,
                                                origin->group, &group, err);
    if (status == STATUS_OK)
        status = check_encoding(origin, &group, err);
    if (status != STATUS_OK || group.column_count == 0)
        return status;
    origin->column_total =
        store == 0 ? group.column_count : min_u64(origin->column_total, group.column_count);
    if (deliver->form != RAGGED_DENSE || origin->panel)
        return STATUS_OK;
    if (deliver->dense_rank == 0) {
        deliver->dense_rank = 1;
        deliver->dense_shape[0] = group.column_count;
    }
    if (deliver->dense_rank == 1 && deliver->dense_shape[0] < group.column_count)
        return error_set(err, STATUS_INVALID,
                         "deliver.dense has %" PRIu64 " cells, and the matrix of group '%s' has "
                         "%" PRIu64 " columns in the store %s: give a larger shape",
                         deliver->dense_shape[0], origin->group, group.column_count,
                         dataset_store_text(dataset, store).text);
    return STATUS_OK;
}

static enum status check_tensor(const struct ragged_origin *origin, struct error *err)
{
    const struct dataset_deliver_spec *deliver = &origin->deliver;
    uint64_t cells = 1;
    if (deliver->dense_rank == 0)
        return error_set(err, STATUS_INVALID,
                         "deliver: dense takes a shape, which no attribute gives: {dense: [N, "
                         "...]}");
    if ((size_t)deliver->dense_rank != origin->index_count)
        return error_set(err, STATUS_INVALID,
                         "deliver.dense has %d dimension%s, and ragged.index has %zu column%s: "
                         "there is one column for each dimension",
                         deliver->dense_rank, deliver->dense_rank == 1 ? "" : "s",
                         origin->index_count, origin->index_count == 1 ? "" : "s");
    for (int axis = 0; axis < deliver->dense_rank; axis++)
        if (__builtin_mul_overflow(cells, deliver->dense_shape[axis], &cells) || cells > UINT32_MAX)
            return error_set(err, STATUS_INVALID, "deliver.dense has more than %" PRIu32 " cells",
                             UINT32_MAX);
    return STATUS_OK;
}

enum status ragged_settle_forms(struct dataset *dataset, const struct dataset_options *options,
                                struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t r = 0; r < dataset->ragged_count && status == STATUS_OK; r++) {
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        for (size_t s = 0; origin->is_group && status == STATUS_OK && s < dataset->store_count; s++)
            status = read_group(dataset, s, origin, err);
        if (status == STATUS_OK && origin->panel)
            status = panel_settle(dataset, options, origin, err);
        if (status == STATUS_OK && origin->deliver.form == RAGGED_DENSE)
            status = check_tensor(origin, err);
        if (status != STATUS_OK)
            error_prefix(err, status, "field '%s': ", origin->name);
    }
    return status;
}

/* Arrays
 * ---------------------------------------------------------------------------------------------- */

static enum status open_array(const struct dataset *dataset, const struct ragged_origin *origin,
                              struct ragged_array *array, const struct convert *convert,
                              bool may_be_empty, struct error *err)
{
    size_t stores = dataset->store_count;
    enum status status = STATUS_OK;
    array->views = calloc(stores, sizeof *array->views);
    array->versions = calloc(stores, sizeof *array->versions);
    if (!array->views || !array->versions)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the arrays of a ragged field");
    for (size_t s = 0; s < stores && status == STATUS_OK; s++) {
        struct zarr_view view = {.convert = *convert};
        const struct zarr_node *node;
        size_t at = array == &origin->index ? s : dataset_store_at(origin->own_store, s);
        (void)store_joined_at(dataset->private->store, at, &view.prefix);
        status = store_fields_find(dataset, at, array->node->array.path, may_be_empty, &node, err);
        if (status == STATUS_OK) {
            view.convert.from = node->array.dtype;
            status = zarr_view_make(&node->array, &view, &array->views[s], err);
        }
        if (status == STATUS_OK)
            status = store_fields_compare(dataset, s, origin->name, &array->views[0],
                                          &array->views[s], err);
    }
    return status;
}

/* All columns have as many items. */
static enum status count_items(const struct dataset *dataset, struct ragged_origin *origin,
                               struct error *err)
{
    origin->first_item = calloc(dataset->store_count + 1, sizeof *origin->first_item);
    if (!origin->first_item)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the arrays of a ragged field");
    for (size_t s = 0; s < dataset->store_count; s++) {
        const struct zarr_array *first = &origin->columns[0].views[s];
        for (size_t c = 1; c < origin->column_count; c++) {
            const struct zarr_array *other = &origin->columns[c].views[s];
            if (other->shape[0] != first->shape[0])
                return error_set(err, STATUS_INVALID,
                                 "columns differ in their number of items: array '%s' has %" PRIu64
                                 ", array '%s' has %" PRIu64
                                 "; one of them was written for another dataset, or only in part",
                                 first->path, first->shape[0], other->path, other->shape[0]);
        }
        if (__builtin_add_overflow(origin->first_item[s], first->shape[0],
                                   &origin->first_item[s + 1]) ||
            origin->first_item[s + 1] > INT64_MAX)
            return error_set(err, STATUS_INVALID, "there are more items than can be counted");
    }
    return STATUS_OK;
}

/* Values of variable length are measured by ragged_vlen.c. */
static enum status check_hold_limit(const struct dataset *dataset,
                                    const struct ragged_origin *origin, struct error *err)
{
    uint64_t bytes = 0, limit = dataset->private->hold_limit_bytes;
    for (size_t c = 0; c < origin->column_count; c++)
        bytes = add_sat(bytes, mul_sat(origin->first_item[dataset->store_count],
                                       zarr_array_sample_bytes(&origin->columns[c].views[0])));
    if (bytes <= limit)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "its items take %s, and joined arrays are held whole: raise "
                     "dataset.hold_limit (%s)",
                     size_format(bytes).text, size_format(limit).text);
}

static enum status open_stores(const struct dataset *dataset, struct ragged_origin *origin,
                               struct error *err)
{
    const struct convert as_stored = {0};
    enum status status = open_array(dataset, origin, &origin->offsets, &as_stored, false, err);
    for (size_t c = 0; c < origin->column_count && status == STATUS_OK; c++) {
        bool is_values = origin->has_values && c + 1 == origin->column_count;
        status = open_array(dataset, origin, &origin->columns[c],
                            is_values ? &origin->convert : &as_stored, true, err);
    }
    if (status == STATUS_OK && origin->index.node)
        status = open_array(dataset, origin, &origin->index, &as_stored, false, err);
    if (status == STATUS_OK && origin->given.node)
        status = open_array(dataset, origin, &origin->given, &as_stored, false, err);
    if (status == STATUS_OK)
        status = origin->is_vlen ? ragged_vlen_measure(dataset, origin, err)
                                 : count_items(dataset, origin, err);
    if (status == STATUS_OK && origin->is_held && !origin->is_vlen)
        status = check_hold_limit(dataset, origin, err);
    return status;
}

enum status ragged_open_stores(struct dataset *dataset, struct error *err)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        enum status status = open_stores(dataset, origin, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "field '%s': ", origin->name);
    }
    return STATUS_OK;
}

bool ragged_has_items(const struct ragged_origin *origin, size_t store)
{
    return origin->is_vlen || origin->column_count == 0 ||
           origin->columns[0].views[store].shape[0] > 0;
}

static uint64_t store_entries(const struct ragged_origin *origin, size_t store)
{
    return origin->offsets.views[store].shape[0] - (origin->is_vlen ? 0 : 1);
}

uint64_t ragged_entries_before(const struct ragged_origin *origin, size_t store)
{
    uint64_t count = 0;
    for (size_t s = 0; s < store; s++)
        count += store_entries(origin, s);
    return count;
}

const struct zarr_array *ragged_counted(const struct ragged_origin *origin, size_t store)
{
    return origin->index.node ? &origin->index.views[store] : &origin->offsets.views[store];
}

uint64_t ragged_store_frames(const struct ragged_origin *origin, size_t store)
{
    return origin->index.node ? origin->index.views[store].shape[0] : store_entries(origin, store);
}

struct join ragged_join(const struct ragged_origin *origin, size_t store)
{
    return (struct join){.index = &origin->index.views[store],
                         .array = &origin->offsets.views[store],
                         .elements = store_entries(origin, store),
                         .first = ragged_entries_before(origin, store),
                         .unit = origin->is_vlen ? " values" : " offsets but the last"};
}

void ragged_origin_free(struct ragged_origin *origin)
{
    free(origin->offsets.views);
    free(origin->offsets.versions);
    free(origin->index.views);
    free(origin->index.versions);
    for (size_t c = 0; c < RAGGED_MAX_COLUMNS; c++) {
        free(origin->columns[c].views);
        free(origin->columns[c].versions);
    }
    free(origin->given.views);
    free(origin->given.versions);
    free(origin->first_item);
    free(origin->beyond);
    free(origin->lengths);
    free(origin->scanned);
    free(origin->list.bytes);
    panel_free(origin->panel);
}
