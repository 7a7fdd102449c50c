/* See fragments.h. */
#include "run/fragments.h"

#include "base/size.h"
#include "plan/rounds/round.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_ALIGNMENT = 16 };

/* A list that is being made: NULL and sizes alone at first, to count; then with room. */
struct maker {
    const struct dataset *dataset;
    const struct needs *needs; /* NULL: slots have all fields */
    struct fragments *fragments;
    uint64_t epoch;
    bool counts_only;
};

/* A field's steps, or the anchor alone: all of them, and those of the epoch. */
static size_t all_steps(const struct dataset_field *field)
{
    return field->step_count > 0 ? field->step_count : 1;
}

static size_t step_count(const struct maker *maker, const struct dataset_field *field)
{
    return field->step_count > 0 ? dataset_field_steps(field, maker->epoch) : 1;
}

static size_t frame_bytes_of(const struct dataset_field *field)
{
    return field->sample_bytes / all_steps(field);
}

static size_t sample_bytes(const struct maker *maker, const struct dataset_field *field)
{
    return frame_bytes_of(field) * step_count(maker, field);
}

static int32_t step_at(const struct dataset_field *field, size_t k)
{
    return field->step_count > 0 ? field->steps[k] : 0;
}

/* The index of a step; SIZE_MAX: the field does not have it. */
static size_t find_step(const struct maker *maker, const struct dataset_field *field, int32_t step)
{
    size_t low = 0, high = step_count(maker, field);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (step_at(field, middle) < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < step_count(maker, field) && step_at(field, low) == step ? low : SIZE_MAX;
}

/* The made field that says which steps of a field are missing; SIZE_MAX: none can be. */
static size_t find_valid(const struct dataset *dataset, size_t f)
{
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_MADE && dataset->fields[i].made == MADE_VALID &&
            dataset->fields[i].made_for == f)
            return i;
    return SIZE_MAX;
}

/* Whether two fields of the same memory have the same part of each frame. */
static bool same_crop(const struct dataset_field *a, const struct dataset_field *b)
{
    if (!a->crop || !b->crop)
        return a->crop == b->crop;
    return a->crop->group == b->crop->group && frame_bytes_of(a) == frame_bytes_of(b) &&
           memcmp(a->crop->axis_strides, b->crop->axis_strides, sizeof a->crop->axis_strides) == 0;
}

static bool is_needed(const struct maker *maker, size_t f)
{
    return !maker->needs || needs_field(maker->needs, f);
}

/* The first field before `f` whose memory in rows is the same and that has the step too; SIZE_MAX:
 * none. Fields that are cut have their steps from rows alone: slots may lack parts of others. */
static size_t find_earlier(const struct maker *maker, size_t f, int32_t step, size_t *ret_k)
{
    const struct dataset *dataset = maker->dataset;
    const struct fragment_field *fields = maker->fragments->fields;
    for (size_t g = 0; g < f && !fields[f].cutting; g++) {
        const struct dataset_field *earlier = &dataset->fields[g];
        if (earlier->source != FIELD_ROW || earlier->row_leader != dataset->fields[f].row_leader ||
            !same_crop(earlier, &dataset->fields[f]) || !is_needed(maker, g) || fields[g].cutting)
            continue;
        *ret_k = find_step(maker, earlier, step);
        if (*ret_k != SIZE_MAX)
            return g;
    }
    return SIZE_MAX;
}

/* Room in a record, or in a message of its own. Returns where in the record. */
static size_t send(struct fragments *fragments, size_t bytes, bool packed)
{
    size_t at = fragments->packed_bytes, rounded = size_round_up(bytes, RECORD_ALIGNMENT);
    fragments->record_bytes += rounded;
    if (packed)
        fragments->packed_bytes += rounded;
    else
        fragments->messages += size_divide_up(bytes, ROUND_MESSAGE_BYTES);
    return at;
}

