/* Which launchers there are, and the variables by which each tells a process who it is. The one
 * table of them; docs/run/launching.md shows it to users, tests/unit/test_client_environment.c
 * tries each row.
 *
 * Launchers nest: torchrun runs under mpirun, mpirun under Slurm, and a process finds the variables
 * of all. The innermost launcher is the one that started it, so the rows are asked from the top,
 * and where two disagree the upper one counts. A pair is taken as a whole or not at all: the rank
 * of one launcher means nothing in the world of another.
 *
 * SLURM_NTASKS is not used: it is the job's, so that a batch script would count as task 0 of many.
 *
 * Any thread, unless another thread changes the environment meanwhile.
 */
#ifndef PENSTOCK_BASE_LAUNCHER_H
#define PENSTOCK_BASE_LAUNCHER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* What the variable of local_size has in it. */
enum launcher_count {
    LAUNCHER_COUNT_HERE,    /* how many processes are on this node */
    LAUNCHER_COUNT_BY_NODE, /* Slurm's list of them by node; SLURM_NODEID is this one */
    LAUNCHER_COUNT_OF_ALL,  /* how many are on FLUX_JOB_NNODES nodes, spread evenly */
};

/* Rank among all processes, and on this node. NULL: the launcher does not tell. For a launcher that
 * tells no size, users add one of their own to what trainers see: WORLD_SIZE. */
struct launcher {
    const char *name;
    const char *rank, *size;
    const char *local_rank, *local_size;
    enum launcher_count local_count;
    bool zero_is_nobody; /* rank 0 without a size is set where no launcher is, too */
};

enum { LAUNCHER_TORCHRUN, LAUNCHER_OPEN_MPI, LAUNCHERS = 9 };
extern const struct launcher launchers[LAUNCHERS];

/* The value of variable `name`, borrowed from the environment; NULL: it is not set, or empty, or
 * `name` is NULL. */
const char *launcher_value(const char *name);

/* The first launcher of programs, which torchrun is not, that says how many it has started; NULL:
 * none does. */
const struct launcher *launcher_of_size(void);

/* Whether it says a rank. Of one that can come by no launcher, see launcher_of_half(), 0 is none
 * without a size. */
bool launcher_tells_rank(const struct launcher *launcher);

/* The first launcher of programs that says a rank, and no size; NULL: none. By no launcher come
 * SLURM_PROCID=0, of Slurm's batch scripts, and PMIX_RANK=0, which Open MPI 4 sets in a program
 * that was started alone. */
const struct launcher *launcher_of_half(void);

/* A process among others: told is false, and it is 0 of 1, where no launcher tells. */
struct launcher_standing {
    bool told;
    uint32_t rank, size;
};

/* Rank and world size, by the first row from launchers[first] on that tells both; of one that tells
 * ranks alone the size is WORLD_SIZE. An outer launcher's 0 of 1 hides no inner one of which
 * launcher_of_half() is: nothing is told then. INVALID: no numbers, or a rank that is not below the
 * size. */
MUST_USE enum status launcher_world(int first, struct launcher_standing *ret_standing,
                                    struct error *err);

/* The same among the processes of this node. */
MUST_USE enum status launcher_node(int first, struct launcher_standing *ret_standing,
                                   struct error *err);

/* Reads the variable `name` as a number; *ret_value stays as it is if it is not set. INVALID: it is
 * none from 0 to INT32_MAX. */
MUST_USE enum status launcher_number(const char *name, int64_t *ret_value, struct error *err);

/* This program's rank in its launcher's words, "0" without one, for those that may not ask MPI yet.
 * Borrowed from the environment. */
const char *launcher_rank(void);

#endif
