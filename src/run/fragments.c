/* See fragments.h. */
#include "run/fragments.h"

#include "base/size.h"
#include "plan/round.h"

#include <stdlib.h>

enum { RECORD_ALIGNMENT = 16 };

static struct fragment fragment_of(const struct dataset *dataset, size_t f)
{
    const struct dataset_field *field = &dataset->fields[f];
    return (struct fragment){.field = f,
                             .bytes = field->sample_bytes,
                             .row_offset = field->row_offset,
                             .row_stride = field->sample_bytes,
                             .slot_stride = field->sample_bytes};
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

/* Of all row fields those fragments that are packed, or the others. */
static void append_fragments(struct fragments *fragments, const struct dataset *dataset,
                             bool packed)
{
    for (size_t f = 0; f < dataset->field_count; f++) {
        struct fragment fragment = fragment_of(dataset, f);
        if (dataset->fields[f].source != FIELD_ROW ||
            (fragment.bytes < ROUND_ZERO_COPY_BYTES) != packed)
            continue;
        fragment.record_offset = send(fragments, fragment.bytes, packed);
        fragments->all[fragments->count++] = fragment;
    }
}

enum status fragments_new(const struct dataset *dataset, struct fragments **ret_fragments,
                          struct error *err)
{
    struct fragments *fragments =
        calloc(1, sizeof *fragments + 2 * dataset->field_count * sizeof(struct fragment));
    if (!fragments)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the fragments of samples");
    fragments->held = fragments->all + dataset->field_count;
    append_fragments(fragments, dataset, true);
    fragments->packed_count = fragments->count;
    fragments->mask = dataset->mask;
    if (dataset->mask) {
        fragments->valid_row_offset = dataset->valid_offset;
        fragments->valid_record_offset = send(fragments, 1, true);
    }
    append_fragments(fragments, dataset, false);
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source != FIELD_ROW)
            fragments->held[fragments->held_count++] = fragment_of(dataset, f);
    *ret_fragments = fragments;
    return STATUS_OK;
}

void fragments_free(struct fragments *fragments)
{
    free(fragments);
}

void fragments_set_slots(struct fragments *fragments, const struct ring_layout *layout)
{
    fragments->valid_slot_offset = layout->valid_offset;
    for (size_t i = 0; i < fragments->count; i++)
        fragments->all[i].slot_offset = layout->fields[fragments->all[i].field].slot_offset;
    for (size_t i = 0; i < fragments->held_count; i++)
        fragments->held[i].slot_offset = layout->fields[fragments->held[i].field].slot_offset;
}
