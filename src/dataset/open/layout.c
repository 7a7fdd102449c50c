/* What follows from a dataset's fields: the sample count, rows, and where each field's bytes live.
 * Pure; called while opening. */
#include "dataset/open/settle.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/fields/slices.h"
#include "dataset/fields/steps.h"
#include "dataset/open/open.h"
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

/* The order goes by this limit, the first default of dataset.hold_limit, whatever is configured. */
#define ORDER_HOLD_BYTES ((uint64_t)1 << 30)

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

static uint64_t longest_store(const struct dataset *dataset)
{
    const struct dataset_private *private = dataset->private;
    uint64_t longest = 0;
    for (size_t s = 0; s < private->store_count; s++)
        longest = max_u64(longest, private->first_frame[s + 1] - private->first_frame[s]);
    assert(longest > 0); /* arrays are not empty */
    return longest;
}

/* Frames before and behind those of a row. */
struct halo {
    uint64_t before, after;
};

static struct halo halo_of(const struct dataset_field *field)
{
    return (struct halo){field->halo_before, field->halo_after};
}

static struct halo values_halo(const struct ragged_origin *origin)
{
    return (struct halo){origin->halo_before, origin->halo_after};
}

/* A row of so many chunks decodes chunks of halos again, at most a twentieth as many as its own, as
 * far as rows of ROW_BYTES allow. */
static uint64_t choose_row_chunks(const struct dataset *dataset, uint64_t chunk,
                                  uint64_t frame_bytes, struct halo around)
{
    const uint64_t row_bytes = (uint64_t)64 << 20, most_cost = 20;
    uint64_t all = size_divide_up(longest_store(dataset), chunk);
    uint64_t halo = around.before + around.after;
    uint64_t halo_chunks =
        size_divide_up(around.before, chunk) + size_divide_up(around.after, chunk);
    uint64_t frames = row_bytes / frame_bytes;
    uint64_t room = frames > halo ? (frames - halo) / chunk : 0;
    uint64_t chunks = dataset->private->row_chunks;
    if (chunks == 0)
        chunks = min_u64(most_cost * halo_chunks, room);
    return min_u64(max_u64(chunks, 1), all);
}

/* Rows of `length` frames, no longer than a store has: each store's own. */
static void cut_rows(struct dataset *dataset, uint64_t length)
{
    const struct dataset_private *private = dataset->private;
    assert(length > 0); /* chunks are not empty */
    dataset->row_length = min_u64(length, longest_store(dataset));
    for (size_t s = 0; s < private->store_count; s++) {
        uint64_t frames = private->first_frame[s + 1] - private->first_frame[s];
        private->first_row[s + 1] =
            private->first_row[s] + size_divide_up(frames, dataset->row_length);
    }
    dataset->row_count = private->first_row[private->store_count];
}

/* The direct field with the most bytes a frame; the number of fields if there is none, or a ragged
 * one has more. */
static size_t find_leader(const struct dataset *dataset)
{
    const struct field_origin *origins = dataset->private->origins;
    const struct ragged *ragged = ragged_leader(dataset);
    size_t leader = dataset->field_count;
    for (size_t i = 0; i < dataset->field_count; i++)
        if (origins[i].array && !origins[i].index &&
            (leader == dataset->field_count ||
             dataset->fields[i].frame_bytes > dataset->fields[leader].frame_bytes))
            leader = i;
    if (leader < dataset->field_count && ragged &&
        ragged_frame_bytes(dataset, ragged) > dataset->fields[leader].frame_bytes)
        leader = dataset->field_count;
    return leader;
}

static uint64_t values_bytes(const struct dataset *dataset, const struct ragged_origin *origin)
{
    return mul_sat(origin->first_item[dataset->store_count],
                   origin->columns[0].views[0].item_bytes);
}

/* Values of variable length give rows their length only where they are more than any run holds by
 * default, or where nothing else does. */
static void weigh_values(struct dataset *dataset, uint64_t limit)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        origin->is_weighed = origin->is_vlen && !origin->index.node &&
                             (limit == 0 || values_bytes(dataset, origin) > limit);
    }
}

static enum status refuse_joined(const struct dataset *dataset, struct error *err)
{
    const struct field_origin *origins = dataset->private->origins;
    for (size_t i = 0; !origins->index; i++, origins++)
        if (i + 1 == dataset->field_count)
            return error_set(err, STATUS_INVALID,
                             "all fields are joined, and held whole: add a field that is read row "
                             "by row");
    return error_set(err, STATUS_INVALID,
                     "all fields are joined through an index: add one that is read directly, for "
                     "example array '%s'",
                     origins->index->array.path);
}

/* `ragged` leads, if there is one. */
static uint64_t choose_row_length(struct dataset *dataset, size_t leader,
                                  const struct ragged *ragged)
{
    const struct dataset_private *private = dataset->private;
    const struct zarr_array *array;
    struct halo halo;
    uint64_t frame_bytes, length;
    if (leader < dataset->field_count) {
        array = &private->origins[leader].store_fields[0].array;
        halo = halo_of(&dataset->fields[leader]);
        frame_bytes = dataset->fields[leader].frame_bytes;
    } else {
        const struct ragged_origin *origin = &private->ragged_origins[ragged - dataset->ragged];
        if (!origin->is_vlen)
            return ragged_row_length(dataset, ragged, &dataset->row_chunks);
        array = &origin->columns[0].views[0];
        halo = values_halo(origin);
        frame_bytes = ragged_frame_bytes(dataset, ragged);
    }
    dataset->row_chunks = choose_row_chunks(dataset, array->chunk_shape[0], frame_bytes, halo);
    return size_multiply(dataset->row_chunks, array->chunk_shape[0], &length) ? length : UINT64_MAX;
}

