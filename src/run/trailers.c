/* See trailers.h. */
#include "run/trailers.h"

#include "anchors/anchors.h"
#include "base/number.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t step_count_of(const struct ragged *ragged)
{
    return ragged->step_count > 0 ? ragged->step_count : 1;
}

/* Parts of a column are of one size, as are those of all columns in items. */
static void set_parts(const struct ring_layout *layout, const struct ring_field *field,
                      size_t column, struct ragged_target *target)
{
    const struct ring_part *parts = &layout->parts[field->first_part];
    target->part_count = field->part_count;
    target->is_zigzag = parts[0].seconds[0] != RING_NO_SECOND;
    target->column_offsets[column] = parts[0].slot_offset;
    target->part_strides[column] =
        field->part_count > 1 ? parts[1].slot_offset - parts[0].slot_offset : 0;
}

/* A ragged field's tensor, or its columns; and their array of offsets or lengths. */
static void set_field(const struct dataset *dataset, const struct ring_layout *layout,
                      const struct ragged *ragged, struct trailer_field *field)
{
    *field = (struct trailer_field){
        .target = {.ragged = ragged}, .step_count = step_count_of(ragged), .capacity = UINT64_MAX};
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *from = &dataset->fields[f];
        const struct ring_field *to = &layout->fields[f];
        if (from->ragged != ragged)
            continue;
        if (from->source == FIELD_MADE) {
            *(from->made == MADE_OFFSETS ? &field->offsets_offset : &field->lengths_offset) =
                to->slot_offset;
            continue;
        }
        if (ragged->form == RAGGED_DENSE) {
            field->target.dense_dtype = from->dtype;
            field->target.slot_offset = to->slot_offset;
            continue;
        }
        field->target.delivers[from->column] = true;
        field->target.column_offsets[from->column] = to->slot_offset;
        if (ragged_has_item_shape(ragged))
            field->capacity = to->capacity;
        if (to->part_count > 0)
            set_parts(layout, to, from->column, &field->target);
    }
}

static size_t starts_of(const struct ragged *ragged, uint64_t batch_size)
{
    uint64_t steps = batch_size * step_count_of(ragged);
    return steps + 1 + (ragged->form == RAGGED_BOUND) + (ragged->multiple > 0 ? steps : 0);
}

/* The items of steps [begin, end) of a batch, without those that pad them. */
static uint64_t count_of(const struct trailer_field *field, const uint64_t *starts, uint64_t begin,
                         uint64_t end)
{
    uint64_t count = 0;
    if (field->target.ragged->multiple == 0)
        return starts[end] - starts[begin];
    for (uint64_t step = begin; step < end; step++)
        count += starts[field->counts + step];
    return count;
}

/* For ragged_deliver(). */
static uint64_t start_of(const struct trailer_field *field, const uint64_t *starts, uint64_t step)
{
    return starts[field->target.ragged->form == RAGGED_BOUND ? field->bound : step];
}

/* Of a dataset that is no mix. */
static enum status trailers_new(const struct dataset *dataset, const struct ring_layout *layout,
                                struct trailers **ret_trailers, struct error *err)
{
    struct trailers *trailers =
        calloc(1, sizeof *trailers + dataset->ragged_count * sizeof trailers->fields[0]);
    if (!trailers)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the trailers of samples");
    trailers->dataset = dataset;
    trailers->batch_size = layout->batch_size;
    trailers->count = dataset->ragged_count;
    for (size_t i = 0; i < trailers->count; i++) {
        const struct ragged *ragged = &dataset->ragged[i];
        set_field(dataset, layout, ragged, &trailers->fields[i]);
        trailers->finds_episodes |= ragged->step_count > 0;
        trailers->fields[i].starts = trailers->starts_count;
        trailers->fields[i].bound = trailers->fields[i].counts =
            layout->batch_size * step_count_of(ragged) + 1;
        trailers->starts_count += starts_of(ragged, layout->batch_size);
    }
    *ret_trailers = trailers;
    return STATUS_OK;
}

static void trailers_free(struct trailers *trailers)
{
    free(trailers);
}

