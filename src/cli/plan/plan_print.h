/* What `penstock plan` prints of a settled run: lines for people, or JSON for programs. Main
 * thread.
 */
#ifndef PENSTOCK_CLI_PLAN_PLAN_PRINT_H
#define PENSTOCK_CLI_PLAN_PLAN_PRINT_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "run/forecast.h"
#include "run/setup.h"
#include "topology/topology.h"

/* What the run exchanges, as configured, and with the other order.placement. */
struct plan_forecasts {
    struct run_forecast own, other;
};

/* Prints lines to standard output. `placement`: of a node's first reader. */
void plan_print_summary(const struct config *config, const struct dataset *dataset,
                        const struct run_setup *setup, const struct placement *placement,
                        const struct plan_forecasts *forecasts);

/* Prints a JSON object to standard output, without the brace at its end. */
void plan_print_json(const struct config *config, const struct dataset *dataset,
                     const struct run_setup *setup, const struct plan_forecasts *forecasts);

#endif
