/* See dataset.h: how many bytes rows take in the store, estimated. Asks only for sizes of chunks.
 */
#include "dataset/dataset_internal.h"

#include "anchors/anchors.h"
#include "base/number.h"
#include "dataset/panel.h"
#include "dataset/read/row_walk.h"
#include "zarr/chunk/chunk.h"

#include <assert.h>

/* Of a remote store, where each question waits for an answer, few are asked. */
enum { MAX_ROWS = 64, MIN_ROWS = 8, MAX_QUESTIONS = 512, MAX_REMOTE_QUESTIONS = 32 };

/* The chunks of one array that a row needs: a box of the chunk grid, or of what is selected of it.
 */
struct chunk_box {
    const struct zarr_array *array;
    uint64_t begin, end; /* the row's samples in the array */
    uint64_t first;      /* along axis 0, the sample axis */
    uint64_t counts[ZARR_MAX_RANK];
    uint64_t count; /* of all of them */
    bool mask;      /* a chunk that cannot be had is masked later, and counts nothing */
};

static struct chunk_box box_of(const struct dataset *dataset, const struct zarr_array *array,
                               uint64_t begin, uint64_t end)
{
    struct chunk_box box = {
        .array = array, .mask = dataset->mask, .count = 1, .begin = begin, .end = end};
    box.first = begin / array->chunk_shape[0];
    for (int i = 0; i < array->rank; i++) {
        box.counts[i] = i == 0 ? (end - 1) / array->chunk_shape[0] - box.first + 1
                               : zarr_array_chunks_along(array, i);
        box.count *= box.counts[i];
    }
    return box;
}

/* Steps to the next of the row's boxes: those of each row field in each store that it touches. */
static bool next_box(const struct dataset *dataset, struct row_walk *walk,
                     struct chunk_box *ret_box)
{
    struct row_span span;
    if (!row_next(dataset, walk, &span) || span.column)
        return false; /* columns come last, and are estimated otherwise */
    *ret_box = box_of(dataset, span.array, span.begin, span.end);
    return true;
}

/* Chunks of a row, and in how many boxes. */
static uint64_t count_chunks(const struct dataset *dataset, uint64_t row, uint64_t *ret_boxes)
{
    struct row_walk walk = row_begin(dataset, row);
    uint64_t chunks = 0, boxes = 0;
    struct chunk_box box;
    for (; next_box(dataset, &walk, &box); boxes++)
        chunks += box.count;
    *ret_boxes = boxes;
    return chunks;
}

/* The index of the i-th of n questions spread evenly over `count` things. */
static uint64_t spread(uint64_t count, uint64_t i, uint64_t n)
{
    return (uint64_t)((unsigned __int128)count * i / n);
}

/* The `number`-th chunk of the box. */
static enum status add_chunk(const struct store *store, const struct chunk_box *box,
                             uint64_t number, uint64_t *sum, struct error *err)
{
    uint64_t index[ZARR_MAX_RANK];
    char key[ZARR_KEY_BYTES];
    struct store_info info;
    assert(box->array->rank >= 1);
    for (int i = box->array->rank - 1; i >= 0; i--) {
        const struct zarr_selection *selection = box->array->selections[i];
        uint64_t ordinal = number % box->counts[i];
        index[i] = selection ? selection->chunks[ordinal] : ordinal;
        number /= box->counts[i];
    }
    index[0] += box->first;
    zarr_chunk_key(box->array, index, key);
    enum status status = store_stat(store, key, &info, err);
    if (status == STATUS_NOT_FOUND || (status == STATUS_IO && box->mask))
        return STATUS_OK;
    if (status == STATUS_OK)
        *sum += zarr_range_stored_bytes(box->array, index, box->begin, box->end, info.bytes);
    return status;
}

/* Looks at `questions` of the box's chunks, evenly spread, and adds what all would take. */
static enum status add_box(const struct store *store, const struct chunk_box *box,
                           uint64_t questions, uint64_t *bytes, struct error *err)
{
    enum status status = STATUS_OK;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < questions && status == STATUS_OK; i++)
        status = add_chunk(store, box, spread(box->count, i, questions), &sum, err);
    if (status == STATUS_OK)
        *bytes += (uint64_t)((double)sum * (double)box->count / (double)questions);
    return status;
}

