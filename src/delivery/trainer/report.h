/* The figures of a trainer's run, written as JSON. Times are in seconds of a monotonic clock. One
 * thread. */
#ifndef PENSTOCK_TRAINER_REPORT_H
#define PENSTOCK_TRAINER_REPORT_H

#include "penstock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report_epoch {
    uint64_t epoch, samples;
    double start, end; /* from the last batch of the epoch before (or the connection) to this
                        * epoch's last batch */
};

struct report {
    double start, end;    /* the connection, and the last batch's release */
    double wait_seconds;  /* spent in penstock_next() */
    double first_seconds; /* until the first batch came */
    uint64_t batches, samples, bytes;
    struct report_epoch *epochs; /* owned */
    size_t epoch_count;
};

double report_now(void);

/* Starts the clock. */
void report_init(struct report *report);

/* Counts a batch of `bytes` bytes that came at time `came` and was released at time `done`. */
void report_batch(struct report *report, const struct penstock_batch *batch, uint64_t bytes,
                  double came, double done);

/* Whether a rate of this long means anything; else it is not printed. */
bool report_rate_is_known(double seconds);

/* One JSON object and a newline. `status` is how the run ended. */
void report_write(const struct report *report, const struct penstock_info *info,
                  enum penstock_status status, FILE *file);

void report_done(struct report *report);

#endif
