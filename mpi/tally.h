/* The tally: what trainers were given, epoch by epoch.
 *
 * A batch was given once its trainer has released it, or had taken it when it said goodbye. Each
 * reader counts for its own trainers. When all of these are past the end of an epoch, or gone, the
 * reader says so, and rank 0 hears from all how many samples that came to: one nonblocking
 * reduction for each epoch, in order, one at a time. Main thread only.
 */
#ifndef PENSTOCK_MPI_TALLY_H
#define PENSTOCK_MPI_TALLY_H

#include "books.h"

struct tally;

/* Counts into the epochs of `summary`, which is borrowed like the job. Not collective. NO_MEMORY.
 */
MUST_USE enum status tally_new(struct job *job, struct service_summary *summary,
                               struct tally **ret_tally, struct error *err);

/* After tally_drain(), or where tally_begin() was not called. NULL is fine. */
void tally_free(struct tally *tally);

/* Collective: a session begins. What trainers were given between sessions counts in this one. */
void tally_begin(struct tally *tally);

/* Counts what trainers were given of the batches before cursor `published`. */
void tally_count(struct tally *tally, uint64_t published);

/* Moves on; `published` as above. True on rank 0, once for each epoch: all trainers had what they
 * were to have of it, *ret_samples in all. */
bool tally_progress(struct tally *tally, uint64_t published, uint64_t *ret_epoch,
                    uint64_t *ret_samples);

/* How many epochs this rank has told of. */
uint64_t tally_posted(const struct tally *tally);

/* Whether it has told of all epochs that are published to their end. */
bool tally_is_told(const struct tally *tally, uint64_t published);

/* Collective, at the session's end: until `count` epochs are told of, as the furthest rank has.
 * Otherwise as tally_progress(): to be called until it returns false. */
bool tally_drain(struct tally *tally, uint64_t count, uint64_t *ret_epoch, uint64_t *ret_samples);

#endif
