/* See cutting.h. */
#include "run/cutting.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>

/* What is cut of a frame: its axes, without that of steps. */
struct frame {
    int rank;
    uint64_t shape[DATASET_MAX_RANK]; /* as delivered */
    uint64_t whole[DATASET_MAX_RANK]; /* as in rows: longer along axes with a random crop */
    size_t item_bytes;
};

static struct frame frame_of(const struct dataset_field *field)
{
    int steps = field->step_count > 0;
    struct frame frame = {.rank = field->rank - steps, .item_bytes = dtype_bytes(field->dtype)};
    const struct dataset_crop *crop = field->crop;
    int k = crop ? crop->axis_count - 1 : -1;
    size_t stride = frame.item_bytes;
    for (int axis = frame.rank - 1; axis >= 0; axis--) {
        frame.shape[axis] = frame.whole[axis] = field->shape[axis + steps];
        if (k >= 0 && crop->axis_strides[k] == stride && crop->lengths[k] == frame.shape[axis]) {
            frame.whole[axis] = crop->choices[k] + crop->lengths[k] - 1;
            k--;
        }
        stride *= frame.whole[axis];
    }
    return frame;
}

static void add_loop(struct crop_box *box, uint64_t count, size_t stride)
{
    box->counts[box->loop_count] = count;
    box->strides[box->loop_count++] = stride;
    box->bytes *= count;
}

/* The box of the indices `runs` ([rank]) of a frame. Returns where the box begins. */
static size_t make_box(const struct frame *frame, const struct cut_run *runs,
                       struct crop_box *ret_box)
{
    struct crop_box box = {.bytes = 1};
    size_t strides[DATASET_MAX_RANK], stride = frame->item_bytes, from = 0;
    int last = frame->rank - 1;
    for (int axis = frame->rank - 1; axis >= 0; axis--) {
        strides[axis] = stride;
        stride *= frame->whole[axis];
    }
    while (last >= 0 && !runs[last].has_second && runs[last].length == frame->whole[last])
        last--;
    for (int axis = 0; axis <= last; axis++) {
        from += runs[axis].begin * strides[axis];
        if (runs[axis].has_second)
            add_loop(&box, 2, (runs[axis].second - runs[axis].begin) * strides[axis]);
        if (axis < last)
            add_loop(&box, runs[axis].length, strides[axis]);
    }
    box.line_bytes = last >= 0 ? runs[last].length * strides[last] : stride;
    box.bytes *= box.line_bytes;
    *ret_box = box;
    return from;
}

/* Which parts have which steps. */
static void divide_steps(struct cutting *cutting, const struct shares *shares, size_t field,
                         uint32_t step_parts)
{
    for (uint32_t part = 0; part < step_parts; part++) {
        struct cut_run run = shares_run_of(shares, field, 0, part * (uint32_t)cutting->piece_count);
        for (uint64_t i = 0; i < cut_run_indices(run); i++) {
            uint64_t step = i < run.length ? run.begin + i : run.second + i - run.length;
            cutting->step_part[step] = part;
            cutting->step_index[step] = (uint32_t)i;
        }
    }
}

/* Where an index is among those that the dataset has; how many come before, if it has not. */
static uint64_t kept_index(const struct share_kept *kept, uint64_t index)
{
    uint64_t before = 0;
    for (size_t i = 0; i < kept->count && kept->runs[i].first <= index; i++)
        before += min_u64(kept->runs[i].count, index - kept->runs[i].first);
    return kept->count > 0 ? before : index;
}

/* The run in a dataset that is narrowed, which has all of it or nothing. */
static struct cut_run kept_run(const struct share_kept *kept, struct cut_run run)
{
    run.begin = kept_index(kept, run.begin);
    if (run.has_second)
        run.second = kept_index(kept, run.second);
    return run;
}

static void make_piece(struct cutting *cutting, const struct shares *shares, size_t field,
                       const struct frame *frame, bool has_steps, uint32_t number)
{
    const struct share_field *share = &shares->fields[field];
    struct cutting_piece *piece = &cutting->pieces[number];
    struct cut_run runs[DATASET_MAX_RANK];
    for (int axis = 0; axis < frame->rank; axis++)
        runs[axis] = (struct cut_run){.length = frame->shape[axis]};
    for (uint32_t k = 0; k < share->axis_count; k++) {
        uint32_t axis = share->axes[k];
        if (has_steps && axis == 0)
            continue;
        axis -= has_steps;
        runs[axis] = kept_run(&share->kept[k], shares_run_of(shares, field, k, number));
    }
    piece->from = make_box(frame, runs, &piece->box);
}

