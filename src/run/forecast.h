/* A forecast of reading and exchange, epoch by epoch. The forecast assigns the rows of the first
 * epochs as rank 0 would, to readers that are equally fast. Pure.
 */
#ifndef PENSTOCK_RUN_FORECAST_H
#define PENSTOCK_RUN_FORECAST_H

#include "run/setup.h"

enum { RUN_FORECAST_EPOCHS = 3 };

struct run_forecast_epoch {
    double rows_read;       /* from the store */
    double rows_kept;       /* found in some reader's memory */
    double exchanged_bytes; /* from reader to reader */
};

struct run_forecast {
    uint32_t epoch_count; /* 1 .. RUN_FORECAST_EPOCHS; later epochs are like the last of them, but
                           * for the run's very last, which keeps nothing */
    struct run_forecast_epoch epochs[RUN_FORECAST_EPOCHS];
};

/* Trainers are spread over the readers in blocks. Takes about a second at most: a dataset with more
 * than a million rows is forecast from a smaller one with the same proportions. NO_MEMORY. */
MUST_USE enum status run_forecast(const struct run_setup *setup, struct run_forecast *ret_forecast,
                                  struct error *err);

#endif
