/* What follows from a dataset's fields: the sample count, rows, and where each field's bytes live.
 * Pure; called while opening. */
#include "dataset/open/settle.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/fields/slices.h"
#include "dataset/fields/steps.h"
#include "dataset/open/open.h"
#include "dataset/open/rows.h"
#include "dataset/panel.h"
#include "dataset/ragged/ragged_layout.h"
#include "dataset/ragged/ragged_open.h"
#include "dataset/read/row_walk.h"
#include "dataset/read/sift.h"
#include "zarr/chunk/chunk.h"
#include "zarr/chunk/shard_cache.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { ROW_ALIGNMENT = 64, RECORD_ALIGNMENT = 16, HELD_ALIGNMENT = 64 };

/* Sizes of one sample, one row and held memory stay far below what size_t holds. */
#define LIMIT_BYTES ((uint64_t)1 << 48)

static void describe_frame(const struct field_origin *origin, struct dataset_field *field)
{
    const struct zarr_array *array = &origin->store_fields[0].array;
    field->dtype = array->dtype;
    for (int axis = 1; axis < array->rank; axis++)
        if (!slices_drop(origin, axis))
            field->shape[field->rank++] = array->shape[axis];
    if (array->item_length > 0)
        field->shape[field->rank++] = array->item_length;
    field->frame_bytes = zarr_array_sample_bytes(array);
    field->source = FIELD_HELD;
}

static void describe_made(const struct dataset *dataset, const struct field_origin *origin,
                          struct dataset_field *field)
{
    field->dtype = origin->made == MADE_VALID     ? DTYPE_BOOL
                   : origin->made == MADE_OFFSETS ? DTYPE_INT64
                                                  : DTYPE_INT32;
    field->frame_bytes = dtype_bytes(field->dtype);
    field->source = FIELD_MADE;
    field->made = origin->made;
    if (origin->ragged)
        field->ragged = &dataset->ragged[origin->ragged - dataset->private->ragged_origins];
    while (strcmp(dataset->private->origins[field->made_for].name, origin->made_for) != 0)
        field->made_for++;
    if (field->made != MADE_CROP)
        return;
    field->shape[field->rank++] = (uint64_t)dataset->fields[field->made_for].crop->axis_count;
    field->frame_bytes *= field->shape[0];
}

/* Puts the axis of steps in front. */
static enum status describe_steps(const struct dataset *dataset, const struct field_origin *origin,
                                  struct dataset_field *field, struct error *err)
{
    uint64_t bytes, step_bytes = field->crop ? field->crop->box.bytes : field->frame_bytes;
    field->sample_bytes = step_bytes;
    if (origin->step_count == 0)
        return STATUS_OK;
    if (field->rank == DATASET_MAX_RANK)
        return error_set(err, STATUS_INVALID,
                         "field '%s': with an axis of steps a sample has more than %d dimensions",
                         origin->name, DATASET_MAX_RANK);
    if (!size_multiply(step_bytes, origin->step_count, &bytes) || bytes > LIMIT_BYTES)
        return error_set(err, STATUS_INVALID,
                         "field '%s': samples of %zu steps of %s are beyond any memory",
                         origin->name, origin->step_count, size_format(step_bytes).text);
    for (int axis = field->rank++; axis > 0; axis--)
        field->shape[axis] = field->shape[axis - 1];
    field->shape[0] = field->step_count = origin->step_count;
    field->phase_count = origin->phase_count;
    field->phases = origin->phases;
    field->steps = origin->steps;
    field->sample_bytes = bytes;
    field->fill = dataset->private->fill;
    return STATUS_OK;
}

static enum status describe_samples(struct dataset *dataset, struct error *err)
{
    enum status status = ragged_lay_out(dataset, err);
    for (size_t i = 0; status == STATUS_OK && i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        struct dataset_field *field = &dataset->fields[i];
        field->name = origin->name;
        field->decode_amplification = 1.0;
        if (origin->array) {
            describe_frame(origin, field);
            crops_describe(dataset, i);
        } else if (origin->is_items) {
            ragged_describe(dataset, i, field);
        } else {
            describe_made(dataset, origin, field); /* for one before, by name */
        }
        status = describe_steps(dataset, origin, field, err);
    }
    return status != STATUS_OK ? status : crops_check(dataset, err);
}

