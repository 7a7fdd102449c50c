/* The ragged fields of a mix, inside src/dataset. Called while opening, by one thread. */
#ifndef PENSTOCK_DATASET_MIX_MIX_INTERNAL_H
#define PENSTOCK_DATASET_MIX_MIX_INTERNAL_H

#include "dataset/dataset_internal.h"

/* Whether two sources have the same ragged fields, delivered alike; all other fields are compared
 * elsewhere. `names` are those of messages. INVALID: they have not. */
MUST_USE enum status mix_compare_ragged(const struct dataset *a, const struct dataset *b,
                                        const char *const names[2], struct error *err);

/* Fills mix->ragged with what the sources have together, once they are compared. NO_MEMORY. */
MUST_USE enum status mix_settle_ragged(struct dataset *mix, struct error *err);

#endif
