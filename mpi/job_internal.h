/* What the files of a job share; see job.h for what others may use. */
#ifndef PENSTOCK_MPI_JOB_INTERNAL_H
#define PENSTOCK_MPI_JOB_INTERNAL_H

#include "job.h"

/* A step of the run, counted from the beginning of its first epoch. */
static inline uint64_t job_cursor(const struct job *job, uint64_t epoch, uint64_t step)
{
    return epoch * job->setup.service.steps_per_epoch + step;
}

/* Collective: collects on rank 0 where every reader and its trainers sit. `spawns`: trainers are
 * the readers' children. NO_MEMORY. */
MUST_USE enum status job_collect_seats(struct job *job, bool spawns, struct error *err);

/* On rank 0: prints what the run will do, in four lines and the warnings; `verbose`: with all
 * tables. */
void job_announce(const struct job *job, bool verbose);

#endif
