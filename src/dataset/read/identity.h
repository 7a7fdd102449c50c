/* Whether stores are the same as when the dataset was opened. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_READ_IDENTITY_H
#define PENSTOCK_DATASET_READ_IDENTITY_H

#include "dataset/dataset_internal.h"

/* Makes a hash that changes when chunks may have changed. The hash is of the stores' identities,
 * the metadata documents, and the versions of the documents' values. Asks the store for each
 * document. */
MUST_USE enum status dataset_identify(const struct dataset *dataset, uint64_t *ret_identity,
                                      struct error *err);

/* Remembers the versions of the fields' metadata documents. */
MUST_USE enum status dataset_note_versions(struct dataset *dataset, struct error *err);

/* Asks the store for the version of the array's metadata document. INVALID: the document was
 * written anew, or removed. */
MUST_USE enum status dataset_check_unchanged(const struct dataset *dataset,
                                             const struct zarr_array *array, struct error *err);

#endif
