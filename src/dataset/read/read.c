/* See dataset.h: reading chunk rows. Each reader belongs to one thread. */
#include "dataset/dataset_internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "dataset/panel.h"
#include "dataset/read/bad_frames.h"
#include "dataset/read/bad_log.h"
#include "dataset/read/identity.h"
#include "dataset/read/ragged_read.h"
#include "dataset/read/ragged_rows.h"
#include "dataset/read/row_walk.h"
#include "dataset/read/sift.h"
#include "zarr/chunk/chunk.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct dataset_reader {
    const struct dataset *dataset;   /* borrowed */
    struct dataset_reader **sources; /* owned, of a mix: a reader of each source, which has all the
                                      * rest */
    struct dataset_reader *last;     /* of a mix: the one that has read last */
    struct zarr_chunk_reader *chunks;
    struct zarr_faults faults;
    uint64_t checked_ns;               /* when the metadata was last looked at */
    const struct row_walk *walk;       /* of the row that is being read */
    const struct row_span *span;       /* of the walk, that is being read */
    const struct dataset_pages *pages; /* of the row; NULL: none */
    unsigned char *page;               /* of a span of items, and */
    unsigned char *target;             /* where in the page they are decoded to */
    unsigned char *sifted; /* owned: pages that items of a panel are sifted from; NULL: none */
    bool is_lacking;       /* some of the ragged field's items in them could not be had */
    unsigned char *valid;  /* the row's bytes that say which samples are good; NULL: no masking */
    bool may_try_again; /* some of the row's samples are masked, as the store did not give them */
};

static struct dataset_reader *reader_of(struct zarr_faults *faults)
{
    return (struct dataset_reader *)((char *)faults - offsetof(struct dataset_reader, faults));
}

/* Chunks that are gone or make no sense may be those of another dataset at the same path: one that
 * was written anew has newer metadata. Looked at a few times a second at most, since chunks may be
 * missing by right. */
static enum status check_unchanged(struct zarr_faults *faults, const struct zarr_array *array,
                                   struct error *err)
{
    const uint64_t rarely_ns = 200000000;
    struct dataset_reader *reader = reader_of(faults);
    uint64_t now = clock_now_ns();
    if (now - reader->checked_ns < rarely_ns)
        return STATUS_OK;
    reader->checked_ns = now;
    return dataset_check_unchanged(reader->dataset, array, err);
}

/* Lists a chunk that makes frames bad. */
static enum status log_bad(struct dataset_reader *reader, const struct zarr_array *array,
                           const uint64_t *chunk_index, uint64_t first, uint64_t end,
                           const struct error *cause, struct error *err)
{
    const struct dataset *dataset = reader->dataset;
    struct bad_chunk bad = {.source = dataset->private->mix ? (int32_t)dataset->source : -1,
                            .chunk = zarr_index_format(array, chunk_index),
                            .first_sample = first,
                            .sample_count = end - first,
                            .cause = *cause};
    memcpy(bad.array, array->path, sizeof bad.array);
    if (!bad_log_add(dataset->private->bad_log, &bad)) {
        if (err)
            *err = *cause;
        return error_prefix(err, (enum status)cause->status,
                            "more bad chunks at once than can be listed, one of them: ");
    }
    reader->may_try_again |= cause->status == STATUS_IO;
    return STATUS_OK;
}

/* Items [begin, end) of a store that cannot be had become zero: the samples are bad that have some
 * of them. */
static void zero_items(struct dataset_reader *reader, const struct zarr_array *array,
                       uint64_t begin, uint64_t end)
{
    const struct dataset *dataset = reader->dataset;
    const struct row_span *span = reader->span;
    const uint64_t *offsets = panel_stored(dataset, span->field)->offsets;
    size_t item_bytes = zarr_array_sample_bytes(array);
    uint64_t last = ragged_frame_of(dataset, span, end - 1);
    reader->is_lacking = true;
    memset(reader->target + (begin - span->begin) * item_bytes, 0, (end - begin) * item_bytes);
    for (uint64_t frame = ragged_frame_of(dataset, span, begin); frame <= last; frame++)
        if (offsets[frame] < offsets[frame + 1])
            mark_ragged(dataset, reader->walk, span->field, frame, reader->valid);
}

