/* Starting a trainer: a child process with the environment of a distributed job.
 *
 * A trainer gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
 * PENSTOCK_RUN_DIR and PENSTOCK_READER; also PENSTOCK_LIBRARY, if libpenstock lies where this
 * program's installation has it. It gets none of the MPI launcher's own variables, so that it does
 * not take itself for a rank of this job. It inherits standard output and error; its standard input
 * is /dev/null. It gets SIGTERM when its reader dies, and ignores SIGUSR2 until it installs a
 * handler. A child with a seat binds itself to the seat before it executes the trainer: all threads
 * and processes of the trainer inherit the binding. Each trainer leads a process group of its own.
 *
 *     reader --posix_spawn--> penstock-reader --exec-trainer PARENT CPUSET CMD... --exec--> CMD
 *
 * penstock-reader runs between the two, since only the child itself can ask for a signal when its
 * parent dies. Processes of a transform are started in the same way. Main thread only.
 */
#ifndef PENSTOCK_MPI_TRAINERS_SPAWNER_H
#define PENSTOCK_MPI_TRAINERS_SPAWNER_H

#include "trainers/children.h"

#include <stddef.h>
#include <sys/types.h>

/* What all trainers of a reader have in common. */
struct spawner {
    const struct children_options *options; /* borrowed */
    char **environment; /* owned; `inherited` variables, then room for a trainer's own */
    size_t inherited;
    char **arguments;
};

/* `options` is borrowed until spawner_done(), which is to be called after a failure, too.
 * NOT_FOUND: there is no such program. NO_MEMORY. */
MUST_USE enum status spawner_init(struct spawner *spawner, const struct children_options *options,
                                  struct error *err);
void spawner_done(struct spawner *spawner);

/* Starts trainer `index` (below options->count), with rank options->first_rank + index. IO: the
 * program cannot be started. */
MUST_USE enum status spawner_start(const struct spawner *spawner, uint32_t index, pid_t *ret_pid,
                                   struct error *err);

/* The environment of a process that is neither a trainer nor a rank: without the launcher's
 * variables, with PENSTOCK_LIBRARY. The caller frees the array, not its texts. NULL: no memory. */
char **spawner_plain_environment(void);

/* Words that start a process of a transform, bound to `cpus` (NULL: anywhere), through
 * penstock-reader: the caller puts its command behind, and frees them. NULL: no memory. */
char **spawner_through(const struct cpuset *cpus);

enum spawner_kind {
    SPAWN_TRAINER,   /* gets SIGTERM when its reader dies, and no descriptor but 0 to 2 */
    SPAWN_TRANSFORM, /* gets SIGKILL: it may hang; and its socket, descriptor 3, too */
};

/* The body of the hidden commands `penstock-reader --exec-trainer PARENT CPUSET CMD…` and
 * `--exec-transform`: arranges for a signal when PARENT dies, binds itself to CPUSET unless that is
 * "", then executes CMD. Returns only on failure, with the exit code for main(). */
int spawner_exec(enum spawner_kind kind, char *const *arguments);

#endif