static size_t step_count_of(const struct fragment *fragment)
{
    return (size_t)(fragment->last_step - fragment->first_step) + 1;
}

/* A fragment with steps before or behind the anchor, of a field that may lack them. Those of a
 * field that is cut are filled as they are copied. */
static void add_padding(struct maker *maker, struct fragment *fragment, size_t k)
{
    const struct dataset_field *field = &maker->dataset->fields[fragment->field];
    size_t valid = find_valid(maker->dataset, fragment->field);
    if (valid == SIZE_MAX || (fragment->first_step == 0 && fragment->last_step == 0))
        return;
    bool zero = field->fill == SAMPLES_FILL_ZERO;
    fragment->clears = zero;
    if (fragment->cutting) {
        fragment->pads = maker->fragments->shifts = true;
        return;
    }
    fragment->shifts = !zero && (fragment->last_step < 0 || fragment->first_step > 0);
    maker->fragments->shifts |= fragment->shifts;
    struct fragment_padding padding = {.field = fragment->field,
                                       .frame_bytes = frame_bytes_of(field),
                                       .step_count = step_count_of(fragment),
                                       .slot_offset = fragment->slot_offset,
                                       .slot_stride = fragment->slot_stride,
                                       .valid_field = (uint32_t)valid,
                                       .valid_offset = k,
                                       .valid_stride = step_count(maker, field),
                                       .zero = zero,
                                       .before_alone = fragment->last_step < 0};
    size_t at = maker->fragments->padding_count++;
    if (!maker->counts_only)
        maker->fragments->paddings[at] = padding;
}

/* Of all parts of its steps that slots have. */
static size_t cut_bytes(const struct fragment *fragment)
{
    size_t bytes = 0;
    for (size_t k = fragment->first_index; k < fragment->end_index; k++)
        bytes += cutting_step_bytes(fragment->cutting, k);
    return bytes;
}

/* Steps [k, end) of field `f`, which follow one another and come from the row. */
static void add_fragment(struct maker *maker, size_t f, size_t k, size_t end, bool packed)
{
    const struct dataset_field *field = &maker->dataset->fields[f];
    size_t frame_bytes = frame_bytes_of(field);
    size_t row_stride = field->crop ? field->frame_bytes : frame_bytes;
    int64_t row_offset = (int64_t)field->row_offset + step_at(field, k) * (int64_t)row_stride;
    struct fragment fragment = {.field = (uint32_t)f,
                                .bytes = (end - k) * frame_bytes,
                                .row_offset = (size_t)row_offset,
                                .row_stride = row_stride,
                                .slot_offset = k * frame_bytes,
                                .slot_stride = sample_bytes(maker, field),
                                .first_step = step_at(field, k),
                                .last_step = step_at(field, end - 1),
                                .crop = field->crop,
                                .cutting = maker->fragments->fields[f].cutting,
                                .first_index = k,
                                .end_index = end};
    if ((fragment.bytes < ROUND_ZERO_COPY_BYTES || fragment.crop || fragment.cutting) != packed)
        return;
    maker->fragments->crops |= fragment.crop != NULL;
    add_padding(maker, &fragment, k);
    if (fragment.cutting)
        fragment.bytes = cut_bytes(&fragment);
    fragment.record_offset = send(maker->fragments, fragment.bytes, packed);
    size_t at = maker->fragments->count++;
    if (!maker->counts_only)
        maker->fragments->all[at] = fragment;
}

/* Steps [k, end) of field `f`, which are `from`'s steps from `from_k` on. */
static void add_repeat(struct maker *maker, size_t f, size_t k, size_t end, size_t from,
                       size_t from_k)
{
    const struct dataset_field *to_field = &maker->dataset->fields[f];
    const struct dataset_field *from_field = &maker->dataset->fields[from];
    size_t frame_bytes = frame_bytes_of(to_field);
    struct fragment_repeat repeat = {.bytes = (end - k) * frame_bytes,
                                     .from_field = (uint32_t)from,
                                     .from_offset = from_k * frame_bytes,
                                     .from_stride = sample_bytes(maker, from_field),
                                     .to_field = (uint32_t)f,
                                     .to_offset = k * frame_bytes,
                                     .to_stride = sample_bytes(maker, to_field)};
    size_t at = maker->fragments->repeat_count++;
    if (!maker->counts_only)
        maker->fragments->repeats[at] = repeat;
}

