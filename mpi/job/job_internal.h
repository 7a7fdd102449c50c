/* For the job's own files; job.h is for others. Main thread only. Where a function is collective,
 * all ranks return the same status and error. */
#ifndef PENSTOCK_MPI_JOB_JOB_INTERNAL_H
#define PENSTOCK_MPI_JOB_JOB_INTERNAL_H

#include "job/job.h"

/* The cursor of a step. */
static inline uint64_t job_cursor(const struct job *job, uint64_t epoch, uint64_t step)
{
    return epoch * job->setup.service.steps_per_epoch + step;
}

/* Whether a supervisor hears, on standard output, how this run goes: the one that is trained on. */
static inline bool job_tells_supervisor(const struct job *job)
{
    return job->supervised && !job->also;
}

/* job_settle.c. Collective: rank 0 reads the configuration; the others get its text. */
MUST_USE enum status job_share_config(struct job *job, const struct job_options *options,
                                      struct error *err);

/* Collective over all runs: what the trainers' other run says of them, and of how long to wait for
 * them, counts for a run of --also, too. Its epochs are endless. `status` is this run's so far, and
 * is returned if not OK. Errors as of also_adapt(), the same on all ranks of a run. */
MUST_USE enum status job_share_delivery(struct job *job, enum status status, struct error *err);

/* Collective over all runs; `status` is this run's so far, and is returned if not OK. INVALID, on
 * all ranks of a run: the run would write to a file, or listen at a port, of a run before it. */
MUST_USE enum status job_compare_outputs(const struct job *job, enum status status,
                                         struct error *err);

/* Collective over all runs, for an outcome that is the same on all ranks of this run: the first
 * run's that failed, with its name in front. */
MUST_USE enum status job_agree_runs(struct job *job, enum status status, struct error *err);

/* Collective: starts the watchdog, before the first access to the store. NO_MEMORY, IO: as
 * watchdog_new(). */
MUST_USE enum status job_watch_store(struct job *job, struct error *err);

/* Collective: rank 0 opens the dataset; the others rebuild it from its metadata. */
MUST_USE enum status job_share_dataset(struct job *job, struct error *err);

/* job_inventory.c. Collective: all nodes see one dataset, or whole copies of it, and of each array
 * of a field some chunk is there. INVALID: nodes do not see the same; the message names two of
 * them. NOT_FOUND: no chunk is there, and the configuration does not say what a missing chunk is.
 * Other errors as of the stores. */
MUST_USE enum status job_check_inventory(struct job *job, bool quiet, struct error *err);

/* Collective: settles the shape of the run, its plan, rounds and memory, the same on every rank. */
MUST_USE enum status job_settle(struct job *job, struct session *session,
                                const struct job_options *options, struct error *err);

/* Collective over `where`: the reduction of all ranks' values by `operation`. Values are below
 * 2^63: MPICH 4.0 compares unsigned integers as if they were signed. */
uint64_t job_reduce(const struct comm *comm, uint64_t value, MPI_Op operation, MPI_Comm where);

/* job_placement.c. Trainers are spread over readers in blocks: reader r spawns ranks [r*T/R,
 * (r+1)*T/R). The first rank of reader `reader`, and how many trainers this reader has. */
uint32_t job_first_trainer(const struct job *job, int reader);
uint32_t job_expected_trainers(const struct job *job);

/* Collective: settles where this reader's workers and trainers sit. */
MUST_USE enum status job_settle_placement(struct job *job, struct error *err);

/* job_server.c. Collective: rank 0 names the run directory; each node has its own directory of that
 * name. */
MUST_USE enum status job_name_run_dir(struct job *job, struct error *err);

/* Collective: from now on trainers can connect. */
MUST_USE enum status job_open_server(struct job *job, struct session *session,
                                     const struct job_options *options, struct error *err);

/* job_children.c. Collective: starts the trainers that are this reader's children. */
MUST_USE enum status job_spawn_trainers(struct job *job, const struct job_options *options,
                                        struct error *err);

/* Starts this reader's failed children again, and prints so. *ret_count: how many. Errors as
 * children_restart(). */
MUST_USE enum status job_restart_children(const struct job *job, uint32_t *ret_count,
                                          struct error *err);

/* job_transform.c. On rank 0: finds out by a trial what delivery.transform makes. *ret_made: the
 * caller's to free; NULL: there is no transform. Errors of trial_run(). */
MUST_USE enum status job_try_transform(const struct job *job, struct board_shape **ret_made,
                                       struct error *err);

/* Starts this reader's processes of it, where there is one. Errors of transform_new(). */
MUST_USE enum status job_start_transform(struct job *job, struct error *err);

/* For the rings of a session, which are there. Errors of transform_begin(). */
MUST_USE enum status job_begin_transform(const struct job *job, const struct ring_layout *layout,
                                         struct error *err);

/* Whether a child is a process of the transform of the job `job`. */
bool job_owns_child(const void *job, pid_t pid);

/* job_announce.c. Collective: collects on rank 0 where every reader and its trainers sit. `spawns`:
 * trainers are the readers' children. NO_MEMORY. */
MUST_USE enum status job_collect_seats(struct job *job, bool spawns, struct error *err);

/* On rank 0: prints the run's dataset, plan and memory in four lines, and the warnings; with
 * `verbose` all tables, too. */
void job_announce(const struct job *job, bool verbose);

/* Appends the dataset's uri, or the sources of a mix. */
void job_name_dataset(const struct config *config, struct text *out);

#endif
