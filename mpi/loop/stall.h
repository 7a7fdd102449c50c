/* Finds the trainers that keep all others waiting.
 *
 * All trainers get equally many batches, so a trainer that releases nothing holds up all others. A
 * short wait is normal (a checkpoint, an evaluation). After delivery.stall_warning a warning names
 * the trainer; another one comes when the wait is twice as long, four times as long, and so on. In
 * synchronous training the other trainers stop, too, with their slots full: the warning names the
 * trainers that have come least far. Main thread only.
 */
#ifndef PENSTOCK_MPI_LOOP_STALL_H
#define PENSTOCK_MPI_LOOP_STALL_H

#include "job/session.h"

struct stall;

/* `session` is borrowed until stall_free(). *ret_stall is the caller's. NO_MEMORY. */
MUST_USE enum status stall_new(const struct session *session, struct stall **ret_stall,
                               struct error *err);
void stall_free(struct stall *stall);

/* Looks at this reader's trainers, at most twice a second. `waiting`: nothing moves before one of
 * them releases a batch. True: *ret_warning is a warning for the log, and *ret_first says whether
 * it is the first one of this wait. */
bool stall_look(struct stall *stall, uint64_t now_ns, bool waiting, struct error *ret_warning,
                bool *ret_first);

#endif
