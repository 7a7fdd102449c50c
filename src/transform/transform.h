/* The transform of a reader (delivery.transform): processes that change the samples of a batch in
 * its slot, before trainers get the batch.
 *
 *     server_slot() filled --transform_submit()--> tasks --> processes
 *     server_publish()  <--transform_take()------- a ring's next steps are done
 *
 * A step is divided among processes unless an output is ragged. What is made of a sample depends on
 * the sample alone, so that nobody can tell. Steps of a ring are taken in order. A process that
 * dies or hangs is started again, and what it had is done again, three times at most; its inputs
 * are untouched. Memory is that of the rings and of the board, which is made with each session.
 *
 * Main thread only. Nothing blocks but transform_free().
 */
#ifndef PENSTOCK_TRANSFORM_TRANSFORM_H
#define PENSTOCK_TRANSFORM_TRANSFORM_H

#include "base/error.h"
#include "delivery/ring/board.h"
#include "delivery/ring/ring.h"
#include "transform/mask.h"
#include "transform/process.h"

#include <poll.h>

enum { TRANSFORM_MOST_PROCESSES = 512 };

struct transform_options {
    struct transform_command command;
    uint32_t count;        /* processes, 1 to TRANSFORM_MOST_PROCESSES */
    uint64_t timeout_ns;   /* until a process is ready, and for one task */
    const char *who;       /* "reader 0 on n1", for the log; borrowed */
    struct mask_rule rule; /* for samples at which it fails */
};

struct transform;

/* Starts the processes; does not wait for them. `shape`: with the numbers of fields; copied. IO,
 * NO_MEMORY. */
MUST_USE enum status transform_new(const struct transform_options *options,
                                   const struct board_shape *shape,
                                   struct transform **ret_transform, struct error *err);

/* Ends all processes. NULL is fine. */
void transform_free(struct transform *transform);

/* A session begins: `rings` ([count], borrowed until transform_end()) are of that layout. */
MUST_USE enum status transform_begin(struct transform *transform, const struct ring *const *rings,
                                     uint32_t count, const struct ring_layout *layout,
                                     struct error *err);

/* The session is over: what is not taken is forgotten. A process may go on writing to a slot that
 * it has, in memory of its own mapping. Before the rings are unmapped. */
void transform_end(struct transform *transform);

/* Steps are skipped: what is not taken is forgotten, and sequences begin again at 0, as of
 * server_skip(). False: a process still has some of it; to be called again. */
bool transform_cancel(struct transform *transform);

/* Whether a slot may be filled: not while a process may have it. Sequences as of
 * server_slot_free(). */
bool transform_slot_free(const struct transform *transform, uint32_t ring, uint64_t sequence);

/* The slot of the ring's next sequence is filled, header included. */
void transform_submit(struct transform *transform, uint32_t ring, uint32_t sample_count);

/* Hears processes, and looks which tasks are done. Sets *active if anything moved. `looks`: also at
 * sockets and clocks, by a system call for each process. INVALID: the transform failed; the message
 * has the sample, and what the transform said. LOST: a process died too often, or could not be
 * started. TIMEOUT: it hung as often. */
MUST_USE enum status transform_progress(struct transform *transform, bool looks, bool *active,
                                        struct error *err);

/* How many of the ring's next steps are done; takes one of them. */
uint64_t transform_done(const struct transform *transform, uint32_t ring);
void transform_take(struct transform *transform, uint32_t ring);

/* The time that processes have spent with batches, all together. */
uint64_t transform_spent_ns(const struct transform *transform);

/* What to poll for reading: at most `capacity` entries. */
size_t transform_pollfds(const struct transform *transform, struct pollfd *fds, size_t capacity);

/* Whether a process is this transform's, so that nobody else reaps it. */
bool transform_owns(const struct transform *transform, pid_t pid);

#endif
