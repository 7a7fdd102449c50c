/* Pace: no reader runs far ahead of another, and rank 0 knows how fast each of them reads.
 *
 * A reader that gets nothing from another would send ever on, into that one's unexpected messages.
 * So all readers meet every few rounds in a nonblocking collective that is passed long before
 * anybody waits for it, and tell each other how far they have read and how long a row takes them;
 * rank 0 hands that to the assigner. Main thread only.
 */
#ifndef PENSTOCK_MPI_PACE_H
#define PENSTOCK_MPI_PACE_H

#include "job.h"

struct pace;

/* NO_MEMORY. */
MUST_USE enum status pace_new(struct job *job, struct pace **ret_pace, struct error *err);
void pace_free(struct pace *pace);

/* Moves on: `published` rounds of this reader are over; `waits` tells whether the next one waits
 * for what this reader has to read. */
void pace_progress(struct pace *pace, uint64_t published, bool waits);

/* Whether round `serial` may be posted now. */
bool pace_allows(const struct pace *pace, uint64_t serial);

/* Whether this reader has passed all meetings that `published` rounds bring with them. */
bool pace_settled(const struct pace *pace, uint64_t published);

#endif
