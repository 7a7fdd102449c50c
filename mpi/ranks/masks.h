/* Sends bad chunks, and samples at which the transform failed, from the readers that find them to
 * rank 0, which lists and counts them (run/bad_list.h). Only with errors.bad_sample: mask.
 * Otherwise there is no struct masks, and every function but masks_new() does nothing with NULL.
 *
 * A reader sends an entry each time that it reads a bad chunk. Rank 0 drops entries that it has,
 * and writes the list at most once a second. Main thread only.
 */
#ifndef PENSTOCK_MPI_RANKS_MASKS_H
#define PENSTOCK_MPI_RANKS_MASKS_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "ranks/comm.h"

#include <stdbool.h>

struct masks;

/* Collective: from now on the dataset's rows are masked. *ret_masks is the caller's, for
 * masks_free(); NULL: errors.bad_sample is not mask. The same error on all ranks, also if rank 0
 * cannot write its file. */
MUST_USE enum status masks_new(const struct comm *comm, const struct config *config,
                               struct dataset *dataset, struct masks **ret_masks,
                               struct error *err);

/* Where the main thread, too, may add what is masked. Borrowed; NULL for NULL. */
struct bad_log *masks_log(const struct masks *masks);

/* Moves entries on; never blocks. On rank 0 an error once there are more bad samples than
 * errors.max_bad: the message names reader and node. Cheap when nothing is bad. */
MUST_USE enum status masks_progress(struct masks *masks, struct error *err);

/* Whether all entries of this reader are sent. */
bool masks_sent(const struct masks *masks);

/* Collective: brings all entries to rank 0, which writes its list. Chunks that workers find
 * meanwhile count in the next session. The same error on all ranks if there are too many bad
 * samples. */
MUST_USE enum status masks_finish(struct masks *masks, struct error *err);

/* On rank 0: how many distinct samples this run has masked so far; 0 for NULL. */
uint64_t masks_samples(const struct masks *masks);

/* On rank 0: whether all of them are in the file of errors.report, if there is to be one: the last
 * write did not fail. */
bool masks_are_listed(const struct masks *masks);

/* Rank 0 writes its list now. For a process that is about to exit because of a signal. */
void masks_save(struct masks *masks);

/* Frees. To be called after masks_finish(), or if masks_progress() was never called. NULL is fine.
 */
void masks_free(struct masks *masks);

#endif