enum status trailer_sources_new(const struct dataset *dataset, const struct ring_layout *layout,
                                struct trailer_sources **ret_trailers, struct error *err)
{
    uint32_t count = dataset->source_count > 0 ? dataset->source_count : 1;
    struct trailer_sources *all = calloc(1, sizeof *all + count * sizeof all->of[0]);
    if (!all)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the trailers of samples");
    for (; all->count < count; all->count++) {
        enum status status =
            trailers_new(dataset_source(dataset, all->count), layout, &all->of[all->count], err);
        if (status != STATUS_OK) {
            trailer_sources_free(all);
            return status;
        }
    }
    *ret_trailers = all;
    return STATUS_OK;
}

void trailer_sources_free(struct trailer_sources *trailers)
{
    for (uint32_t s = 0; trailers && s < trailers->count; s++)
        trailers_free(trailers->of[s]);
    free(trailers);
}

static struct anchors_episode episode_of(const struct trailers *trailers, uint64_t frame)
{
    if (!trailers->finds_episodes || !trailers->dataset->anchors)
        return (struct anchors_episode){.end = trailers->dataset->frame_count};
    return anchors_episode_of(trailers->dataset->anchors, frame);
}

void trailers_note(const struct trailers *trailers, uint64_t frame, uint32_t batch_index,
                   uint64_t *starts)
{
    struct anchors_episode episode = episode_of(trailers, frame);
    for (size_t i = 0; i < trailers->count; i++) {
        const struct trailer_field *field = &trailers->fields[i];
        uint64_t *lengths = starts + field->starts + 1 + batch_index * field->step_count;
        for (size_t k = 0; k < field->step_count; k++) {
            struct ragged_span span = ragged_step(field->target.ragged, &episode, frame, k);
            lengths[k] = span.end - span.begin;
        }
    }
}

void trailers_start(const struct trailers *trailers, uint32_t sample_count, uint64_t bound,
                    uint64_t *starts, unsigned char *slot)
{
    for (size_t i = 0; i < trailers->count; i++) {
        const struct trailer_field *field = &trailers->fields[i];
        uint64_t *own = starts + field->starts, count = sample_count * field->step_count;
        const struct ragged *ragged = field->target.ragged;
        enum ragged_form form = ragged->form;
        bool has_lengths = ragged_has_lengths(ragged);
        int32_t *lengths = (int32_t *)(slot + field->lengths_offset);
        own[0] = 0;
        for (uint64_t s = 0; s < count; s++) {
            uint64_t items = own[s + 1];
            if (has_lengths)
                lengths[s] = (int32_t)items;
            if (ragged->multiple > 0) {
                own[field->counts + s] = items;
                items = size_round_up(items, ragged->multiple);
            }
            own[s + 1] = own[s] + items;
        }
        assert(own[count] <= field->capacity);
        if (form == RAGGED_BOUND)
            own[field->bound] = bound;
        assert(form != RAGGED_BOUND || count * bound <= field->capacity);
        if (form == RAGGED_CSR)
            memcpy(slot + field->offsets_offset, own, (count + 1) * sizeof *own);
    }
}

static struct ragged_items items_in_row(const struct ragged_row *row,
                                        const struct dataset_pages *pages, struct ragged_span span)
{
    return (struct ragged_items){.count = span.end - span.begin,
                                 .pages = pages,
                                 .page_item = span.begin - row->page_begin,
                                 .first_page = row->first_page};
}

void trailers_find(const struct trailers *trailers, uint64_t row, const struct dataset_pages *pages,
                   struct trailer_row *ret_row)
{
    ret_row->pages = pages;
    for (size_t i = 0; i < trailers->count; i++)
        if (!trailers->fields[i].target.ragged->is_held)
            ret_row->lies[i] = dataset_ragged_row(trailers->dataset, i, row);
}

void trailers_copy_row(const struct trailers *trailers, const struct trailer_row *row,
                       const struct dataset_pages *pages, struct trailer_row *ret_row)
{
    ret_row->pages = pages;
    memcpy(ret_row->lies, row->lies, trailers->count * sizeof row->lies[0]);
}

