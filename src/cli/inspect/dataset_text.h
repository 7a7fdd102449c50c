/* What `penstock plan` says of a dataset: fields, samples and rows. */
#ifndef PENSTOCK_CLI_INSPECT_DATASET_TEXT_H
#define PENSTOCK_CLI_INSPECT_DATASET_TEXT_H

#include "base/text.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "plan/order/mix.h"

/* Appends a line: how many samples at how many frames, and why there are none at the others.
 * Nothing without anchors. `before` comes in front. */
void plan_describe_samples(const struct dataset *dataset, const char *before, struct text *out);

/* Appends lines. With anchors: which frames are no samples, and why; and what halos cost. */
void plan_describe_dataset(const struct config *config, const struct dataset *dataset,
                           const struct plan *plan, struct text *out);

#endif