/* The leading array gives the rows their length. */
static enum status settle_rows(struct dataset *dataset, struct error *err)
{
    uint64_t length = dataset->private->row_length;
    weigh_values(dataset, ORDER_HOLD_BYTES);
    size_t leader = find_leader(dataset);
    if (leader == dataset->field_count && !ragged_leader(dataset))
        weigh_values(dataset, 0);
    const struct ragged *ragged = ragged_leader(dataset);
    if (length > 0)
        dataset->row_chunks = dataset->private->row_chunks;
    else if (leader < dataset->field_count || ragged)
        length = choose_row_length(dataset, leader, ragged);
    else
        return refuse_joined(dataset, err);
    cut_rows(dataset, length);
    return STATUS_OK;
}

/* How often an epoch reads a chunk of the array, for all chunks along the sample axis. Rows and
 * chunks cut the frames of a store, both from its first one on, into runs, each read once. */
static uint64_t count_reads(const struct zarr_array *array, uint64_t row)
{
    uint64_t chunk = array->chunk_shape[0], both;
    uint64_t last = array->shape[0] > 0 ? array->shape[0] - 1 : 0;
    if (!size_multiply(row / greatest_common_divisor(chunk, row), chunk, &both))
        both = UINT64_MAX; /* frames from where both are cut to where both are cut again */
    return array->chunk_counts[0] + last / row - last / both;
}

/* As count_reads(), with halos. Of many rows only the first ones are looked at. */
static uint64_t count_reads_with_halos(const struct zarr_array *array, uint64_t row,
                                       struct halo halo)
{
    const uint64_t most = 4096;
    uint64_t rows = size_divide_up(array->shape[0], row), looked = min_u64(rows, most), reads = 0;
    for (uint64_t r = 0; r < looked; r++) {
        uint64_t begin = r * row - min_u64(r * row, halo.before);
        uint64_t end = min_u64((r + 1) * row + halo.after, array->shape[0]);
        reads += (end - 1) / array->chunk_shape[0] - begin / array->chunk_shape[0] + 1;
    }
    return (uint64_t)((unsigned __int128)reads * rows / max_u64(looked, 1));
}

/* Chunk reads of an epoch, of the arrays of all stores, and their chunks along the sample axis. */
struct reads {
    uint64_t reads, chunks;
};

static void add_reads(struct reads *sum, const struct zarr_array *array, uint64_t row,
                      struct halo halo)
{
    sum->chunks += array->chunk_counts[0];
    sum->reads += halo.before + halo.after > 0 ? count_reads_with_halos(array, row, halo)
                                               : count_reads(array, row);
}

static double decode_amplification(const struct dataset *dataset, size_t i)
{
    const struct dataset_private *private = dataset->private;
    struct reads sum = {0};
    for (size_t s = 0; s < private->store_count; s++)
        add_reads(&sum, &private->origins[i].store_fields[s].array, dataset->row_length,
                  halo_of(&dataset->fields[i]));
    return (double)sum.reads / (double)sum.chunks;
}

static uint64_t total_bytes(const struct dataset *dataset, const struct field_origin *origin)
{
    uint64_t total = 0;
    for (size_t s = 0; s < dataset_part_count(dataset, origin->own_store); s++)
        if (__builtin_add_overflow(total, origin->store_fields[s].array.total_bytes, &total))
            return UINT64_MAX;
    return total;
}

/* Whether chunks are decoded so often that an array is better held. Halos alone, as small as those
 * of the rows shall be, are no reason. */
static bool is_bearable(double amplification, struct halo halo)
{
    return amplification <= (halo.before + halo.after > 0 ? 1.05 : 1.0);
}

/* Whether a direct field is held with that limit: not one of the array whose chunks are the rows.
 */
static bool is_held(const struct dataset *dataset, size_t i, size_t leader, uint64_t limit_bytes)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    const struct dataset_field *field = &dataset->fields[i];
    bool leads =
        leader < dataset->field_count && field->row_leader == dataset->fields[leader].row_leader;
    return !leads && !is_bearable(decode_amplification(dataset, i), halo_of(field)) &&
           total_bytes(dataset, origin) <= limit_bytes;
}

/* Likewise of values of variable length. Where the dataset was unpacked, that is known. */
static void hold_values(struct dataset *dataset)
{
    const struct ragged *leader =
        find_leader(dataset) == dataset->field_count ? ragged_leader(dataset) : NULL;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        struct halo halo = values_halo(origin);
        struct reads sum = {0};
        if (!origin->is_vlen || origin->index.node || origin->lengths ||
            leader == &dataset->ragged[r] ||
            values_bytes(dataset, origin) > dataset->private->hold_limit_bytes)
            continue;
        for (size_t s = 0; s < dataset->store_count; s++)
            add_reads(&sum, &origin->columns[0].views[s], dataset->row_length, halo);
        if (!is_bearable((double)sum.reads / (double)sum.chunks, halo))
            ragged_hold(dataset, r);
    }
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
            dataset->private->origins[i].index || is_held(dataset, i, leader, ORDER_HOLD_BYTES))
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
    bool narrowed = dataset->private->row_length > 0;
    if (narrowed ? dataset->private->held_fields >> i & 1 : is_held(dataset, i, leader, limit))
        return STATUS_OK;
    field->source = FIELD_ROW;
    field->decode_amplification = decode_amplification(dataset, i);
    field->hold_bytes = is_held(dataset, i, leader, UINT64_MAX) ? total_bytes(dataset, origin) : 0;
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
    return lay_out(held, 1, total_bytes(dataset, origin), HELD_ALIGNMENT, &origin->held_offset) &&
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
        status = settle_rows(dataset, err);
    if (status != STATUS_OK)
        return status;
    hold_values(dataset);
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
    size_t leader = find_leader(dataset);
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
