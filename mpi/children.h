/* The trainers that a reader spawns: child processes with the environment of a distributed job.
 *
 * How one is started is told in spawner.h. Each is the leader of a process group, which is stopped
 * as a whole. When the leader ends, what it leaves in its group gets SIGTERM, and SIGKILL after the
 * grace. One that fails is started again, once its group is gone, with the same rank, as often as
 * it may. Main thread only.
 */
#ifndef PENSTOCK_MPI_CHILDREN_H
#define PENSTOCK_MPI_CHILDREN_H

#include "base/error.h"
#include "topology/topology.h"

#include <stdbool.h>
#include <stdint.h>

struct children;

enum { CHILDREN_ADDRESS_BYTES = 256 };

/* Seconds after the grace that SIGKILL is given to end what a child has left. */
enum { CHILDREN_LAST_S = 2 };

/* What it points at is borrowed while the children live. */
struct children_options {
    char *const *command; /* argv of the trainer, NULL-terminated */
    uint32_t count;       /* trainers of this reader */
    uint32_t first_rank;  /* their ranks are first_rank .. + count */
    uint32_t world_size;
    uint32_t first_local_rank;
    uint32_t local_world_size;
    uint32_t reader;
    const char *run_dir;
    char master_addr[CHILDREN_ADDRESS_BYTES];
    uint32_t master_port;
    const struct placement_trainer *seats; /* [seat_count]: of the first of them */
    uint32_t seat_count; /* the others run where this process may; at most count */
    uint64_t restarts;   /* of each */
    uint64_t grace_ms;   /* from SIGTERM to SIGKILL, of what one that has ended leaves behind */
};

/* Starts them all. NOT_FOUND: no such program; IO: it cannot be started. On failure those started
 * are stopped. */
MUST_USE enum status children_start(const struct children_options *options,
                                    struct children **ret_children, struct error *err);

/* Reaps those that have ended, and what comes to this process from them, and ends what they leave
 * in their groups; never blocks. LOST: one ended with a code other than 0 or by a signal, or after
 * it said that it failed, or at all while not all trainers are `connected`; reported once for each,
 * with rank, pid and code. `*ret_running`, which is always set, counts those of which something is
 * left. */
MUST_USE enum status children_poll(struct children *children, bool connected, uint32_t *ret_running,
                                   struct error *err);

/* Notes that the trainer of that rank has said that it failed, or that it is connected. One that
 * said so counts as failed when it has ended, whatever its exit code. Other ranks are ignored. */
void children_note(struct children *children, uint32_t rank, bool failed);

/* Whether all that failed may be started again. */
bool children_may_restart(const struct children *children);

/* Whether one has failed and is not started again yet. */
bool children_failed(const struct children *children);

/* Starts one that failed again, and sets *ret_rank; *ret_restarted is false if there is none, or
 * what it has left is not gone yet. LOST: it has been started as often as it may; the message says
 * how it ended. NOT_FOUND, IO: as children_start(). */
MUST_USE enum status children_restart(struct children *children, bool *ret_restarted,
                                      uint32_t *ret_rank, struct error *err);

/* Ends them: SIGTERM, 300 ms later SIGKILL. Returns when all are reaped. NULL is fine. */
void children_stop(struct children *children);

void children_free(struct children *children);

#endif
