/* Rates: how fast this reader decodes, sends and receives, for rank 0's choice of ways
 * (plan/ways.h).
 *
 * Each pace sample (pace.h) has what this reader measured since the sample before. Rank 0 makes
 * rates of all samples, since only all of them together show what the limit was: links are, if even
 * the reader that waits least for the exchange waits most of the time. What a link carried then is
 * what it carries at most; at other times it is what it carries at least. The store's rate is that
 * of all readers together. Main thread only.
 */
#ifndef PENSTOCK_MPI_RATES_H
#define PENSTOCK_MPI_RATES_H

#include "job.h"

struct rates;

/* What one reader measured between two meetings. Sent as numbers. */
struct rate_sample {
    uint64_t row_cpu_ns;   /* processor time of a row, of late; 0: not known */
    uint64_t byte_cpu_fs;  /* the main thread's time for a byte sent or received, of late */
    uint64_t cores_milli;  /* processors that this reader gets */
    uint64_t moved_bytes;  /* sent or received, whichever is more */
    uint64_t passed_ns;    /* since the sample before */
    uint64_t exchange_ppm; /* of that, waited for the exchange */
    uint64_t stored_bytes; /* from the store */
    uint64_t fetch_ppm;    /* share of the stored bytes of rows that came from the store, and not
                            * from the disk cache */
    uint64_t row_stored_bytes; /* of a row, of late */
};

/* `job` is borrowed until rates_free(). NO_MEMORY. */
MUST_USE enum status rates_new(struct job *job, struct rates **ret_rates, struct error *err);
void rates_free(struct rates *rates);

/* A round has been posted with so many records. */
void rates_note_moved(struct rates *rates, uint64_t sent_records, uint64_t received_records);

/* What was measured since the last call. `row_ns`: the time of a row in one thread, over the
 * number of threads. */
struct rate_sample rates_measure(struct rates *rates, uint64_t row_ns, uint64_t exchange_ns);

/* Rank 0: what reader `reader` measured, its row_ns (0: not known), and the share of all readers'
 * time in which rounds waited for rows. To be called for all readers of a meeting, then
 * rates_tell(). */
void rates_note(struct rates *rates, uint32_t reader, const struct rate_sample *sample,
                uint64_t row_ns, uint64_t waited_ppm);
void rates_tell(struct rates *rates);

/* Collective over the pace's communicator, at the start: how long each reader's link takes for a
 * byte, both directions being busy. Moves data for about 50 ms, and tells rank 0's assigner. Moves
 * nothing if all readers share a node. NO_MEMORY, the same on all ranks. */
MUST_USE enum status rates_probe_links(struct job *job, struct error *err);

#endif
