/* What a program sees of a slot: its part of each input, and where its outputs go. See
 * transform_internal.h. */
#include "delivery/client/transform_internal.h"

#include "delivery/client/describe.h"

#include <string.h>

_Static_assert(sizeof((struct penstock_transform_batch){0}.data) / sizeof(void *) ==
                   RING_MAX_FIELDS,
               "any field fits");

/* Whether the numbers of fields are those of the layout. */
static bool shape_fits(const struct board_shape *shape, const struct ring_layout *layout)
{
    bool fits = shape->input_count <= RING_MAX_FIELDS && shape->output_count <= RING_MAX_FIELDS;
    for (uint32_t i = 0; fits && i < shape->input_count; i++)
        fits = shape->inputs[i].field < layout->field_count;
    for (uint32_t o = 0; fits && o < shape->output_count; o++)
        fits = shape->outputs[o].same_as > 0
                   ? shape->outputs[o].same_as <= shape->input_count
                   : shape->outputs[o].field + (shape->outputs[o].most_items > 0) <
                         layout->field_count;
    return fits;
}

/* The input with that number in the layout. */
static uint32_t input_of(const struct board_shape *shape, uint32_t field)
{
    uint32_t i = 0;
    while (i + 1 < shape->input_count && shape->inputs[i].field != field)
        i++;
    return i;
}

static void describe_fields(struct penstock_transform *t)
{
    for (uint32_t i = 0; i < t->shape.input_count; i++) {
        const struct ring_field *field = &t->layout.fields[t->shape.inputs[i].field];
        t->fields[i] = describe_field(&t->layout, field);
        t->fields[i].name = t->shape.inputs[i].name;
        t->fields[i].attributes = "{}";
        t->fields[i].offsets_field = input_of(&t->shape, t->fields[i].offsets_field);
    }
    for (uint32_t o = 0; o < t->shape.output_count; o++) {
        const struct board_output *output = &t->shape.outputs[o];
        t->outputs[o] = (struct penstock_output){.name = output->name,
                                                 .dtype = (enum penstock_dtype)output->dtype,
                                                 .rank = (int32_t)output->rank,
                                                 .most_items = output->most_items,
                                                 .same_as = (int32_t)output->same_as - 1};
        memcpy(t->outputs[o].shape, output->shape, sizeof output->shape);
    }
}

/* A field's samples of the part; the items of a ragged field are the whole batch's. */
static unsigned char *part_of(const struct ring_field *field, unsigned char *slot, uint64_t bound,
                              uint32_t begin)
{
    uint64_t stride = field->kind == RING_ITEMS    ? 0
                      : field->kind == RING_PADDED ? field->sample_bytes * bound
                                                   : field->sample_bytes;
    return slot + field->slot_offset + begin * stride;
}

enum status transform_fill_batch(struct penstock_transform *t, unsigned char *slot, uint32_t first,
                                 uint32_t count, struct error *err)
{
    const struct ring_layout *layout = &t->layout;
    struct slot_header header;
    memcpy(&header, slot, sizeof header);
    if (!shape_fits(&t->shape, layout) || first > layout->batch_size ||
        count > layout->batch_size - first)
        return error_set(err, STATUS_PROTOCOL, "transform: a task that makes no sense");
    describe_fields(t);
    t->batch = (struct penstock_transform_batch){
        .epoch = header.epoch,
        .step = header.step,
        .sample_count = count,
        .is_trial = t->duty == DUTY_TRIAL,
        .bound = header.bound,
        .indices = (const uint64_t *)(const void *)(slot + layout->indices_offset) + first,
        .keys = (const uint64_t *)(const void *)(slot + layout->keys_offset) + first,
        .valid = slot + layout->valid_offset + first,
        .input_count = t->shape.input_count,
        .output_count = t->duty == DUTY_TRIAL ? 0 : t->shape.output_count,
        .fields = t->fields,
        .outputs = t->outputs};
    for (uint32_t i = 0; i < t->shape.input_count; i++)
        t->batch.data[i] =
            part_of(&layout->fields[t->shape.inputs[i].field], slot, header.bound, first);
    for (uint32_t o = 0; o < t->batch.output_count; o++) {
        const struct board_output *output = &t->shape.outputs[o];
        if (output->same_as > 0)
            continue;
        t->batch.results[o] = part_of(&layout->fields[output->field], slot, 0, first);
        if (output->most_items > 0)
            t->batch.result_offsets[o] =
                (int64_t *)(void *)part_of(&layout->fields[output->field + 1], slot, 0, first);
    }
    return STATUS_OK;
}
