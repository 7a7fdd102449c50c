/* See frame_array.h. */
#include "dataset/frame_array.h"

#include "base/number.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum status name_array(const struct dataset *dataset, size_t store, const char *option,
                              const char *path, enum status status, struct error *err)
{
    return error_prefix(err, status, "%s: array '%s' of the store %s: ", option, path,
                        dataset_store_text(dataset, store).text);
}

enum status frame_array_name(const struct frame_array *array, enum status status, struct error *err)
{
    const char *path = array->view.path, *prefix = "";

    (void)store_joined_at(array->dataset->private->store, array->store, &prefix);
    return name_array(array->dataset, array->store, array->option,
                      path + (prefix ? strlen(prefix) : 0), status, err);
}

enum status frame_array_init(const struct dataset *dataset, size_t store, const char *option,
                             const struct zarr_node *node, struct frame_array *ret_array,
                             struct error *err)
{
    const uint64_t *first = dataset->store_frames + store;
    struct zarr_view view = {.convert.from = node->array.dtype};
    struct frame_array array = {.dataset = dataset,
                                .option = option,
                                .store = store,
                                .first = first[0],
                                .frames = first[1] - first[0]};
    enum status status = node->status;

    if (status != STATUS_OK)
        error_set(err, status, "%s", node->reason);
    else if (node->array.rank != 1 || node->array.item_length > 0)
        status = error_set(err, STATUS_INVALID,
                           "the array must have one dimension, and numbers as items; the array has "
                           "%d dimension%s",
                           node->array.rank, count_plural((uint64_t)node->array.rank));
    (void)store_joined_at(dataset->private->store, store, &view.prefix);
    if (status == STATUS_OK)
        status = zarr_view_make(&node->array, &view, &array.view, err);
    if (status != STATUS_OK)
        return name_array(dataset, store, option, node->array.path, status, err);
    *ret_array = array;
    return STATUS_OK;
}

enum status frame_array_expect_integers(const struct frame_array *array, struct error *err)
{
    if (dtype_is_integer(array->view.dtype))
        return STATUS_OK;
    return frame_array_name(array,
                            error_set(err, STATUS_INVALID,
                                      "the array must be of integers; the array is of %s",
                                      dtype_name(array->view.dtype)),
                            err);
}

enum status frame_array_expect_bools(const struct frame_array *array, struct error *err)
{
    if (array->view.dtype == DTYPE_BOOL || array->view.dtype == DTYPE_UINT8 ||
        array->view.dtype == DTYPE_INT8)
        return STATUS_OK;
    return frame_array_name(array,
                            error_set(err, STATUS_INVALID,
                                      "the array must be of bool, or of integers of 8 bits; the "
                                      "array is of %s",
                                      dtype_name(array->view.dtype)),
                            err);
}

enum status frame_array_expect_frames(const struct frame_array *array, struct error *err)
{
    uint64_t items = array->view.shape[0];

    if (items == array->frames)
        return STATUS_OK;
    return frame_array_name(
        array,
        error_set(err, STATUS_INVALID,
                  "the array has %" PRIu64 " item%s, and the fields have %" PRIu64
                  " frame%s: there must be one item for each frame",
                  items, count_plural(items), array->frames, count_plural(array->frames)),
        err);
}

/* As many items at once as whole chunks of about 4 MiB have. */
static uint64_t items_at_once(const struct zarr_array *array)
{
    const uint64_t bytes = (uint64_t)4 << 20;
    uint64_t chunks = max_u64(bytes / array->chunk_bytes, 1);

    return min_u64(chunks * array->chunk_shape[0], array->shape[0]);
}

static enum status read_blocks(const struct frame_array *array, struct zarr_chunk_reader *reader,
                               void *items, frame_array_visit *visit, void *argument,
                               struct error *err)
{
    uint64_t most = items_at_once(&array->view), all = array->view.shape[0];
    struct zarr_read_stats stats = {0};
    enum status status = STATUS_OK;

    for (uint64_t first = 0; status == STATUS_OK && first < all; first += most) {
        uint64_t end = min_u64(first + most, all);

        status = zarr_read_samples(reader, &array->view, first, end, items, &stats, err);
        if (status == STATUS_OK)
            status = visit(argument, array, first, end - first, items, err);
    }
    return status;
}

enum status frame_array_read(const struct frame_array *array, frame_array_visit *visit,
                             void *argument, struct error *err)
{
    const struct dataset_private *private = array->dataset->private;
    struct zarr_faults faults = {.missing_is_bad = private->missing_is_bad};
    const struct zarr_array *arrays[] = {&array->view};
    void *items = malloc(items_at_once(&array->view) * array->view.item_bytes);
    struct zarr_chunk_reader *reader = NULL;
    enum status status =
        items ? zarr_chunk_reader_new_with(private->store, arrays, 1, &private->read, &reader, err)
              : error_set(err, STATUS_NO_MEMORY, "no memory to read the array");

    if (status == STATUS_OK) {
        zarr_chunk_reader_use_faults(reader, &faults);
        status = read_blocks(array, reader, items, visit, argument, err);
    }
    zarr_chunk_reader_free(reader);
    free(items);
    return status == STATUS_OK ? STATUS_OK : frame_array_name(array, status, err);
}
