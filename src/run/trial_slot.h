/* A ring of one slot with the first samples of a dataset, as trainers would get them: made before
 * the start, by itself, for the trial of a transform. Keys are those of epoch 0. */
#ifndef PENSTOCK_RUN_TRIAL_SLOT_H
#define PENSTOCK_RUN_TRIAL_SLOT_H

#include "base/error.h"
#include "dataset/dataset.h"
#include "delivery/ring/layout.h"

/* One or two samples, of two rows where there are two; of a mix, of its first source. *ret_memfd is
 * the caller's: a ring's memory without members, whose layout has the dataset's fields in their
 * order, whole. Reads held arrays, too, for itself. Blocks on the store. NO_MEMORY, IO, and errors
 * as of dataset_read_row() and dataset_hold(). */
MUST_USE enum status trial_slot_make(const struct dataset *dataset, uint64_t seed, int *ret_memfd,
                                     struct error *err);

#endif
