/* See mix_pieces.h: the pieces of a run. */
#include "plan/order/mix_pieces_internal.h"

#include "base/number.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- the table ---- */

uint64_t mix_pieces_bytes(const struct mix_pieces *pieces)
{
    return sizeof *pieces + pieces->count * (2 + stride_of(pieces)) * sizeof pieces->words[0];
}

static uint64_t *own_table(struct mix_pieces *pieces, uint32_t piece, int table)
{
    return pieces->words + words_before(pieces, piece, table);
}

const uint64_t *mix_piece_sums(const struct mix_pieces *pieces, uint32_t piece)
{
    return table_of(pieces, piece, SUMS);
}

uint64_t mix_piece_step(const struct mix_pieces *pieces, uint32_t piece)
{
    return pieces->words[pieces->count + piece];
}

enum status mix_pieces_copy(const struct mix_pieces *pieces, struct mix_pieces **ret_pieces,
                            struct error *err)
{
    struct mix_pieces *copy = malloc(mix_pieces_bytes(pieces));
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the plan of a mix");
    memcpy(copy, pieces, mix_pieces_bytes(pieces));
    *ret_pieces = copy;
    return STATUS_OK;
}

/* ---- weights ---- */

static const uint64_t MOST_WEIGHT = UINT64_C(1) << 32;
static const uint64_t MOST_STEP = UINT64_C(1) << 48;
static const uint64_t MOST_SUM = UINT64_C(1) << 61; /* of the weights of a piece */

static enum status check_weights(const uint64_t *weights, uint32_t count, uint64_t *ret_sum,
                                 struct error *err)
{
    uint64_t sum = 0;
    for (uint32_t d = 0; d < count; d++) {
        if (weights[d] > MOST_WEIGHT)
            return error_set(err, STATUS_INVALID,
                             "source %u of the mix has weight %llu: 0 to 2^32 is possible", d,
                             (unsigned long long)weights[d]);
        sum += weights[d];
    }
    if (sum == 0)
        return error_set(err, STATUS_INVALID, "all sources of the mix have weight 0");
    *ret_sum = sum;
    return STATUS_OK;
}

/* Weights from a step on; those of the first entry are the options'. */
static struct plan_mix_entry entry_at(const struct plan_mix_options *o, uint32_t entry)
{
    return entry > 0 ? o->entries[entry - 1] : (struct plan_mix_entry){.weights = o->weights};
}

/* The pieces up to an entry. */
static uint32_t pieces_before(const struct plan_mix_options *o, uint32_t entry)
{
    const struct plan_mix_entry to = entry_at(o, entry);
    return to.ramp ? (uint32_t)min_u64(to.step - entry_at(o, entry - 1).step, MIX_MOST_STAIRS) : 1;
}

/* The sums of both are made the same. Of a ramp of n stairs the weights of all are 2 n times that.
 */
static enum status make_alike(const struct plan_mix_options *o, uint32_t entry,
                              const uint64_t *sums, uint64_t *ret_factors, struct error *err)
{
    uint64_t divisor = greatest_common_divisor(sums[0], sums[1]);
    unsigned __int128 sum = (unsigned __int128)sums[0] / divisor * sums[1];
    if (sum * 2 * pieces_before(o, entry) > MOST_SUM)
        return error_set(err, STATUS_INVALID,
                         "mix.schedule: between the weights before step %llu and those from it on "
                         "there is no ramp: their sums, %llu and %llu in whole numbers, have too "
                         "large a common multiple; give weights with fewer digits",
                         (unsigned long long)entry_at(o, entry).step, (unsigned long long)sums[0],
                         (unsigned long long)sums[1]);
    ret_factors[0] = sums[1] / divisor;
    ret_factors[1] = sums[0] / divisor;
    return STATUS_OK;
}

