/* What follows from a dataset's fields: the sample count, rows, and where each field's bytes live.
 * Pure; called while opening. */
#include "dataset/dataset_internal.h"

#include "base/size.h"
#include "zarr/chunk.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { ROW_ALIGNMENT = 64, RECORD_ALIGNMENT = 16, HELD_ALIGNMENT = 64 };

/* Sizes of one sample, one row and held memory stay far below what size_t holds. */
#define LIMIT_BYTES ((uint64_t)1 << 48)

/* The order goes by this limit, the first default of dataset.hold_limit, whatever is configured. */
#define ORDER_HOLD_BYTES ((uint64_t)1 << 30)

static void describe_samples(struct dataset *dataset)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct zarr_array *array = &dataset->private->origins[i].store_fields[0].array;
        struct dataset_field *field = &dataset->fields[i];

        field->name = dataset->private->origins[i].name;
        field->dtype = array->dtype;
        field->rank = array->rank - 1;
        for (int axis = 0; axis < field->rank; axis++)
            field->shape[axis] = array->shape[axis + 1];
        if (array->item_length > 0)
            field->shape[field->rank++] = array->item_length;
        field->frame_bytes = field->sample_bytes = zarr_array_sample_bytes(array);
        field->row_leader = i;
        field->record_frames = 1;
        field->source = FIELD_HELD;
        field->decode_amplification = 1.0;
    }
}

/* Rows of `length` samples, no longer than a store has: each store's own. */
static void cut_rows(struct dataset *dataset, uint64_t length)
{
    const struct dataset_private *private = dataset->private;
    uint64_t longest = 0;

    for (size_t s = 0; s < private->store_count; s++) {
        uint64_t samples = private->first_frame[s + 1] - private->first_frame[s];

        longest = samples > longest ? samples : longest;
    }
    assert(longest > 0 && length > 0); /* neither arrays nor chunks are empty */
    dataset->row_length = length < longest ? length : longest;
    for (size_t s = 0; s < private->store_count; s++) {
        uint64_t samples = private->first_frame[s + 1] - private->first_frame[s];

        private->first_row[s + 1] =
            private->first_row[s] + size_divide_up(samples, dataset->row_length);
    }
    dataset->row_count = private->first_row[private->store_count];
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
            dataset->private->origins[0].index->array.path);
    cut_rows(dataset, dataset->private->origins[leader].store_fields[0].array.chunk_shape[0]);
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

/* Chunk reads of an epoch per chunk along the sample axis. Rows and chunks cut the samples of a
 * store, both from its first one on, into pieces, each read once. */
static double decode_amplification(const struct dataset *dataset, const struct field_origin *origin)
{
    const struct dataset_private *private = dataset->private;
    uint64_t reads = 0, chunks = 0, row = dataset->row_length;

    for (size_t s = 0; s < private->store_count; s++) {
        const struct zarr_array *array = &origin->store_fields[s].array;
        uint64_t chunk = array->chunk_shape[0], both;
        uint64_t last = array->shape[0] > 0 ? array->shape[0] - 1 : 0;

        if (!size_multiply(row / greatest_common_divisor(chunk, row), chunk, &both))
            both = UINT64_MAX; /* samples from where both are cut to where both are cut again */
        chunks += array->chunk_counts[0];
        reads += array->chunk_counts[0] + last / row - last / both;
    }
    return (double)reads / (double)chunks;
}

static uint64_t total_bytes(const struct dataset *dataset, const struct field_origin *origin)
{
    uint64_t total = 0;

    for (size_t s = 0; s < dataset->private->store_count; s++)
        if (__builtin_add_overflow(total, origin->store_fields[s].array.total_bytes, &total))
            return UINT64_MAX;
    return total;
}

/* Whether a direct field is held with that limit: not the one whose chunks are the rows. */
static bool is_held(const struct dataset *dataset, size_t i, size_t leader, uint64_t limit_bytes)
{
    const struct field_origin *origin = &dataset->private->origins[i];

    return i != leader && decode_amplification(dataset, origin) > 1.0 &&
           total_bytes(dataset, origin) <= limit_bytes;
}

/* Bytes of a row, settled by what the fingerprint covers: neither hold_limit nor masking counts. */
static uint64_t order_row_bytes(const struct dataset *dataset, size_t leader)
{
    uint64_t total = 0, bytes;

    for (size_t i = 0; i < dataset->field_count; i++) {
        if (dataset->private->origins[i].index || is_held(dataset, i, leader, ORDER_HOLD_BYTES))
            continue;
        if (!size_multiply(dataset->row_length, dataset->fields[i].sample_bytes, &bytes) ||
            bytes > LIMIT_BYTES)
            bytes = LIMIT_BYTES;
        total += size_round_up(bytes, ROW_ALIGNMENT);
    }
    return total;
}

static enum status settle_source(struct dataset *dataset, size_t i, size_t leader,
                                 struct error *err)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    uint64_t limit = dataset->private->hold_limit_bytes;
    struct dataset_field *field = &dataset->fields[i];

    if (origin->index) {
        uint64_t bytes = total_bytes(dataset, origin);
        if (bytes > limit)
            return error_set(
                err, STATUS_INVALID,
                "field '%s': array '%s' takes %s, and joined arrays are held whole: raise "
                "dataset.hold_limit (%s)",
                field->name, origin->array->array.path, size_format(bytes).text,
                size_format(limit).text);
        return STATUS_OK;
    }
    if (is_held(dataset, i, leader, limit))
        return STATUS_OK;
    field->source = FIELD_ROW;
    field->decode_amplification = decode_amplification(dataset, origin);
    return STATUS_OK;
}

