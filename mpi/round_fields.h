/* Where the fields of a sample lie in row buffers, in records of the exchange and in slots.
 * Pure. */
#ifndef PENSTOCK_MPI_ROUND_FIELDS_H
#define PENSTOCK_MPI_ROUND_FIELDS_H

#include "dataset/dataset.h"
#include "delivery/layout.h"

#include <stddef.h>
#include <stdint.h>

/* One field: its size, and its offsets in rows, records and slots. */
struct round_field {
    size_t field; /* index in the dataset */
    size_t bytes; /* of one sample */
    size_t row_offset, slot_offset;
    size_t record_offset; /* packed fields */
};

/* All fields. In row[] the packed fields come first, and the zero-copy fields follow. Where bad
 * samples are masked, the last packed field is a byte that says whether the sample could be read:
 * the byte travels with its sample. */
struct round_fields {
    size_t row_count, held_count;
    size_t packed_count; /* of row[] */
    size_t record_bytes; /* of the packed fields, a multiple of 16; 0: none is packed */
    size_t valid;        /* index in row[] of the byte that tells whether a sample could be read;
                          * SIZE_MAX: bad samples are not masked */
    struct round_field row[DATASET_MAX_FIELDS + 1];
    struct round_field held[DATASET_MAX_FIELDS];
};
void round_fields_init(struct round_fields *ret_fields, const struct dataset *dataset,
                       const struct ring_layout *layout);

/* Where a field of one sample lies: of the sample at `offset` in a row buffer, and of the sample at
 * `batch_index` in a slot. */
static inline const unsigned char *round_field_in_row(const struct round_field *field,
                                                      const unsigned char *row, uint32_t offset)
{
    return row + field->row_offset + offset * field->bytes;
}
static inline unsigned char *round_field_in_slot(const struct round_field *field,
                                                 unsigned char *slot, uint32_t batch_index)
{
    return slot + field->slot_offset + batch_index * field->bytes;
}

#endif