void trailers_fetch_offsets(const struct trailers *trailers, uint64_t frame)
{
    for (size_t i = 0; i < trailers->count; i++) {
        const struct ragged *ragged = trailers->fields[i].target.ragged;
        __builtin_prefetch(ragged->entries ? (const void *)&ragged->entries[frame]
                                           : (const void *)&ragged->offsets[frame]);
    }
}

void trailers_fetch_widths(const struct trailers *trailers, const struct trailer_source *source)
{
    for (size_t i = 0; i < trailers->count; i++) {
        const struct ragged *ragged = trailers->fields[i].target.ragged;
        const struct ragged_row *lies = &source->row->lies[i];
        if (ragged->is_held || ragged->columns_bytes == ragged->page_bytes)
            continue;
        uint64_t item = ragged_frame(ragged, source->frame).begin;
        if (item < lies->items.begin || item >= lies->items.end)
            continue;
        uint32_t page = (uint32_t)((item - lies->page_begin) / ragged->page_items);
        __builtin_prefetch(source->row->pages->at(source->row->pages, lies->first_page + page) +
                           ragged->columns_bytes);
    }
}

/* Writes a sample's items of a held field to its slot, also of samples that could not be read: they
 * are masked, but these items are there. */
static void put_held(const struct trailer_field *field, const struct anchors_episode *episode,
                     uint64_t frame, unsigned char *slot, uint32_t batch_index,
                     const uint64_t *starts)
{
    for (size_t k = 0; k < field->step_count; k++) {
        uint64_t step = batch_index * field->step_count + k;
        struct ragged_items items = ragged_items_held(
            field->target.ragged, ragged_step(field->target.ragged, episode, frame, k));
        ragged_deliver(&field->target, slot, step, start_of(field, starts, step), &items,
                       items.count);
    }
}

/* Appends one column of some items to a trailer. */
static unsigned char *pack_column(const struct ragged *ragged, size_t column,
                                  const struct ragged_items *items, unsigned char *trailer)
{
    size_t item_bytes = ragged->columns[column].item_bytes;
    const struct ragged_piece none = {0};
    struct ragged_piece piece;
    for (uint64_t at = 0; at < items->count; at += piece.count) {
        ragged_items_piece(ragged, items, at, &piece);
        ragged_piece_copy(ragged, column, &piece, trailer, &none);
        trailer += piece.count * item_bytes;
    }
    return trailer;
}

static unsigned char *pack_field(const struct trailers *trailers, size_t i,
                                 const struct anchors_episode *episode,
                                 const struct trailer_source *source, unsigned char *trailer)
{
    const struct trailer_field *field = &trailers->fields[i];
    const struct ragged *ragged = field->target.ragged;
    for (size_t c = 0; c < ragged->column_count; c++)
        for (size_t k = 0; k < field->step_count; k++) {
            struct ragged_items items =
                items_in_row(&source->row->lies[i], source->row->pages,
                             ragged_step(field->target.ragged, episode, source->frame, k));
            trailer = pack_column(ragged, c, &items, trailer);
        }
    return trailer;
}

void trailers_pack(const struct trailers *trailers, const struct trailer_source *source,
                   unsigned char *trailer)
{
    size_t bytes = dataset_trailer_bytes(trailers->dataset, source->frame);
    unsigned char *end = trailer + bytes;
    struct anchors_episode episode = episode_of(trailers, source->frame);
    if (bytes == 0)
        return;
    if (source->good)
        for (size_t i = 0; i < trailers->count; i++)
            if (!trailers->fields[i].target.ragged->is_held)
                trailer = pack_field(trailers, i, &episode, source, trailer);
    memset(trailer, 0, (size_t)(end - trailer));
}

/* The steps' items of a sample that could not be read. */
static void clear_field(const struct trailer_field *field, unsigned char *slot,
                        uint32_t batch_index, const uint64_t *starts)
{
    uint64_t first = batch_index * field->step_count;
    for (uint64_t step = first; step < first + field->step_count; step++)
        ragged_deliver(&field->target, slot, step, start_of(field, starts, step), NULL,
                       count_of(field, starts, step, step + 1));
}