static enum status check_entries(const struct plan_mix_options *o, uint32_t *ret_count,
                                 struct error *err)
{
    uint64_t sums[2] = {0}, factors[2];
    uint32_t count = 1;
    if (o->entry_count > MIX_MAX_ENTRIES)
        return error_set(err, STATUS_INVALID, "mix.schedule has %u entries: at most %d",
                         o->entry_count, MIX_MAX_ENTRIES);
    enum status status = check_weights(o->weights, o->source_count, &sums[0], err);
    for (uint32_t i = 1; i <= o->entry_count && status == STATUS_OK; i++) {
        const struct plan_mix_entry entry = entry_at(o, i);
        if (entry.step <= entry_at(o, i - 1).step || entry.step > MOST_STEP)
            return error_set(err, STATUS_INVALID,
                             "mix.schedule: step %llu is behind step %llu: steps rise, to at most "
                             "2^48",
                             (unsigned long long)entry.step,
                             (unsigned long long)entry_at(o, i - 1).step);
        status = check_weights(entry.weights, o->source_count, &sums[1], err);
        if (status == STATUS_OK && entry.ramp)
            status = make_alike(o, i, sums, factors, err);
        count += pieces_before(o, i);
        sums[0] = sums[1];
    }
    if (status == STATUS_OK)
        *ret_count = count;
    return status;
}

static uint64_t sum_of(const uint64_t *weights, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t d = 0; d < count; d++)
        sum += weights[d];
    return sum;
}

/* Adds the pieces up to an entry, the ones before which are `first`. */
static void add_pieces(struct mix_pieces *pieces, const struct plan_mix_options *o, uint32_t entry,
                       uint32_t first)
{
    const struct plan_mix_entry from = entry_at(o, entry - 1), to = entry_at(o, entry);
    uint32_t stairs = pieces_before(o, entry);
    uint64_t factors[2] = {1, 0};
    const uint64_t sums[2] = {sum_of(from.weights, o->source_count),
                              sum_of(to.weights, o->source_count)};
    if (to.ramp && make_alike(o, entry, sums, factors, NULL) != STATUS_OK)
        assert(false); /* check_entries() */
    for (uint32_t j = 0; j < stairs; j++) {
        uint64_t *weights = own_table(pieces, first + j, SUMS);
        uint64_t rising = 2 * (uint64_t)j + 1, falling = 2 * (uint64_t)stairs - rising;
        pieces->words[pieces->count + first + j] = from.step + (to.step - from.step) * j / stairs;
        for (uint32_t d = 0; d < o->source_count; d++)
            weights[d + 1] = weights[d] + (to.ramp ? from.weights[d] * factors[0] * falling +
                                                         to.weights[d] * factors[1] * rising
                                                   : from.weights[d]);
    }
}

static void raise_most(struct mix_most *most, uint64_t part, uint64_t all)
{
    if (most->all == 0 || (unsigned __int128)part * most->all > (unsigned __int128)most->part * all)
        *most = (struct mix_most){part, all};
}

static void note_list(struct mix_pieces *pieces, const uint64_t *sums, uint32_t low, uint32_t high)
{
    uint32_t middle = low + (high - low) / 2;
    if (high - low == 1 || sums[high] == sums[low])
        return;
    raise_most(&pieces->lefts[middle], sums[middle] - sums[low], sums[high] - sums[low]);
    raise_most(&pieces->rights[middle], sums[high] - sums[middle], sums[high] - sums[low]);
    note_list(pieces, sums, low, middle);
    note_list(pieces, sums, middle, high);
}

static void note_most(struct mix_pieces *pieces)
{
    for (uint32_t k = 0; k < pieces->count; k++) {
        const uint64_t *sums = table_of(pieces, k, SUMS);
        note_list(pieces, sums, 0, pieces->source_count);
        for (uint32_t d = 0; d < pieces->source_count; d++)
            raise_most(&pieces->sources[d], sums[d + 1] - sums[d], sums[pieces->source_count]);
    }
}

enum status mix_pieces_new(const struct plan_mix_options *options, struct mix_pieces **ret_pieces,
                           struct error *err)
{
    const struct plan_mix_options *o = options;
    uint32_t count = 0;
    if (o->source_count < 1 || o->source_count > MIX_MAX_SOURCES)
        return error_set(err, STATUS_INVALID, "a mix of %u sources: 1 to %d are possible",
                         o->source_count, MIX_MAX_SOURCES);
    enum status status = check_entries(o, &count, err);
    if (status != STATUS_OK)
        return status;
    const struct mix_pieces sizes = {
        .count = count, .source_count = o->source_count, .entry_count = o->entry_count};
    struct mix_pieces *pieces = calloc(1, mix_pieces_bytes(&sizes));
    if (!pieces)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the plan of a mix");
    *pieces = sizes;
    uint32_t first = 0;
    for (uint32_t i = 1; i <= o->entry_count; first += pieces_before(o, i), i++) {
        add_pieces(pieces, o, i, first);
        pieces->entries[i - 1] = o->entries[i - 1].step;
    }
    const struct plan_mix_entry last = entry_at(o, o->entry_count);
    uint64_t *sums = own_table(pieces, first, SUMS);
    pieces->words[pieces->count + first] = last.step;
    for (uint32_t d = 0; d < o->source_count; d++)
        sums[d + 1] = sums[d] + last.weights[d];
    note_most(pieces);
    *ret_pieces = pieces;
    return STATUS_OK;
}