/* Steps from k on that come from the row and follow one another. */
static size_t fragment_end(const struct maker *maker, size_t f, size_t k)
{
    const struct dataset_field *field = &maker->dataset->fields[f];
    size_t end = k + 1, from_k;
    while (end < step_count(maker, field) && step_at(field, end) == step_at(field, end - 1) + 1 &&
           find_earlier(maker, f, step_at(field, end), &from_k) == SIZE_MAX)
        end++;
    return end;
}

/* Steps from k on that follow one another in the earlier field's slot, too. */
static size_t repeat_end(const struct maker *maker, size_t f, size_t k, size_t from, size_t from_k)
{
    const struct dataset *dataset = maker->dataset;
    const struct dataset_field *field = &dataset->fields[f], *earlier = &dataset->fields[from];
    size_t end = k + 1;
    while (end < step_count(maker, field) && from_k + end - k < step_count(maker, earlier) &&
           step_at(field, end) == step_at(earlier, from_k + end - k))
        end++;
    return end;
}

/* Of all row fields those fragments that are packed, with the repeats; or the other fragments. */
static void add_fields(struct maker *maker, bool packed)
{
    const struct dataset *dataset = maker->dataset;
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->source != FIELD_ROW || !is_needed(maker, f))
            continue;
        for (size_t k = 0, end; k < step_count(maker, field); k = end) {
            size_t from_k, from = find_earlier(maker, f, step_at(field, k), &from_k);
            if (from == SIZE_MAX) {
                end = fragment_end(maker, f, k);
                add_fragment(maker, f, k, end, packed);
            } else {
                end = repeat_end(maker, f, k, from, from_k);
                if (packed)
                    add_repeat(maker, f, k, end, from, from_k);
            }
        }
    }
}

static void make(struct maker *maker)
{
    struct fragments *fragments = maker->fragments;
    const struct dataset *dataset = maker->dataset;
    add_fields(maker, true);
    fragments->packed_count = fragments->count;
    fragments->mask = dataset->mask;
    if (dataset->mask) {
        fragments->valid_row_offset = dataset->valid_offset;
        fragments->valid_record_offset = send(fragments, 1, true);
    }
    add_fields(maker, false);
    fragments->finishes =
        dataset->mask || fragments->padding_count > 0 || fragments->repeat_count > 0;
    fragments->field_count = dataset->field_count;
}

/* Empty lists, with how the fields are cut. NULL: no memory. */
static struct fragments *allocate(const struct dataset *dataset, const struct shares *shares,
                                  const struct needs *needs)
{
    struct fragments *fragments =
        calloc(1, sizeof *fragments + dataset->field_count * sizeof fragments->fields[0]);
    if (!fragments)
        return NULL;
    fragments->field_count = dataset->field_count;
    for (size_t f = 0; f < dataset->field_count; f++) {
        struct fragment_field *field = &fragments->fields[f];
        field->is_absent = needs && !needs_field(needs, f);
        if (shares && !field->is_absent && shares->fields[f].axis_count > 0 &&
            cutting_new(shares, needs, dataset, f, &field->cutting, NULL) != STATUS_OK) {
            fragments_free(fragments);
            return NULL;
        }
    }
    return fragments;
}

