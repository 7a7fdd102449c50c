/* How much rows take in the store, from a sample. Asks for sizes of chunks only; see dataset.h. */
#include "dataset/dataset_internal.h"

#include <assert.h>

/* Of a remote store, where each question waits for an answer, few are asked. */
enum { MAX_ROWS = 64, MIN_ROWS = 8, MAX_QUESTIONS = 512, MAX_REMOTE_QUESTIONS = 32 };

/* The chunks of one array that a row needs: a box of the chunk grid. */
struct chunk_box {
    const struct zarr_array *array;
    uint64_t first; /* along axis 0 */
    uint64_t counts[ZARR_MAX_RANK];
    uint64_t count; /* of all of them */
    bool mask;      /* a chunk that cannot be had is masked later, and counts nothing */
};

static struct chunk_box box_of(const struct dataset *dataset, size_t field, uint64_t row)
{
    struct chunk_box box = {.array = dataset->private->origins[field].array, .mask = dataset->mask};
    uint64_t count = 1;
    uint64_t begin = row * dataset->row_length;
    uint64_t end = begin + dataset_row_samples(dataset, row);

    box.first = begin / box.array->chunk_shape[0];
    for (int i = 0; i < box.array->rank; i++) {
        box.counts[i] = i == 0 ? (end - 1) / box.array->chunk_shape[0] - box.first + 1
                               : box.array->chunk_counts[i];
        count *= box.counts[i];
    }
    box.count = count;
    return box;
}

/* The place of the i-th of n questions spread evenly over `count` things. */
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
        index[i] = number % box->counts[i];
        number /= box->counts[i];
    }
    index[0] += box->first;
    zarr_chunk_key(box->array, index, key);
    enum status status = store_stat(store, key, &info, err);
    if (status == STATUS_NOT_FOUND || (status == STATUS_IO && box->mask))
        return STATUS_OK;
    if (status == STATUS_OK)
        *sum += info.bytes;
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

/* Adds a row's bytes, found out by about `limit` questions: at least one a field. */
static enum status add_row(const struct dataset *dataset, uint64_t row, uint64_t limit,
                           uint64_t *bytes, struct error *err)
{
    struct chunk_box boxes[DATASET_MAX_FIELDS];
    enum status status = STATUS_OK;
    uint64_t chunks = 0;
    size_t count = 0;

    for (size_t i = 0; i < dataset->field_count; i++) {
        if (dataset->fields[i].source != FIELD_ROW)
            continue;
        boxes[count] = box_of(dataset, i, row);
        chunks += boxes[count++].count;
    }
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        uint64_t questions = boxes[i].count;

        if (chunks > limit) { /* the field's part of what is left when each had one */
            double part = (double)questions / (double)chunks;
            questions = 1 + (limit > count ? (uint64_t)(part * (double)(limit - count)) : 0);
        }
        status = add_box(dataset->private->store, &boxes[i], questions, bytes, err);
    }
    return status;
}

static uint64_t most_questions(const struct dataset *dataset)
{
    return store_is_remote(dataset->private->store) ? MAX_REMOTE_QUESTIONS : MAX_QUESTIONS;
}

/* All rows have about as many chunks as the first one. */
static uint64_t rows_to_ask(const struct dataset *dataset)
{
    uint64_t chunks = 0;

    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_ROW)
            chunks += box_of(dataset, i, 0).count;
    uint64_t rows = most_questions(dataset) / (chunks > 0 ? chunks : 1);
    rows = rows < MIN_ROWS ? MIN_ROWS : rows > MAX_ROWS ? MAX_ROWS : rows;
    return rows < dataset->row_count ? rows : dataset->row_count;
}

enum status dataset_stored_row_bytes(const struct dataset *dataset,
                                     struct dataset_stored_row *ret_row, struct error *err)
{
    struct dataset_stored_row sample = {.row_count = rows_to_ask(dataset)};
    uint64_t total = 0;

    assert(sample.row_count > 0);
    for (uint64_t i = 0; i < sample.row_count; i++) {
        uint64_t bytes = 0;
        uint64_t row = spread(dataset->row_count, i, sample.row_count);
        enum status status =
            add_row(dataset, row, most_questions(dataset) / sample.row_count, &bytes, err);

        if (status != STATUS_OK)
            return status;
        total += bytes;
        if (bytes > sample.max_bytes)
            sample.max_bytes = bytes;
    }
    sample.mean_bytes = total / sample.row_count;
    *ret_row = sample;
    return STATUS_OK;
}
