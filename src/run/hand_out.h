/* Makes the handout (delivery/ring/handout.h) of a dataset: what trainers get once. */
#ifndef PENSTOCK_RUN_HAND_OUT_H
#define PENSTOCK_RUN_HAND_OUT_H

#include "dataset/dataset.h"

/* The attributes of all fields, and the constants; of a mix those of its first source. *ret_memfd
 * is the caller's. Errors as of handout_create(). */
MUST_USE enum status hand_out(const struct dataset *dataset, int *ret_memfd, struct error *err);

/* The memory that constants take in each reader: the dataset's, and the handout. */
uint64_t hand_out_bytes(const struct dataset *dataset);

#endif