enum status fragments_new(const struct dataset *dataset, const struct shares *shares,
                          const struct needs *needs, uint64_t epoch,
                          struct fragments **ret_fragments, struct error *err)
{
    struct fragments *fragments = allocate(dataset, shares, needs);
    struct fragments *counts = allocate(dataset, shares, needs);
    struct maker maker = {.dataset = dataset,
                          .needs = needs,
                          .fragments = counts,
                          .epoch = epoch,
                          .counts_only = true};
    if (fragments && counts) {
        make(&maker);
        fragments->all = calloc(counts->count + 1, sizeof *fragments->all);
        fragments->paddings = calloc(counts->padding_count + 1, sizeof *fragments->paddings);
        fragments->repeats = calloc(counts->repeat_count + 1, sizeof *fragments->repeats);
    }
    fragments_free(counts);
    if (!fragments || !fragments->all || !fragments->paddings || !fragments->repeats) {
        fragments_free(fragments);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the fragments of samples");
    }
    maker =
        (struct maker){.dataset = dataset, .needs = needs, .fragments = fragments, .epoch = epoch};
    make(&maker);
    for (size_t f = 0; f < dataset->field_count; f++) {
        fragments->fields[f].step_count = dataset_field_steps(&dataset->fields[f], epoch);
        if (!dataset->fields[f].ragged && !fragments->fields[f].is_absent)
            fragments->fields[f].bytes = sample_bytes(&maker, &dataset->fields[f]);
    }
    *ret_fragments = fragments;
    return STATUS_OK;
}

void fragments_free(struct fragments *fragments)
{
    if (!fragments)
        return;
    for (size_t f = 0; f < fragments->field_count; f++)
        cutting_free(fragments->fields[f].cutting);
    free(fragments->all);
    free(fragments->paddings);
    free(fragments->repeats);
    free(fragments);
}

void fragments_set_slots(struct fragments *fragments, const struct ring_layout *layout)
{
    const struct ring_field *fields = layout->fields;
    fragments->valid_slot_offset = layout->valid_offset;
    for (size_t i = 0; i < fragments->count; i++) {
        struct fragment *fragment = &fragments->all[i];
        fragment->slot_offset += fields[fragment->field].slot_offset;
        fragment->streams = !fragment->crop && !fragment->cutting &&
                            layout->total_bytes >= COPY_STREAM_RING_BYTES &&
                            fragment->bytes >= COPY_STREAM_BYTES;
    }
    for (size_t i = 0; i < fragments->padding_count; i++) {
        struct fragment_padding *padding = &fragments->paddings[i];
        padding->slot_offset += fields[padding->field].slot_offset;
        padding->valid_offset += fields[padding->valid_field].slot_offset;
    }
    for (size_t i = 0; i < fragments->repeat_count; i++) {
        struct fragment_repeat *repeat = &fragments->repeats[i];
        repeat->from_offset += fields[repeat->from_field].slot_offset;
        repeat->to_offset += fields[repeat->to_field].slot_offset;
    }
    for (size_t f = 0; f < fragments->field_count; f++) {
        fragments->fields[f].offset = fields[f].slot_offset;
        if (fragments->fields[f].cutting)
            cutting_set_slots(fragments->fields[f].cutting, layout, f);
    }
}

void fragment_cut(const struct fragment *fragment, unsigned char *to, const unsigned char *from,
                  uint64_t key)
{
    from += crop_begin(fragment->crop, key);
    for (size_t k = step_count_of(fragment); k > 0; k--) {
        crop_box_copy(&fragment->crop->box, to, from);
        to += fragment->crop->box.bytes;
        from += fragment->row_stride;
    }
}

/* The frame of a step of the field in the row, `from` being the fragment's first; of a missing step
 * the nearest one of the episode. NULL: it is zero. */
static const unsigned char *frame_at(const struct fragment *fragment, const unsigned char *from,
                                     size_t k, const struct fragment_room *room)
{
    int64_t number = (int64_t)k, step = fragment->first_step + number, nearest = step;
    if (fragment->pads && step < -(int64_t)room->before)
        nearest = -(int64_t)room->before;
    if (fragment->pads && step > (int64_t)room->behind)
        nearest = room->behind;
    if (nearest != step && fragment->clears)
        return NULL;
    return from + (nearest - fragment->first_step) * (int64_t)fragment->row_stride;
}

