/* Constants: small arrays that are delivered once. Called while opening, by one thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_CONSTANTS_H
#define PENSTOCK_DATASET_FIELDS_CONSTANTS_H

#include "dataset/dataset_internal.h"

/* Reads the constants of the options, with the fields' rows in place. INVALID: there are too many
 * or too large ones, an array has the sample axis, a name is twice. Other errors as of
 * small_array_read(). */
MUST_USE enum status constants_settle(struct dataset *dataset,
                                      const struct dataset_options *options, struct error *err);

/* Packs them, and takes them from packed bytes. False: the bytes are not valid, or there is no
 * memory. */
struct packed;
void constants_pack(const struct dataset *dataset, struct text *out);
bool constants_unpack(struct dataset *dataset, struct packed *packed);

void constants_free(struct dataset *dataset);

#endif
