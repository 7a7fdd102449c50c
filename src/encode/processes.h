/* The processes of encoders: a shell command for each, in a process group of its own, with the
 * environment of a trainer. One thread, which has to live as long as the processes: the kernel ends
 * them with that thread. */
#ifndef PENSTOCK_ENCODE_PROCESSES_H
#define PENSTOCK_ENCODE_PROCESSES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid;   /* of the shell; 0: not started */
    bool ended;  /* `outcome` is known */
    int outcome; /* as of waitpid() */
};

/* Starts `command` as trainer `rank` of `count` of the service in `run_dir`. Its standard output is
 * this process's standard error, and its standard input is empty. IO: no process can be started. */
MUST_USE enum status process_start(const char *command, const char *run_dir, uint32_t rank,
                                   uint32_t count, struct process *ret_process, struct error *err);

/* Whether the process has ended. Never blocks. */
bool process_has_ended(struct process *process);

/* "ended with exit code 3", "was killed by signal 9 (Killed)"; a static buffer of the thread's. */
const char *process_ending(const struct process *process);

/* Ends the process and all that it has started: SIGTERM, after `patience_ns` SIGKILL. Blocks. */
void process_stop(struct process *process, uint64_t patience_ns);

#endif