/* Frames of a row field's memory in a row buffer. */
static uint64_t memory_frames(const struct dataset *dataset, const struct dataset_field *field)
{
    return dataset->row_length + field->halo_before + field->halo_after;
}

/* Bytes of a row, settled by what the fingerprint covers: neither hold_limit nor masking counts. */
static uint64_t order_row_bytes(const struct dataset *dataset, size_t leader)
{
    uint64_t total = 0, bytes;
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct dataset_field *field = &dataset->fields[i];
        if (!dataset->private->origins[i].array || field->row_leader != i ||
            dataset->private->origins[i].index ||
            rows_is_held(dataset, i, leader, ORDER_HOLD_BYTES))
            continue;
        if (!size_multiply(memory_frames(dataset, field), field->frame_bytes, &bytes) ||
            bytes > LIMIT_BYTES)
            bytes = LIMIT_BYTES;
        total += size_round_up(bytes, ROW_ALIGNMENT);
    }
    return total + ragged_row_bytes(dataset);
}

static enum status settle_source(struct dataset *dataset, size_t i, size_t leader,
                                 struct error *err)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    uint64_t limit = dataset->private->hold_limit_bytes;
    struct dataset_field *field = &dataset->fields[i];
    if (!origin->array)
        return STATUS_OK;
    if (origin->is_absent) {
        field->source = FIELD_ABSENT;
        return STATUS_OK;
    }
    if (origin->index) {
        uint64_t bytes = rows_field_bytes(dataset, origin);
        if (bytes > limit)
            return error_set(
                err, STATUS_INVALID,
                "field '%s': array '%s' takes %s, and joined arrays are held whole: raise "
                "dataset.hold_limit (%s)",
                field->name, origin->array->array.path, size_format(bytes).text,
                size_format(limit).text);
        return STATUS_OK;
    }
    bool narrowed = dataset->private->row_length > 0;
    if (narrowed ? dataset->private->held_fields >> i & 1 : rows_is_held(dataset, i, leader, limit))
        return STATUS_OK;
    field->source = FIELD_ROW;
    field->decode_amplification = rows_amplification(dataset, i);
    field->hold_bytes =
        rows_is_held(dataset, i, leader, UINT64_MAX) ? rows_field_bytes(dataset, origin) : 0;
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
    if (!origin->array || field->source == FIELD_ABSENT)
        return true;
    if (field->row_leader != i) { /* the leader's memory, which comes before by name */
        field->row_offset = dataset->fields[field->row_leader].row_offset;
        origin->held_offset = dataset->private->origins[field->row_leader].held_offset;
        return true;
    }
    if (field->source == FIELD_ROW) {
        if (!lay_out(row, memory_frames(dataset, field), field->frame_bytes, ROW_ALIGNMENT,
                     &field->row_offset))
            return false;
        field->row_offset += field->halo_before * field->frame_bytes;
        return lay_out_record(record, field->record_frames * field->frame_bytes);
    }
    return lay_out(held, 1, rows_field_bytes(dataset, origin), HELD_ALIGNMENT,
                   &origin->held_offset) &&
           (!origin->index || lay_out(held, dataset->frame_count, sizeof(int64_t), HELD_ALIGNMENT,
                                      &origin->index_offset));
}

/* Offsets are held as they are read, store by store, and are one less for each further store when
 * they are checked. */
