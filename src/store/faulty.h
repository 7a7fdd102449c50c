/* A store that fails on purpose, around another one. For tests alone: built with
 * -DPENSTOCK_FAULTS=ON, and then used for every store that is opened while PENSTOCK_FAULTS is set
 * in the environment. Builds without refuse to open a store while it is set.
 *
 *     PENSTOCK_FAULTS="seed=3,error=0.05,short=0.05,delay=0.1,delay_ms=20,corrupt=0.01"
 *
 *     seed      of all that follows
 *     error     share of reads that fail with EIO
 *     short     share of reads of chunks that give only the first part of the value
 *     delay     share of reads that take delay_ms longer
 *     corrupt   share of keys of chunks whose first bytes are always wrong
 *     broken    share of keys of chunks that fail with EIO, for ever or for their first
 *               broken_reads reads
 *     hang      a key: each read of it never returns, or takes hang_ms longer
 *
 * Which reads fail differs from run to run with more than one thread; which keys are corrupt or
 * broken depends on the seed alone. */
#ifndef PENSTOCK_STORE_FAULTY_H
#define PENSTOCK_STORE_FAULTY_H

#include "store/store_internal.h"

/* Puts a faulty store around `inner`, which is taken, whatever happens. INVALID: `spec` is not as
 * above. NO_MEMORY. */
MUST_USE enum status faulty_wrap(struct store *inner, const char *spec, struct store **ret_store,
                                 struct error *err);

#endif