/* Values [begin, end) of a store that cannot be had become zero. */
static void zero_values(struct dataset_reader *reader, uint64_t begin, uint64_t end)
{
    const struct dataset *dataset = reader->dataset;
    const struct row_span *span = reader->span;
    const uint64_t *offsets = dataset->ragged[span->field].offsets;
    uint64_t first = dataset->store_frames[span->store];
    for (uint64_t frame = first + begin; frame < first + end; frame++) {
        if (offsets[frame] == offsets[frame + 1])
            continue;
        ragged_zero_frame(dataset, span->field, &reader->walk->lies, reader->pages, frame);
        mark_ragged(dataset, reader->walk, span->field, frame, reader->valid);
    }
}

/* Lists a chunk that makes bad the frames of the items [begin, end). */
static enum status log_items(struct dataset_reader *reader, const struct zarr_array *array,
                             const uint64_t *chunk_index, uint64_t begin, uint64_t end,
                             const struct error *cause, struct error *err)
{
    uint64_t first = ragged_frame_of(reader->dataset, reader->span, begin);
    uint64_t last = ragged_frame_of(reader->dataset, reader->span, end - 1);
    return log_bad(reader, array, chunk_index, first, last + 1, cause, err);
}

/* Marks the samples that a chunk makes bad, and lists it. */
static enum status mask_samples(struct zarr_faults *faults, const struct zarr_array *array,
                                const uint64_t *chunk_index, uint64_t begin, uint64_t end,
                                const struct error *cause, struct error *err)
{
    struct dataset_reader *reader = reader_of(faults);
    const struct dataset *dataset = reader->dataset;
    uint64_t first = dataset->store_frames[reader->span->store] + begin;
    if (array->is_vlen) {
        zero_values(reader, begin, end);
        return log_bad(reader, array, chunk_index, first, first + (end - begin), cause, err);
    }
    if (reader->span->column) {
        zero_items(reader, array, begin, end);
        return log_items(reader, array, chunk_index, begin, end, cause, err);
    }
    mark_touching(dataset, reader->walk, reader->span->field, first, first + (end - begin),
                  reader->valid);
    return log_bad(reader, array, chunk_index, first, first + (end - begin), cause, err);
}

static enum status new_mix_reader(const struct dataset *mix, struct dataset_reader **ret_reader,
                                  struct error *err)
{
    struct dataset_reader *reader = calloc(1, sizeof *reader);
    enum status status = STATUS_OK;
    if (reader)
        reader->sources = calloc(mix->source_count, sizeof *reader->sources);
    if (!reader || !reader->sources)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a dataset reader");
    else
        reader->dataset = mix;
    for (uint32_t d = 0; d < mix->source_count && status == STATUS_OK; d++)
        status = dataset_reader_new(mix->sources[d], &reader->sources[d], err);
    if (status == STATUS_OK) {
        reader->last = reader->sources[0];
        *ret_reader = reader;
    } else {
        dataset_reader_free(reader);
    }
    return status;
}

enum status dataset_reader_new(const struct dataset *dataset, struct dataset_reader **ret_reader,
                               struct error *err)
{
    if (dataset->source_count > 0)
        return new_mix_reader(dataset, ret_reader, err);
    _Static_assert(2 * DATASET_MAX_STORE_FIELDS <= ZARR_READER_MAX_ARRAYS,
                   "with indices, a reader's");
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    struct dataset_reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a dataset reader");
    size_t count = dataset_row_arrays(dataset, arrays);
    reader->dataset = dataset;
    enum status status = zarr_chunk_reader_new_with(dataset->private->store, arrays, count,
                                                    &dataset->private->read, &reader->chunks, err);
    if (status != STATUS_OK) {
        free(reader);
        return status;
    }
    zarr_chunk_reader_use_cache(reader->chunks, dataset->private->cache);
    reader->faults.missing_is_bad = dataset->private->missing_is_bad;
    reader->faults.check = check_unchanged;
    zarr_chunk_reader_use_faults(reader->chunks, &reader->faults);
    if (sift_bytes(dataset) > 0)
        status = memory_map(sift_bytes(dataset), "items of a sliced matrix",
                            (void *)&reader->sifted, err);
    if (status != STATUS_OK) {
        dataset_reader_free(reader);
        return status;
    }
    if (reader->sifted)
        memory_touch(reader->sifted, sift_bytes(dataset));
    *ret_reader = reader;
    return STATUS_OK;
}

