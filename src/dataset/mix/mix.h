/* Making a mix of datasets, which are its sources. Called while opening, by one thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_MIX_MIX_H
#define PENSTOCK_DATASET_MIX_MIX_H

#include "dataset/dataset_internal.h"

/* A mix without sources; `options` as of any source. NO_MEMORY. */
MUST_USE enum status mix_new(const struct dataset_options *options, uint32_t source_count,
                             struct dataset **ret_mix, struct error *err);

/* With all sources there, settles everything else. `names` are those of messages. INVALID: the
 * sources' fields differ. NO_MEMORY. */
MUST_USE enum status mix_settle_sources(struct dataset *mix, const char *const *names,
                                        struct error *err);

/* mix_ragged.c: whether two sources have the same ragged fields, delivered alike; all other fields
 * are compared elsewhere. `names` are those of messages. INVALID: they have not. */
MUST_USE enum status mix_compare_ragged(const struct dataset *a, const struct dataset *b,
                                        const char *const names[2], struct error *err);

/* mix_ragged.c: fills mix->ragged with what the sources have together, once they are compared.
 * NO_MEMORY. */
MUST_USE enum status mix_settle_ragged(struct dataset *mix, struct error *err);

#endif
