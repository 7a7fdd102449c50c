/* Which samples touch frames that cannot be had. Pure; any thread. */
#include "dataset/read/bad_frames.h"

#include "base/number.h"

#include <string.h>

/* The first step that is at least `least`; the number of steps if there is none. */
static size_t find_step(const struct dataset_field *field, int64_t least)
{
    size_t low = 0, high = field->step_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (field->steps[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the sample at `anchor` has one of the frames [begin, end), or repeats one at an end of
 * its episode. */
static bool touches(const struct dataset_field *field, struct anchors_episode episode,
                    uint64_t anchor, uint64_t begin, uint64_t end)
{
    uint64_t low = max_u64(begin, episode.first), high = min_u64(end, episode.end);
    if (field->step_count == 0)
        return anchor >= begin && anchor < end;
    if (low >= high)
        return false;
    size_t step = find_step(field, (int64_t)(low - anchor)); /* negative ones wrap twice */
    if (step < field->step_count && field->steps[step] < (int64_t)(high - anchor))
        return true;
    if (field->fill != SAMPLES_FILL_EDGE)
        return false;
    bool lacks_first = field->steps[0] < (int64_t)(episode.first - anchor);
    bool lacks_last = field->steps[field->step_count - 1] >= (int64_t)(episode.end - anchor);
    return (lacks_first && low == episode.first) || (lacks_last && high == episode.end);
}

static void mark_field(const struct dataset *dataset, const struct row_walk *row,
                       const struct dataset_field *field, uint64_t begin, uint64_t end,
                       unsigned char *valid)
{
    uint64_t first = max_u64(row->first, begin - min_u64(begin, field->halo_after));
    uint64_t last = min_u64(row->end, end + field->halo_before);
    for (uint64_t anchor = first; anchor < last; anchor++)
        if (touches(field, anchors_episode_of(dataset->anchors, anchor), anchor, begin, end))
            valid[anchor - row->first] = 0;
}

void mark_ragged(const struct dataset *dataset, const struct row_walk *row, size_t ragged,
                 uint64_t frame, unsigned char *valid)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    const struct dataset_field steps = {.steps = origin->steps,
                                        .step_count = origin->step_count,
                                        .halo_before = origin->halo_before,
                                        .halo_after = origin->halo_after,
                                        .fill = dataset->private->fill};
    if (dataset->private->has_steps)
        mark_field(dataset, row, &steps, frame, frame + 1, valid);
    else
        valid[frame - row->first] = 0;
}

void mark_touching(const struct dataset *dataset, const struct row_walk *row, size_t field,
                   uint64_t begin, uint64_t end, unsigned char *valid)
{
    if (!dataset->private->has_steps) {
        memset(valid + (begin - row->first), 0, end - begin);
        return;
    }
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source == FIELD_ROW && dataset->fields[f].row_leader == field)
            mark_field(dataset, row, &dataset->fields[f], begin, end, valid);
}

void note_filled(const struct dataset *dataset, size_t field, uint64_t count)
{
    if (count > 0)
        dataset->private->filled[field] += count;
}

void note_filled_ragged(const struct dataset *dataset, size_t ragged, uint64_t count)
{
    size_t field = 0;
    while (dataset->fields[field].ragged != &dataset->ragged[ragged])
        field++;
    note_filled(dataset, field, count);
}

uint64_t dataset_filled_chunks(const struct dataset *dataset, size_t field)
{
    uint64_t count = dataset->private->filled[field];
    for (uint32_t d = 0; d < dataset->source_count; d++)
        for (size_t i = 0; i < dataset->sources[d]->field_count; i++)
            if (strcmp(dataset->sources[d]->fields[i].name, dataset->fields[field].name) == 0)
                count += dataset->sources[d]->private->filled[i];
    return count;
}