/* ---- where pieces begin ---- */

/* Of each list, while pieces are gone through: the rest in units of 2^-64. */
struct rests {
    uint64_t of[MIX_MAX_SOURCES];
};

/* A list's rest at the end of a piece of which it has n positions. */
static void carry(const struct piece *piece, uint32_t low, uint32_t high, uint64_t n,
                  struct rests *rests)
{
    if (high - low == 1)
        return;
    struct list list = list_of(piece, low, high);
    uint64_t left = left_of(&list, n);
    if (list.all > 0) {
        unsigned __int128 rest = (unsigned __int128)n * list.left % list.all;
        rests->of[list.middle] += (uint64_t)((rest << 64) / list.all); /* less than a whole one */
    }
    carry(piece, low, list.middle, left, rests);
    carry(piece, list.middle, high, n - left, rests);
}

static void take_rests(struct mix_pieces *pieces, uint32_t number, const struct rests *rests,
                       uint32_t low, uint32_t high)
{
    if (high - low == 1)
        return;
    struct piece piece = piece_at(pieces, number);
    struct list list = list_of(&piece, low, high);
    own_table(pieces, number, CARRIED)[list.middle] =
        (uint64_t)(((unsigned __int128)rests->of[list.middle] * list.all) >> 64);
    take_rests(pieces, number, rests, low, list.middle);
    take_rests(pieces, number, rests, list.middle, high);
}

/* What there is before a piece, of which the one before has all. */
static void settle_before(struct mix_pieces *pieces, uint32_t number, struct rests *rests)
{
    struct piece piece = piece_at(pieces, number - 1);
    uint64_t draws[MIX_MAX_SOURCES] = {0}, *sums = own_table(pieces, number, BEFORE);
    uint64_t n = pieces->words[number] - piece.first;
    pieces->least = min_u64(pieces->least, n);
    mix_piece_divide(&piece, 0, pieces->source_count, n, draws);
    for (uint32_t d = 0; d < pieces->source_count; d++)
        sums[d + 1] = sums[d] + draws_before(&piece, d) + draws[d];
    carry(&piece, 0, pieces->source_count, n, rests);
}

enum status mix_pieces_settle(struct mix_pieces *pieces, uint64_t steps_per_epoch,
                              uint64_t epoch_parts, uint64_t step_parts, struct error *err)
{
    struct rests rests;
    pieces->least = UINT64_MAX;
    for (uint32_t d = 0; d < MIX_MAX_SOURCES; d++)
        rests.of[d] = MIX_FIRST_REST;
    for (uint32_t k = 0; k < pieces->count; k++) {
        uint64_t step = mix_piece_step(pieces, k);
        unsigned __int128 first = (unsigned __int128)(step / steps_per_epoch) * epoch_parts +
                                  step % steps_per_epoch * step_parts;
        if (first >= MIX_FAR)
            return error_set(err, STATUS_INVALID,
                             "mix.schedule: step %llu is farther than any run goes",
                             (unsigned long long)step);
        pieces->words[k] = (uint64_t)first;
        if (k > 0)
            settle_before(pieces, k, &rests);
        take_rests(pieces, k, &rests, 0, pieces->source_count);
    }
    return STATUS_OK;
}

uint64_t mix_pieces_hash(const struct mix_pieces *pieces)
{
    uint64_t hash = 0;
    for (uint32_t k = 1; k < pieces->count; k++) {
        uint64_t step = mix_piece_step(pieces, k);
        hash = XXH3_64bits_withSeed(&step, sizeof step, hash);
        hash = XXH3_64bits_withSeed(table_of(pieces, k, SUMS),
                                    (pieces->source_count + 1) * sizeof step, hash);
    }
    return hash;
}
