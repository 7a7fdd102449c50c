/* How the sources of a mix divide the positions of a run; with cuts, its steps.
 *
 * A piece is a run of steps with the same weights. A mix without a schedule has one. Between two
 * entries of a schedule there is one, or, where the second one is a ramp, up to MIX_MOST_STAIRS
 * equal ones: the stairs of the ramp.
 *
 * The list of sources is halved, and each half again, until lists of one source are left. Of a
 * list's positions the left half has the whole part of the sum of its shares, a position's share
 * being left weight / all weights. Where a piece ends, each list carries the rest, rounded down to
 * a multiple of 2^-64, into the next one. Rests begin as 2^-40, which is more than all rounding
 * takes: a sum that is whole stays so. With one piece this changes nothing, since its weights are
 * less than 2^40 together. A source without weight gets nothing, and what a source got before a
 * step follows from the step's piece alone:
 *
 *     left half's = before the piece + floor((n * left + carried) / all)    n: of the piece
 *
 * A list is known by its `middle`, the first source of its right half. Numbers are `parts` where
 * they are of positions, or with cuts of steps, through the whole run. Pure, but for making and
 * freeing; any thread.
 */
#ifndef PENSTOCK_PLAN_ORDER_MIX_PIECES_H
#define PENSTOCK_PLAN_ORDER_MIX_PIECES_H

#include "plan/order/mix.h"

enum { MIX_MOST_STAIRS = 1024 };

#define MIX_FIRST_REST (UINT64_C(1) << 24) /* in units of 2^-64 */

/* Beyond these nothing is computed: sums of two stay below 2^64. */
#define MIX_FAR (UINT64_C(1) << 62)

/* A table of the most that a half may have of its list: part / all. */
struct mix_most {
    uint64_t part, all;
};

struct mix_pieces {
    uint32_t count, source_count, entry_count;
    struct mix_most lefts[MIX_MAX_SOURCES], rights[MIX_MAX_SOURCES]; /* of lists, by middle */
    struct mix_most sources[MIX_MAX_SOURCES];                        /* of all positions */
    uint64_t entries[MIX_MAX_ENTRIES];                               /* [entry_count] their steps */
    uint64_t least;   /* parts of a piece, but for the last one */
    uint64_t words[]; /* [count] parts before each piece, [count] its first step, then of each piece
                       * three tables of [source_count + 1]: weights of the sources before, and of
                       * all; draws before the piece of the sources before, and of all; what lists
                       * carry, by middle */
};

/* The weights of each piece; *ret_pieces is returned. INVALID: weights or entries out of range, or
 * too fine. NO_MEMORY. */
MUST_USE enum status mix_pieces_new(const struct plan_mix_options *options,
                                    struct mix_pieces **ret_pieces, struct error *err);

/* NO_MEMORY. */
MUST_USE enum status mix_pieces_copy(const struct mix_pieces *pieces,
                                     struct mix_pieces **ret_pieces, struct error *err);

/* Where pieces begin, and what lists carry there: epochs have so many steps and parts, steps but
 * the last so many parts. INVALID: a step so far ahead that no run gets there. */
MUST_USE enum status mix_pieces_settle(struct mix_pieces *pieces, uint64_t steps_per_epoch,
                                       uint64_t epoch_parts, uint64_t step_parts,
                                       struct error *err);

uint64_t mix_pieces_bytes(const struct mix_pieces *pieces);

/* Weights of the sources before, and of all: [source_count + 1]. */
const uint64_t *mix_piece_sums(const struct mix_pieces *pieces, uint32_t piece);
uint64_t mix_piece_step(const struct mix_pieces *pieces, uint32_t piece);

/* The part of all of the first `parts` parts that a source has, for estimates. */
double mix_pieces_share(const struct mix_pieces *pieces, uint32_t source, uint64_t parts);

/* What each source has of the first n parts: [source_count]. */
void mix_pieces_divide(const struct mix_pieces *pieces, uint64_t n, uint64_t *ret_draws);

/* The part that gives a source its number `number`; MIX_FAR at most. */
uint64_t mix_pieces_undivide(const struct mix_pieces *pieces, uint32_t source, uint64_t number);

/* What a source has of the parts [begin, end) of one step. */
struct mix_share {
    uint64_t first, count; /* its own numbers */
    uint64_t before;       /* what the sources before have of them */
};
struct mix_share mix_pieces_range(const struct mix_pieces *pieces, uint32_t source, uint64_t begin,
                                  uint64_t end);

/* The source of part n, whose own number of it is *ret_number. */
uint32_t mix_pieces_source(const struct mix_pieces *pieces, uint64_t n, uint64_t *ret_number);

/* The most of a source among `count` parts that follow one another. */
uint64_t mix_pieces_most(const struct mix_pieces *pieces, uint32_t source, uint64_t count);

/* Of all pieces behind the first one: their steps and weights. */
uint64_t mix_pieces_hash(const struct mix_pieces *pieces);

#endif
