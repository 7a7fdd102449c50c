/* See one_sample.h. */
#include "run/one_sample.h"

#include "base/size.h"
#include "run/ragged_deliver.h"

#include <stdlib.h>
#include <string.h>

struct one_sample one_sample_at(const struct dataset *dataset, uint64_t frame)
{
    size_t store = 0;
    while (dataset->store_frames[store + 1] <= frame)
        store++;
    uint64_t first = dataset->store_frames[store];
    struct one_sample sample = {
        .dataset = dataset,
        .frame = frame,
        .row = dataset->store_rows[store] + (frame - first) / dataset->row_length,
        .episode = {first, dataset->store_frames[store + 1], (uint64_t)store}};
    if (dataset->anchors)
        sample.episode = anchors_episode_of(dataset->anchors, frame);
    return sample;
}

static unsigned char *page_at(const struct dataset_pages *pages, uint32_t page)
{
    const struct one_sample_row *row = (const struct one_sample_row *)pages;
    return row->page_memory + page * row->page_bytes;
}

/* Fills the row's memory. */
static enum status allocate(const struct dataset *dataset, uint64_t number,
                            struct one_sample_row *row, struct error *err)
{
    size_t pages = dataset_row_pages(dataset, number) * dataset->page_bytes;
    row->pages.at = page_at;
    row->page_bytes = dataset->page_bytes;
    row->memory = aligned_alloc(64, dataset->row_bytes + 64);
    row->page_memory = pages > 0 ? aligned_alloc(64, pages) : NULL;
    if (row->memory && (pages == 0 || row->page_memory))
        return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "no memory for a row of %s",
                     size_format(dataset->row_bytes + pages).text);
}

enum status one_sample_read_row(const struct dataset *dataset, uint64_t number,
                                struct one_sample_row *row, struct error *err)
{
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader = NULL;
    enum status status = allocate(dataset, number, row, err);
    if (status == STATUS_OK)
        status = dataset_reader_new(dataset, &reader, err);
    if (status == STATUS_OK)
        status = dataset_read_row_with(reader, number, row->memory, &row->pages, NULL, NULL, &stats,
                                       err);
    dataset_reader_free(reader);
    return status;
}

void one_sample_row_done(struct one_sample_row *row)
{
    free(row->memory);
    free(row->page_memory);
}

bool one_sample_step_is_real(const struct one_sample *sample, int32_t step)
{
    int64_t frame = (int64_t)sample->frame + step;
    return frame >= (int64_t)sample->episode.first && frame < (int64_t)sample->episode.end;
}

uint64_t one_sample_frame_at(const struct one_sample *sample, int32_t step)
{
    int64_t frame = (int64_t)sample->frame + step;
    int64_t first = (int64_t)sample->episode.first, last = (int64_t)sample->episode.end - 1;
    return (uint64_t)(frame < first ? first : frame > last ? last : frame);
}

/* The whole frame of a step. */
static const unsigned char *frame_of(const struct one_sample_row *row,
                                     const struct one_sample *sample, size_t f, int32_t step)
{
    const struct dataset_field *field = &sample->dataset->fields[f];
    uint64_t frame = one_sample_frame_at(sample, step);
    if (field->source == FIELD_HELD)
        return dataset_held_sample(sample->dataset, f, frame);
    int64_t in_row = (int64_t)frame - (int64_t)dataset_row_first(sample->dataset, sample->row);
    return row->memory + (int64_t)field->row_offset + in_row * (int64_t)field->frame_bytes;
}

/* Step number k of a ragged field, padded or dense. */
static void take_items(const struct one_sample_row *row, const struct one_sample *sample,
                       const struct dataset_field *field, uint64_t k, bool is_zero,
                       unsigned char *to)
{
    const struct ragged *ragged = field->ragged;
    struct ragged_target target = {.ragged = ragged, .dense_dtype = field->dtype};
    size_t number = (size_t)(ragged - sample->dataset->ragged);
    struct ragged_row in_row = dataset_ragged_row(sample->dataset, number, sample->row);
    struct ragged_span span =
        ragged_frame(ragged, one_sample_frame_at(sample, field->step_count ? field->steps[k] : 0));
    struct ragged_items items = {.count = span.end - span.begin,
                                 .pages = &row->pages,
                                 .page_item = span.begin - in_row.page_begin,
                                 .first_page = in_row.first_page};
    if (ragged->is_held)
        items = ragged_items_held(ragged, span);
    if (field->column < ragged->column_count)
        target.delivers[field->column] = true;
    ragged_deliver(&target, to, k, 0, is_zero ? NULL : &items, is_zero ? 0 : items.count);
}

void one_sample_take(const struct one_sample_row *row, const struct one_sample *sample, size_t f,
                     unsigned char *to)
{
    const struct dataset_field *field = &sample->dataset->fields[f];
    uint64_t count = field->step_count > 0 ? field->step_count : 1;
    size_t step_bytes = field->sample_bytes / count;
    for (uint64_t k = 0; k < count; k++) {
        int32_t step = field->step_count > 0 ? field->steps[k] : 0;
        bool is_zero = !one_sample_step_is_real(sample, step) && field->fill == SAMPLES_FILL_ZERO;
        unsigned char *at = to + k * step_bytes;
        if (field->source == FIELD_RAGGED)
            take_items(row, sample, field, k, is_zero, to);
        else if (is_zero)
            memset(at, 0, step_bytes);
        else if (field->crop)
            crop_box_copy(&field->crop->box, at,
                          frame_of(row, sample, f, step) + crop_begin(field->crop, sample->key));
        else
            memcpy(at, frame_of(row, sample, f, step), step_bytes);
    }
}