void dataset_reader_free(struct dataset_reader *reader)
{
    if (!reader)
        return;
    for (uint32_t d = 0; reader->sources && d < reader->dataset->source_count; d++)
        dataset_reader_free(reader->sources[d]);
    free(reader->sources);
    zarr_chunk_reader_free(reader->chunks);
    if (reader->sifted)
        memory_unmap(reader->sifted, sift_bytes(reader->dataset));
    free(reader);
}

enum status dataset_read_row(struct dataset_reader *reader, uint64_t row, void *buffer,
                             struct zarr_read_stats *stats, struct error *err)
{
    return dataset_read_row_with(reader, row, buffer, NULL, NULL, NULL, stats, err);
}

static void zero_bad_items(const struct dataset *dataset, const struct row_walk *row,
                           const unsigned char *valid, const struct dataset_pages *pages)
{
    uint32_t first_page = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        struct ragged_row lies = ragged_row_of(dataset, r, row, dataset->ragged[r].offsets);
        lies.first_page = first_page;
        first_page += lies.page_count;
        for (uint64_t frame = row->from; frame < row->to && lies.page_count > 0; frame++)
            if (!valid[frame - row->first])
                ragged_zero_frame(dataset, r, &lies, pages, frame);
    }
}

/* Bad samples are zero in all fields, not only in the one that could not be read. With steps,
 * samples share frames: bad samples are told by their bytes alone. */
static void zero_bad_samples(const struct dataset *dataset, const struct row_walk *row,
                             unsigned char *buffer, const struct dataset_pages *pages)
{
    const unsigned char *valid = buffer + dataset->valid_offset;
    uint64_t count = row->end - row->first;
    if (dataset->private->has_steps || !memchr(valid, 0, count))
        return;
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        unsigned char *samples = buffer + field->row_offset;
        for (uint64_t i = 0; field->source == FIELD_ROW && i < count; i++)
            if (!valid[i])
                memset(samples + i * field->sample_bytes, 0, field->sample_bytes);
    }
    zero_bad_items(dataset, row, valid, pages);
}

/* Samples are good until a chunk of theirs is found bad. */
static void begin_row(struct dataset_reader *reader, const struct row_walk *row,
                      unsigned char *buffer)
{
    const struct dataset *dataset = reader->dataset;
    bool masks = dataset->mask && dataset->private->bad_log;
    reader->walk = row;
    reader->valid = dataset->mask ? buffer + dataset->valid_offset : NULL;
    reader->may_try_again = false;
    reader->is_lacking = false;
    reader->faults.skip = masks ? mask_samples : NULL;
    if (dataset->mask)
        memset(reader->valid, 1, dataset->row_length);
}

/* Masks indices outside their tensor, from `item` on, which is one: as long as they are in one
 * chunk and of frames that follow one another, so that few lines list many. Returns the next one,
 * and the end of the last that was masked. */
static uint64_t mask_indices(struct dataset_reader *reader, uint64_t item, uint64_t *ret_end)
{
    const struct dataset *dataset = reader->dataset;
    const struct row_span *span = reader->span;
    uint64_t length = span->array->chunk_shape[0], chunk = item / length;
    uint64_t frame = ragged_frame_of(dataset, span, item), before;
    do {
        zero_items(reader, span->array, item, item + 1);
        *ret_end = item + 1;
        item = ragged_find_outside(dataset, span, reader->page, item + 1);
        if (item == span->end)
            return item;
        before = frame;
        frame = ragged_frame_of(dataset, span, item);
    } while (item / length == chunk && frame <= before + 1);
    return item;
}

/* Indices outside a tensor make their samples bad, and the run fail without masking. */
static enum status check_indices(struct dataset_reader *reader, struct error *err)
{
    const struct dataset *dataset = reader->dataset;
    const struct row_span *span = reader->span;
    uint64_t item = ragged_find_outside(dataset, span, reader->page, span->begin);
    enum status status = STATUS_OK;
    while (item < span->end && status == STATUS_OK) {
        uint64_t first = item, end = item + 1, chunk = item / span->array->chunk_shape[0];
        struct error cause;
        status = ragged_refuse_index(dataset, span, reader->page, item, &cause);
        if (!reader->faults.skip) {
            if (err)
                *err = cause;
            return status;
        }
        item = mask_indices(reader, item, &end);
        status = log_items(reader, span->array, &chunk, first, end, &cause, err);
    }
    return status;
}

