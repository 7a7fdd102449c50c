/* The processes of encoders: a shell command for each, in a process group of its own, with the
 * environment of a trainer; and a keeper, which ends them where this process cannot.
 *
 *     this process     --- pipe --->   keeper
 *        encoder 0       its group       when all writers are gone, which encoders are before
 *        encoder 1       its group       their commands begin: ends the groups, removes a folder
 *
 * The keeper is a shell in a session of its own, so that this process may die in any way at any
 * time: by a signal, a terminal's or a launcher's.
 *
 * One thread at a time, which blocks all signals (thread_start()): what a handler does here is
 * nothing for a child on its way to its command, which has none blocked.
 */
#ifndef PENSTOCK_WORKSHOP_ENCODE_PROCESSES_H
#define PENSTOCK_WORKSHOP_ENCODE_PROCESSES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper {
    pid_t pid; /* 0: not started */
    int pipe;
};

struct process {
    pid_t pid;   /* of the shell; 0: not started */
    bool ended;  /* and then: */
    bool killed; /* by the signal `outcome`; else `outcome` is its exit code */
    int outcome;
};

/* `folder` is removed with all that is in it when this process has died. IO: no process can be
 * started. */
MUST_USE enum status keeper_start(const char *folder, struct keeper *ret_keeper, struct error *err);

/* Nothing is ended or removed. Before process_reap(): its process groups are nobody else's. */
void keeper_dismiss(struct keeper *keeper);

/* Starts `command` as trainer `rank` of `count` of the service in `run_dir`. Its standard output is
 * this process's standard error, and its standard input is empty. IO: no process can be started. */
MUST_USE enum status process_start(const struct keeper *keeper, const char *command,
                                   const char *run_dir, uint32_t rank, uint32_t count,
                                   struct process *ret_process, struct error *err);

/* Whether the process has ended. Never blocks. */
bool process_has_ended(struct process *process);

/* "ended with exit code 3", "was killed by signal 9 (Killed)"; a static buffer of the thread's. */
const char *process_ending(const struct process *process);

/* To the process and all that it has started, also after its end. */
void process_signal(const struct process *process, int number);

/* Kills all that is left, and forgets the process. Blocks for a moment. */
void process_reap(struct process *process);

#endif
