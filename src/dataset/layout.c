/* What follows of a dataset's fields: the sample count, rows, and where each field's bytes live.
 * Pure; called while opening. */
#include "dataset/dataset_internal.h"

#include "base/size.h"
#include "zarr/chunk.h"

#include <inttypes.h>
#include <string.h>

enum { ROW_ALIGNMENT = 64, RECORD_ALIGNMENT = 16, HELD_ALIGNMENT = 64 };

/* Sizes of one sample, one row and held memory stay far below what size_t holds. */
#define LIMIT_BYTES ((uint64_t)1 << 48)

/* The array along whose axis 0 the samples of a field are counted. */
static const struct zarr_array *counting_array(const struct field_origin *origin)
{
    return origin->index ? origin->index : origin->array;
}

static enum status settle_sample_count(struct dataset *dataset, struct error *err)
{
    const struct field_origin *first = &dataset->private->origins[0];
    uint64_t sample_count = counting_array(first)->shape[0];

    for (size_t i = 1; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        uint64_t other = counting_array(origin)->shape[0];

        if (other != sample_count)
            return error_set(
                err, STATUS_INVALID,
                "fields differ in their number of samples: '%s' (array '%s') has %" PRIu64
                ", '%s' (array '%s') has %" PRIu64,
                first->name, counting_array(first)->path, sample_count, origin->name,
                counting_array(origin)->path, other);
    }
    dataset->sample_count = sample_count;
    return STATUS_OK;
}

static void describe_samples(struct dataset *dataset)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        struct field_origin *origin = &dataset->private->origins[i];
        struct dataset_field *field = &dataset->fields[i];

        field->name = origin->name;
        field->dtype = origin->array->dtype;
        field->rank = origin->array->rank - 1;
        for (int axis = 0; axis < field->rank; axis++)
            field->shape[axis] = origin->array->shape[axis + 1];
        field->sample_bytes = zarr_array_sample_bytes(origin->array);
        field->source = FIELD_HELD;
        field->decode_amplification = 1.0;
    }
}

/* The direct field with the most bytes a sample gives the rows their length. Returns its index. */
static enum status settle_rows(struct dataset *dataset, size_t *ret_leader, struct error *err)
{
    size_t leader = dataset->field_count;

    for (size_t i = 0; i < dataset->field_count; i++)
        if (!dataset->private->origins[i].index &&
            (leader == dataset->field_count ||
             dataset->fields[i].sample_bytes > dataset->fields[leader].sample_bytes))
            leader = i;
    if (leader == dataset->field_count)
        return error_set(
            err, STATUS_INVALID,
            "all fields are joined through an index: add one that is read directly, for "
            "example array '%s'",
            dataset->private->origins[0].index->path);
    uint64_t length = dataset->private->origins[leader].array->chunk_shape[0];
    dataset->row_length = length < dataset->sample_count ? length : dataset->sample_count;
    dataset->row_count = size_divide_up(dataset->sample_count, dataset->row_length);
    *ret_leader = leader;
    return STATUS_OK;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Chunk reads of an epoch per chunk along axis 0. Rows and chunks cut the samples into pieces, each
 * read once: as many as there are rows and chunks together, less one for each place where both are
 * cut, the start included. */
static double decode_amplification(const struct dataset *dataset, const struct zarr_array *array)
{
    uint64_t step =
        array->chunk_shape[0] / greatest_common_divisor(array->chunk_shape[0], dataset->row_length);
    uint64_t common_length, common_cuts = 1;

    if (size_multiply(step, dataset->row_length, &common_length))
        common_cuts += (dataset->sample_count - 1) / common_length;
    uint64_t reads = dataset->row_count + array->chunk_counts[0] - common_cuts;
    return (double)reads / (double)array->chunk_counts[0];
}

static enum status settle_source(struct dataset *dataset, size_t i, struct error *err)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    uint64_t limit = dataset->private->hold_limit_bytes;
    struct dataset_field *field = &dataset->fields[i];

    if (origin->index) {
        if (origin->array->total_bytes > limit)
            return error_set(
                err, STATUS_INVALID,
                "field '%s': array '%s' takes %s, and joined arrays are held whole: raise "
                "dataset.hold_limit (%s)",
                field->name, origin->array->path, size_format(origin->array->total_bytes).text,
                size_format(limit).text);
        return STATUS_OK;
    }
    double amplification = decode_amplification(dataset, origin->array);
    if (amplification > 1.0 && origin->array->total_bytes <= limit)
        return STATUS_OK;
    field->source = FIELD_ROW;
    field->decode_amplification = amplification;
    return STATUS_OK;
}

