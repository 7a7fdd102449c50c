/* See pile.h. */
#include "rounds/pile.h"

#include <assert.h>

bool pile_put(struct pile *pile, uint64_t begin, uint64_t end)
{
    uint64_t put = atomic_load(&pile->put), count = end - begin;
    assert(count >= 1 && count <= PILE_MOST_COPIES &&
           begin < UINT64_C(1) << (64 - PILE_COUNT_BITS));
    if (put - atomic_load(&pile->taken) == PILE_PIECES)
        return false;
    atomic_store(&pile->pieces[put % PILE_PIECES], begin << PILE_COUNT_BITS | count);
    atomic_store(&pile->put, put + 1);
    return true;
}

/* A piece that others take meanwhile may be written anew: then the counter has moved, too. */
bool pile_take(struct pile *pile, uint64_t *ret_begin, uint64_t *ret_end)
{
    uint64_t taken = atomic_load(&pile->taken), piece;
    do {
        if (taken == atomic_load(&pile->put))
            return false;
        piece = atomic_load(&pile->pieces[taken % PILE_PIECES]);
    } while (!atomic_compare_exchange_weak(&pile->taken, &taken, taken + 1));
    *ret_begin = piece >> PILE_COUNT_BITS;
    *ret_end = *ret_begin + (piece & PILE_MOST_COPIES);
    return true;
}

uint64_t pile_left(const struct pile *pile)
{
    uint64_t taken = atomic_load(&pile->taken); /* before `put`, which is never less */
    return atomic_load(&pile->put) - taken;
}

bool pile_wants_helper(struct pile *pile, uint32_t most)
{
    uint32_t helpers = atomic_load(&pile->helpers);
    if (helpers >= most || helpers >= pile_left(pile))
        return false;
    atomic_fetch_add(&pile->helpers, 1);
    return true;
}

void pile_leave(struct pile *pile)
{
    atomic_fetch_sub(&pile->helpers, 1);
}

/* Either this helper sees a piece that was just put, or the main thread sees that it has left. */
bool pile_return(struct pile *pile)
{
    if (pile_left(pile) == 0)
        return false;
    atomic_fetch_add(&pile->helpers, 1);
    return true;
}
