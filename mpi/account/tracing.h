/* When a reader traces (base/trace.h), and where the trace goes. `--trace FILE` traces the whole
 * run and writes FILE at its end. SIGUSR1 starts a trace during a run, and the next SIGUSR1 ends
 * that trace and writes RUN_DIR/reader-RANK.trace, for `penstock trace`, which sends both. A signal
 * that comes with a value says which: TRACE_CALL_BEGIN or TRACE_CALL_END (metrics/trace_call.h).
 *
 * Main thread.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_TRACING_H
#define PENSTOCK_MPI_ACCOUNT_TRACING_H

#include "base/error.h"

#include <stdint.h>

struct tracing;

/* Blocks SIGUSR1 in the calling thread and in those that it starts: to be called first. */
void tracing_block_signal(void);

/* Claims the track of the calling thread. `path` is borrowed: where the trace goes at the end, with
 * {rank} for the rank, or the rank is appended; NULL: nowhere. IO: `path` cannot be written. */
MUST_USE enum status tracing_new(const char *path, int rank, struct tracing **ret_tracing,
                                 struct error *err);

/* Heeds signals, now and then. `now_ns`: clock_now_ns(). A file that cannot be written is told on
 * standard error. */
void tracing_keep(struct tracing *tracing, uint64_t now_ns, const char *run_dir);

/* Writes what --trace asks for, and frees. NULL is fine. */
void tracing_end(struct tracing *tracing);

#endif
