/* The cost of a dataset's layout for a run, counted from metadata and sizes of files alone.
 *
 * A run shuffles samples over a window of W chunk rows of C samples each. With memory for all W
 * rows, each row is read once: a sample costs its share of the stored bytes, times the number of
 * times that chunks straddling rows are decoded. With memory for K < W rows, a sample's row is in
 * memory with a chance of K/W, and is read for that sample alone otherwise. C samples then cost C
 * (1 - K/W) reads of a row, and at least one. (Penstock refuses to start such a run; a loader that
 * reads sample by sample pays the cost.) Rows of one sample cost 1 with any memory.
 */
#include "cli/inspect/inspect.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/order/plan.h"

enum { SMALL_ROW_BYTES = 64 << 10, LARGE_ROW_BYTES = 256 << 20, GOOD_ROW_BYTES = 1 << 20 };

/* Below this a dataset is not written anew for it. */
static const double small_gain = 1.1;

/* The number of reads of a row of `length` samples, where `samples` are shuffled together. */
static double row_reads(double length, double samples, double row_bytes, double memory_bytes)
{
    double rows = samples / length, fitting = memory_bytes / row_bytes;
    double reads = fitting >= rows ? 1 : length * (1 - fitting / rows);
    return reads > 1 ? reads : 1;
}

static uint64_t stored_bytes_of(const struct inspection *inspection, const struct zarr_array *array)
{
    const struct zarr_node *nodes = inspection->hierarchy->nodes;
    for (size_t i = 0; i < inspection->hierarchy->node_count; i++)
        if (nodes[i].status == STATUS_OK &&
            zarr_hierarchy_find(inspection->hierarchy, array->path) == &nodes[i])
            return inspection->stored[i].bytes;
    return 0;
}

/* Of the array, or of what a field selects of it. */
static double chunk_count(const struct zarr_array *array)
{
    double count = (double)array->chunk_counts[0];
    for (int axis = 1; axis < array->rank; axis++)
        count *= (double)zarr_array_chunks_along(array, axis);
    return count;
}

/* Adds what one field costs where each row is read once. */
static void add_field(const struct inspection *inspection, size_t i, struct layout_cost *cost)
{
    const struct dataset *dataset = inspection->dataset;
    const struct dataset_field *field = &dataset->fields[i];
    const struct zarr_array *array = dataset_field_array(dataset, i);
    if (field->source != FIELD_ROW || field->row_leader != i)
        return;
    uint64_t stored_bytes = stored_bytes_of(inspection, array);
    double share = stored_bytes == STORED_UNKNOWN
                       ? (double)zarr_array_sample_bytes(array)
                       : (double)stored_bytes / (double)dataset->frame_count *
                             (chunk_count(array) / (double)zarr_array_chunk_count(array));
    double chunks = chunk_count(array) / (double)dataset->frame_count;
    cost->stored_bytes += share;
    cost->read_bytes += share * field->decode_amplification;
    cost->chunks += chunks * field->decode_amplification;
    cost->unaligned = cost->unaligned || (field->decode_amplification > small_gain &&
                                          field->halo_before + field->halo_after == 0);
    cost->across = cost->across || (array->chunk_shape[0] > 1 && array->chunk_counts[0] > 0 &&
                                    zarr_array_chunk_count(array) > array->chunk_counts[0]);
}

/* Adds what the items of a ragged field cost. */
static void add_ragged(const struct inspection *inspection, size_t r, struct layout_cost *cost)
{
    const struct dataset *dataset = inspection->dataset;
    const struct ragged *ragged = &dataset->ragged[r];
    for (size_t c = 0; c < ragged->column_count && !ragged->is_held; c++) {
        const struct zarr_array *array = dataset_ragged_array(dataset, r, c);
        uint64_t stored_bytes = stored_bytes_of(inspection, array);
        double share =
            (double)(stored_bytes == STORED_UNKNOWN ? array->total_bytes : stored_bytes) /
            (double)dataset->frame_count;
        cost->stored_bytes += share;
        cost->read_bytes += share * ragged->decode_amplification;
        cost->chunks +=
            chunk_count(array) / (double)dataset->frame_count * ragged->decode_amplification;
    }
}

/* A row's memory: of a ragged dataset, in the mean. */
static uint64_t row_memory(const struct dataset *dataset)
{
    uint64_t pages = dataset_most_pages(dataset, dataset->row_count);
    return dataset->row_bytes +
           mul_sat(pages, dataset->page_bytes) / max_u64(dataset->row_count, 1);
}