static bool lay_out_ragged(struct dataset *dataset, uint64_t *held)
{
    bool fits = true;
    for (size_t r = 0; r < dataset->ragged_count && fits; r++) {
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        const struct ragged *ragged = &dataset->ragged[r];
        uint64_t count = ragged_entries_before(origin, dataset->store_count) + dataset->store_count;
        fits = lay_out(held, count, sizeof(uint64_t), HELD_ALIGNMENT, &origin->held_offset);
        if (fits && origin->panel)
            fits =
                lay_out(held, count, sizeof(uint64_t), HELD_ALIGNMENT, &origin->panel->held_offset);
        for (size_t c = 0; c < origin->column_count && origin->is_held && fits; c++)
            fits = lay_out(held, ragged->item_count, ragged->columns[c].item_bytes, HELD_ALIGNMENT,
                           &origin->items_offset[c]);
        if (fits && origin->index.node)
            fits = lay_out(held, dataset->frame_count, sizeof(int64_t), HELD_ALIGNMENT,
                           &origin->index_offset);
    }
    return fits;
}

/* Of one sample, as delivered; where samples have unequal numbers of items, on average. */
static uint64_t delivered_bytes(const struct dataset *dataset, const struct dataset_field *field)
{
    const struct ragged *ragged = field->ragged;
    if (!ragged || !ragged_has_item_shape(ragged))
        return field->sample_bytes;
    if (ragged->form == RAGGED_BOUND && field->source != FIELD_RAGGED)
        return field->sample_bytes;
    uint64_t steps = max_u64(ragged->step_count, 1);
    double items = (double)ragged->frame_items / (double)dataset->frame_count;
    return steps * (field->source == FIELD_RAGGED
                        ? (uint64_t)((double)field->sample_bytes * items + 0.5)
                        : field->sample_bytes);
}

static enum status settle_offsets(struct dataset *dataset, struct error *err)
{
    uint64_t row = 0, record = 0, held = 0, sample = 0;
    for (size_t i = 0; i < dataset->field_count; i++) {
        size_t sample_offset;
        if (!lay_out_field(dataset, i, &row, &record, &held) ||
            !lay_out(&sample, 1, delivered_bytes(dataset, &dataset->fields[i]), 1, &sample_offset))
            return error_set(err, STATUS_INVALID,
                             "field '%s': rows of %" PRIu64 " frame%s of %s are beyond any memory",
                             dataset->fields[i].name, memory_frames(dataset, &dataset->fields[i]),
                             count_plural(memory_frames(dataset, &dataset->fields[i])),
                             size_format(dataset->fields[i].frame_bytes).text);
    }
    if (!lay_out_ragged(dataset, &held))
        return error_set(err, STATUS_INVALID, "%" PRIu64 " offsets are beyond any memory",
                         dataset->frame_count);
    if (dataset->mask) {
        if (!lay_out(&row, dataset->row_length, 1, ROW_ALIGNMENT, &dataset->valid_offset) ||
            !lay_out_record(&record, 1))
            return error_set(err, STATUS_INVALID,
                             "rows of %" PRIu64 " frame%s are beyond any memory",
                             dataset->row_length, count_plural(dataset->row_length));
    }
    dataset->row_bytes = row > 0 ? row : ROW_ALIGNMENT; /* ragged fields alone */
    dataset->record_bytes = record;
    dataset->held_bytes = held;
    dataset->sample_bytes = sample;
    return STATUS_OK;
}

/* Tables of references and directories of zip archives; and manifests of Icechunk repositories: the
 * largest one, and what stores
 * keep in any case; the others are what is inflated otherwise. */
static enum status settle_catalogue(struct dataset *dataset, const struct zarr_array *const *arrays,
                                    size_t count, struct error *err)
{
    struct store_catalogue sum = {0};
    for (size_t i = 0; i < count; i++) {
        struct store_catalogue of;
        enum status status = store_catalogue_below(dataset->private->store,
                                                   zarr_array_store_path(arrays[i]).text, &of, err);
        if (status != STATUS_OK)
            return status;
        sum.most_bytes = max_u64(sum.most_bytes, of.most_bytes);
        sum.all_bytes = add_sat(sum.all_bytes, of.all_bytes);
        sum.stored_bytes = max_u64(sum.stored_bytes, of.stored_bytes);
        sum.kept_bytes = max_u64(sum.kept_bytes, of.kept_bytes);
    }
    uint64_t held = max_u64(sum.most_bytes, sum.kept_bytes);
    store_reserve(dataset->private->store, (int64_t)min_u64(held - sum.kept_bytes, INT64_MAX));
    held = min_u64(held, sum.all_bytes);
    dataset->catalogue_bytes =
        add_sat(add_sat(held, sum.stored_bytes), store_table_bytes(dataset->private->store));
    dataset->inflated_bytes = add_sat(dataset->inflated_bytes, sum.all_bytes - held);
    return STATUS_OK;
}

