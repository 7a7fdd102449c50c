/* Rates that `penstock plan --assume` is given: link=1gbit,store=2GB/s,decode=800MB/s. */
#ifndef PENSTOCK_CLI_ASSUME_H
#define PENSTOCK_CLI_ASSUME_H

#include "base/error.h"
#include "run/setup.h"

/* Reads rates, separated by commas. A rate is a number of bits (1gbit, 800mbit, in powers of 1,000)
 * or a size (2GB/s, 500MiB/s) a second. Rates that the text does not name stay. INVALID: the text
 * is not so; the message has the part that is wrong. */
MUST_USE enum status assume_parse(const char *text, struct run_rates *rates, struct error *err);

#endif
