/* Which chunks a row will be read from. See dataset.h; pure, but for a look into the disk cache. */
#include "dataset/dataset_internal.h"

#include "base/memory.h"
#include "base/size.h"

#include <string.h>

void dataset_stop_fetches(const struct dataset *dataset)
{
    fetch_stop(dataset->private->store);
}

static size_t capacity_of(const struct zarr_array *array)
{
    return codec_chain_is_raw(&array->codecs)
               ? array->chunk_bytes
               : codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
}

/* The most chunks along axis 0 that any row touches. */
static uint64_t most_along(const struct dataset *dataset, const struct zarr_array *array)
{
    uint64_t row = dataset->row_length, chunk = array->chunk_shape[0];
    uint64_t most = row % chunk == 0   ? row / chunk
                    : chunk % row == 0 ? 1
                                       : size_divide_up(row - 1, chunk) + 1;

    return most < array->chunk_counts[0] ? most : array->chunk_counts[0];
}

void dataset_row_demand(const struct dataset *dataset, uint64_t *ret_chunks, uint64_t *ret_bytes)
{
    uint64_t chunks = 0, bytes = 0;

    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct zarr_array *array = dataset->private->origins[f].array;
        uint64_t count = most_along(dataset, array);

        if (dataset->fields[f].source != FIELD_ROW)
            continue;
        for (int i = 1; i < array->rank; i++)
            count *= array->chunk_counts[i];
        chunks += count;
        bytes += count * size_round_up(capacity_of(array), MEMORY_LINE_BYTES);
    }
    *ret_chunks = chunks;
    *ret_bytes = bytes;
}

/* Steps through the chunks of a row in C order; false after the last. */
static bool next_chunk(const struct zarr_array *array, uint64_t last, uint64_t *index)
{
    for (int i = array->rank - 1; i > 0; i--) {
        if (++index[i] < array->chunk_counts[i])
            return true;
        index[i] = 0;
    }
    return ++index[0] <= last;
}

static void visit_field(const struct dataset *dataset, const struct zarr_array *array, uint64_t row,
                        dataset_chunk_visit *visit, void *argument)
{
    uint64_t begin = row * dataset->row_length, end = begin + dataset_row_samples(dataset, row);
    uint64_t first = begin / array->chunk_shape[0], last = (end - 1) / array->chunk_shape[0];
    uint64_t index[ZARR_MAX_RANK] = {first};
    char key[ZARR_KEY_BYTES];

    do {
        zarr_chunk_key(array, index, key);
        if (!dataset->private->cache || !disk_cache_has(dataset->private->cache, key))
            visit(dataset->private->store, key, capacity_of(array), argument);
    } while (next_chunk(array, last, index));
}

void dataset_row_chunks(const struct dataset *dataset, uint64_t row, dataset_chunk_visit *visit,
                        void *argument)
{
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source == FIELD_ROW)
            visit_field(dataset, dataset->private->origins[f].array, row, visit, argument);
}
