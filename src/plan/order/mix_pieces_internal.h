/* What mix_pieces.c and mix_divide.c share: the tables of pieces, and the lists that are halved. */
#ifndef PENSTOCK_PLAN_ORDER_MIX_PIECES_INTERNAL_H
#define PENSTOCK_PLAN_ORDER_MIX_PIECES_INTERNAL_H

#include "plan/order/mix_pieces.h"

enum { SUMS, BEFORE, CARRIED, TABLES };

static inline size_t stride_of(const struct mix_pieces *pieces)
{
    return (size_t)TABLES * (pieces->source_count + 1);
}

static inline size_t words_before(const struct mix_pieces *pieces, uint32_t piece, int table)
{
    return 2 * (size_t)pieces->count + piece * stride_of(pieces) +
           (size_t)table * (pieces->source_count + 1);
}

static inline const uint64_t *table_of(const struct mix_pieces *pieces, uint32_t piece, int table)
{
    return pieces->words + words_before(pieces, piece, table);
}

/* Of one piece, from its first part on. */
struct piece {
    uint64_t first;
    const uint64_t *sums, *before, *carried;
};

static inline struct piece piece_at(const struct mix_pieces *pieces, uint32_t number)
{
    return (struct piece){pieces->words[number], table_of(pieces, number, SUMS),
                          table_of(pieces, number, BEFORE), table_of(pieces, number, CARRIED)};
}

static inline uint64_t draws_before(const struct piece *piece, uint32_t source)
{
    return piece->before[source + 1] - piece->before[source];
}

/* The sources [low, high), of which [low, middle) are left. */
struct list {
    uint32_t low, high, middle;
    uint64_t left, all; /* weights */
    uint64_t carried;
};

static inline struct list list_of(const struct piece *piece, uint32_t low, uint32_t high)
{
    uint32_t middle = low + (high - low) / 2;
    return (struct list){low,
                         high,
                         middle,
                         piece->sums[middle] - piece->sums[low],
                         piece->sums[high] - piece->sums[low],
                         piece->carried[middle]};
}

/* How many of a list's first n positions of the piece are its left half's. */
static inline uint64_t left_of(const struct list *list, uint64_t n)
{
    uint64_t sum;
    if (list->all == 0)
        return 0; /* there are none */
    if (!__builtin_mul_overflow(n, list->left, &sum) &&
        !__builtin_add_overflow(sum, list->carried, &sum))
        return sum / list->all; /* the same, in less time */
    return (uint64_t)(((unsigned __int128)n * list->left + list->carried) / list->all);
}

/* What sources [low, high) have of their first n positions of the piece. */
void mix_piece_divide(const struct piece *piece, uint32_t low, uint32_t high, uint64_t n,
                      uint64_t *ret_draws);

#endif