static enum status settle_sources(struct dataset *dataset, size_t leader, struct error *err)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        enum status status = settle_source(dataset, i, err);
        if (status != STATUS_OK)
            return status;
    }
    dataset->fields[leader].source = FIELD_ROW; /* its chunks are the rows */
    return STATUS_OK;
}

/* Appends `count * item_bytes` to a layout of length *total; false beyond LIMIT_BYTES. */
static bool place(uint64_t *total, uint64_t count, uint64_t item_bytes, uint64_t alignment,
                  size_t *ret_offset)
{
    uint64_t bytes;

    if (!size_multiply(count, item_bytes, &bytes) || bytes > LIMIT_BYTES)
        return false;
    *ret_offset = *total;
    *total = size_round_up(*total + bytes, alignment);
    return *total <= LIMIT_BYTES;
}

static bool place_field(struct dataset *dataset, size_t i, uint64_t *row, uint64_t *record,
                        uint64_t *held)
{
    struct field_origin *origin = &dataset->private->origins[i];
    struct dataset_field *field = &dataset->fields[i];

    if (field->source == FIELD_ROW)
        return place(row, dataset->row_length, field->sample_bytes, ROW_ALIGNMENT,
                     &field->row_offset) &&
               place(record, 1, field->sample_bytes, RECORD_ALIGNMENT, &field->record_offset);
    return place(held, 1, origin->array->total_bytes, HELD_ALIGNMENT, &origin->held_offset) &&
           (!origin->index || place(held, dataset->sample_count, sizeof(int64_t), HELD_ALIGNMENT,
                                    &origin->index_offset));
}

static enum status settle_offsets(struct dataset *dataset, struct error *err)
{
    uint64_t row = 0, record = 0, held = 0, sample = 0;

    for (size_t i = 0; i < dataset->field_count; i++) {
        size_t sample_offset;

        if (!place_field(dataset, i, &row, &record, &held) ||
            !place(&sample, 1, dataset->fields[i].sample_bytes, 1, &sample_offset))
            return error_set(err, STATUS_INVALID,
                             "field '%s': rows of %" PRIu64 " samples of %s are beyond any memory",
                             dataset->fields[i].name, dataset->row_length,
                             size_format(dataset->fields[i].sample_bytes).text);
    }
    if (dataset->mask) {
        size_t unused;
        if (!place(&row, dataset->row_length, 1, ROW_ALIGNMENT, &dataset->valid_offset) ||
            !place(&record, 1, 1, RECORD_ALIGNMENT, &unused))
            return error_set(err, STATUS_INVALID,
                             "rows of %" PRIu64 " samples are beyond any memory",
                             dataset->row_length);
    }
    dataset->row_bytes = row;
    dataset->record_bytes = record;
    dataset->held_bytes = held;
    dataset->sample_bytes = sample;
    return STATUS_OK;
}

size_t dataset_row_arrays(const struct dataset *dataset, const struct zarr_array **ret_arrays)
{
    size_t count = 0;

    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_ROW)
            ret_arrays[count++] = dataset->private->origins[i].array;
    return count;
}

static void settle_scratch(struct dataset *dataset)
{
    const struct zarr_array *arrays[DATASET_MAX_FIELDS];
    size_t count = dataset_row_arrays(dataset, arrays);

    dataset->scratch_bytes = zarr_chunk_reader_bytes_with(arrays, count, &dataset->private->read);
    dataset->index_bytes = shard_cache_bytes(arrays, count, dataset->private->index_cache_bytes);
}

enum status layout_settle(struct dataset *dataset, struct error *err)
{
    size_t leader = 0;
    enum status status = settle_sample_count(dataset, err);

    if (status != STATUS_OK)
        return status;
    describe_samples(dataset);
    status = settle_rows(dataset, &leader, err);
    if (status == STATUS_OK)
        status = settle_sources(dataset, leader, err);
    if (status == STATUS_OK)
        status = settle_offsets(dataset, err);
    if (status != STATUS_OK)
        return status;
    settle_scratch(dataset);
    dataset->fingerprint = fingerprint_of(dataset);
    return STATUS_OK;
}
