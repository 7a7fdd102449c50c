/* Test tool: writes the decoded items of one array to standard output, C order, native byte order.
 *
 *     dump_array STORE ARRAY [STEP]
 *
 * Reads STEP (default: all) indices along axis 0 at a time, so that regions cut chunks in different
 * ways. */
#include "zarr/chunk.h"
#include "zarr/hierarchy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static enum status dump_steps(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              uint64_t step, struct error *err)
{
    size_t sample_bytes = zarr_array_sample_bytes(array);
    struct zarr_read_stats stats = {0};
    enum status status = STATUS_OK;
    void *items = malloc(step * sample_bytes);

    for (uint64_t begin = 0; status == STATUS_OK && begin < array->shape[0]; begin += step) {
        uint64_t end = array->shape[0] - begin < step ? array->shape[0] : begin + step;

        status = zarr_read_samples(reader, array, begin, end, items, &stats, err);
        if (status == STATUS_OK && fwrite(items, sample_bytes, end - begin, stdout) != end - begin)
            status = error_set_errno(err, STATUS_IO, "write to standard output");
    }
    free(items);
    return status;
}

static enum status dump(const struct store *store, const struct zarr_hierarchy *hierarchy,
                        const char *path, uint64_t step, struct error *err)
{
    const struct zarr_node *node = zarr_hierarchy_find(hierarchy, path);
    struct zarr_chunk_reader *reader;

    if (!node)
        return error_set(err, STATUS_NOT_FOUND, "no array '%s'", path);
    if (node->status != STATUS_OK)
        return error_set(err, node->status, "array '%s': %s", path, node->reason);
    const struct zarr_array *array = &node->array;
    enum status status = zarr_chunk_reader_new(store, &array, 1, &reader, err);
    if (status != STATUS_OK)
        return status;
    status = dump_steps(reader, array, step > 0 ? step : array->shape[0], err);
    zarr_chunk_reader_free(reader);
    return status;
}

int main(int argc, char **argv)
{
    struct zarr_hierarchy *hierarchy = NULL;
    struct store *store = NULL;
    struct error err;

    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: dump_array STORE ARRAY [STEP]\n");
        return 2;
    }
    enum status status = store_open(argv[1], &store, &err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_open(store, &hierarchy, &err);
    if (status == STATUS_OK)
        status = dump(store, hierarchy, argv[2], argc == 4 ? strtoull(argv[3], NULL, 10) : 0, &err);
    if (status == STATUS_OK && fflush(stdout) != 0)
        status = error_set_errno(&err, STATUS_IO, "write to standard output");
    if (status != STATUS_OK)
        fprintf(stderr, "dump_array: %s\n", err.message);
    zarr_hierarchy_free(hierarchy);
    store_free(store);
    return status != STATUS_OK;
}