void fragment_divide(const struct fragment *fragment, unsigned char *slot, uint32_t batch_index,
                     const unsigned char *from, uint64_t key, const struct fragment_room *room)
{
    if (fragment->crop)
        from += crop_begin(fragment->crop, key);
    for (size_t k = 0; k < step_count_of(fragment); k++)
        cutting_put(fragment->cutting, slot, batch_index, fragment->first_index + k,
                    frame_at(fragment, from, k, room));
}

void fragment_pack_parts(const struct fragment *fragment, unsigned char *to,
                         const unsigned char *from, uint64_t key, const struct fragment_room *room)
{
    if (fragment->crop)
        from += crop_begin(fragment->crop, key);
    for (size_t k = 0; k < step_count_of(fragment); k++) {
        cutting_pack(fragment->cutting, fragment->first_index + k,
                     frame_at(fragment, from, k, room), to);
        to += cutting_step_bytes(fragment->cutting, fragment->first_index + k);
    }
}

void fragment_take_parts(const struct fragment *fragment, unsigned char *slot, uint32_t batch_index,
                         const unsigned char *from)
{
    for (size_t k = fragment->first_index; k < fragment->end_index; k++) {
        cutting_unpack(fragment->cutting, slot, batch_index, k, from);
        from += cutting_step_bytes(fragment->cutting, k);
    }
}

/* A trainer may write to the slot at any time: whatever the bytes say, the steps are in range. */
static void pad(const struct fragment_padding *padding, unsigned char *slot, uint32_t batch_index)
{
    const unsigned char *valid = slot + padding->valid_offset + batch_index * padding->valid_stride;
    size_t first = 0, end = padding->step_count, bytes = padding->frame_bytes;
    if (!memchr(valid, 0, end))
        return;
    unsigned char *steps = slot + padding->slot_offset + batch_index * padding->slot_stride;
    while (first < end && !valid[first])
        first++;
    while (end > first && !valid[end - 1])
        end--;
    if (padding->zero) {
        memset(steps, 0, first * bytes);
        memset(steps + end * bytes, 0, (padding->step_count - end) * bytes);
        return;
    }
    if (first == end) { /* none: fragment_shift() */
        first = padding->before_alone ? padding->step_count - 1 : 0;
        end = first + 1;
    }
    for (size_t k = 0; k < first; k++)
        memcpy(steps + k * bytes, steps + first * bytes, bytes);
    for (size_t k = end; k < padding->step_count; k++)
        memcpy(steps + k * bytes, steps + (end - 1) * bytes, bytes);
}

/* Padding of the last step stays marked, whatever the sample. */
static void mark_bad(const struct fragments *fragments, unsigned char *slot, uint32_t batch_index)
{
    slot[fragments->valid_slot_offset + batch_index] = 0;
    for (size_t f = 0; f < fragments->field_count; f++) {
        const struct fragment_field *field = &fragments->fields[f];
        if (!field->cutting)
            memset(slot + field->offset + batch_index * field->bytes, 0, field->bytes);
        for (size_t k = 0; field->cutting && k < field->cutting->step_count; k++)
            cutting_put(field->cutting, slot, batch_index, k, NULL);
    }
}

void fragments_finish(const struct fragments *fragments, unsigned char *slot, uint32_t batch_index,
                      bool good)
{
    if (!good) {
        mark_bad(fragments, slot, batch_index);
        return;
    }
    for (size_t i = 0; i < fragments->padding_count; i++)
        pad(&fragments->paddings[i], slot, batch_index);
    for (size_t i = 0; i < fragments->repeat_count; i++) {
        const struct fragment_repeat *repeat = &fragments->repeats[i];
        memcpy(slot + repeat->to_offset + batch_index * repeat->to_stride,
               slot + repeat->from_offset + batch_index * repeat->from_stride, repeat->bytes);
    }
}
