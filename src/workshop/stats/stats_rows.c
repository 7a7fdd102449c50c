/* Frames of rows, each once: those that samples of the run have. See stats.h. */
#include "workshop/stats/stats.h"

#include "anchors/anchors.h"

#include "base/convert.h"
#include "base/number.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_ITEMS = 512 };

/* Frames that samples of a row have, of one field: marks[frame - begin]. */
struct marks {
    int64_t begin, end;
    bool *marks; /* owned */
};

/* Lines
 * ------------------------------------------------------------------------------------------- */

/* The last axes of a frame, as far as they are all kept, or none is: its lines. */
static int line_axis(const struct stats_field *field)
{
    int axis = field->rank;
    while (axis > 0 && field->kept[axis - 1] == field->kept[field->rank - 1])
        axis--;
    return axis;
}

static void add_line(const struct stats *stats, size_t f, struct stats_table *table, uint64_t entry,
                     uint64_t stride, const unsigned char *items, uint64_t count)
{
    const struct stats_field *field = &stats->fields[f];
    const struct convert convert = {.from = field->dtype, .to = DTYPE_FLOAT64, .scale = 1.0};
    double values[LINE_ITEMS];
    for (uint64_t at = 0; at < count; at += LINE_ITEMS) {
        size_t some = (size_t)min_u64(LINE_ITEMS, count - at);
        convert_items(&convert, items + at * dtype_bytes(field->dtype), some, values);
        stats_add_line(stats, f, table, entry + at * stride, stride, values, some);
    }
}

static void add_frame(const struct stats *stats, size_t f, struct stats_table *table,
                      const unsigned char *items)
{
    const struct stats_field *field = &stats->fields[f];
    int lines = line_axis(field);
    uint64_t length = 1, strides[DATASET_MAX_RANK] = {0}, position[DATASET_MAX_RANK] = {0};
    uint64_t stride = 1, entry = 0, is_kept = field->rank > 0 && field->kept[field->rank - 1];
    for (int axis = field->rank - 1; axis >= 0; axis--) {
        length *= axis >= lines ? field->lengths[axis] : 1;
        strides[axis] = field->kept[axis] ? stride : 0;
        stride *= field->kept[axis] ? field->lengths[axis] : 1;
    }
    size_t bytes = length * dtype_bytes(field->dtype);
    for (uint64_t at = 0; at < field->frame_items; at += length, items += bytes) {
        add_line(stats, f, table, entry, is_kept, items, length);
        for (int axis = lines - 1; axis >= 0; axis--) {
            entry += strides[axis];
            if (++position[axis] < field->lengths[axis])
                break;
            entry -= strides[axis] * field->lengths[axis];
            position[axis] = 0;
        }
    }
}

/* Which frames
 * ------------------------------------------------------------------------------------------- */

static bool is_in(const struct anchors_episode *episode, int64_t frame)
{
    return frame >= (int64_t)episode->first && frame < (int64_t)episode->end;
}

/* The steps of a field: that of the anchor, if it has none. */
static const int32_t *steps_of(const struct dataset_field *field, size_t *ret_count)
{
    static const int32_t own[] = {0};
    *ret_count = field->step_count > 0 ? field->step_count : 1;
    return field->step_count > 0 ? field->steps : own;
}

static void mark_steps(const struct dataset_field *field, const struct anchors *anchors,
                       uint64_t anchor, struct marks *marks)
{
    size_t count;
    const int32_t *steps = steps_of(field, &count);
    struct anchors_episode episode = anchors_episode_of(anchors, anchor);
    for (size_t k = 0; k < count; k++)
        if (is_in(&episode, (int64_t)anchor + steps[k]))
            marks->marks[(int64_t)anchor + steps[k] - marks->begin] = true;
}

/* Whether a sample of an earlier row has the frame, too. */
static bool came_before(const struct dataset_field *field, const struct anchors *anchors,
                        int64_t frame, int64_t row_first)
{
    uint64_t row;
    for (size_t k = 0; k < field->step_count; k++) {
        int64_t anchor = frame - field->steps[k];
        if (anchor < 0 || anchor >= row_first ||
            anchors_offset_of(anchors, (uint64_t)anchor, &row) == UINT64_MAX)
            continue;
        struct anchors_episode episode = anchors_episode_of(anchors, (uint64_t)anchor);
        if (is_in(&episode, frame))
            return true;
    }
    return false;
}

static enum status mark_frames(const struct dataset *dataset, const struct dataset_field *field,
                               uint64_t row, struct marks *marks, struct error *err)
{
    const struct anchors *anchors = dataset->anchors;
    int64_t first = (int64_t)dataset_row_first(dataset, row);
    int64_t end = first + (int64_t)dataset_row_frames(dataset, row);
    size_t count;
    const int32_t *steps = steps_of(field, &count);
    marks->begin = first + (steps[0] < 0 ? steps[0] : 0);
    marks->end = end + (steps[count - 1] > 0 ? steps[count - 1] : 0);
    marks->marks = calloc((size_t)(marks->end - marks->begin), sizeof *marks->marks);
    if (!marks->marks)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a row's frames");
    if (!anchors)
        memset(marks->marks + (first - marks->begin), true, (size_t)(end - first));
    for (uint32_t k = 0; anchors && k < anchors_row_samples(anchors, row); k++)
        mark_steps(field, anchors, anchors_frame_at(anchors, row, k), marks);
    for (int64_t frame = marks->begin; anchors && frame < marks->end; frame++)
        if (marks->marks[frame - marks->begin] && came_before(field, anchors, frame, first))
            marks->marks[frame - marks->begin] = false;
    return STATUS_OK;
}

static enum status add_row(const struct stats *stats, uint64_t number, const unsigned char *row,
                           struct stats_table *table, struct error *err)
{
    const struct dataset *dataset = stats->dataset;
    int64_t first = (int64_t)dataset_row_first(dataset, number);
    for (size_t f = 0; f < stats->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[stats->fields[f].number];
        struct marks marks;
        if (stats->pass > 0 && !table->counts[f])
            continue;
        enum status status = mark_frames(dataset, field, number, &marks, err);
        if (status != STATUS_OK)
            return status;
        for (int64_t frame = marks.begin; frame < marks.end; frame++) {
            if (!marks.marks[frame - marks.begin])
                continue;
            int64_t offset =
                (int64_t)field->row_offset + (frame - first) * (int64_t)field->frame_bytes;
            add_frame(stats, f, table,
                      field->source == FIELD_HELD
                          ? dataset_held_sample(dataset, stats->fields[f].number, (uint64_t)frame)
                          : row + offset);
        }
        free(marks.marks);
    }
    return STATUS_OK;
}

enum status stats_read_block(const struct stats *stats, uint64_t block,
                             struct dataset_reader *reader, unsigned char *row,
                             struct stats_table *table, struct error *err)
{
    const struct dataset *dataset = stats->dataset;
    uint64_t end = share_begin(dataset->row_count, block + 1, stats->block_count);
    enum status status = STATUS_OK;
    for (uint64_t r = share_begin(dataset->row_count, block, stats->block_count);
         r < end && status == STATUS_OK; r++) {
        struct zarr_read_stats read = {0};
        if (dataset->anchors && anchors_row_samples(dataset->anchors, r) == 0)
            continue;
        status = dataset_read_row(reader, r, row, &read, err);
        if (status == STATUS_OK)
            status = add_row(stats, r, row, table, err);
    }
    return status;
}
