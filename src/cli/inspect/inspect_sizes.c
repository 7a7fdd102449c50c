/* Sizes of arrays in the store. Sizes of few chunks are added up; sizes of many are estimated from
 * chunks spread evenly over the array. */
#include "cli/inspect/inspect.h"

#include "base/number.h"
#include "zarr/metadata/array.h"

#include <assert.h>
#include <stdlib.h>

enum {
    LISTED_MOST = 1000, /* values of one array that are added up, where that takes requests */
    ASKED_MOST = 32,    /* chunks of one array, of those that lie behind a network */
    ASKED_LEAST = 4,
    ASKED_IN_ALL = 1024,
};

/* An array's values: shards, or chunks where there are none. */
struct grid {
    int rank;
    uint64_t counts[ZARR_MAX_RANK]; /* of values along each axis */
    uint64_t spans[ZARR_MAX_RANK];  /* of chunks, that a value has along it */
    uint64_t count;
};

static struct grid grid_of(const struct zarr_array *array)
{
    struct grid grid = {.rank = array->rank, .count = 1};
    uint64_t shape[ZARR_MAX_RANK];
    zarr_array_shard_shape(array, shape);
    for (int i = 0; i < grid.rank; i++) {
        grid.counts[i] = (array->shape[i] + shape[i] - 1) / shape[i];
        grid.spans[i] = shape[i] / array->chunk_shape[i];
        grid.count *= grid.counts[i];
    }
    return grid;
}

/* The store's key of the `number`-th value. */
static void value_key(const struct zarr_array *array, const struct grid *grid, uint64_t number,
                      char ret_key[ZARR_KEY_BYTES])
{
    uint64_t index[ZARR_MAX_RANK];
    for (int i = grid->rank - 1; i >= 0; i--) {
        assert(grid->counts[i] > 0); /* no array has an axis of no length */
        index[i] = number % grid->counts[i] * grid->spans[i];
        number /= grid->counts[i];
    }
    zarr_chunk_key(array, index, ret_key);
}

/* Asks for the sizes of up to `most` values. A missing value has no size. */
static enum status ask(const struct store *store, const struct zarr_array *array, uint64_t most,
                       struct stored_size *ret_size, struct error *err)
{
    const struct grid grid = grid_of(array);
    uint64_t asked = min_u64(grid.count, most), sum = 0;
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < asked && status == STATUS_OK; i++) {
        char key[ZARR_KEY_BYTES];
        struct store_info info = {0};
        value_key(array, &grid, (uint64_t)((unsigned __int128)grid.count * i / asked), key);
        status = store_stat(store, key, &info, err);
        if (status == STATUS_NOT_FOUND)
            status = STATUS_OK;
        sum += info.bytes;
    }
    if (status == STATUS_OK && asked < grid.count)
        sum = (uint64_t)((double)sum / (double)asked * (double)grid.count);
    if (status == STATUS_OK)
        *ret_size = (struct stored_size){sum, asked < grid.count};
    return status;
}

/* Members of a structured dtype share their chunks. */
static uint64_t own_share(const struct zarr_array *array, uint64_t bytes)
{
    if (array->stored_item_bytes <= array->item_bytes)
        return bytes;
    return (uint64_t)((double)bytes * (double)array->item_bytes / (double)array->stored_item_bytes);
}

static void measure(struct inspection *inspection, size_t i, uint64_t most)
{
    const struct zarr_node *node = &inspection->hierarchy->nodes[i];
    struct stored_size *size = &inspection->stored[i];
    struct store_usage usage;
    struct error err;
    enum status status = store_usage(inspection->store, zarr_array_store_path(&node->array).text,
                                     LISTED_MOST, &usage, &err);
    size->bytes = status == STATUS_OK && !usage.more ? usage.bytes : STORED_UNKNOWN;
    if (size->bytes == STORED_UNKNOWN && node->status == STATUS_OK) {
        if (status != STATUS_OK && status != STATUS_UNSUPPORTED &&
            inspection->listing_error.status == STATUS_OK)
            inspection->listing_error = err;
        status = ask(inspection->store, &node->array, most, size, &err);
        if (status != STATUS_OK && inspection->sizes_error.status == STATUS_OK)
            inspection->sizes_error = err;
    }
    if (size->bytes != STORED_UNKNOWN)
        size->bytes = own_share(&node->array, size->bytes);
}

enum status inspect_measure(struct inspection *inspection, struct error *err)
{
    size_t count = inspection->hierarchy->node_count;
    inspection->stored = calloc(count + 1, sizeof *inspection->stored);
    if (!inspection->stored)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for %zu arrays", inspection->uri,
                         count);
    uint64_t most = min_u64(max_u64(ASKED_IN_ALL / (count + 1), ASKED_LEAST), ASKED_MOST);
    for (size_t i = 0; i < count; i++)
        measure(inspection, i, most);
    return STATUS_OK;
}
