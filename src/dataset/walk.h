/* A walk: pieces, numbered from 0, which threads take in order and work on at the same time.
 *
 *     while (walk_take(&walk, &piece)) {
 *         status = ...;                          // of this piece, beside other threads
 *         if (walk_turn(&walk, piece) && status == STATUS_OK)
 *             status = ...;                      // one thread at a time, in order; may be left out
 *         walk_end(&walk, piece, status, &err);
 *     }
 *
 * A piece that fails ends the taking. All before it are taken by then and go on, so that the error
 * of the walk is that of the first piece that fails, however many threads there are. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_WALK_H
#define PENSTOCK_DATASET_WALK_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct walk {
    uint64_t count; /* pieces */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a piece has ended */
    /* Under `mutex`: */
    uint64_t taken, ended, failed; /* pieces; the first that failed */
    enum status status;            /* of that */
    struct error error;
};

void walk_init(struct walk *walk, uint64_t count);

/* Takes the next piece. False: none is left, or one has failed. */
bool walk_take(struct walk *walk, uint64_t *ret_piece);

/* Waits until all pieces before have ended: the thread has its turn until it ends its own piece.
 * False: one of those has failed. */
bool walk_turn(struct walk *walk, uint64_t piece);

/* Ends a piece that was taken, in its turn if pieces have turns. */
void walk_end(struct walk *walk, uint64_t piece, enum status status, const struct error *error);

/* With all threads ended, frees what the walk has. Returns the status, with its error. */
MUST_USE enum status walk_done(struct walk *walk, struct error *err);

#endif
