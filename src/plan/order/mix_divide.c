/* See mix_pieces.h: how the sources of a mix divide a piece. */
#include "plan/order/mix_pieces_internal.h"

#include "base/number.h"

/* What sources [low, high) have of their first n positions of the piece. */
void mix_piece_divide(const struct piece *piece, uint32_t low, uint32_t high, uint64_t n,
                      uint64_t *ret_draws)
{
    if (high - low == 1) {
        ret_draws[low] = n;
        return;
    }
    struct list list = list_of(piece, low, high);
    uint64_t left = left_of(&list, n);
    mix_piece_divide(piece, low, list.middle, left, ret_draws);
    mix_piece_divide(piece, list.middle, high, n - left, ret_draws);
}

static struct piece piece_of(const struct mix_pieces *pieces, uint64_t n)
{
    return piece_at(pieces, pieces->count == 1
                                ? 0
                                : (uint32_t)find_last_u64(pieces->words, 0, pieces->count, n));
}

void mix_pieces_divide(const struct mix_pieces *pieces, uint64_t n, uint64_t *ret_draws)
{
    struct piece piece = piece_of(pieces, n);
    mix_piece_divide(&piece, 0, pieces->source_count, n - piece.first, ret_draws);
    for (uint32_t d = 0; piece.first > 0 && d < pieces->source_count; d++)
        ret_draws[d] += draws_before(&piece, d);
}

/* The position, counted among those of the sources [low, high) in the piece, that is a source's by
 * the division above and gives the source its number `number` of the piece; MIX_FAR at most. */
static uint64_t undivide(const struct piece *piece, uint32_t low, uint32_t high, uint32_t source,
                         uint64_t number)
{
    if (high - low == 1)
        return min_u64(number, MIX_FAR);
    struct list list = list_of(piece, low, high);
    bool is_left = source < list.middle;
    uint64_t own = is_left ? undivide(piece, low, list.middle, source, number)
                           : undivide(piece, list.middle, high, source, number);
    uint64_t weight = is_left ? list.left : list.all - list.left;
    if (weight == 0)
        return MIX_FAR;
    /* The smallest n with floor((n * left + carried) / all) > own, less 1; and with n - floor(...)
     * > own. */
    unsigned __int128 sum = (unsigned __int128)(own + is_left) * list.all;
    sum = is_left ? sum - 1 - list.carried : sum + list.carried;
    if (sum <= UINT64_MAX)
        return min_u64((uint64_t)sum / weight, MIX_FAR); /* in less time */
    unsigned __int128 n = sum / weight;
    return n < MIX_FAR ? (uint64_t)n : MIX_FAR;
}

uint64_t mix_pieces_undivide(const struct mix_pieces *pieces, uint32_t source, uint64_t number)
{
    uint32_t low = 0, high = pieces->count;
    while (high - low > 1) { /* the last piece that does not begin behind it */
        uint32_t middle = low + (high - low) / 2;
        struct piece at = piece_at(pieces, middle);
        *(draws_before(&at, source) <= number ? &low : &high) = middle;
    }
    struct piece piece = piece_at(pieces, low);
    uint64_t of_piece = number - draws_before(&piece, source);
    return min_u64(piece.first + undivide(&piece, 0, pieces->source_count, source, of_piece),
                   MIX_FAR);
}

struct mix_share mix_pieces_range(const struct mix_pieces *pieces, uint32_t source, uint64_t begin,
                                  uint64_t end)
{
    struct piece piece = piece_of(pieces, begin);
    uint64_t before = 0;
    begin -= piece.first;
    end -= piece.first;
    for (uint32_t low = 0, high = pieces->source_count; high - low > 1;) {
        struct list list = list_of(&piece, low, high);
        uint64_t left_begin = left_of(&list, begin), left_end = left_of(&list, end);
        if (source < list.middle) {
            begin = left_begin;
            end = left_end;
            high = list.middle;
        } else {
            before += left_end - left_begin;
            begin -= left_begin;
            end -= left_end;
            low = list.middle;
        }
    }
    return (struct mix_share){draws_before(&piece, source) + begin, end - begin, before};
}

uint32_t mix_pieces_source(const struct mix_pieces *pieces, uint64_t n, uint64_t *ret_number)
{
    struct piece piece = piece_of(pieces, n);
    uint32_t low = 0, high = pieces->source_count;
    n -= piece.first;
    while (high - low > 1) {
        struct list list = list_of(&piece, low, high);
        uint64_t left = left_of(&list, n);
        bool is_left = left_of(&list, n + 1) > left;
        n = is_left ? left : n - left;
        *(is_left ? &high : &low) = list.middle;
    }
    *ret_number = draws_before(&piece, low) + n;
    return low;
}

/* ---- bounds and estimates ---- */

static uint64_t most_part(uint64_t count, const struct mix_most *most)
{
    if (most->all == 0)
        return 0;
    return (uint64_t)(((unsigned __int128)count * most->part + most->all - 1) / most->all);
}

/* floor() of two numbers that are x apart differs by ceil(x) at most. */
static uint64_t most_by_lists(const struct mix_pieces *pieces, uint32_t source, uint64_t count)
{
    uint64_t most = count;
    for (uint32_t low = 0, high = pieces->source_count; high - low > 1;) {
        uint32_t middle = low + (high - low) / 2;
        bool is_left = source < middle;
        most = most_part(most, is_left ? &pieces->lefts[middle] : &pieces->rights[middle]);
        *(is_left ? &high : &low) = middle;
    }
    return most;
}

/* In each piece a source has less than its share of the piece's positions, and one for each list
 * that it is of. A lower bound than by lists if these have their largest shares at other times. */
static uint64_t most_by_share(const struct mix_pieces *pieces, uint32_t source, uint64_t count)
{
    uint64_t levels = 0, touched = min_u64(pieces->count, count / pieces->least + 2);
    while (UINT32_C(1) << levels < pieces->source_count)
        levels++;
    return add_sat(most_part(count, &pieces->sources[source]), levels * touched);
}

uint64_t mix_pieces_most(const struct mix_pieces *pieces, uint32_t source, uint64_t count)
{
    uint64_t most = most_by_lists(pieces, source, count);
    return pieces->count == 1 ? most : min_u64(most, most_by_share(pieces, source, count));
}

double mix_pieces_share(const struct mix_pieces *pieces, uint32_t source, uint64_t parts)
{
    double sum = 0;
    for (uint32_t k = 0; k < pieces->count; k++) {
        const uint64_t *sums = table_of(pieces, k, SUMS);
        uint64_t end = k + 1 < pieces->count ? min_u64(pieces->words[k + 1], parts) : parts;
        double share =
            (double)(sums[source + 1] - sums[source]) / (double)sums[pieces->source_count];
        if (pieces->count == 1)
            return share;
        if (end > pieces->words[k])
            sum += share * (double)(end - pieces->words[k]) / (double)parts;
    }
    return sum;
}
