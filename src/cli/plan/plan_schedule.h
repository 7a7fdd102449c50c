/* What `penstock plan` says of a mix whose weights change with the step. */
#ifndef PENSTOCK_CLI_PLAN_PLAN_SCHEDULE_H
#define PENSTOCK_CLI_PLAN_PLAN_SCHEDULE_H

#include "base/text.h"
#include "config/config.h"
#include "plan/order/plan.h"

/* Appends lines, or `"schedule":[...],`; nothing without mix.schedule, which config_check() has
 * accepted. */
void plan_describe_schedule(const struct config *config, const struct plan *plan, struct text *out);
void plan_schedule_json(const struct config *config, const struct plan *plan, struct text *out);

#endif