static enum status settle_scratch(struct dataset *dataset, struct error *err)
{
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    size_t count = dataset_row_arrays(dataset, arrays);
    for (size_t i = 0; i < count; i++) {
        struct store_inflate inflate =
            store_inflate_below(dataset->private->store, zarr_array_store_path(arrays[i]).text);
        bool in_parts = arrays[i]->shard_level_count > 0 || codec_chain_is_raw(&arrays[i]->codecs);
        dataset->inflate_bytes = max_u64(dataset->inflate_bytes, inflate.most_bytes);
        if (in_parts)
            dataset->inflated_bytes = add_sat(dataset->inflated_bytes, inflate.all_bytes);
    }
    dataset->scratch_bytes = zarr_chunk_reader_bytes_with(dataset->private->store, arrays, count,
                                                          &dataset->private->read);
    dataset->scratch_bytes += sift_bytes(dataset);
    dataset->index_bytes = shard_cache_bytes(arrays, count, dataset->private->index_cache_bytes);
    return settle_catalogue(dataset, arrays, count, err);
}

enum status layout_settle_rows(struct dataset *dataset, struct error *err)
{
    dataset->frame_count = dataset->private->first_frame[dataset->private->store_count];
    enum status status = describe_samples(dataset, err);
    if (status == STATUS_OK)
        status = phases_settle(dataset, err);
    if (status == STATUS_OK)
        status = steps_settle(dataset, err);
    if (status == STATUS_OK)
        status = rows_settle(dataset, err);
    if (status != STATUS_OK)
        return status;
    rows_hold_values(dataset);
    ragged_note_late(dataset);
    return ragged_settle_pages(dataset, err);
}

/* What each process has of the lengths of ragged fields, and of panels. */
static size_t lists_bytes(const struct dataset *dataset)
{
    size_t bytes = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        bytes += origin->list.size;
        if (origin->panel)
            bytes += origin->panel->number_count * sizeof *origin->panel->numbers;
    }
    return bytes;
}

enum status layout_settle(struct dataset *dataset, struct error *err)
{
    const struct anchors *anchors = dataset->private->anchors;
    size_t leader = rows_leader(dataset);
    dataset->anchors = anchors;
    dataset->anchor_bytes = (anchors ? anchors_bytes(anchors) : 0) +
                            dataset->private->document_count * sizeof(uint64_t) +
                            lists_bytes(dataset);
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->private->origins[i].matches)
            dataset->anchor_bytes += dataset->frame_count * sizeof(int64_t);
    dataset->sample_count = anchors ? anchors_count(anchors) : dataset->frame_count;
    enum status status = settle_sources(dataset, leader, err);
    if (status == STATUS_OK)
        status = settle_offsets(dataset, err);
    if (status == STATUS_OK)
        status = settle_scratch(dataset, err);
    if (status != STATUS_OK)
        return status;
    dataset->order_row_bytes = order_row_bytes(dataset, leader);
    dataset->fingerprint = fingerprint_of(dataset);
    return STATUS_OK;
}

void dataset_keep_inflated(struct dataset *dataset, uint64_t bytes)
{
    if (dataset->source_count == 0)
        store_reserve(dataset->private->store, (int64_t)min_u64(bytes, INT64_MAX));
    for (uint32_t d = 0; d < dataset->source_count; d++) {
        uint64_t part = min_u64(bytes, dataset->sources[d]->inflated_bytes);
        dataset_keep_inflated(dataset->sources[d], part);
        bytes -= part;
    }
}
