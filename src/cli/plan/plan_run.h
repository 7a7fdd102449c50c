/* A run that `penstock plan` settles as penstock-reader would, on machines like this one. With
 * --also there are several. Main thread.
 */
#ifndef PENSTOCK_CLI_PLAN_PLAN_RUN_H
#define PENSTOCK_CLI_PLAN_PLAN_RUN_H

#include "cli/plan/plan_print.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "run/setup.h"
#include "topology/topology.h"

/* Where a run is to be. */
struct plan_where {
    uint64_t readers, nodes;
    uint64_t threads; /* of each reader; 0: as configured */
};

struct plan_run {
    const char *name; /* of --also; NULL: the run that is trained on */
    struct config config;
    struct dataset *dataset;  /* NULL: not opened */
    struct board_shape *made; /* what delivery.transform makes; owned; NULL: there is none, or
                               * nobody has tried */
    struct run_shape shape;
    struct run_setup setup;
    struct placement placement; /* of a node's first reader */
    uint64_t node_bytes;        /* that all its readers of a node take */
};

/* Settles the run, whose configuration is checked and whose dataset is open. `also_bytes`: what
 * runs that are settled before take of each node. Tries the transform, once. Errors of
 * run_setup_settle(), trial_run() and topology.h. */
MUST_USE enum status plan_run_settle(struct plan_run *run, const struct plan_where *where,
                                     uint64_t also_bytes, struct error *err);

/* What the settled run reads and exchanges. Errors of run_forecast(). */
MUST_USE enum status plan_run_forecast(const struct plan_run *run,
                                       struct plan_forecasts *ret_forecasts, struct error *err);

/* Frees what the run has; one that is all zero is fine. */
void plan_run_done(struct plan_run *run);

#endif
