/* Which arrays may be joined through which: an index and its targets, such as a run would accept.
 * And which array looks like the ends of episodes: no target.
 *
 * An index is one integer for each sample that is no coordinate, each of them within the array that
 * it points into; A run reads these values at its start, and so does inspect. Then a dataset is
 * opened with the fields of the hint. Fields that cannot be opened are no hint.
 */
#include "cli/inspect/inspect.h"

#include "base/dtype.h"
#include "base/text.h"
#include "zarr/chunk/chunk.h"
#include "zarr/hierarchy/attributes.h"

#include <stdlib.h>
#include <string.h>

/* Indices beyond are not read for a hint. */
static const uint64_t most_index_bytes = 64 << 20;

const char *inspect_last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool has_integers(const struct zarr_node *node)
{
    return node->status == STATUS_OK && node->array.rank == 1 && node->array.item_length == 0 &&
           dtype_is_integer(node->array.dtype) && node->array.total_bytes <= most_index_bytes &&
           !zarr_node_is_coordinate(node);
}

/* Whether an array could be the index of a join: one integer for each sample. */
static bool may_be_index(const struct zarr_node *node, uint64_t sample_count)
{
    return has_integers(node) && node->array.shape[0] == sample_count;
}

/* The greatest value, and whether all are above 0 and rise; false: one is negative, or they cannot
 * be read. */
static bool find_greatest(const struct store *store, const struct zarr_array *index,
                          uint64_t *ret_greatest, bool *ret_rises)
{
    struct zarr_chunk_reader *reader = NULL;
    struct zarr_read_stats stats = {0};
    unsigned char *items = malloc(index->total_bytes);
    bool fine =
        items && zarr_chunk_reader_new(store, &index, 1, &reader, NULL) == STATUS_OK &&
        zarr_read_samples(reader, index, 0, index->shape[0], items, &stats, NULL) == STATUS_OK;
    uint64_t greatest = 0;
    bool rises = true;
    for (uint64_t i = 0; fine && i < index->shape[0]; i++) {
        int64_t value = dtype_integer(index->dtype, items, i);
        fine = value >= 0;
        rises = rises && (uint64_t)value > greatest;
        greatest = (uint64_t)value > greatest ? (uint64_t)value : greatest;
    }
    zarr_chunk_reader_free(reader);
    free(items);
    *ret_greatest = greatest;
    *ret_rises = rises;
    return fine;
}

/* Rising integers, of which the last one is the number of frames. */
static bool are_ends(const struct inspection *inspection, const struct zarr_node *node)
{
    uint64_t greatest;
    bool rises;
    return has_integers(node) && node->array.shape[0] > 0 &&
           node->array.shape[0] < inspection->dataset->frame_count &&
           find_greatest(inspection->store, &node->array, &greatest, &rises) && rises &&
           greatest == inspection->dataset->frame_count;
}

/* The fields of the hint: what is joined, then the default ones but the index. */
static size_t list_fields(const struct inspection *inspection, struct dataset_field_spec *specs)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    const char *index = inspection->index->array.path;
    size_t count = 0;
    for (size_t i = 0; i < hierarchy->node_count && count < DATASET_MAX_FIELDS; i++) {
        const char *path = hierarchy->nodes[i].array.path;
        if (inspection->joined[i])
            specs[count++] = (struct dataset_field_spec){
                .name = inspect_last_component(path), .array = path, .index = index};
    }
    for (size_t i = 0; i < inspection->dataset->field_count && count < DATASET_MAX_FIELDS; i++) {
        const struct zarr_array *array = dataset_field_array(inspection->dataset, i);
        const char *path = array ? array->path : index;
        if (strcmp(path, index) != 0)
            specs[count++] =
                (struct dataset_field_spec){.name = inspect_last_component(path), .array = path};
    }
    return count;
}

static bool is_accepted(const struct inspection *inspection, const struct dataset_options *options)
{
    struct dataset_field_spec specs[DATASET_MAX_FIELDS];
    struct dataset_options with = *options;
    struct dataset *dataset = NULL;
    with.group = with.exclude = with.multiscale = NULL;
    with.fields = specs;
    with.field_count = list_fields(inspection, specs);
    bool accepted = dataset_open(&with, &dataset, NULL) == STATUS_OK;
    dataset_free(dataset);
    return accepted;
}

/* Marks what could be joined through the index; false: nothing. */
static bool mark_joined(struct inspection *inspection, const struct zarr_node *index,
                        uint64_t greatest)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    bool any = false;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        inspection->joined[i] = node != index && node != inspection->ends &&
                                node->status == STATUS_OK &&
                                node->array.shape[0] != inspection->dataset->sample_count &&
                                greatest < node->array.shape[0];
        any = any || inspection->joined[i];
    }
    return any;
}

void inspect_find_joins(struct inspection *inspection, const struct dataset_options *options)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    inspection->joined = calloc(hierarchy->node_count + 1, sizeof *inspection->joined);
    for (size_t i = 0; !inspection->ends && i < hierarchy->node_count; i++)
        if (are_ends(inspection, &hierarchy->nodes[i]))
            inspection->ends = &hierarchy->nodes[i];
    for (size_t i = 0; inspection->joined && !inspection->index && i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        uint64_t greatest;
        bool rises;
        if (!may_be_index(node, inspection->dataset->sample_count) ||
            !mark_joined(inspection, node, 0) || /* not worth reading */
            !find_greatest(inspection->store, &node->array, &greatest, &rises) ||
            !mark_joined(inspection, node, greatest))
            continue;
        inspection->index = node;
        if (!is_accepted(inspection, options))
            inspection->index = NULL;
    }
}
