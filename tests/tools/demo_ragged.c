/* See demo_ragged.h. */
#include "demo_ragged.h"

#include <stdio.h>
#include <string.h>

enum { MOST_EVENTS = 400, MOST_STRING_BYTES = 16 };

/* Empty samples, short ones, and a giant one. */
static uint64_t event_length(uint64_t index, uint64_t step)
{
    return index == 3 ? MOST_EVENTS : index % 5 == 0 ? 0 : (index * 7 + step * 3) % 11;
}

static uint64_t point_length(uint64_t index)
{
    return index % 4;
}

void demo_describe_ragged(struct ring_layout *layout, uint64_t steps)
{
    bool sequences = steps > 1;
    uint64_t most = layout->batch_size * steps * MOST_EVENTS;
    layout->field_count = 6;
    layout->fields[0] = (struct ring_field){.name = "events",
                                            .dtype = DTYPE_FLOAT32,
                                            .kind = RING_ITEMS,
                                            .capacity = most,
                                            .offsets_field = 1};
    layout->fields[1] = (struct ring_field){
        .name = "events.offsets", .dtype = DTYPE_INT64, .rank = sequences, .kind = RING_OFFSETS};
    layout->fields[1].shape[0] = sequences ? steps : 0;
    layout->fields[2] = layout->fields[0];
    snprintf(layout->fields[2].name, RING_NAME_BYTES, "events.x");
    layout->fields[2].dtype = DTYPE_INT32;
    layout->fields[3] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    layout->fields[4] = (struct ring_field){.name = "points",
                                            .dtype = DTYPE_BFLOAT16,
                                            .rank = 1,
                                            .shape = {3},
                                            .kind = RING_ITEMS,
                                            .capacity = (uint64_t)layout->batch_size * 3,
                                            .offsets_field = 5};
    layout->fields[5] =
        (struct ring_field){.name = "points.offsets", .dtype = DTYPE_INT64, .kind = RING_OFFSETS};
}

void demo_describe_strings(struct ring_layout *layout)
{
    layout->field_count = 5;
    layout->fields[0] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    for (uint32_t f = 1; f < 5; f += 2) {
        struct ring_field *field = &layout->fields[f];
        *field = (struct ring_field){.dtype = DTYPE_UINT8,
                                     .kind = RING_ITEMS,
                                     .capacity = (uint64_t)layout->batch_size * MOST_STRING_BYTES,
                                     .offsets_field = f + 1};
        snprintf(field->name, RING_NAME_BYTES, "%s", f == 1 ? "name" : "raw");
        field[1] = (struct ring_field){.dtype = DTYPE_INT64, .kind = RING_OFFSETS};
        snprintf(field[1].name, RING_NAME_BYTES, "%s.offsets", f == 1 ? "name" : "raw");
    }
}

/* Item number j of a step has the value 1000 * step + index + j / 2, and x index % 7 + j. */
static void fill_step(float *values, int32_t *x, uint64_t index, uint64_t step)
{
    for (uint64_t j = 0; j < event_length(index, step); j++) {
        values[j] = (float)(1000 * step + index) + (float)j / 2;
        x[j] = (int32_t)(index % 7 + j);
    }
}

/* Points have the bits index + place. */
void demo_fill_ragged(const struct ring_layout *layout, uint64_t steps, unsigned char *slot,
                      const uint64_t *indices, uint32_t count)
{
    const struct ring_field *fields = layout->fields;
    float *values = (void *)(slot + fields[0].slot_offset);
    int64_t *offsets = (void *)(slot + fields[1].slot_offset);
    int32_t *x = (void *)(slot + fields[2].slot_offset);
    int64_t *labels = (void *)(slot + fields[3].slot_offset);
    uint16_t *points = (void *)(slot + fields[4].slot_offset);
    int64_t *point_offsets = (void *)(slot + fields[5].slot_offset);
    int64_t end = 0, point_end = 0;
    *offsets++ = *point_offsets++ = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t step = 0; step < steps; step++) {
            fill_step(values + end, x + end, indices[i], step);
            end += (int64_t)event_length(indices[i], step);
            *offsets++ = end;
        }
        for (uint64_t k = 0; k < 3 * point_length(indices[i]); k++)
            points[3 * point_end + (int64_t)k] = (uint16_t)(indices[i] + k);
        point_end += (int64_t)point_length(indices[i]);
        *point_offsets++ = point_end;
        labels[i] = (int64_t)indices[i];
    }
}

/* A sample has the name "s" and index % 7 times e with an acute accent, but each fifth sample none;
 * and index % 3 raw bytes of 255. */
void demo_fill_strings(const struct ring_layout *layout, unsigned char *slot,
                       const uint64_t *indices, uint32_t count)
{
    const struct ring_field *fields = layout->fields;
    int64_t *labels = (void *)(slot + fields[0].slot_offset);
    unsigned char *names = slot + fields[1].slot_offset, *raw = slot + fields[3].slot_offset;
    int64_t *name_offsets = (void *)(slot + fields[2].slot_offset);
    int64_t *raw_offsets = (void *)(slot + fields[4].slot_offset);
    name_offsets[0] = raw_offsets[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        char name[MOST_STRING_BYTES];
        size_t length = indices[i] % 5 > 0;
        memcpy(name, "s", 1);
        for (uint64_t k = 0; length > 0 && k < indices[i] % 7; k++, length += 2)
            memcpy(name + length, "\xc3\xa9", 2);
        memcpy(names + name_offsets[i], name, length);
        memset(raw + raw_offsets[i], 255, indices[i] % 3);
        name_offsets[i + 1] = name_offsets[i] + (int64_t)length;
        raw_offsets[i + 1] = raw_offsets[i] + (int64_t)(indices[i] % 3);
        labels[i] = (int64_t)indices[i];
    }
}
