/* `penstock plan --quality`: how well an order mixes with several sizes of order.window_rows, and
 * the memory that each takes: as a table, as JSON and as a picture. Main thread.
 */
#ifndef PENSTOCK_CLI_PLAN_PLAN_QUALITY_H
#define PENSTOCK_CLI_PLAN_PLAN_QUALITY_H

#include "config/config.h"
#include "plan/order/quality.h"
#include "run/setup.h"

#include <stdbool.h>
#include <stdio.h>

enum { QUALITY_MAX_WINDOWS = 16 };

/* A size of windows. */
struct quality_window {
    uint64_t window_rows;
    bool configured;      /* this is the run's own size */
    uint64_t least_bytes; /* the least memory that a reader needs */
    struct quality quality;
};

/* What was measured: windows in rising order. */
struct quality_report {
    uint64_t epoch;
    uint64_t samples; /* that were looked at */
    struct quality uniform;
    size_t window_count;
    struct quality_window windows[QUALITY_MAX_WINDOWS];
};

/* Measures `epoch` with windows of a 64th of the run's own size to 64 times its size, and with all
 * rows in one window. NO_MEMORY; INVALID: as of plan_init(). */
MUST_USE enum status plan_quality_measure(const struct config *config,
                                          const struct dataset *dataset,
                                          const struct run_setup *setup, uint64_t epoch,
                                          struct quality_report *ret_report, struct error *err);

void plan_quality_print(const struct quality_report *report, FILE *out);
void plan_quality_print_json(const struct quality_report *report, FILE *out);

/* Writes the picture, an SVG: entropy against memory. IO: the file cannot be written. */
MUST_USE enum status plan_quality_plot(const struct quality_report *report, const char *path,
                                       struct error *err);

#endif
