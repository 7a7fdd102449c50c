/* The trainers that a reader spawns: child processes with the environment of a distributed job.
 *
 * spawner.h says how a child is started. Each child leads a process group, which is stopped as a
 * whole. When a child ends, the processes left in its group get SIGTERM, and SIGKILL after the
 * grace. children_restart() starts a failed child again with the same rank, once its group is gone,
 * up to `restarts` times. Main thread only.
 */
#ifndef PENSTOCK_MPI_TRAINERS_CHILDREN_H
#define PENSTOCK_MPI_TRAINERS_CHILDREN_H

#include "base/error.h"
#include "topology/topology.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct children;

enum { CHILDREN_ADDRESS_BYTES = 256 };

/* Seconds after SIGKILL that the processes left by a child have to vanish. */
enum { CHILDREN_LAST_S = 2 };

/* The options are copied; what they point at is borrowed until children_free(). */
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
    const struct placement_trainer *seats; /* [seat_count]: of the first seat_count trainers */
    uint32_t seat_count; /* at most `count`; trainers without a seat run where this process may */
    uint64_t restarts;   /* how often each trainer may be started again */
    bool (*owns)(const void *owner, pid_t pid); /* whether another part of the program waits for
                                                 * that child */
    const void *owner;                          /* of owns() */
    uint64_t grace_ms; /* from SIGTERM to SIGKILL, for processes that an ended trainer leaves in
                        * its group */
};

/* Starts all trainers, and makes this process the parent of all processes that they leave behind.
 * *ret_children is the caller's, for children_free(). On failure the trainers already started are
 * stopped. NOT_FOUND: there is no such program. IO: the program cannot be started. NO_MEMORY. */
MUST_USE enum status children_start(const struct children_options *options,
                                    struct children **ret_children, struct error *err);

/* Reaps ended trainers and the processes that they left, and ends the processes left in their
 * groups. Never blocks. *ret_running, which is always set, counts the trainers of whose group a
 * process is left. LOST: a trainer failed, that is, it ended by a signal, with a code other than 0,
 * or after it said that it failed; or a trainer ended in any way while not all trainers are
 * `connected`. Each such end is returned once, with rank, pid and code. */
MUST_USE enum status children_poll(struct children *children, bool connected, uint32_t *ret_running,
                                   struct error *err);

/* Notes what the trainer of rank `rank` said: that it failed, or (not `failed`) that it is
 * connected. A trainer that said that it failed counts as failed when it has ended, whatever its
 * exit code. Ranks of other readers are ignored. */
void children_note(struct children *children, uint32_t rank, bool failed);

/* Whether every failed trainer may be started again. */
bool children_may_restart(const struct children *children);

/* Whether a trainer has failed and is not started again yet. */
bool children_failed(const struct children *children);

/* Starts one failed trainer again, and sets *ret_rank to its rank. *ret_restarted is false if no
 * trainer has failed, or if the failed one's group is not gone yet: call again later. LOST: the
 * trainer was started as often as it may; the message says how it ended. NOT_FOUND, IO: as
 * children_start(). */
MUST_USE enum status children_restart(struct children *children, bool *ret_restarted,
                                      uint32_t *ret_rank, struct error *err);

/* Ends all trainers: SIGTERM, and 300 ms later SIGKILL. Blocks until all are reaped, but no longer
 * than 2 s after SIGKILL. NULL is fine. */
void children_stop(struct children *children);

/* Frees the bookkeeping. The processes stay: call children_stop() first. NULL is fine. */
void children_free(struct children *children);

#endif
