/* A pile: copies of one round that workers share, in pieces.
 *
 *     main thread --put-->  | piece | piece | piece |  --take, by a counter-->  workers
 *
 * A worker takes pieces until the pile is empty. So it comes once for all that it copies of a
 * round, however many pieces there are, and the pool queues as many tasks as there are workers at
 * most: helpers. A helper that finds nothing goes away, and one that is late may find pieces of a
 * later round: a pile lasts as long as the rounds.
 *
 * The main thread puts, any thread takes. What was written before pile_put() is visible to who
 * takes the piece. Nothing blocks.
 */
#ifndef PENSTOCK_MPI_ROUNDS_PILE_H
#define PENSTOCK_MPI_ROUNDS_PILE_H

#include "base/error.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PILE_PIECES = 256, PILE_COUNT_BITS = 20, PILE_MOST_COPIES = (1 << PILE_COUNT_BITS) - 1 };

/* What different threads write lies on different lines of memory. All zeros: an empty pile. */
struct pile {
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t taken;   /* pieces so far, by workers */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t put;     /* likewise, by the main thread */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint32_t helpers; /* tasks, queued or running */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t pieces[PILE_PIECES]; /* [number modulo theirs] */
};
_Static_assert(offsetof(struct pile, put) == MEMORY_LINE_BYTES &&
                   offsetof(struct pile, helpers) == 2 * MEMORY_LINE_BYTES &&
                   offsetof(struct pile, pieces) == 3 * MEMORY_LINE_BYTES,
               "lines of their own");

/* Puts the copies [begin, end), at least one and PILE_MOST_COPIES at most. False: the pile is full.
 */
MUST_USE bool pile_put(struct pile *pile, uint64_t begin, uint64_t end);

/* Takes the oldest piece. False: the pile is empty. */
MUST_USE bool pile_take(struct pile *pile, uint64_t *ret_begin, uint64_t *ret_end);

/* How many pieces nobody has taken. */
uint64_t pile_left(const struct pile *pile);

/* The main thread: whether one more helper finds work, with `most` at most: then it counts, and the
 * caller has to queue it. */
MUST_USE bool pile_wants_helper(struct pile *pile, uint32_t most);

/* A helper goes away, or could not be queued. */
void pile_leave(struct pile *pile);

/* A helper that has left since the pile was empty: whether there are pieces again. Then it is back.
 */
MUST_USE bool pile_return(struct pile *pile);

#endif
