/* Steps of fields: which frames around its anchor a sample has. Called while opening, by one
 * thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_STEPS_H
#define PENSTOCK_DATASET_FIELDS_STEPS_H

#include "dataset/dataset_internal.h"

/* INVALID: the spec's steps do not rise, or are out of range. */
MUST_USE enum status steps_check(const struct dataset_field_spec *spec, struct error *err);

/* Takes the steps of all origins into the dataset. NO_MEMORY. */
MUST_USE enum status steps_keep(struct dataset *dataset, struct error *err);

/* With the fields described, sets their halos and row leaders: fields of one view are read
 * together, if any field has steps. NO_MEMORY. */
MUST_USE enum status steps_settle(struct dataset *dataset, struct error *err);

/* With the fields described, lists the epochs at which phases of any begin. INVALID: too many. */
MUST_USE enum status phases_settle(struct dataset *dataset, struct error *err);

/* The steps of all fields with that row leader (SIZE_MAX: of all fields, ragged ones included),
 * each once, rising; a field without steps has step 0. *ret_steps is malloc'ed, the caller's.
 * NO_MEMORY. */
MUST_USE enum status steps_union(const struct dataset *dataset, size_t leader, int32_t **ret_steps,
                                 size_t *ret_count, struct error *err);

/* Merges steps into malloc'ed ones, which rise; `more` may be in any order, and have some twice.
 * NO_MEMORY: *steps stays. */
MUST_USE enum status steps_merge(int32_t **steps, size_t *count, const int32_t *more,
                                 size_t more_count, struct error *err);

#endif
