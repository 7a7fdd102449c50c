/* Small arrays beside the fields: coordinates, means. Called while opening, by one thread. */
#include "dataset/fields/small_array.h"

#include "base/size.h"
#include "dataset/fields/select.h"
#include "dataset/fields/store_arrays.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

static enum status find_array(const struct store *store, const char *path,
                              struct zarr_hierarchy **ret_hierarchy,
                              const struct zarr_node **ret_node, struct error *err)
{
    const struct zarr_wanted wanted = {.paths = &path, .path_count = 1};
    const struct zarr_node *node = NULL;
    enum status status = zarr_hierarchy_open_wanted(store, &wanted, ret_hierarchy, err);
    if (status == STATUS_OK)
        node = zarr_hierarchy_find(*ret_hierarchy, path);
    if (status == STATUS_NOT_FOUND || (status == STATUS_OK && !node))
        return error_set(err, STATUS_NOT_FOUND, "there is no array '%s'", path);
    if (status != STATUS_OK)
        return status;
    if (node->status != STATUS_OK && (!node->array.is_scalar || node->array.is_vlen))
        return error_set(err, node->status, "array '%s': %s", path, node->reason);
    if (node->array.total_bytes > MOST_BYTES)
        return error_set(err, STATUS_INVALID, "array '%s' has %s, more than %s", path,
                         size_format(node->array.total_bytes).text, size_format(MOST_BYTES).text);
    *ret_node = node;
    return STATUS_OK;
}

/* A missing chunk is what it is in a field's array. */
static enum status read_items(const struct dataset *dataset, const struct store *store,
                              const struct zarr_array *array, unsigned char *items,
                              struct error *err)
{
    struct zarr_faults faults = {.missing_is_bad = dataset->private->missing_is_bad};
    struct zarr_read_stats stats = {0};
    struct zarr_chunk_reader *reader;
    enum status status = stock_expect(dataset, store, array, err);
    if (status != STATUS_OK) /* the array itself is there */
        return error_prefix(err, STATUS_CORRUPT, "array '%s': ", array->path);
    status = zarr_chunk_reader_new(store, &array, 1, &reader, err);
    if (status != STATUS_OK)
        return status;
    zarr_chunk_reader_use_faults(reader, &faults);
    status = zarr_read_samples(reader, array, 0, array->shape[0], items, &stats, err);
    zarr_chunk_reader_free(reader);
    return status;
}

enum status small_array_read(const struct dataset *dataset, const struct store *store,
                             const char *path, struct zarr_hierarchy **ret_hierarchy,
                             const struct zarr_node **ret_node, unsigned char **ret_items,
                             struct error *err)
{
    struct zarr_hierarchy *hierarchy = NULL;
    const struct zarr_node *node;
    unsigned char *items = NULL;
    enum status status = find_array(store, path, &hierarchy, &node, err);
    if (status == STATUS_OK) {
        items = malloc(node->array.total_bytes);
        status = items ? read_items(dataset, store, &node->array, items, err)
                       : error_set(err, STATUS_NO_MEMORY, "no memory for array '%s'", path);
    }
    if (status != STATUS_OK) {
        free(items);
        zarr_hierarchy_free(hierarchy);
        return status;
    }
    *ret_hierarchy = hierarchy;
    *ret_node = node;
    *ret_items = items;
    return STATUS_OK;
}

/* Of the other store that stands before the '::'. */
static enum status read_elsewhere(const struct dataset *dataset, const char *uri, const char *path,
                                  struct zarr_hierarchy **ret_hierarchy,
                                  const struct zarr_node **ret_node, unsigned char **ret_items,
                                  struct error *err)
{
    const struct dataset_private *private = dataset->private;
    const struct store_options options = {
        .retries = private->retries, .watch = private->watch, .settings = &private->settings};
    struct store *store;
    enum status status = store_open_with(uri, &options, &store, err);
    if (status != STATUS_OK)
        return status;
    status = small_array_read(dataset, store, path, ret_hierarchy, ret_node, ret_items, err);
    store_free(store);
    return status != STATUS_OK ? error_prefix(err, status, "'%s': ", uri) : STATUS_OK;
}

enum status small_array_read_named(const struct dataset *dataset,
                                   const struct dataset_options *options, const char *text,
                                   struct zarr_hierarchy **ret_hierarchy,
                                   const struct zarr_node **ret_node, unsigned char **ret_items,
                                   struct error *err)
{
    const char *colons = strstr(text, "::"), *name;
    if (!colons)
        return small_array_read(dataset, store_joined_at(dataset->private->store, 0, &name),
                                select_path(options, text).text, ret_hierarchy, ret_node, ret_items,
                                err);
    char *uri = strndup(text, (size_t)(colons - text));
    if (!uri)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a path");
    const char *path = colons + 2 + strspn(colons + 2, "/");
    enum status status =
        read_elsewhere(dataset, uri, path, ret_hierarchy, ret_node, ret_items, err);
    free(uri);
    return status;
}
