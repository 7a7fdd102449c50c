/* A store that fails on purpose, around another store. For tests alone. A build with
 * -DPENSTOCK_FAULTS=ON puts a faulty store around every store that is opened while PENSTOCK_FAULTS
 * is set in the environment. Other builds refuse to open a store while the variable is set.
 *
 *     PENSTOCK_FAULTS="seed=3,error=0.05,short=0.05,delay=0.1,delay_ms=20,corrupt=0.01"
 *
 *     seed      of all choices
 *     error     share of reads that fail with EIO
 *     short     share of reads of chunks that give half of the value; a range read fails instead
 *     delay     share of reads that take delay_ms longer
 *     corrupt   share of the chunks' keys whose first 32 bytes are always wrong
 *     broken    share of the chunks' keys that fail with EIO: in each read, or in their first
 *               broken_reads reads
 *     hang      a key: each read of the key never returns, or takes hang_ms longer
 *
 * With more than one thread, other reads fail in each run. Which keys are corrupt or broken depends
 * on the seed alone. A faulty store is not remote, whatever it is around: fetch_start() does not
 * work. */
#ifndef PENSTOCK_STORE_FAULTY_H
#define PENSTOCK_STORE_FAULTY_H

#include "store/kind/store_internal.h"

/* Puts a faulty store around `inner`. Takes `inner`, and frees it on failure, but for the uri,
 * which stays the caller's then. INVALID: `spec` is not as above. NO_MEMORY. */
MUST_USE enum status faulty_wrap(struct store *inner, const char *spec, struct store **ret_store,
                                 struct error *err);

#endif
