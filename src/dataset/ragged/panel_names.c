/* See panel_names.h. */
#include "dataset/ragged/panel_names.h"

#include "codec/vlen.h"
#include "dataset/fields/select.h"
#include "dataset/ragged/ragged_values.h"
#include "zarr/hierarchy/group_attributes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20 }; /* of chunks on their way */

/* Values of variable length
 * ---------------------------------------------------------------------------------------------- */

static enum status take_names(void *argument, const struct values *values, struct error *err)
{
    struct coordinates *names = argument;
    size_t bytes = 0, at = 0;
    for (uint64_t i = 0; values->bytes && i < values->count; i++)
        bytes += values->lengths[i];
    unsigned char *together = malloc(bytes + 1);
    bool ok = together != NULL;
    if (ok && values->bytes)
        (void)vlen_copy(values->bytes, values->count, together);
    for (uint64_t i = 0; ok && i < values->count; i++) {
        size_t length = values->bytes ? values->lengths[i] : 0;
        char *name = strndup((const char *)together + at, length);
        ok = name != NULL;
        names->names[values->first + i] = name;
        at += length;
    }
    free(together);
    return ok ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for names");
}

static enum status read_values(const struct dataset *dataset, size_t store,
                               const struct zarr_node *node, struct coordinates *names,
                               struct error *err)
{
    struct zarr_view view = {.convert.from = node->array.dtype};
    struct zarr_array array;
    (void)store_joined_at(dataset->private->store, store, &view.prefix);
    if (node->array.item_bytes != 1)
        return error_set(err, STATUS_INVALID, "array '%s' is not one of strings", names->path);
    enum status status = zarr_view_make(&node->array, &view, &array, err);
    if (status != STATUS_OK)
        return status;
    names->count = array.shape[0];
    names->names = calloc(names->count + 1, sizeof *names->names);
    if (!names->names)
        return error_set(err, STATUS_NO_MEMORY, "no memory for names");
    struct values_reading reading = {.dataset = dataset,
                                     .view = &array,
                                     .threads = 1,
                                     .room = MOST_BYTES,
                                     .visit = take_names,
                                     .argument = names};
    return values_read(&reading, err);
}

/* Arrays
 * ---------------------------------------------------------------------------------------------- */

static enum status read_array(const struct dataset *dataset, size_t store, const char *path,
                              struct coordinates *names, struct error *err)
{
    const char *name;
    const struct store *in = store_joined_at(dataset->private->store, store, &name);
    const struct zarr_wanted wanted = {.paths = &path, .path_count = 1};
    const struct zarr_node *node = NULL;
    struct zarr_hierarchy *hierarchy = NULL;
    enum status status = zarr_hierarchy_open_wanted(in, &wanted, &hierarchy, err);
    if (status == STATUS_OK)
        node = zarr_hierarchy_find(hierarchy, path);
    if (status == STATUS_NOT_FOUND || (status == STATUS_OK && !node))
        status = error_set(err, STATUS_NOT_FOUND,
                           "there is no array '%s' of names: write numbers, or name an array of "
                           "names instead of the axis",
                           path);
    snprintf(names->path, sizeof names->path, "%.511s", path);
    if (status == STATUS_OK && node->array.is_vlen)
        status = read_values(dataset, store, node, names, err);
    else if (status == STATUS_OK)
        status = coordinates_read_array(dataset, in, path, names, err);
    zarr_hierarchy_free(hierarchy);
    if (status == STATUS_OK && !names->names)
        status = error_set(err, STATUS_INVALID, "array '%s' is not one of strings", path);
    return status;
}

/* Of a table at `path`, the array of its index: `path` becomes that. False: it is no table. */
static enum status find_index(const struct dataset *dataset, size_t store,
                              char path[2 * ZARR_PATH_BYTES], bool *ret_is_table, struct error *err)
{
    const char *name;
    const struct store *in = store_joined_at(dataset->private->store, store, &name);
    enum zarr_format format = dataset->private->hierarchies[store]->format;
    struct zarr_texts texts = {0};
    enum status status = zarr_group_texts(in, format, path, "_index", &texts, err);
    size_t length = strlen(path);
    *ret_is_table = status == STATUS_OK && texts.count == 1;
    if (*ret_is_table)
        snprintf(path + length, 2 * ZARR_PATH_BYTES - length, "/%.255s", texts.items[0]);
    zarr_texts_done(&texts);
    return status;
}

/* The nearest table `var` beside the group or above. */
static enum status find_var(const struct dataset *dataset, size_t store, const char *group,
                            char path[2 * ZARR_PATH_BYTES], bool *ret_found, struct error *err)
{
    size_t length = strlen(group);
    enum status status = STATUS_OK;
    *ret_found = false;
    while (status == STATUS_OK && !*ret_found && length > 0) {
        while (length > 0 && group[length - 1] != '/')
            length--;
        snprintf(path, 2 * ZARR_PATH_BYTES, "%.*svar", (int)length, group);
        status = find_index(dataset, store, path, ret_found, err);
        length -= length > 0;
    }
    return status;
}

enum status panel_names_read(const struct dataset *dataset, const struct dataset_options *options,
                             size_t store, const struct ragged_origin *origin, const char *axis,
                             struct coordinates *ret_names, struct error *err)
{
    bool is_number = strspn(axis, "0123456789") == strlen(axis), found = false;
    struct coordinates names = {0};
    char path[2 * ZARR_PATH_BYTES];
    enum status status = STATUS_OK;
    store = dataset_store_at(origin->own_store, store);
    if (origin->is_group && (is_number || strcmp(axis, "var") == 0))
        status = find_var(dataset, store, origin->group, path, &found, err);
    *ret_names = names;
    if (status != STATUS_OK || (is_number && !found))
        return status;
    if (!found) {
        snprintf(path, sizeof path, "%s",
                 origin->own_store > 0 ? axis + strspn(axis, "/")
                                       : select_path(options, axis).text);
        status = find_index(dataset, store, path, &found, err);
    }
    if (status == STATUS_OK)
        status = read_array(dataset, store, path, &names, err);
    if (status == STATUS_OK)
        status = coordinates_sort(&names, err);
    if (status == STATUS_OK)
        *ret_names = names;
    else
        coordinates_done(&names);
    return status;
}
