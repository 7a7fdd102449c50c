/* Rates: how fast links and the store are, and what rounds wait for, for rank 0's choice of ways
 * (plan/ways.h).
 *
 * Links are measured once, at the start (links.h). The store's rate is that of all readers
 * together, and is known only while they wait for it; at other times it is what it is at least.
 * Each pace sample (pace.h) has what a reader measured since the sample before. Main thread only.
 */
#ifndef PENSTOCK_MPI_RATES_H
#define PENSTOCK_MPI_RATES_H

#include "job.h"

struct rates;

/* What one reader measured between two meetings. Sent as numbers. */
struct rate_sample {
    uint64_t passed_ns;    /* since the sample before */
    uint64_t exchange_ns;  /* of that, waited for the exchange */
    uint64_t stored_bytes; /* from the store */
    uint64_t read_rows;    /* from the store or the disk cache */
};

/* `job` is borrowed until rates_free(). NO_MEMORY. */
MUST_USE enum status rates_new(struct job *job, struct rates **ret_rates, struct error *err);
void rates_free(struct rates *rates);

/* What was measured since the last call. `rows_read`: since the start, from anywhere. */
struct rate_sample rates_measure(struct rates *rates, uint64_t rows_read, uint64_t exchange_ns);

/* Rank 0: what reader `reader` measured, its row_ns (0: not known), and the share of the time in
 * which its rounds waited for its reads. To be called for all readers of a meeting, then
 * rates_tell(). */
void rates_note(struct rates *rates, uint32_t reader, const struct rate_sample *sample,
                uint64_t row_ns, double waited);
void rates_tell(struct rates *rates);

#endif
