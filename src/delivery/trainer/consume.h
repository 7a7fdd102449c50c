/* The sample trainer's loop: takes batches until the end, and pretends to compute, touches or
 * digests them as the options say. One thread. */
#ifndef PENSTOCK_TRAINER_CONSUME_H
#define PENSTOCK_TRAINER_CONSUME_H

#include "delivery/trainer/digest.h"
#include "delivery/trainer/report.h"
#include "penstock.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONSUME_MOST_LEASES = 64 };

struct consume_options {
    double compute_ms; /* pretended computation for each batch, in milliseconds */
    bool touch;        /* read a byte of every page of every batch */
    bool progress;     /* one line on standard error */
    uint64_t steps;    /* stop after this many batches; 0: at the end */
    uint32_t leases;   /* most batches to lease at once, 1 to CONSUME_MOST_LEASES; they are released
                        * in any order */
    struct digest *digest; /* where to write sample digests; NULL: nowhere. Borrowed. */
};

/* Runs the loop. A batch's digests are written before its release. *report is filled in any case.
 * ENDED: all epochs are consumed. OK: options->steps batches were taken. IO: digests cannot be
 * written; standard error says why. Any other status: of penstock_next(). */
enum penstock_status consume(struct penstock *connection, const struct consume_options *options,
                             struct report *report);

#endif
