/* What the files of a setup share: setup.c (plan, rounds, rings and service), setup_memory.c (the
 * memory of a reader) and setup_text.c (the setup in words). Inside src/run. */
#ifndef PENSTOCK_RUN_SETUP_INTERNAL_H
#define PENSTOCK_RUN_SETUP_INTERNAL_H

#include "run/fragment_sources.h"
#include "run/setup.h"

/* setup_memory.c: the dataset's ragged fields, for the plans of memory and rounds. */
struct plan_ragged setup_ragged(const struct dataset *dataset);

/* setup_memory.c: settles demand, budget, fetch_bytes and second_bytes of a setup that has all but
 * these. NO_MEMORY as of run_setup_settle(). */
MUST_USE enum status setup_settle_memory(const struct config *config, const struct dataset *dataset,
                                         const struct run_shape *shape,
                                         const struct fragment_sources *fragments,
                                         struct run_setup *setup, struct error *err);

#endif
