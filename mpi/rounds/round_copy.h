/* Copies a round's samples: from rows to slots and send buffers, from receive buffers to slots.
 * Where a sample could not be read, the copy marks it in the slot.
 */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_COPY_H
#define PENSTOCK_MPI_ROUNDS_ROUND_COPY_H

#include "rounds/pile.h"
#include "rounds/round.h"

/* Where the items of the rows lie from which a worker has copied last. Fills of one row are many,
 * and take turns with those of the window's other rows: a worker need not look each of them up
 * again. */
struct found_rows;

/* One for each of `count` workers, for ragged fields. Returned; NULL: no memory. free() frees. */
struct found_rows *found_rows_new(uint32_t count);

/* A pile of a round's fills or arrivals. */
struct round_pile {
    struct pile pieces;
    struct round *round; /* borrowed */
};

/* Pool tasks, which workers run: copy fills, or arrivals, of `pile`, a struct round_pile, until
 * none is left there. `begin` and `end` say nothing. */
void round_fill_task(struct pool_worker *worker, void *pile, uint64_t begin, uint64_t end);
void round_scatter_task(struct pool_worker *worker, void *pile, uint64_t begin, uint64_t end);

#endif
