/* See dataset.h: arrays that are held whole. One process a node fills their memory once; all
 * processes of the node read the memory. */
#include "dataset/dataset_internal.h"

#include "zarr/chunk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum status refuse_index(const struct store_field *here, uint64_t position, int64_t value,
                                struct error *err)
{
    char text[32];

    if (here->index.dtype == DTYPE_UINT64)
        snprintf(text, sizeof text, "%" PRIu64, (uint64_t)value);
    else
        snprintf(text, sizeof text, "%" PRId64, value);
    return error_set(err, STATUS_INVALID,
                     "array '%s' position %" PRIu64
                     ": index %s is out of range: array '%s' has %" PRIu64 " along its sample axis",
                     here->index.path, position, text, here->array.path, here->array.shape[0]);
}

/* Reads an index array as int64[its samples] to `out`. Narrower integers are read to the end of
 * `out` and widened from its start: the write of item i ends where item i + 1 is read, or before.
 */
static enum status hold_index(const struct dataset *dataset, struct zarr_chunk_reader *reader,
                              const struct store_field *here, int64_t *out,
                              struct zarr_read_stats *stats, struct error *err)
{
    uint64_t count = here->index.shape[0];
    unsigned char *items = (unsigned char *)out + count * (sizeof *out - here->index.item_bytes);
    enum status status = hold_samples(dataset, reader, &here->index, items, stats, err);

    for (uint64_t i = 0; status == STATUS_OK && i < count; i++) {
        int64_t value = dtype_integer(here->index.dtype, items, i);

        if ((uint64_t)value >= here->array.shape[0]) /* negative ones too */
            return refuse_index(here, i, value, err);
        out[i] = (int64_t)here->first_element + value;
    }
    return status;
}

/* The arrays of all stores, one after another; for a joined field, then all indices, which count in
 * them all. */
static enum status hold_stores(struct zarr_chunk_reader *reader, const struct dataset *dataset,
                               const struct field_origin *origin, unsigned char *memory,
                               struct error *err)
{
    const struct dataset_private *private = dataset->private;
    unsigned char *elements = memory + origin->held_offset;
    int64_t *indices = (int64_t *)(void *)(memory + origin->index_offset);
    struct zarr_read_stats stats = {0};
    enum status status = STATUS_OK;

    for (size_t s = 0; status == STATUS_OK && s < private->store_count; s++) {
        const struct store_field *here = &origin->store_fields[s];

        status = hold_samples(dataset, reader, &here->array, elements, &stats, err);
        elements += here->array.total_bytes;
        if (status == STATUS_OK && origin->index)
            status =
                hold_index(dataset, reader, here, indices + private->first_sample[s], &stats, err);
    }
    return status;
}

static enum status hold_field(const struct dataset *dataset, const struct field_origin *origin,
                              unsigned char *memory, struct error *err)
{
    const struct dataset_private *private = dataset->private;
    const struct zarr_array *arrays[ZARR_READER_MAX_ARRAYS];
    struct zarr_faults faults = {.missing_is_bad = private->missing_is_bad};
    struct zarr_chunk_reader *reader;
    size_t count = 0;

    for (size_t s = 0; s < private->store_count; s++) {
        arrays[count++] = &origin->store_fields[s].array;
        if (origin->index)
            arrays[count++] = &origin->store_fields[s].index;
    }
    enum status status =
        zarr_chunk_reader_new_with(private->store, arrays, count, &private->read, &reader, err);
    if (status != STATUS_OK)
        return status;
    zarr_chunk_reader_use_cache(reader, private->cache);
    zarr_chunk_reader_use_faults(reader, &faults);
    status = hold_stores(reader, dataset, origin, memory, err);
    zarr_chunk_reader_free(reader);
    return status;
}

enum status dataset_hold(struct dataset *dataset, void *memory, struct error *err)
{
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_HELD)
            status = hold_field(dataset, &dataset->private->origins[i], memory, err);
    if (status != STATUS_OK && dataset->mask)
        status = error_prefix(err, status, "held whole, which errors.bad_sample cannot mask: ");
    if (status == STATUS_OK && dataset->held_bytes > 0)
        dataset_attach(dataset, memory);
    return status;
}

void dataset_attach(struct dataset *dataset, const void *memory)
{
    dataset->private->held = memory;
}

const void *dataset_held_sample(const struct dataset *dataset, size_t field, uint64_t index)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    const unsigned char *held = dataset->private->held;

    assert(held && index < dataset->sample_count);
    if (origin->index)
        index = (uint64_t)((const int64_t *)(const void *)(held + origin->index_offset))[index];
    return held + origin->held_offset + index * dataset->fields[field].sample_bytes;
}
