/* See tails.h. */
#include "run/tails.h"

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

/* A ragged field's tensor, or its columns; and their array of offsets or lengths. */
static void set_field(const struct dataset *dataset, const struct ring_layout *layout,
                      const struct ragged *ragged, struct tail_field *field)
{
    *field = (struct tail_field){
        .target = {.ragged = ragged}, .step_count = step_count_of(ragged), .capacity = UINT64_MAX};
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *from = &dataset->fields[f];
        const struct ring_field *to = &layout->fields[f];
        if (from->ragged != ragged)
            continue;
        if (from->source == FIELD_MADE) {
            field->has_lengths = true;
            field->lengths_offset = to->slot_offset;
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
    }
}

static size_t starts_of(const struct ragged *ragged, uint64_t batch_size)
{
    return batch_size * step_count_of(ragged) + 1 + (ragged->form == RAGGED_BOUND);
}

/* For ragged_deliver(). */
static uint64_t start_of(const struct tail_field *field, const uint64_t *starts, uint64_t step)
{
    return starts[field->target.ragged->form == RAGGED_BOUND ? field->bound : step];
}

enum status tails_new(const struct dataset *dataset, const struct ring_layout *layout,
                      struct tails **ret_tails, struct error *err)
{
    struct tails *tails =
        calloc(1, sizeof *tails + dataset->ragged_count * sizeof tails->fields[0]);
    if (!tails)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tails of samples");
    tails->dataset = dataset;
    tails->batch_size = layout->batch_size;
    tails->count = dataset->ragged_count;
    for (size_t i = 0; i < tails->count; i++) {
        const struct ragged *ragged = &dataset->ragged[i];
        set_field(dataset, layout, ragged, &tails->fields[i]);
        tails->finds_episodes |= ragged->step_count > 0;
        tails->fields[i].starts = tails->starts_count;
        tails->fields[i].bound = layout->batch_size * step_count_of(ragged) + 1;
        tails->starts_count += starts_of(ragged, layout->batch_size);
    }
    *ret_tails = tails;
    return STATUS_OK;
}

void tails_free(struct tails *tails)
{
    free(tails);
}

enum status tail_sources_new(const struct dataset *dataset, const struct ring_layout *layout,
                             struct tail_sources **ret_tails, struct error *err)
{
    uint32_t count = dataset->source_count > 0 ? dataset->source_count : 1;
    struct tail_sources *all = calloc(1, sizeof *all + count * sizeof all->of[0]);
    if (!all)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tails of samples");
    for (; all->count < count; all->count++) {
        enum status status =
            tails_new(dataset_source(dataset, all->count), layout, &all->of[all->count], err);
        if (status) {
            tail_sources_free(all);
            return status;
        }
    }
    *ret_tails = all;
    return STATUS_OK;
}

void tail_sources_free(struct tail_sources *tails)
{
    for (uint32_t s = 0; tails && s < tails->count; s++)
        tails_free(tails->of[s]);
    free(tails);
}

static struct anchors_episode episode_of(const struct tails *tails, uint64_t frame)
{
    if (!tails->finds_episodes || !tails->dataset->anchors)
        return (struct anchors_episode){.end = tails->dataset->frame_count};
    return anchors_episode_of(tails->dataset->anchors, frame);
}

void tails_note(const struct tails *tails, uint64_t frame, uint32_t batch_index, uint64_t *starts)
{
    struct anchors_episode episode = episode_of(tails, frame);
    for (size_t i = 0; i < tails->count; i++) {
        const struct tail_field *field = &tails->fields[i];
        uint64_t *lengths = starts + field->starts + 1 + batch_index * field->step_count;
        for (size_t k = 0; k < field->step_count; k++) {
            struct ragged_span span = ragged_step(field->target.ragged, &episode, frame, k);
            lengths[k] = span.end - span.begin;
        }
    }
}