/* Adds a row's bytes, found out by about `limit` questions: at least one a box. */
static enum status add_row(const struct dataset *dataset, uint64_t row, uint64_t limit,
                           uint64_t *bytes, struct error *err)
{
    struct row_walk walk = row_begin(dataset, row);
    enum status status = STATUS_OK;
    struct chunk_box box;
    uint64_t boxes, chunks = count_chunks(dataset, row, &boxes);
    while (status == STATUS_OK && next_box(dataset, &walk, &box)) {
        uint64_t questions = box.count;
        if (chunks > limit) { /* the box's fraction of what is left when each had one */
            double fraction = (double)questions / (double)chunks;
            questions = 1 + (limit > boxes ? (uint64_t)(fraction * (double)(limit - boxes)) : 0);
        }
        status = add_box(dataset->private->store, &box, questions, bytes, err);
    }
    return status;
}

static uint64_t most_questions(const struct dataset *dataset)
{
    return store_is_remote(dataset->private->store) ? MAX_REMOTE_QUESTIONS : MAX_QUESTIONS;
}

/* Rows that have samples: no other row is read. */
struct read_rows {
    const struct dataset *dataset;
    uint64_t row;   /* the row that is looked at */
    uint64_t count; /* rows that have samples before it */
};

static bool is_read(const struct read_rows *rows)
{
    const struct anchors *anchors = rows->dataset->anchors;
    return !anchors || anchors_row_samples(anchors, rows->row) > 0;
}

static uint64_t count_read_rows(const struct dataset *dataset)
{
    struct read_rows rows = {.dataset = dataset};
    if (!dataset->anchors)
        return dataset->row_count;
    for (; rows.row < dataset->row_count; rows.row++)
        rows.count += is_read(&rows);
    return rows.count;
}

/* Goes on to the `number`-th row that has samples, which is not before. */
static uint64_t seek_row(struct read_rows *rows, uint64_t number)
{
    if (!rows->dataset->anchors)
        return number;
    for (; rows->count < number || !is_read(rows); rows->row++)
        rows->count += is_read(rows);
    return rows->row;
}

/* All rows have about as many chunks as the row `first`. */
static uint64_t rows_to_ask(const struct dataset *dataset, uint64_t first, uint64_t row_count)
{
    uint64_t boxes, chunks = count_chunks(dataset, first, &boxes);
    uint64_t rows = most_questions(dataset) / (chunks > 0 ? chunks : 1);
    rows = rows < MIN_ROWS ? MIN_ROWS : rows > MAX_ROWS ? MAX_ROWS : rows;
    return rows < row_count ? rows : row_count;
}

/* Columns of ragged fields
 * ----------------------------------------------------------------------------------------------
 * Which of their chunks a row has is known only when the offsets are held. So chunks of the whole
 * arrays are looked at, and rows have their share of these. */

/* The mean stored size of the chunks of a column, in all stores, and how many there are. */
static enum status measure_column(const struct dataset *dataset, const struct ragged_array *column,
                                  uint64_t questions, double *ret_mean, uint64_t *ret_chunks,
                                  struct error *err)
{
    uint64_t asked = 0, sum = 0, chunks = 0;
    enum status status = STATUS_OK;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        const struct zarr_array *view = &column->views[s];
        uint64_t count = view->chunk_counts[0];
        uint64_t here = min_u64(count, max_u64(questions / dataset->store_count, 1));
        chunks += count;
        for (uint64_t i = 0; i < here && status == STATUS_OK; i++, asked++) {
            uint64_t begin = spread(count, i, here) * view->chunk_shape[0];
            struct chunk_box box =
                box_of(dataset, view, begin, min_u64(begin + view->chunk_shape[0], view->shape[0]));
            for (uint64_t k = 0; k < box.count && status == STATUS_OK; k++)
                status = add_chunk(dataset->private->store, &box, k, &sum, err);
        }
    }
    *ret_mean = asked > 0 ? (double)sum / (double)asked : 0;
    *ret_chunks = chunks;
    return status;
}

