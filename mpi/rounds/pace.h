/* Pace: no reader runs far ahead of another, and rank 0 knows how fast each of them reads.
 *
 * A reader that receives nothing from another reader could send to it without limit, into its
 * unexpected messages. So all readers meet every few steps in a nonblocking barrier, which is
 * usually complete long before a reader needs it. With it they tell rank 0 how long a row takes
 * them, and whether rounds wait for their reads; rank 0 tells the assigner. Main thread only.
 */
#ifndef PENSTOCK_MPI_ROUNDS_PACE_H
#define PENSTOCK_MPI_ROUNDS_PACE_H

#include "job/session.h"

struct pace;

/* `session` is borrowed until pace_free(). *ret_pace is the caller's. NO_MEMORY. */
MUST_USE enum status pace_new(const struct session *session, struct pace **ret_pace,
                              struct error *err);
void pace_free(struct pace *pace);

enum { PACE_ROUNDS = 8 }; /* no reader is more than twice this many rounds ahead of another */

/* Moves on; never blocks. `published`: how many rounds this reader has published.
 * `waits_for_reads`: the next round waits for rows that this reader has to read. `is_assigning`: a
 * worker has the assigners, which hear of paces later. */
void pace_progress(struct pace *pace, uint64_t published, bool waits_for_reads, bool is_assigning);

/* Whether round `serial` may be posted now. */
bool pace_allows(const struct pace *pace, uint64_t serial);

/* Whether this reader has passed all meetings of the first `published` rounds. */
bool pace_settled(const struct pace *pace, uint64_t published);

#endif
