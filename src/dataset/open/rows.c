/* See rows.h. */
#include "dataset/open/rows.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/ragged/ragged_layout.h"
#include "dataset/ragged/ragged_open.h"

#include <assert.h>

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

size_t rows_leader(const struct dataset *dataset)
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

enum status rows_settle(struct dataset *dataset, struct error *err)
{
    uint64_t length = dataset->private->row_length;
    weigh_values(dataset, ORDER_HOLD_BYTES);
    size_t leader = rows_leader(dataset);
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

double rows_amplification(const struct dataset *dataset, size_t i)
{
    const struct dataset_private *private = dataset->private;
    struct reads sum = {0};
    for (size_t s = 0; s < private->store_count; s++)
        add_reads(&sum, &private->origins[i].store_fields[s].array, dataset->row_length,
                  halo_of(&dataset->fields[i]));
    return (double)sum.reads / (double)sum.chunks;
}

uint64_t rows_field_bytes(const struct dataset *dataset, const struct field_origin *origin)
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

bool rows_is_held(const struct dataset *dataset, size_t i, size_t leader, uint64_t limit_bytes)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    const struct dataset_field *field = &dataset->fields[i];
    bool leads =
        leader < dataset->field_count && field->row_leader == dataset->fields[leader].row_leader;
    return !leads && !is_bearable(rows_amplification(dataset, i), halo_of(field)) &&
           rows_field_bytes(dataset, origin) <= limit_bytes;
}

void rows_hold_values(struct dataset *dataset)
{
    const struct ragged *leader =
        rows_leader(dataset) == dataset->field_count ? ragged_leader(dataset) : NULL;
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
