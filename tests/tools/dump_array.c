/* Test tool: writes the decoded items of one array to standard output, C order, native byte order.
 *
 *     dump_array STORE ARRAY [STEP]
 *
 * Reads STEP (default: all) indices along axis 0 at a time, so that regions cut chunks in different
 * ways. Without arguments, the whole array at the root of each store whose path is a line of
 * standard input, or the one whose path follows a tab, answered by "ok BYTES" and the items, or
 * "error BYTES" and the message: one process for a thousand arrays. The environment's DUMP_VIRTUAL
 * is store.virtual. */
#include "zarr/chunk/chunk.h"
#include "zarr/hierarchy/hierarchy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status dump_steps(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              uint64_t step, FILE *out, struct error *err)
{
    size_t sample_bytes = zarr_array_sample_bytes(array);
    struct zarr_read_stats stats = {0};
    enum status status = STATUS_OK;
    void *items = malloc(step * sample_bytes);
    for (uint64_t begin = 0; status == STATUS_OK && begin < array->shape[0]; begin += step) {
        uint64_t end = array->shape[0] - begin < step ? array->shape[0] : begin + step;
        status = zarr_read_samples(reader, array, begin, end, items, &stats, err);
        if (status == STATUS_OK && fwrite(items, sample_bytes, end - begin, out) != end - begin)
            status = error_set_errno(err, STATUS_IO, "write items");
    }
    free(items);
    return status;
}

static enum status dump(const struct store *store, const struct zarr_hierarchy *hierarchy,
                        const char *path, uint64_t step, FILE *out, struct error *err)
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
    status = dump_steps(reader, array, step > 0 ? step : array->shape[0], out, err);
    zarr_chunk_reader_free(reader);
    return status;
}

static enum status dump_store(const char *uri, const char *path, uint64_t step, FILE *out,
                              struct error *err)
{
    struct zarr_hierarchy *hierarchy = NULL;
    struct store *store = NULL;
    struct store_settings settings = store_settings_default();
    const struct store_options options = {.settings = &settings};
    const char *prefixes = getenv("DUMP_VIRTUAL");
    snprintf(settings.virtual_prefixes, sizeof settings.virtual_prefixes, "%s",
             prefixes ? prefixes : "");
    enum status status = store_open_with(uri, &options, &store, err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_open(store, &hierarchy, err);
    if (status == STATUS_OK)
        status = dump(store, hierarchy, path, step, out, err);
    if (status == STATUS_OK && fflush(out) != 0)
        status = error_set_errno(err, STATUS_IO, "write items");
    zarr_hierarchy_free(hierarchy);
    store_free(store);
    return status;
}

static void answer(const char *uri, const char *path)
{
    char *items = NULL;
    size_t size = 0;
    struct error err;
    FILE *out = open_memstream(&items, &size);
    if (!out)
        abort();
    enum status status = dump_store(uri, path, 0, out, &err);
    fclose(out);
    if (status == STATUS_OK)
        printf("ok %zu\n", size);
    else
        printf("error %zu\n%s", strlen(err.message), err.message);
    if (status == STATUS_OK)
        fwrite(items, 1, size, stdout);
    fflush(stdout);
    free(items);
}

int main(int argc, char **argv)
{
    struct error err;
    if (argc == 1) {
        for (char line[4096]; fgets(line, sizeof line, stdin);) {
            line[strcspn(line, "\n")] = 0;
            char *path = strchr(line, '\t');
            if (path)
                *path++ = 0;
            answer(line, path ? path : "");
        }
        return 0;
    }
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: dump_array [STORE ARRAY [STEP]]\n");
        return 2;
    }
    uint64_t step = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    enum status status = dump_store(argv[1], argv[2], step, stdout, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "dump_array: %s\n", err.message);
    return status != STATUS_OK;
}
