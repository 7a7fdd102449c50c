/* Rows: how long they are, and which fields are held whole, since rows would decode their chunks
 * too often. Pure; called while opening. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_OPEN_ROWS_H
#define PENSTOCK_DATASET_OPEN_ROWS_H

#include "dataset/dataset_internal.h"

/* The order goes by this limit, the first default of dataset.hold_limit, whatever is configured. */
#define ORDER_HOLD_BYTES ((uint64_t)1 << 30)

/* The leading array gives the rows their length. INVALID: no field can lead. */
MUST_USE enum status rows_settle(struct dataset *dataset, struct error *err);

/* The direct field with the most bytes a frame; the number of fields if there is none, or a ragged
 * one has more. */
size_t rows_leader(const struct dataset *dataset);

/* Whether a direct field is held with that limit: not one of the array whose chunks are the rows.
 */
bool rows_is_held(const struct dataset *dataset, size_t i, size_t leader, uint64_t limit_bytes);

/* Holds values of variable length by the same rule. Where the dataset was unpacked, that is known.
 */
void rows_hold_values(struct dataset *dataset);

/* How often an epoch decodes each chunk of a field, in the mean. */
double rows_amplification(const struct dataset *dataset, size_t i);

/* Bytes of a field's arrays in all stores. */
uint64_t rows_field_bytes(const struct dataset *dataset, const struct field_origin *origin);

#endif