/* Chunks of about a mebibyte, shorter where memory does not hold their window. */
static void suggest(const struct dataset *dataset, double window_samples, struct layout_cost *cost)
{
    double sample_bytes = (double)dataset->row_bytes / (double)dataset->row_length;
    uint64_t length = (uint64_t)(GOOD_ROW_BYTES / sample_bytes);
    double memory = (double)cost->memory_bytes;
    length = min_u64(max_u64(length, 1), dataset->sample_count);
    while ((double)(length / 2) * sample_bytes >= SMALL_ROW_BYTES &&
           row_reads((double)length, window_samples, (double)length * sample_bytes, memory) >
               small_gain)
        length /= 2;
    if (length == dataset->row_length && !cost->across && !cost->unaligned)
        return;
    size_t fields = 0;
    for (size_t i = 0; i < dataset->field_count; i++)
        fields += dataset->fields[i].source == FIELD_ROW;
    double amplification =
        row_reads((double)length, window_samples, (double)length * sample_bytes, memory);
    double reads = (double)fields * amplification / (double)length;
    if (cost->amplification <= small_gain * amplification && cost->chunks <= small_gain * reads)
        return;
    cost->chunk = length;
    cost->chunk_amplification = amplification;
    cost->chunk_reads = reads;
}

const struct zarr_node *inspect_largest(const struct inspection *inspection)
{
    const struct zarr_node *largest = NULL;
    for (size_t i = 0; i < inspection->hierarchy->node_count; i++) {
        const struct zarr_node *node = &inspection->hierarchy->nodes[i];
        if (node->status == STATUS_OK &&
            (!largest || node->array.total_bytes > largest->array.total_bytes))
            largest = node;
    }
    return largest;
}

/* Whether `penstock rechunk` gives the fields chunks of another length: items of ragged fields keep
 * theirs, and so do arrays of another length than that of the largest array. Frames before and
 * behind a row are read again whatever the chunks are. */
static bool can_suggest(const struct inspection *inspection)
{
    const struct dataset *dataset = inspection->dataset;
    const struct zarr_node *largest = inspect_largest(inspection);
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].halo_before + dataset->fields[i].halo_after > 0)
            return false;
    return !inspection->group[0] && dataset->ragged_count == 0 && largest &&
           largest->array.rank > 0 && largest->array.shape[0] == dataset->frame_count;
}

/* The rows of a window: as configured, or as many as a run takes by itself. */
static uint64_t count_window_rows(const struct dataset *dataset, uint64_t window_rows,
                                  uint64_t global_batch)
{
    const struct plan_options options = {.sample_count = dataset->sample_count,
                                         .row_length = dataset->row_length,
                                         .store_frames = dataset->store_frames,
                                         .store_rows = dataset->store_rows,
                                         .store_count = dataset->store_count,
                                         .anchors = dataset->anchors,
                                         .window_rows = window_rows,
                                         .row_bytes = dataset->order_row_bytes,
                                         .global_batch = global_batch,
                                         .last = PLAN_PARTIAL,
                                         .trainer_count = 1};
    struct plan plan;
    return plan_init(&plan, &options, NULL) == STATUS_OK ? plan.window_rows : dataset->row_count;
}

void inspect_count_cost(const struct inspection *inspection, uint64_t window_rows,
                        uint64_t global_batch, uint64_t memory_bytes, struct layout_cost *ret_cost)
{
    const struct dataset *dataset = inspection->dataset;
    struct layout_cost cost = {.memory_bytes = memory_bytes};
    cost.window_rows = count_window_rows(dataset, window_rows, global_batch);
    uint64_t row_bytes = row_memory(dataset);
    cost.window_bytes = mul_sat(cost.window_rows, row_bytes);
    if (dataset->row_length == 1)
        cost.window_bytes = 0; /* each row is one sample's, and given up after it */
    for (size_t i = 0; i < dataset->field_count; i++)
        add_field(inspection, i, &cost);
    for (size_t r = 0; r < dataset->ragged_count; r++)
        add_ragged(inspection, r, &cost);

    double window_samples = (double)cost.window_rows * (double)dataset->row_length;
    double reads = row_reads((double)dataset->row_length, window_samples, (double)row_bytes,
                             (double)memory_bytes);
    cost.read_bytes *= reads;
    cost.chunks *= reads;
    cost.amplification = cost.stored_bytes > 0 ? cost.read_bytes / cost.stored_bytes : reads;
    cost.row_bytes = row_bytes;
    cost.small = row_bytes < SMALL_ROW_BYTES && dataset->row_count > 1;
    cost.large = row_bytes > LARGE_ROW_BYTES && dataset->row_length > 1;
    bool improvable = cost.small || cost.large || cost.across || cost.amplification > small_gain;
    if (improvable && can_suggest(inspection))
        suggest(dataset, window_samples, &cost);
    *ret_cost = cost;
}
