/* See round_fields.h. */
#include "round_fields.h"

#include "base/size.h"
#include "exchange.h"

/* Packed fields follow one another in a record as the dataset's do: from multiples of 16. */
static void append_row_field(struct round_fields *fields, struct round_field entry, bool packed)
{
    enum { RECORD_ALIGNMENT = 16 };
    if (packed) {
        entry.record_offset = fields->record_bytes;
        fields->record_bytes += size_round_up(entry.bytes, RECORD_ALIGNMENT);
        fields->packed_count++;
    }
    fields->row[fields->row_count++] = entry;
}

static void append_row_fields(struct round_fields *fields, const struct dataset *dataset,
                              const struct ring_layout *layout, bool packed)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct dataset_field *field = &dataset->fields[i];
        struct round_field entry = {.field = i,
                                    .bytes = field->sample_bytes,
                                    .row_offset = field->row_offset,
                                    .slot_offset = layout->fields[i].slot_offset};
        if (field->source == FIELD_ROW && exchange_is_zero_copy(entry.bytes) != packed)
            append_row_field(fields, entry, packed);
        else if (field->source != FIELD_ROW && packed)
            fields->held[fields->held_count++] = entry;
    }
}

/* Of a sample that could be read, as the dataset has it: the slot's byte says more (padding). */
static void append_valid_byte(struct round_fields *fields, const struct dataset *dataset,
                              const struct ring_layout *layout)
{
    fields->valid = SIZE_MAX;
    if (!dataset->mask)
        return;
    fields->valid = fields->row_count;
    append_row_field(fields,
                     (struct round_field){.field = SIZE_MAX,
                                          .bytes = 1,
                                          .row_offset = dataset->valid_offset,
                                          .slot_offset = layout->valid_offset},
                     true);
}

void round_fields_init(struct round_fields *ret_fields, const struct dataset *dataset,
                       const struct ring_layout *layout)
{
    *ret_fields = (struct round_fields){0};
    append_row_fields(ret_fields, dataset, layout, true);
    append_valid_byte(ret_fields, dataset, layout);
    append_row_fields(ret_fields, dataset, layout, false);
}
