/* One process of a transform: the user's command in a shell, in a process group of its own, with
 * one end of a socket. What it writes goes where this process writes. Main thread only. */
#ifndef PENSTOCK_TRANSFORM_PROCESS_H
#define PENSTOCK_TRANSFORM_PROCESS_H

#include "base/error.h"
#include "delivery/ring/board.h"
#include "topology/cpuset.h"

#include <stdbool.h>
#include <sys/types.h>

struct transform_command {
    const char *text;          /* for the shell; borrowed */
    char *const *environment;  /* NULL-terminated, borrowed; NULL: this process's */
    const struct cpuset *cpus; /* borrowed; NULL: where this process may run */
};

/* Zero but for socket -1: not started. */
struct transform_process {
    pid_t pid;
    int socket; /* owned */
    bool ready; /* has said so */
    bool ended;
    int status; /* of waitpid(), once it has ended; -1: somebody else has reaped it */
};

/* IO: no process can be started. */
MUST_USE enum status transform_process_start(const struct transform_command *command,
                                             struct transform_process *ret_process,
                                             struct error *err);

/* Whether it has ended. Never blocks. */
bool transform_process_has_ended(struct transform_process *process);

/* Whether it was killed, or its shell says so: not by what it did itself. */
bool transform_process_was_killed(const struct transform_process *process);

/* "was killed by signal 9 (Killed)", "ended with exit code 1"; a static buffer. */
const char *transform_process_ending(const struct transform_process *process);

/* Hangs up, so that the process ends, and after `patience_ms` ends it with its group. Blocks until
 * then. One that is not started is fine. */
void transform_process_stop(struct transform_process *process, uint32_t patience_ms);

#endif
