/* See ragged.h: lengths, rows and trailers of ragged fields. Pure; any thread. */
#include "dataset/read/ragged_rows.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/panel.h"

#include <assert.h>

/* What any number of samples or rows have at most
 * ---------------------------------------------------------------------------------------------- */

uint64_t ragged_most_items(const struct ragged *ragged, uint64_t samples)
{
    return lengths_most(&ragged->lengths->samples, samples);
}

uint64_t dataset_most_pages(const struct dataset *dataset, uint64_t rows)
{
    uint64_t pages = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        pages += lengths_most(&dataset->ragged[r].lengths->rows, rows);
    return pages;
}

uint64_t dataset_most_row_pages(const struct dataset *dataset)
{
    return dataset_most_pages(dataset, 1);
}

uint64_t dataset_most_trailer(const struct dataset *dataset, uint64_t samples)
{
    uint64_t bytes = 0, count = min_u64(samples, dataset->sample_count);
    bool is_padded = false;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        bytes =
            add_sat(bytes, mul_sat(ragged_most_items(ragged, count), ragged->trailer_item_bytes));
        is_padded |= ragged->trailer_item_bytes % RAGGED_TRAILER_ALIGNMENT != 0;
    }
    if (is_padded)
        bytes = add_sat(bytes, mul_sat(count, RAGGED_TRAILER_ALIGNMENT - 1));
    return bytes > UINT64_MAX - RAGGED_TRAILER_ALIGNMENT
               ? UINT64_MAX
               : size_round_up(bytes, RAGGED_TRAILER_ALIGNMENT);
}

/* Rows
 * ---------------------------------------------------------------------------------------------- */

struct ragged_frames ragged_row_frames(const struct dataset *dataset, size_t ragged,
                                       const struct row_walk *row)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    if (row->is_empty || origin->is_held)
        return (struct ragged_frames){0};
    return (struct ragged_frames){
        max_u64(row->from - min_u64(origin->halo_before, row->from), row->lowest),
        min_u64(row->to + origin->halo_after, row->highest)};
}

/* Pages begin at whole ones from `base` on; UINT64_MAX: with the row's first item. */
static struct ragged_row lies_of(struct ragged_frames frames, const uint64_t *offsets,
                                 uint64_t base, uint64_t page_items)
{
    struct ragged_row lies = {0};
    if (frames.first == frames.end)
        return lies;
    lies.items = (struct ragged_span){offsets[frames.first], offsets[frames.end]};
    base = min_u64(base, lies.items.begin);
    lies.page_begin = base + (lies.items.begin - base) / page_items * page_items;
    if (lies.items.begin < lies.items.end)
        lies.page_count = (uint32_t)((lies.items.end - 1 - lies.page_begin) / page_items + 1);
    return lies;
}

struct ragged_row ragged_row_of(const struct dataset *dataset, size_t ragged,
                                const struct row_walk *row, const uint64_t *offsets)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    return lies_of(ragged_row_frames(dataset, ragged, row), offsets,
                   origin->panel || origin->is_vlen ? UINT64_MAX
                                                    : origin->first_item[row->row_store],
                   dataset->ragged[ragged].page_items);
}

struct ragged_row ragged_row_stored(const struct dataset *dataset, size_t ragged,
                                    const struct row_walk *row, const uint64_t *offsets)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    return lies_of(ragged_row_frames(dataset, ragged, row), offsets,
                   origin->is_vlen ? UINT64_MAX : origin->first_item[row->row_store],
                   panel_stored(dataset, ragged)->page_items);
}

struct ragged_row dataset_ragged_row(const struct dataset *dataset, size_t ragged, uint64_t row)
{
    struct row_walk walk = row_begin(dataset, row);
    uint32_t first_page = 0;
    assert(dataset->source_count == 0 && ragged < dataset->ragged_count);
    for (size_t r = 0; r < ragged; r++)
        first_page += ragged_row_of(dataset, r, &walk, dataset->ragged[r].offsets).page_count;
    struct ragged_row lies = ragged_row_of(dataset, ragged, &walk, dataset->ragged[ragged].offsets);
    lies.first_page = first_page;
    return lies;
}

uint32_t dataset_row_pages(const struct dataset *dataset, uint64_t row)
{
    uint32_t pages = 0;
    if (dataset->ragged_count == 0)
        return 0;
    if (dataset->source_count > 0)
        dataset = dataset->sources[dataset_source_of_row(dataset, row, &row)];
    struct row_walk walk = row_begin(dataset, row);
    for (size_t r = 0; r < dataset->ragged_count; r++)
        pages += ragged_row_of(dataset, r, &walk, dataset->ragged[r].offsets).page_count;
    return pages;
}

/* Samples
 * ---------------------------------------------------------------------------------------------- */

static uint64_t items_of(struct ragged_span span)
{
    return span.end - span.begin;
}

/* Steps that follow one another and are in the episode cost one difference. */
uint64_t ragged_sample_items(const struct dataset *dataset, const struct ragged *ragged,
                             uint64_t frame)
{
    uint64_t items = 0;
    if (ragged->step_count == 0)
        return items_of(ragged_frame(ragged, frame));
    struct anchors_episode episode = anchors_episode_of(dataset->private->anchors, frame);
    for (size_t k = 0; k < ragged->step_count;) {
        uint64_t at = frame + (uint64_t)(int64_t)ragged->steps[k];
        size_t end = k + 1;
        if (ragged->truncates || ragged->entries || (int64_t)(at - episode.first) < 0 ||
            (int64_t)(at - episode.end) >= 0) {
            items += items_of(ragged_step(ragged, &episode, frame, k));
            k = end;
            continue;
        }
        while (end < ragged->step_count && ragged->steps[end] == ragged->steps[end - 1] + 1 &&
               at + (end - k) < episode.end)
            end++;
        items += ragged->offsets[at + (end - k)] - ragged->offsets[at];
        k = end;
    }
    return items;
}

uint64_t dataset_sample_items(const struct dataset *dataset, size_t ragged, uint64_t frame)
{
    return ragged_sample_items(dataset, &dataset->ragged[ragged], frame);
}

size_t dataset_trailer_bytes(const struct dataset *dataset, uint64_t frame)
{
    size_t bytes = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        if (!dataset->ragged[r].is_held)
            bytes += ragged_sample_items(dataset, &dataset->ragged[r], frame) *
                     dataset->ragged[r].trailer_item_bytes;
    return size_round_up(bytes, RAGGED_TRAILER_ALIGNMENT);
}
