/* What `penstock plan` says of weights of samples, and what they cost in reading. Main thread. */
#ifndef PENSTOCK_CLI_PLAN_PLAN_WEIGHTS_H
#define PENSTOCK_CLI_PLAN_PLAN_WEIGHTS_H

#include "config/config.h"
#include "plan/order/plan.h"

struct text;

/* Appends a line for the dataset, or for each source of the mix, that has weights. */
void plan_describe_weights(const struct config *config, const struct plan *plan, struct text *out);

/* Appends a member "weights" and a comma, if any has. */
void plan_weights_json(const struct plan *plan, struct text *out);

#endif