/* The items of a sample's anchor, as far as they lie in one page. False: none are known. */
static bool find_piece(const struct trailers *trailers, size_t i,
                       const struct trailer_source *source, struct ragged_piece *ret_piece)
{
    const struct ragged_row *lies = &source->row->lies[i];
    struct ragged_span span = ragged_frame(trailers->fields[i].target.ragged, source->frame);
    struct ragged_items items = items_in_row(lies, source->row->pages, span);
    if (items.count == 0 || span.begin < lies->items.begin || span.end > lies->items.end)
        return false;
    ragged_items_piece(trailers->fields[i].target.ragged, &items, 0, ret_piece);
    return true;
}

static void fill_field(const struct trailers *trailers, size_t i,
                       const struct anchors_episode *episode, const struct trailer_source *source,
                       const struct trailer_source *next, unsigned char *slot, uint32_t batch_index,
                       const uint64_t *starts)
{
    const struct trailer_field *field = &trailers->fields[i];
    struct ragged_piece piece;
    bool has_next = next && next->good && find_piece(trailers, i, next, &piece);
    for (size_t k = 0; k < field->step_count; k++) {
        uint64_t step = batch_index * field->step_count + k;
        struct ragged_items items =
            items_in_row(&source->row->lies[i], source->row->pages,
                         ragged_step(field->target.ragged, episode, source->frame, k));
        if (has_next && k + 1 == field->step_count)
            items.next = &piece;
        ragged_deliver(&field->target, slot, step, start_of(field, starts, step), &items,
                       items.count);
    }
}

void trailers_fill(const struct trailers *trailers, const struct trailer_source *source,
                   const struct trailer_source *next, unsigned char *slot, uint32_t batch_index,
                   const uint64_t *starts)
{
    struct anchors_episode episode = episode_of(trailers, source->frame);
    for (size_t i = 0; i < trailers->count; i++)
        if (trailers->fields[i].target.ragged->is_held)
            put_held(&trailers->fields[i], &episode, source->frame, slot, batch_index,
                     starts + trailers->fields[i].starts);
        else if (source->good)
            fill_field(trailers, i, &episode, source, next, slot, batch_index,
                       starts + trailers->fields[i].starts);
        else
            clear_field(&trailers->fields[i], slot, batch_index,
                        starts + trailers->fields[i].starts);
}

/* Returns the end of the field's part of the trailer. */
static const unsigned char *take_field(const struct trailer_field *field,
                                       const unsigned char *trailer, unsigned char *slot,
                                       uint32_t batch_index, const uint64_t *starts)
{
    const struct ragged *ragged = field->target.ragged;
    uint64_t first = batch_index * field->step_count, end = first + field->step_count;
    uint64_t count = count_of(field, starts, first, end);
    struct ragged_items items = {0};
    for (size_t c = 0; c < ragged->column_count; c++) {
        items.columns[c] = trailer;
        trailer += count * ragged->columns[c].item_bytes;
    }
    for (uint64_t step = first; step < end; step++) {
        items.count = count_of(field, starts, step, step + 1);
        ragged_deliver(&field->target, slot, step, start_of(field, starts, step), &items,
                       items.count);
        for (size_t c = 0; c < ragged->column_count; c++)
            items.columns[c] += items.count * ragged->columns[c].item_bytes;
    }
    return trailer;
}

void trailers_take(const struct trailers *trailers, uint64_t frame, const unsigned char *trailer,
                   bool good, unsigned char *slot, uint32_t batch_index, const uint64_t *starts)
{
    struct anchors_episode episode = episode_of(trailers, frame);
    for (size_t i = 0; i < trailers->count; i++)
        if (trailers->fields[i].target.ragged->is_held)
            put_held(&trailers->fields[i], &episode, frame, slot, batch_index,
                     starts + trailers->fields[i].starts);
        else if (good)
            trailer = take_field(&trailers->fields[i], trailer, slot, batch_index,
                                 starts + trailers->fields[i].starts);
        else
            clear_field(&trailers->fields[i], slot, batch_index,
                        starts + trailers->fields[i].starts);
}