/* Rows have the length of the first store's chunks: other chunks would be decoded again and again
 * without anybody's having asked for it. */
static enum status check_chunks(const struct dataset *dataset, size_t i, struct error *err)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    uint64_t length = origin->store_fields[0].array.chunk_shape[0];

    for (size_t s = 1; s < dataset->private->store_count; s++) {
        const struct zarr_array *array = &origin->store_fields[s].array;

        if (array->chunk_shape[0] != length)
            return error_set(
                err, STATUS_INVALID,
                "field '%s': chunks have %" PRIu64 " sample%s in the store %s, %" PRIu64
                " in %s: joined stores have chunks of one length",
                origin->name, length, count_plural(length), dataset_store_text(dataset, 0).text,
                array->chunk_shape[0], dataset_store_text(dataset, s).text);
    }
    return STATUS_OK;
}

static enum status settle_sources(struct dataset *dataset, size_t leader, struct error *err)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        enum status status = settle_source(dataset, i, leader, err);
        if (status != STATUS_OK)
            return status;
    }
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_ROW) {
            enum status status = check_chunks(dataset, i, err);
            if (status != STATUS_OK)
                return status;
        }
    return STATUS_OK;
}

/* Appends `count * item_bytes` to a layout of length *total; false beyond LIMIT_BYTES. */
static bool lay_out(uint64_t *total, uint64_t count, uint64_t item_bytes, uint64_t alignment,
                    size_t *ret_offset)
{
    uint64_t bytes;

    if (!size_multiply(count, item_bytes, &bytes) || bytes > LIMIT_BYTES)
        return false;
    *ret_offset = *total;
    *total = size_round_up(*total + bytes, alignment);
    return *total <= LIMIT_BYTES;
}

static bool lay_out_record(uint64_t *record, uint64_t bytes)
{
    size_t unused;

    return lay_out(record, 1, bytes, RECORD_ALIGNMENT, &unused);
}

static bool lay_out_field(struct dataset *dataset, size_t i, uint64_t *row, uint64_t *record,
                          uint64_t *held)
{
    struct field_origin *origin = &dataset->private->origins[i];
    struct dataset_field *field = &dataset->fields[i];

    if (field->source == FIELD_ROW)
        return lay_out(row, dataset->row_length, field->sample_bytes, ROW_ALIGNMENT,
                       &field->row_offset) &&
               lay_out_record(record, field->record_frames * field->frame_bytes);
    return lay_out(held, 1, total_bytes(dataset, origin), HELD_ALIGNMENT, &origin->held_offset) &&
           (!origin->index || lay_out(held, dataset->sample_count, sizeof(int64_t), HELD_ALIGNMENT,
                                      &origin->index_offset));
}

static enum status settle_offsets(struct dataset *dataset, struct error *err)
{
    uint64_t row = 0, record = 0, held = 0, sample = 0;

    for (size_t i = 0; i < dataset->field_count; i++) {
        size_t sample_offset;

        if (!lay_out_field(dataset, i, &row, &record, &held) ||
            !lay_out(&sample, 1, dataset->fields[i].sample_bytes, 1, &sample_offset))
            return error_set(err, STATUS_INVALID,
                             "field '%s': rows of %" PRIu64 " sample%s of %s are beyond any memory",
                             dataset->fields[i].name, dataset->row_length,
                             count_plural(dataset->row_length),
                             size_format(dataset->fields[i].sample_bytes).text);
    }
    if (dataset->mask) {
        if (!lay_out(&row, dataset->row_length, 1, ROW_ALIGNMENT, &dataset->valid_offset) ||
            !lay_out_record(&record, 1))
            return error_set(err, STATUS_INVALID,
                             "rows of %" PRIu64 " sample%s are beyond any memory",
                             dataset->row_length, count_plural(dataset->row_length));
    }
    dataset->row_bytes = row;
    dataset->record_bytes = record;
    dataset->held_bytes = held;
    dataset->sample_bytes = sample;
    return STATUS_OK;
}

static void settle_scratch(struct dataset *dataset)
{
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    size_t count = dataset_row_arrays(dataset, arrays);

    dataset->scratch_bytes = zarr_chunk_reader_bytes_with(arrays, count, &dataset->private->read);
    dataset->index_bytes = shard_cache_bytes(arrays, count, dataset->private->index_cache_bytes);
}

enum status layout_settle(struct dataset *dataset, struct error *err)
{
    size_t leader = 0;

    dataset->frame_count = dataset->private->first_frame[dataset->private->store_count];
    dataset->sample_count = dataset->frame_count;
    dataset->row_chunks = 1;
    describe_samples(dataset);
    enum status status = settle_rows(dataset, &leader, err);
    if (status == STATUS_OK)
        status = settle_sources(dataset, leader, err);
    if (status == STATUS_OK)
        status = settle_offsets(dataset, err);
    if (status != STATUS_OK)
        return status;
    settle_scratch(dataset);
    dataset->order_row_bytes = order_row_bytes(dataset, leader);
    dataset->fingerprint = fingerprint_of(dataset);
    return STATUS_OK;
}
