/* See frame_array.h. */
#include "dataset/frames/frame_array.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/fields/store_arrays.h"
#include "dataset/threads.h"
#include "dataset/walk.h"

#include <inttypes.h>
#include <stdlib.h>

static enum status name_array(const struct dataset *dataset, size_t store, const char *option,
                              const char *path, enum status status, struct error *err)
{
    return error_prefix(err, status, "%s: array '%s' of the store %s: ", option, path,
                        dataset_store_text(dataset, store).text);
}

enum status frame_array_name(const struct frame_array *array, enum status status, struct error *err)
{
    return name_array(array->dataset, array->store, array->option, array->node->array.path, status,
                      err);
}

enum status frame_array_init(const struct dataset *dataset, size_t store, const char *option,
                             const struct zarr_node *node, struct frame_array *ret_array,
                             struct error *err)
{
    bool has_frames = store < dataset->store_count;
    const uint64_t *first = dataset->store_frames + (has_frames ? store : 0);
    struct zarr_view view = {.convert.from = node->array.dtype};
    struct frame_array array = {.dataset = dataset,
                                .node = node,
                                .option = option,
                                .store = store,
                                .first = first[0],
                                .frames = has_frames ? first[1] - first[0] : 0};
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

enum status frame_array_expect_numbers(const struct frame_array *array, struct error *err)
{
    enum dtype dtype = array->view.dtype;
    if (dtype_is_integer(dtype) || dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64)
        return STATUS_OK;
    return frame_array_name(array,
                            error_set(err, STATUS_INVALID,
                                      "the array must be of integers, float32 or float64; the "
                                      "array is of %s",
                                      dtype_name(dtype)),
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

double frame_array_number(const struct frame_array *array, const void *items, uint64_t i)
{
    enum dtype dtype = array->view.dtype;
    return dtype == DTYPE_FLOAT64   ? ((const double *)items)[i]
           : dtype == DTYPE_FLOAT32 ? (double)((const float *)items)[i]
                                    : (double)dtype_integer(dtype, items, i);
}

/* As many items at once as whole chunks of about 4 MiB have. */
static uint64_t items_at_once(const struct zarr_array *array)
{
    const uint64_t bytes = (uint64_t)4 << 20;
    uint64_t chunks = max_u64(bytes / array->chunk_bytes, 1);
    return min_u64(chunks * array->chunk_shape[0], array->shape[0]);
}

/* Reading
 * ----------------------------------------------------------------------------------------------
 * Blocks are read by several threads, and visited in their turn. */

enum { MOST_BYTES = 256 << 20 }; /* of all threads, unless one alone needs more */

struct reading {
    const struct frame_array *array;
    frame_array_visit *visit;
    void *argument;
    uint64_t at_once; /* items of a block */
    struct walk walk; /* of blocks */
};

static enum status read_block(const struct reading *reading, struct zarr_chunk_reader *reader,
                              uint64_t block, void *items, struct error *err)
{
    const struct zarr_array *array = &reading->array->view;
    uint64_t first = block * reading->at_once;
    struct zarr_read_stats stats = {0};
    return zarr_read_samples(reader, array, first,
                             min_u64(first + reading->at_once, array->shape[0]), items, &stats,
                             err);
}

static enum status visit_block(const struct reading *reading, uint64_t block, const void *items,
                               struct error *err)
{
    uint64_t first = block * reading->at_once;
    uint64_t count = min_u64(reading->at_once, reading->array->view.shape[0] - first);
    return reading->visit(reading->argument, reading->array, first, count, items, err);
}

/* A thread that cannot work fails the block that it takes. */
static void *read_blocks(void *argument)
{
    struct reading *reading = argument;
    const struct zarr_array *array = &reading->array->view;
    const struct dataset_private *private = reading->array->dataset->private;
    struct zarr_faults faults = {.missing_is_bad = private->missing_is_bad};
    void *items = malloc(reading->at_once * array->item_bytes);
    struct zarr_chunk_reader *reader = NULL;
    struct error err;
    uint64_t block;
    error_clear(&err);
    enum status status =
        items ? zarr_chunk_reader_new_with(private->store, &array, 1, &private->read, &reader, &err)
              : error_set(&err, STATUS_NO_MEMORY, "no memory to read the array");
    if (status == STATUS_OK)
        zarr_chunk_reader_use_faults(reader, &faults);
    while (walk_take(&reading->walk, &block)) {
        if (status == STATUS_OK)
            status = read_block(reading, reader, block, items, &err);
        if (walk_turn(&reading->walk, block) && status == STATUS_OK)
            status = visit_block(reading, block, items, &err);
        walk_end(&reading->walk, block, status, &err);
    }
    zarr_chunk_reader_free(reader);
    free(items);
    return NULL;
}

uint64_t frame_array_thread_count(const struct frame_array *array, uint64_t most)
{
    const struct dataset_private *private = array->dataset->private;
    const struct zarr_array *view = &array->view;
    uint64_t bytes = items_at_once(view) * view->item_bytes +
                     zarr_chunk_reader_bytes_with(private->store, &view, 1, &private->read);
    return min_u64(most, max_u64(MOST_BYTES / bytes, 1));
}

enum status frame_array_read(const struct frame_array *array, frame_array_visit *visit,
                             void *argument, struct error *err)
{
    if (!array->may_be_empty && array->view.shape[0] > 0) {
        enum status status =
            stock_expect(array->dataset, array->dataset->private->store, &array->view, err);
        if (status != STATUS_OK)
            return frame_array_name(array, status, err);
    }
    struct reading reading = {.array = array,
                              .visit = visit,
                              .argument = argument,
                              .at_once = items_at_once(&array->view)};
    uint64_t blocks = reading.at_once ? size_divide_up(array->view.shape[0], reading.at_once) : 0;
    uint64_t threads =
        frame_array_thread_count(array, dataset_thread_count(array->dataset, blocks));

    walk_init(&reading.walk, blocks);
    threads_run("frames", threads, read_blocks, &reading);
    enum status status = walk_done(&reading.walk, err);
    return status == STATUS_OK ? STATUS_OK : frame_array_name(array, status, err);
}
