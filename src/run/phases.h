/* Phases of epochs in which samples have fewer steps of some fields (dataset_phase): what rings say
 * of them. Pure. */
#ifndef PENSTOCK_RUN_PHASES_H
#define PENSTOCK_RUN_PHASES_H

#include "delivery/ring/layout.h"
#include "run/shares.h"

/* Fills the layout's phases; none if samples have all steps in all epochs. */
void phases_lay_out(const struct dataset *dataset, struct ring_layout *layout);

/* UNSUPPORTED: a field with phases is cut, or a transform gets it. */
MUST_USE enum status phases_check(const struct dataset *dataset, const struct shares *shares,
                                  struct error *err);

#endif