void tails_start(const struct tails *tails, uint32_t sample_count, uint64_t bound, uint64_t *starts,
                 unsigned char *slot)
{
    for (size_t i = 0; i < tails->count; i++) {
        const struct tail_field *field = &tails->fields[i];
        uint64_t *own = starts + field->starts, count = sample_count * field->step_count;
        enum ragged_form form = field->target.ragged->form;
        bool pads = form == RAGGED_PAD || form == RAGGED_BOUND;
        int32_t *lengths = (int32_t *)(slot + field->lengths_offset);
        own[0] = 0;
        for (uint64_t s = 0; s < count; s++) {
            if (pads)
                lengths[s] = (int32_t)own[s + 1];
            own[s + 1] += own[s];
        }
        assert(own[count] <= field->capacity);
        if (form == RAGGED_BOUND)
            own[field->bound] = bound;
        assert(form != RAGGED_BOUND || count * bound <= field->capacity);
        if (form == RAGGED_CSR)
            memcpy(slot + field->lengths_offset, own, (count + 1) * sizeof *own);
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

void tails_find(const struct tails *tails, uint64_t row, const struct dataset_pages *pages,
                struct tail_row *ret_row)
{
    ret_row->pages = pages;
    for (size_t i = 0; i < tails->count; i++)
        if (!tails->fields[i].target.ragged->is_held)
            ret_row->lies[i] = dataset_ragged_row(tails->dataset, i, row);
}

void tails_copy_row(const struct tails *tails, const struct tail_row *row,
                    const struct dataset_pages *pages, struct tail_row *ret_row)
{
    ret_row->pages = pages;
    memcpy(ret_row->lies, row->lies, tails->count * sizeof row->lies[0]);
}

void tails_fetch_offsets(const struct tails *tails, uint64_t frame)
{
    for (size_t i = 0; i < tails->count; i++) {
        const struct ragged *ragged = tails->fields[i].target.ragged;
        __builtin_prefetch(ragged->entries ? (const void *)&ragged->entries[frame]
                                           : (const void *)&ragged->offsets[frame]);
    }
}

void tails_fetch_widths(const struct tails *tails, const struct tail_source *source)
{
    for (size_t i = 0; i < tails->count; i++) {
        const struct ragged *ragged = tails->fields[i].target.ragged;
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
static void put_held(const struct tail_field *field, const struct anchors_episode *episode,
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

/* Appends one column of some items to a tail. */
static unsigned char *pack_column(const struct ragged *ragged, size_t column,
                                  const struct ragged_items *items, unsigned char *tail)
{
    size_t item_bytes = ragged->columns[column].item_bytes;
    const struct ragged_piece none = {0};
    struct ragged_piece piece;
    for (uint64_t at = 0; at < items->count; at += piece.count) {
        ragged_items_piece(ragged, items, at, &piece);
        ragged_piece_copy(ragged, column, &piece, tail, &none);
        tail += piece.count * item_bytes;
    }
    return tail;
}

static unsigned char *pack_field(const struct tails *tails, size_t i,
                                 const struct anchors_episode *episode,
                                 const struct tail_source *source, unsigned char *tail)
{
    const struct tail_field *field = &tails->fields[i];
    const struct ragged *ragged = field->target.ragged;
    for (size_t c = 0; c < ragged->column_count; c++)
        for (size_t k = 0; k < field->step_count; k++) {
            struct ragged_items items =
                items_in_row(&source->row->lies[i], source->row->pages,
                             ragged_step(field->target.ragged, episode, source->frame, k));
            tail = pack_column(ragged, c, &items, tail);
        }
    return tail;
}

void tails_pack(const struct tails *tails, const struct tail_source *source, unsigned char *tail)
{
    size_t bytes = dataset_tail_bytes(tails->dataset, source->frame);
    unsigned char *end = tail + bytes;
    struct anchors_episode episode = episode_of(tails, source->frame);
    if (bytes == 0)
        return;
    if (source->good)
        for (size_t i = 0; i < tails->count; i++)
            if (!tails->fields[i].target.ragged->is_held)
                tail = pack_field(tails, i, &episode, source, tail);
    memset(tail, 0, (size_t)(end - tail));
}

/* The steps' items of a sample that could not be read. */
static void clear_field(const struct tail_field *field, unsigned char *slot, uint32_t batch_index,
                        const uint64_t *starts)
{
    uint64_t first = batch_index * field->step_count;
    for (uint64_t step = first; step < first + field->step_count; step++)
        ragged_deliver(&field->target, slot, step, start_of(field, starts, step), NULL,
                       starts[step + 1] - starts[step]);
}

/* The items of a sample's anchor, as far as they lie in one page. False: none are known. */
static bool find_piece(const struct tails *tails, size_t i, const struct tail_source *source,
                       struct ragged_piece *ret_piece)
{
    const struct ragged_row *lies = &source->row->lies[i];
    struct ragged_span span = ragged_frame(tails->fields[i].target.ragged, source->frame);
    struct ragged_items items = items_in_row(lies, source->row->pages, span);
    if (items.count == 0 || span.begin < lies->items.begin || span.end > lies->items.end)
        return false;
    ragged_items_piece(tails->fields[i].target.ragged, &items, 0, ret_piece);
    return true;
}

static void fill_field(const struct tails *tails, size_t i, const struct anchors_episode *episode,
                       const struct tail_source *source, const struct tail_source *next,
                       unsigned char *slot, uint32_t batch_index, const uint64_t *starts)
{
    const struct tail_field *field = &tails->fields[i];
    struct ragged_piece piece;
    bool has_next = next && next->good && find_piece(tails, i, next, &piece);
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

void tails_fill(const struct tails *tails, const struct tail_source *source,
                const struct tail_source *next, unsigned char *slot, uint32_t batch_index,
                const uint64_t *starts)
{
    struct anchors_episode episode = episode_of(tails, source->frame);
    for (size_t i = 0; i < tails->count; i++)
        if (tails->fields[i].target.ragged->is_held)
            put_held(&tails->fields[i], &episode, source->frame, slot, batch_index,
                     starts + tails->fields[i].starts);
        else if (source->good)
            fill_field(tails, i, &episode, source, next, slot, batch_index,
                       starts + tails->fields[i].starts);
        else
            clear_field(&tails->fields[i], slot, batch_index, starts + tails->fields[i].starts);
}

/* Returns the end of the field's part of the tail. */
static const unsigned char *take_field(const struct tail_field *field, const unsigned char *tail,
                                       unsigned char *slot, uint32_t batch_index,
                                       const uint64_t *starts)
{
    const struct ragged *ragged = field->target.ragged;
    uint64_t first = batch_index * field->step_count, end = first + field->step_count;
    struct ragged_items items = {0};
    for (size_t c = 0; c < ragged->column_count; c++) {
        items.columns[c] = tail;
        tail += (starts[end] - starts[first]) * ragged->columns[c].item_bytes;
    }
    for (uint64_t step = first; step < end; step++) {
        items.count = starts[step + 1] - starts[step];
        ragged_deliver(&field->target, slot, step, start_of(field, starts, step), &items,
                       items.count);
        for (size_t c = 0; c < ragged->column_count; c++)
            items.columns[c] += items.count * ragged->columns[c].item_bytes;
    }
    return tail;
}

void tails_take(const struct tails *tails, uint64_t frame, const unsigned char *tail, bool good,
                unsigned char *slot, uint32_t batch_index, const uint64_t *starts)
{
    struct anchors_episode episode = episode_of(tails, frame);
    for (size_t i = 0; i < tails->count; i++)
        if (tails->fields[i].target.ragged->is_held)
            put_held(&tails->fields[i], &episode, frame, slot, batch_index,
                     starts + tails->fields[i].starts);
        else if (good)
            tail = take_field(&tails->fields[i], tail, slot, batch_index,
                              starts + tails->fields[i].starts);
        else
            clear_field(&tails->fields[i], slot, batch_index, starts + tails->fields[i].starts);
}
