/* The tally: counts the samples that trainers were given, epoch by epoch.
 *
 * A batch counts as given when its trainer has released it, or has said goodbye after taking it.
 * With batches by budget the batches of an epoch count as equal, and in a mix those of a pass over
 * a source: so the samples of whole epochs, or whole passes, are exact, and others about right.
 * Each reader counts for its own trainers. When all of these are past the end of an epoch, or gone,
 * the reader takes part in a nonblocking reduction, which gives rank 0 the epoch's number of
 * samples over all readers. There is one reduction for each epoch, in order, one at a time. Main
 * thread only.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_TALLY_H
#define PENSTOCK_MPI_ACCOUNT_TALLY_H

#include "account/books.h"

struct tally;

/* Makes a tally that counts into the epochs of `summary`. `session` and `summary` are borrowed
 * until tally_free(). Not collective. NO_MEMORY. */
MUST_USE enum status tally_new(struct session *session, struct service_summary *summary,
                               struct tally **ret_tally, struct error *err);

/* Frees. To be called after tally_drain() has returned false, or if tally_begin() was not called.
 * NULL is fine. */
void tally_free(struct tally *tally);

/* Collective: begins a session, or, with `skipped`, goes on in a session where steps were skipped.
 * Samples that trainers were given since the last session count in this one. */
void tally_begin(struct tally *tally, bool skipped);

/* Counts the samples that trainers were given of the batches before cursor `published`. */
void tally_count(struct tally *tally, uint64_t published);

/* The trainer `peer`, a server's index, was at cursor `from`, and goes on at `to`: it is not given
 * the batches between the two. `published` as above. */
void tally_skip(struct tally *tally, uint32_t peer, uint64_t from, uint64_t to, uint64_t published);

/* Counts, and moves the reductions on; never blocks. `published` as above. True on rank 0, once for
 * each epoch: all trainers have had their batches of *ret_epoch, *ret_samples samples in all. */
bool tally_progress(struct tally *tally, uint64_t published, uint64_t *ret_epoch,
                    uint64_t *ret_samples);

/* How many epochs' reductions this rank has started in this session. */
uint64_t tally_posted(const struct tally *tally);

/* Once all trainers here have left: whether this rank has started the reductions of all epochs that
 * they have had to their end. Slots that nobody waits for are free, and steps come on and on. */
bool tally_is_complete(struct tally *tally, uint64_t published);

/* Collective, at the session's end: starts and completes reductions until this rank has `count`,
 * the number of the furthest rank. Blocks. Returns as tally_progress(); to be called again until it
 * returns false. */
bool tally_drain(struct tally *tally, uint64_t count, uint64_t *ret_epoch, uint64_t *ret_samples);

#endif
