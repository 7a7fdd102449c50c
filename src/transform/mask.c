/* See mask.h. */
#include "transform/mask.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

enum status mask_list(const struct mask_rule *rule, const struct ring_layout *layout,
                      const unsigned char *slot, uint32_t sample, const struct error *cause,
                      struct error *err)
{
    const uint64_t *indices = (const void *)(slot + layout->indices_offset);
    struct bad_chunk bad = {.source = -1,
                            .array = "delivery.transform",
                            .first_sample = indices[sample],
                            .sample_count = 1,
                            .cause = *cause};
    if (rule->has_source && !layout->fields[rule->source].is_absent) {
        const int32_t *sources = (const void *)(slot + layout->fields[rule->source].slot_offset);
        bad.source = sources[sample];
    }
    if (bad_log_add(rule->log, &bad))
        return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "too many bad samples at once; the last: %s",
                     cause->message);
}

/* Zeros [begin, end) of `count` pieces of memory. */
static void zero(unsigned char *memory, uint64_t piece_bytes, uint64_t begin, uint64_t end,
                 uint64_t count)
{
    end = min_u64(end, count);
    if (begin < end)
        memset(memory + begin * piece_bytes, 0, (end - begin) * piece_bytes);
}

/* The steps of a field of offsets: 1, unless samples have several. */
static uint64_t steps_of(const struct ring_layout *layout, uint32_t field, uint64_t epoch)
{
    uint64_t steps = ring_field_steps(layout, field, epoch);
    if (steps > 0)
        return steps;
    return layout->fields[field].rank > 0 ? layout->fields[field].shape[0] : 1;
}

/* Of a field that is cut, each part has its share of the items of each sample. */
static void zero_items(const struct ring_layout *layout, uint32_t f, unsigned char *slot,
                       uint32_t sample)
{
    const struct slot_header *header = (const void *)slot;
    const struct ring_field *field = &layout->fields[f];
    const int64_t *offsets =
        (const void *)(slot + layout->fields[field->offsets_field].slot_offset);
    uint64_t steps = steps_of(layout, field->offsets_field, header->epoch);
    uint64_t begin = (uint64_t)offsets[sample * steps];
    uint64_t end = (uint64_t)offsets[(sample + 1) * steps];
    uint64_t parts = max_u64(field->part_count, 1);
    for (uint64_t p = 0; p < parts; p++) {
        const struct ring_part *part =
            field->part_count > 0 ? &layout->parts[field->first_part + p] : NULL;
        if (!part || !part->is_absent)
            zero(slot + (part ? part->slot_offset : field->slot_offset), field->sample_bytes,
                 begin / parts, end / parts, field->capacity / parts);
    }
}

static void zero_samples(const struct ring_layout *layout, uint32_t f, unsigned char *slot,
                         uint32_t sample)
{
    const struct slot_header *header = (const void *)slot;
    const struct ring_field *field = &layout->fields[f];
    uint64_t steps = ring_field_steps(layout, f, header->epoch);
    uint64_t bytes =
        steps > 0 ? field->sample_bytes / field->shape[0] * steps : field->sample_bytes;
    if (field->part_count == 0)
        zero(slot + field->slot_offset, bytes, sample, sample + 1, layout->batch_size);
    for (uint32_t p = 0; p < field->part_count; p++) {
        const struct ring_part *part = &layout->parts[field->first_part + p];
        if (!part->is_absent)
            zero(slot + part->slot_offset, part->sample_bytes, sample, sample + 1,
                 layout->batch_size);
    }
}

void mask_sample(const struct mask_rule *rule, const struct ring_layout *layout,
                 unsigned char *slot, uint32_t sample)
{
    const struct slot_header *header = (const void *)slot;
    slot[layout->valid_offset + sample] = 0;
    for (uint32_t f = 0; f < layout->field_count; f++) {
        const struct ring_field *field = &layout->fields[f];
        if (!(rule->fields >> f & 1) || field->is_absent)
            continue;
        if (field->kind == RING_ITEMS)
            zero_items(layout, f, slot, sample);
        else if (field->kind == RING_PADDED && field->part_count == 0)
            zero(slot + field->slot_offset, field->sample_bytes,
                 min_u64(header->bound, field->capacity) * sample,
                 min_u64(header->bound, field->capacity) * (sample + 1), field->capacity);
        else if (field->kind == RING_SAMPLES)
            zero_samples(layout, f, slot, sample);
    }
}
