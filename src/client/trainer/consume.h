/* The sample trainer's loop: takes batches until the end, and does with them what was asked for.
 * One thread. */
#ifndef PENSTOCK_TRAINER_CONSUME_H
#define PENSTOCK_TRAINER_CONSUME_H

#include "penstock.h"
#include "trainer/digest.h"
#include "trainer/report.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONSUME_MOST_LEASES = 64 };

struct consume_options {
    double compute_ms; /* pretended computation per batch */
    bool touch;        /* read a byte of every page of every batch */
    bool progress;     /* one line on standard error */
    uint64_t steps;    /* stop after that many batches; 0: at the end */
    uint32_t leases; /* batches that it leases at once, at most; they are given back in any order */
    struct digest *digest; /* where to write sample digests; NULL: nowhere. Borrowed. */
};

/* A batch's digests are written when it is given back. Returns ENDED at the end of all epochs, OK
 * after options->steps batches, IO when digests cannot be written (said on standard error), else
 * what penstock_next() failed with. *report is filled in any case. */
enum penstock_status consume(struct penstock *connection, const struct consume_options *options,
                             struct report *report);

#endif
