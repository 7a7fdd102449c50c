/* Bad chunks on their way from the readers that find them to rank 0, which lists and counts them
 * (run/bad_list.h). Only where errors.bad_sample is mask: without, nothing here does anything.
 *
 * A reader sends one entry a chunk, each time it comes across one; rank 0 sorts out what it knows
 * already, and writes the list once a second at most. Main thread only.
 */
#ifndef PENSTOCK_MPI_MASKS_H
#define PENSTOCK_MPI_MASKS_H

#include "comm.h"
#include "config/config.h"
#include "dataset/dataset.h"

#include <stdbool.h>

struct masks;

/* Collective: from now on the dataset's rows are masked. *ret_masks is NULL where nothing is.
 * Errors, of rank 0's file too, are agreed on. */
MUST_USE enum status masks_new(const struct comm *comm, const struct config *config,
                               struct dataset *dataset, struct masks **ret_masks,
                               struct error *err);

/* Moves entries on. Rank 0: an error once there are too many bad samples; it names reader and
 * node. Costs next to nothing when nothing is bad. */
MUST_USE enum status masks_progress(struct masks *masks, struct error *err);

/* Whether all that this reader has found is on its way. */
bool masks_sent(const struct masks *masks);

/* Collective: rank 0 has everything, and writes its list. What workers find meanwhile is for the
 * next session. The same error on all ranks, if there are too many. */
MUST_USE enum status masks_finish(struct masks *masks, struct error *err);

/* Rank 0: distinct samples that this run has masked so far; 0 for NULL. */
uint64_t masks_samples(const struct masks *masks);

/* Rank 0 writes its list now: before the process leaves on a signal. */
void masks_save(struct masks *masks);

/* After masks_finish(), or where masks_progress() was never called. NULL is fine. */
void masks_free(struct masks *masks);

#endif
