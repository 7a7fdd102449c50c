/* What `penstock plan` says of ragged fields: items, pages, and the room that slots have. */
#ifndef PENSTOCK_CLI_PLAN_PLAN_RAGGED_H
#define PENSTOCK_CLI_PLAN_PLAN_RAGGED_H

#include "base/text.h"
#include "dataset/dataset.h"
#include "run/setup.h"

/* Appends lines; nothing without ragged fields. */
void plan_describe_ragged(const struct dataset *dataset, const struct run_setup *setup,
                          struct text *out);

/* Appends `"ragged":{...},`; nothing without ragged fields. */
void plan_ragged_json(const struct dataset *dataset, const struct run_setup *setup,
                      struct text *out);

#endif