/* How often an epoch reads a chunk, or in parts, what a chunk has. */
static double reads_of(const struct ragged *ragged, const struct ragged_array *column)
{
    return codec_chain_is_raw(&column->views[0].codecs) ? 1 : ragged->decode_amplification;
}

/* Adds what the items of a row take, in the mean and at most. */
static enum status add_ragged(const struct dataset *dataset, uint64_t row_count,
                              struct dataset_stored_row *row, struct error *err)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        uint64_t questions = most_questions(dataset) / ragged->column_count;
        uint64_t most_pages = ragged->panel_count > 0 ? ragged->lengths->most_read_pages
                                                      : lengths_most(&ragged->lengths->rows, 1);
        double most_items = (double)most_pages * (double)panel_stored(dataset, r)->page_items;
        bool is_vlen = dataset->private->ragged_origins[r].is_vlen;
        for (size_t c = 0; c < ragged->column_count && !ragged->is_held; c++) {
            const struct ragged_array *column = &dataset->private->ragged_origins[r].columns[c];
            double bytes = (double)column->views[0].total_bytes + 1;
            double chunk_items = is_vlen ? bytes / (double)column->views[0].chunk_counts[0] /
                                               (double)ragged->columns[0].item_bytes
                                         : (double)column->views[0].chunk_shape[0];
            double mean, most = most_items / chunk_items + 1;
            uint64_t chunks;
            enum status status = measure_column(dataset, column, questions, &mean, &chunks, err);
            if (status != STATUS_OK)
                return status;
            row->mean_bytes +=
                (uint64_t)(mean * (double)chunks * reads_of(ragged, column) / (double)row_count);
            row->max_bytes += (uint64_t)(mean * most);
        }
    }
    return STATUS_OK;
}

/* The mean over all rows that are read. */
static enum status mix_row_bytes(const struct dataset *mix, struct dataset_stored_row *ret_row,
                                 struct error *err)
{
    struct dataset_stored_row sum = {0};
    double bytes = 0, rows = 0;
    for (uint32_t d = 0; d < mix->source_count; d++) {
        struct dataset_stored_row row;
        double count = (double)count_read_rows(mix->sources[d]);
        enum status status = dataset_stored_row_bytes(mix->sources[d], &row, err);
        if (status != STATUS_OK)
            return status;
        bytes += count * (double)row.mean_bytes;
        rows += count;
        sum.row_count += row.row_count;
        if (row.max_bytes > sum.max_bytes)
            sum.max_bytes = row.max_bytes;
    }
    sum.mean_bytes = (uint64_t)(bytes / rows);
    *ret_row = sum;
    return STATUS_OK;
}

enum status dataset_stored_row_bytes(const struct dataset *dataset,
                                     struct dataset_stored_row *ret_row, struct error *err)
{
    if (dataset->source_count > 0)
        return mix_row_bytes(dataset, ret_row, err);
    struct read_rows rows = {.dataset = dataset};
    uint64_t row_count = count_read_rows(dataset), total = 0;
    struct dataset_stored_row sample = {.row_count =
                                            rows_to_ask(dataset, seek_row(&rows, 0), row_count)};

    assert(sample.row_count > 0);
    for (uint64_t i = 0; i < sample.row_count; i++) {
        uint64_t bytes = 0;
        uint64_t row = seek_row(&rows, spread(row_count, i, sample.row_count));
        enum status status =
            add_row(dataset, row, most_questions(dataset) / sample.row_count, &bytes, err);
        if (status != STATUS_OK)
            return status;
        total += bytes;
        if (bytes > sample.max_bytes)
            sample.max_bytes = bytes;
    }
    sample.mean_bytes = total / sample.row_count;
    enum status status = add_ragged(dataset, row_count, &sample, err);
    if (status == STATUS_OK)
        *ret_row = sample;
    return status;
}
