/* Reading chunk rows. See dataset.h; each reader belongs to one thread. */
#include "dataset/dataset_internal.h"

#include "zarr/chunk.h"

#include <assert.h>
#include <stdlib.h>

struct dataset_reader {
    const struct dataset *dataset; /* borrowed */
    struct zarr_chunk_reader *chunks;
};

uint64_t dataset_row_samples(const struct dataset *dataset, uint64_t row)
{
    uint64_t left = dataset->sample_count - row * dataset->row_length;

    return left < dataset->row_length ? left : dataset->row_length;
}

enum status dataset_reader_new(const struct dataset *dataset, struct dataset_reader **ret_reader,
                               struct error *err)
{
    const struct zarr_array *arrays[DATASET_MAX_FIELDS];
    struct dataset_reader *reader = calloc(1, sizeof *reader);
    size_t count = 0;

    if (!reader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a dataset reader");
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_ROW)
            arrays[count++] = dataset->private->origins[i].array;
    reader->dataset = dataset;
    enum status status =
        zarr_chunk_reader_new(dataset->private->store, arrays, count, &reader->chunks, err);
    if (status != STATUS_OK) {
        free(reader);
        return status;
    }
    zarr_chunk_reader_use_cache(reader->chunks, dataset->private->cache);
    *ret_reader = reader;
    return STATUS_OK;
}

void dataset_reader_free(struct dataset_reader *reader)
{
    if (!reader)
        return;
    zarr_chunk_reader_free(reader->chunks);
    free(reader);
}

static void add_stats(struct dataset_read_stats *sum, const struct zarr_read_stats *stats)
{
    sum->stored_bytes += stats->stored_bytes;
    sum->memory_bytes += stats->memory_bytes;
    sum->disk_bytes += stats->disk_bytes;
    sum->decoded_bytes += stats->decoded_bytes;
    sum->chunk_count += stats->chunk_count;
    sum->memory_chunk_count += stats->memory_chunk_count;
    sum->disk_chunk_count += stats->disk_chunk_count;
    sum->missing_chunk_count += stats->missing_chunk_count;
    sum->read_ns += stats->read_ns;
    sum->decode_ns += stats->decode_ns;
}

enum status dataset_read_row(struct dataset_reader *reader, uint64_t row, void *buffer,
                             struct dataset_read_stats *stats, struct error *err)
{
    return dataset_read_row_taped(reader, row, buffer, NULL, stats, err);
}

enum status dataset_read_row_taped(struct dataset_reader *reader, uint64_t row, void *buffer,
                                   struct zarr_tape *tape, struct dataset_read_stats *stats,
                                   struct error *err)
{
    const struct dataset *dataset = reader->dataset;
    uint64_t begin = row * dataset->row_length;
    struct zarr_read_stats row_stats = {0};
    enum status status = STATUS_OK;

    assert(row < dataset->row_count);
    zarr_chunk_reader_use_tape(reader->chunks, tape);
    for (size_t i = 0; status == STATUS_OK && i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_ROW)
            status =
                zarr_read_samples(reader->chunks, dataset->private->origins[i].array, begin,
                                  begin + dataset_row_samples(dataset, row),
                                  (char *)buffer + dataset->fields[i].row_offset, &row_stats, err);
    zarr_chunk_reader_use_tape(reader->chunks, NULL);
    add_stats(stats, &row_stats);
    return status;
}
