/* One process of a transform: the user's command in a shell, in a process group of its own, with
 * one end of a socket. What it writes goes where this process writes. Main thread only. */
#ifndef PENSTOCK_TRANSFORM_PROCESS_H
#define PENSTOCK_TRANSFORM_PROCESS_H

#include "base/error.h"
#include "delivery/ring/board.h"

#include <stdbool.h>
#include <sys/types.h>

struct transform_command {
    const char *text;         /* for the shell; borrowed */
    char *const *environment; /* NULL-terminated, borrowed; NULL: this process's */
    char *const *through;     /* NULL-terminated, borrowed: a program, by its path, and its words,
                               * that executes the shell, with descriptor 3; NULL: none */
};

/* How a process has ended: a status of waitpid(), or one of these. */
enum {
    ENDING_UNKNOWN = -1, /* somebody else has reaped it */
    ENDING_HUNG = -2,    /* it had a batch for too long */
    ENDING_CLOSED = -3,  /* it runs, and has closed its socket */
    ENDING_DEAF = -4,    /* it runs, and reads nothing */
};

/* Zero but for socket -1: not started. */
struct transform_process {
    pid_t pid;
    int socket; /* owned */
    bool ready; /* has said so */
    bool ended;
    int status; /* once it has ended: of waitpid(), or ENDING_UNKNOWN */
};

/* IO: no process can be started. NO_MEMORY. */
MUST_USE enum status transform_process_start(const struct transform_command *command,
                                             struct transform_process *ret_process,
                                             struct error *err);

/* Whether it has ended. Never blocks. */
bool transform_process_has_ended(struct transform_process *process);

/* Whether a process that has ended was killed, or its shell says so: not by what it did itself. */
bool transform_process_was_killed(const struct transform_process *process);

/* "was killed by signal 9 (Killed)", "ended with exit code 1", "hung". */
struct transform_ending {
    char text[96];
};
struct transform_ending transform_ending(int status);

/* Hangs up, and kills it with its group, which may take a while. Never blocks. */
void transform_process_kill(struct transform_process *process);

/* Hangs up, so that the process ends, and after `patience_ms` kills it with its group. Blocks until
 * it has ended. One that is not started is fine. */
void transform_process_stop(struct transform_process *process, uint32_t patience_ms);

#endif
