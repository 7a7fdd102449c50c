/* What a row is read from. Pure; any thread. */
#include "dataset/read/row_walk.h"

#include "base/number.h"
#include "dataset/panel.h"
#include "dataset/read/ragged_rows.h"

#include <assert.h>

struct row_walk row_begin(const struct dataset *dataset, uint64_t row)
{
    const struct dataset_private *private = dataset->private;
    assert(row < dataset->row_count);
    size_t store = find_last_u64(private->first_row, 0, private->store_count, row);
    uint64_t first =
        private->first_frame[store] + (row - private->first_row[store]) * dataset->row_length;
    uint64_t end = min_u64(first + dataset->row_length, private->first_frame[store + 1]);
    struct row_walk walk = {
        .first = first, .end = end, .from = first, .to = end, .row_store = store};

    walk.lowest = first;
    walk.highest = end;
    if (!private->anchors)
        return walk;
    uint32_t count = anchors_row_samples(private->anchors, row);
    if (count == 0) {
        walk.field = dataset->field_count;
        walk.is_empty = true;
        return walk;
    }
    walk.from = anchors_frame_at(private->anchors, row, 0);
    walk.to = anchors_frame_at(private->anchors, row, count - 1) + 1;
    walk.lowest = anchors_episode_of(private->anchors, walk.from).first;
    walk.highest = anchors_episode_of(private->anchors, walk.to - 1).end;
    return walk;
}

/* Steps to the frames of the next field that leads. */
static bool next_field(const struct dataset *dataset, struct row_walk *walk)
{
    for (; walk->field < dataset->field_count; walk->field++) {
        const struct dataset_field *field = &dataset->fields[walk->field];
        if (field->source != FIELD_ROW || field->row_leader != walk->field)
            continue;
        uint64_t before = min_u64(field->halo_before, walk->from);
        walk->next = max_u64(walk->from - before, walk->lowest);
        walk->until = min_u64(walk->to + field->halo_after, walk->highest);
        walk->store = find_last_u64(dataset->store_frames, 0, dataset->store_count, walk->next);
        walk->field++;
        return true;
    }
    return false;
}

/* Steps to the next ragged field that has pages in the row; page by page of one column, then the
 * next column. */
static bool next_page(const struct dataset *dataset, struct row_walk *walk)
{
    while (walk->ragged < dataset->ragged_count) {
        const struct ragged *ragged = &dataset->ragged[walk->ragged];
        const struct ragged *stored = panel_stored(dataset, walk->ragged);
        if (!walk->lies_is_known && ragged->offsets) {
            walk->lies = ragged_row_stored(dataset, walk->ragged, walk, stored->offsets);
            walk->lies.first_page = stored == ragged ? walk->next_page : 0;
            walk->next_page +=
                ragged_row_of(dataset, walk->ragged, walk, ragged->offsets).page_count;
            walk->lies_is_known = true;
        }
        if (ragged->offsets && walk->column < ragged->column_count &&
            walk->page < walk->lies.page_count)
            return true;
        if (ragged->offsets && walk->column + 1 < ragged->column_count) {
            walk->column++;
        } else {
            walk->ragged++;
            walk->column = 0;
            walk->lies_is_known = false;
        }
        walk->page = 0;
    }
    return false;
}

/* Of values of variable length: all of the row, at once. */
static struct row_span values_span(const struct dataset *dataset, struct row_walk *walk)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[walk->ragged];
    struct ragged_frames frames = ragged_row_frames(dataset, walk->ragged, walk);
    uint64_t first = dataset->store_frames[walk->row_store];
    walk->page = walk->lies.page_count;
    return (struct row_span){.field = walk->ragged,
                             .store = walk->row_store,
                             .array = &origin->columns[0].views[walk->row_store],
                             .begin = frames.first - first,
                             .end = frames.end - first,
                             .column = &dataset->ragged[walk->ragged].columns[0],
                             .page = walk->lies.first_page};
}

static struct row_span page_span(const struct dataset *dataset, struct row_walk *walk)
{
    const struct ragged *ragged = panel_stored(dataset, walk->ragged);
    const struct ragged_column *column = &ragged->columns[walk->column];
    const struct ragged_origin *origin = &dataset->private->ragged_origins[walk->ragged];
    const struct ragged_row *lies = &walk->lies;
    uint64_t page_begin = lies->page_begin + walk->page * ragged->page_items;
    uint64_t begin = max_u64(page_begin, lies->items.begin);
    uint64_t end = min_u64(page_begin + ragged->page_items, lies->items.end);
    uint64_t base = origin->first_item[walk->row_store];
    return (struct row_span){.field = walk->ragged,
                             .store = walk->row_store,
                             .array = &origin->columns[walk->column].views[walk->row_store],
                             .begin = begin - base,
                             .end = end - base,
                             .offset =
                                 column->page_offset + (begin - page_begin) * column->item_bytes,
                             .column = column,
                             .page = lies->first_page + walk->page++};
}

bool row_next(const struct dataset *dataset, struct row_walk *walk, struct row_span *ret_span)
{
    const uint64_t *first = dataset->store_frames;
    if (walk->next == walk->until && !next_field(dataset, walk)) {
        if (walk->is_empty || !next_page(dataset, walk))
            return false;
        *ret_span = dataset->private->ragged_origins[walk->ragged].is_vlen
                        ? values_span(dataset, walk)
                        : page_span(dataset, walk);
        return true;
    }
    size_t field = walk->field - 1;
    const struct dataset_field *of = &dataset->fields[field];
    uint64_t end = min_u64(walk->until, first[walk->store + 1]);
    *ret_span = (struct row_span){
        .field = field,
        .store = walk->store,
        .array = &dataset->private->origins[field].store_fields[walk->store].array,
        .begin = walk->next - first[walk->store],
        .end = end - first[walk->store],
        .offset = of->row_offset + walk->next * of->frame_bytes - walk->first * of->frame_bytes};
    walk->next = end;
    walk->store++;
    return true;
}

static struct row_walk begin_anywhere(const struct dataset *dataset, uint64_t row)
{
    uint32_t source = dataset_source_of_row(dataset, row, &row);
    return row_begin(dataset_source(dataset, source), row);
}

uint64_t dataset_row_frames(const struct dataset *dataset, uint64_t row)
{
    struct row_walk walk = begin_anywhere(dataset, row);
    return walk.end - walk.first;
}

uint64_t dataset_row_first(const struct dataset *dataset, uint64_t row)
{
    return begin_anywhere(dataset, row).first;
}

size_t dataset_row_arrays(const struct dataset *dataset,
                          const struct zarr_array *ret_arrays[DATASET_MAX_STORE_FIELDS])
{
    size_t count = 0;
    for (size_t i = 0; i < dataset->field_count; i++)
        for (size_t s = 0; s < dataset->private->store_count; s++)
            if (dataset->fields[i].source == FIELD_ROW && dataset->fields[i].row_leader == i)
                ret_arrays[count++] = &dataset->private->origins[i].store_fields[s].array;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        for (size_t c = 0; c < origin->column_count && !origin->is_held; c++)
            for (size_t s = 0; s < dataset->private->store_count; s++)
                ret_arrays[count++] = &origin->columns[c].views[s];
    }
    return count;
}