enum status cutting_new(const struct shares *shares, const struct needs *needs,
                        const struct dataset *dataset, size_t field, struct cutting **ret_cutting,
                        struct error *err)
{
    const struct dataset_field *of = &dataset->fields[field];
    const struct share_field *share = &shares->fields[field];
    struct frame frame = frame_of(of);
    bool has_steps = of->step_count > 0, cuts_steps = has_steps && share->axes[0] == 0;
    uint32_t step_parts = cuts_steps ? shares->cuts[share->cuts[0]].part_count : 1;
    struct cutting *cutting = calloc(1, sizeof *cutting);
    if (cutting) {
        cutting->step_count = has_steps ? of->step_count : 1;
        cutting->part_count = shares_part_count(shares, field);
        cutting->piece_count = cutting->part_count / step_parts;
        cutting->step_part = calloc(cutting->step_count, sizeof *cutting->step_part);
        cutting->step_index = calloc(cutting->step_count, sizeof *cutting->step_index);
        cutting->pieces = calloc(cutting->piece_count, sizeof *cutting->pieces);
        cutting->parts = calloc(cutting->part_count, sizeof *cutting->parts);
    }
    if (!cutting || !cutting->step_part || !cutting->step_index || !cutting->pieces ||
        !cutting->parts) {
        cutting_free(cutting);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the parts of field '%s'", of->name);
    }
    for (size_t k = 0; k < cutting->step_count; k++)
        cutting->step_index[k] = (uint32_t)k;
    if (cuts_steps)
        divide_steps(cutting, shares, field, step_parts);
    for (uint32_t p = 0; p < cutting->part_count; p++)
        cutting->parts[p].is_absent = !needs_part(needs, shares->first_parts[field] + p);
    for (uint32_t p = 0; p < cutting->piece_count; p++)
        make_piece(cutting, shares, field, &frame, has_steps, p);
    *ret_cutting = cutting;
    return STATUS_OK;
}

void cutting_free(struct cutting *cutting)
{
    if (!cutting)
        return;
    free(cutting->step_part);
    free(cutting->step_index);
    free(cutting->pieces);
    free(cutting->parts);
    free(cutting);
}

void cutting_set_slots(struct cutting *cutting, const struct ring_layout *layout, size_t field)
{
    const struct ring_part *parts = &layout->parts[layout->fields[field].first_part];
    for (size_t p = 0; p < cutting->part_count; p++) {
        cutting->parts[p].slot_offset = parts[p].slot_offset;
        cutting->parts[p].sample_bytes = (size_t)parts[p].sample_bytes;
    }
}

/* The part that has a piece of a step; NULL: slots have none. */
static const struct cutting_part *part_of(const struct cutting *cutting, size_t step, size_t piece)
{
    const struct cutting_part *part =
        &cutting->parts[cutting->step_part[step] * cutting->piece_count + piece];
    return part->is_absent || cutting->pieces[piece].box.bytes == 0 ? NULL : part;
}

static unsigned char *in_slot(const struct cutting *cutting, const struct cutting_part *part,
                              unsigned char *slot, uint32_t batch_index, size_t step, size_t piece)
{
    return slot + part->slot_offset + batch_index * part->sample_bytes +
           cutting->step_index[step] * cutting->pieces[piece].box.bytes;
}

/* `from` NULL: zeros. */
static void take_piece(const struct cutting_piece *piece, unsigned char *to,
                       const unsigned char *from)
{
    if (from)
        crop_box_copy(&piece->box, to, from + piece->from);
    else
        memset(to, 0, piece->box.bytes);
}

void cutting_put(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                 size_t step, const unsigned char *from)
{
    for (size_t p = 0; p < cutting->piece_count; p++) {
        const struct cutting_part *part = part_of(cutting, step, p);
        if (part)
            take_piece(&cutting->pieces[p], in_slot(cutting, part, slot, batch_index, step, p),
                       from);
    }
}

size_t cutting_step_bytes(const struct cutting *cutting, size_t step)
{
    size_t bytes = 0;
    for (size_t p = 0; p < cutting->piece_count; p++)
        bytes += part_of(cutting, step, p) ? cutting->pieces[p].box.bytes : 0;
    return bytes;
}

void cutting_pack(const struct cutting *cutting, size_t step, const unsigned char *from,
                  unsigned char *record)
{
    for (size_t p = 0; p < cutting->piece_count; p++) {
        if (!part_of(cutting, step, p))
            continue;
        take_piece(&cutting->pieces[p], record, from);
        record += cutting->pieces[p].box.bytes;
    }
}

void cutting_unpack(const struct cutting *cutting, unsigned char *slot, uint32_t batch_index,
                    size_t step, const unsigned char *record)
{
    for (size_t p = 0; p < cutting->piece_count; p++) {
        const struct cutting_part *part = part_of(cutting, step, p);
        if (!part)
            continue;
        memcpy(in_slot(cutting, part, slot, batch_index, step, p), record,
               cutting->pieces[p].box.bytes);
        record += cutting->pieces[p].box.bytes;
    }
}