/* Copies the wanted values of a decoded chunk to the row's pages. */
static void copy_values(void *argument, const struct zarr_array *array, uint64_t begin,
                        uint64_t end, const void *chunk)
{
    const struct dataset_reader *reader = argument;
    const struct row_span *span = reader->span;
    const struct ragged_values values = {.ragged = &reader->dataset->ragged[span->field],
                                         .lies = &reader->walk->lies,
                                         .pages = reader->pages,
                                         .array = array};
    if (chunk)
        ragged_copy_values(&values, begin, end, chunk);
}

static enum status read_items(struct dataset_reader *reader, const struct dataset_pages *pages,
                              struct zarr_read_stats *stats, struct error *err)
{
    const struct dataset *dataset = reader->dataset;
    const struct row_span *span = reader->span;
    bool sifts = dataset->ragged[span->field].panel_count > 0; /* maybe all items away */
    assert(sifts || pages);
    if (span->array->is_vlen)
        return zarr_read_values(reader->chunks, span->array, span->begin, span->end, copy_values,
                                reader, stats, err);
    reader->page =
        sifts ? reader->sifted + span->page * panel_stored(dataset, span->field)->page_bytes
              : pages->at(pages, span->page);
    reader->target = ragged_target(dataset, span, reader->page);
    enum status status =
        zarr_read_narrow(reader->chunks, span->array, span->begin, span->end, reader->target,
                         ragged_widths(span, reader->page), stats, err);
    if (status != STATUS_OK)
        return status;
    ragged_clamp(dataset, span, reader->page);
    return check_indices(reader, err);
}

/* With all of a ragged field's items read, and the walk at the next field: sifts them, if the field
 * has a panel. */
static enum status end_ragged(struct dataset_reader *reader, size_t ragged,
                              const struct dataset_pages *pages, struct error *err)
{
    struct sifting sifting = {.dataset = reader->dataset,
                              .ragged = ragged,
                              .row = reader->walk,
                              .from = reader->sifted,
                              .pages = pages,
                              .valid = reader->is_lacking ? reader->valid : NULL};
    reader->is_lacking = false;
    return reader->dataset->ragged[ragged].panel_count > 0 ? sift_row(&sifting, err) : STATUS_OK;
}

static void note_missing(const struct dataset *dataset, const struct row_span *span, uint64_t count)
{
    if (dataset->private->missing_is_bad)
        return;
    if (span->column)
        note_filled_ragged(dataset, span->field, count);
    else
        note_filled(dataset, span->field, count);
}

enum status dataset_read_row_with(struct dataset_reader *reader, uint64_t row, void *buffer,
                                  const struct dataset_pages *pages, struct zarr_tape *tape,
                                  struct fetched *fetched, struct zarr_read_stats *stats,
                                  struct error *err)
{
    if (reader->sources) {
        reader->last = reader->sources[dataset_source_of_row(reader->dataset, row, &row)];
        reader = reader->last;
    }
    const struct dataset *dataset = reader->dataset;
    struct row_walk walk = row_begin(dataset, row);
    enum status status = STATUS_OK;
    struct row_span span;
    size_t ragged = SIZE_MAX; /* that is being read */

    begin_row(reader, &walk, buffer);
    reader->span = &span;
    reader->pages = pages;
    zarr_chunk_reader_use_tape(reader->chunks, tape);
    zarr_chunk_reader_use_fetched(reader->chunks, fetched);
    while (status == STATUS_OK && row_next(dataset, &walk, &span)) {
        uint64_t missing = stats->missing_chunk_count;
        if (ragged != SIZE_MAX && span.field != ragged)
            status = end_ragged(reader, ragged, pages, err);
        if (status != STATUS_OK)
            break;
        ragged = span.column ? span.field : SIZE_MAX;
        status = span.column ? read_items(reader, pages, stats, err)
                             : zarr_read_samples(reader->chunks, span.array, span.begin, span.end,
                                                 (unsigned char *)buffer + span.offset, stats, err);
        if (stats->missing_chunk_count > missing && !(tape && tape->play))
            note_missing(dataset, &span, stats->missing_chunk_count - missing);
    }
    if (status == STATUS_OK && ragged != SIZE_MAX)
        status = end_ragged(reader, ragged, pages, err);
    zarr_chunk_reader_use_tape(reader->chunks, NULL);
    zarr_chunk_reader_use_fetched(reader->chunks, NULL);
    if (status == STATUS_OK && dataset->mask)
        zero_bad_samples(dataset, &walk, buffer, pages);
    return status;
}

bool dataset_reader_may_try_again(const struct dataset_reader *reader)
{
    return reader->sources ? reader->last->may_try_again : reader->may_try_again;
}
