/* Which frames are anchors: episode by episode, by stride and ends, then by masks.
 *
 * The ends leave an interval of each episode. Masks work on 64 frames at a time: with S the blocked
 * frames of the episode as bits, an anchor t with the steps [a, a + n) is blocked if any bit of S
 * in [t + a, t + a + n) is set. That is S, or-ed with itself at distances that double, O(log n) for
 * a word of 64 anchors. Steps with holes are several such intervals.
 */
#include "anchors/anchors_internal.h"
#include "anchors/bits.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static const int32_t anchor_alone[] = {0};

/* The steps, at least one. */
static const int32_t *steps_of(const struct anchors_options *o, size_t *ret_count)
{
    if (o->step_count == 0) {
        *ret_count = 1;
        return anchor_alone;
    }
    *ret_count = o->step_count;
    return o->steps;
}

/* The anchors of the episode [first, end) by stride and ends: from *ret_first on, in strides. */
static uint64_t find_interval(const struct anchors_options *o, uint64_t first, uint64_t end,
                              uint64_t *ret_first)
{
    size_t count;
    const int32_t *steps = steps_of(o, &count);
    /* These steps are the first and the last that may not be missing. */
    int64_t least = steps[o->pad_before], most = steps[count - 1 - o->pad_after];
    int64_t length = (int64_t)(end - first), from = least < 0 ? -least : 0,
            to = most > 0 ? length - most : length;
    from = (int64_t)size_round_up((uint64_t)from, o->stride);
    *ret_first = first + (uint64_t)from;
    return from < to ? (uint64_t)(to - 1 - from) / o->stride + 1 : 0;
}

/* The same for episode i, with its frames and counts. */
static uint64_t next_episode(const struct episodes *episodes, size_t i, uint64_t *first,
                             uint64_t *ret_anchor, struct anchors_counts *counts)
{
    uint64_t end = episodes->ends[i], frames = end - *first, count = 0;
    uint64_t on_stride = size_divide_up(frames, episodes->options->stride);
    *ret_anchor = *first;
    if (frames > 0)
        count = find_interval(episodes->options, *first, end, ret_anchor);
    counts->off_stride += frames - on_stride;
    counts->at_ends += on_stride - count;
    counts->short_episodes += frames > 0 && count == 0;
    counts->samples += count;
    return count;
}

void episodes_list_runs(const struct episodes *episodes, struct run_list *list,
                        struct anchors_counts *counts)
{
    for (size_t i = 0, first = 0; i < episodes->count; first = episodes->ends[i++]) {
        uint64_t anchor, count = next_episode(episodes, i, &first, &anchor, counts);
        run_list_add(list, anchor, count);
    }
}

static void set_strides(uint64_t *words, uint64_t first, uint64_t count, uint64_t stride)
{
    if (stride == 1)
        bits_set(words, first, first + count);
    else
        for (uint64_t i = 0; i < count; i++)
            words[(first + i * stride) / 64] |= UINT64_C(1) << (first + i * stride) % 64;
}

/* Memory for masks: PIECE_WORDS words of anchors at a time, or more where the reach is long. */
enum { PIECE_WORDS = 512 };

struct mask_piece {
    const int32_t *steps;
    size_t step_count;
    uint64_t words, reach_words; /* anchors; and words that the steps reach besides */
    uint64_t *source, *spread, *hit;
};

static enum status piece_init(struct mask_piece *piece, const struct anchors_options *o,
                              struct error *err)
{
    *piece = (struct mask_piece){0};
    piece->steps = steps_of(o, &piece->step_count);
    int64_t reach = (int64_t)piece->steps[piece->step_count - 1] - piece->steps[0];
    piece->reach_words = (uint64_t)reach / 64 + 2;
    piece->words = max_u64(PIECE_WORDS, 4 * piece->reach_words);
    uint64_t length = piece->words + piece->reach_words;
    piece->source = calloc(2 * length + piece->words, sizeof *piece->source);
    if (!piece->source)
        return error_set(err, STATUS_NO_MEMORY, "no memory to look at blocked frames");
    piece->spread = piece->source + length;
    piece->hit = piece->spread + length;
    return STATUS_OK;
}

/* 64 bits from `bit` on; zeros behind `length` words. */
static uint64_t word_at(const uint64_t *words, uint64_t length, uint64_t bit)
{
    uint64_t w = bit / 64, shift = bit % 64;
    uint64_t low = w < length ? words[w] : 0, high = w + 1 < length ? words[w + 1] : 0;
    return shift ? low >> shift | high << (64 - shift) : low;
}

/* The blocked frames of [first, end) from frame `from` on, which may lie before all frames. */
static void load_source(struct mask_piece *piece, uint64_t words, const uint64_t *blocked,
                        int64_t from, int64_t first, int64_t end)
{
    for (uint64_t w = 0; w < words; w++, from += 64) {
        int64_t low = from > first ? from : first, high = from + 64 < end ? from + 64 : end;
        piece->source[w] = low < high ? bits_read(blocked, (uint64_t)low, (uint64_t)(high - low))
                                            << (low - from)
                                      : 0;
    }
}

/* Ors into `hit` the anchors with a blocked frame among `count` steps, of which the first is
 * `ahead` behind the least step of all. */
static void spread_steps(struct mask_piece *piece, uint64_t words, uint64_t ahead, uint64_t count)
{
    uint64_t *spread = piece->spread, length = words + count / 64 + 1;
    for (uint64_t w = 0; w < length; w++)
        spread[w] = word_at(piece->source, words + piece->reach_words, ahead + w * 64);
    for (uint64_t have = 1, more; have < count; have += more) {
        more = min_u64(have, count - have);
        for (uint64_t w = 0; w < length; w++)
            spread[w] |= word_at(spread, length, w * 64 + more);
    }
    for (uint64_t w = 0; w < words; w++)
        piece->hit[w] |= spread[w];
}

/* The anchors of `words` words from word `base` on that touch a blocked frame of [first, end). */
static void find_hits(struct mask_piece *piece, const uint64_t *blocked, uint64_t base,
                      uint64_t words, uint64_t first, uint64_t end)
{
    const int32_t *steps = piece->steps;
    load_source(piece, words + piece->reach_words, blocked, (int64_t)(base * 64) + steps[0],
                (int64_t)first, (int64_t)end);
    memset(piece->hit, 0, words * sizeof *piece->hit);
    for (size_t i = 0, next; i < piece->step_count; i = next) {
        for (next = i + 1; next < piece->step_count && steps[next] == steps[next - 1] + 1;)
            next++;
        spread_steps(piece, words, (uint64_t)(steps[i] - (int64_t)steps[0]), next - i);
    }
}

/* Takes the anchors in [from, to) out that the masks forbid, of the episode [first, end). */
static void apply_masks(struct mask_piece *piece, const struct anchors_options *o, uint64_t *words,
                        const uint64_t range[4], struct anchors_counts *counts)
{
    uint64_t from = range[0], to = range[1], last = (to - 1) / 64;
    for (uint64_t base = from / 64, count; base <= last; base += count) {
        count = min_u64(piece->words, last + 1 - base);
        if (o->blocked)
            find_hits(piece, o->blocked, base, count, range[2], range[3]);
        for (uint64_t i = 0, w = base; i < count; i++, w++) {
            uint64_t live = words[w] & bits_within(w, from, to);
            uint64_t hit = o->blocked ? live & piece->hit[i] : 0;
            uint64_t unwanted = o->wanted ? live & ~hit & ~o->wanted[w] : 0;
            counts->blocked += bits_count_word(hit);
            counts->unwanted += bits_count_word(unwanted);
            words[w] &= ~(hit | unwanted);
        }
    }
}

enum status episodes_mark(const struct episodes *episodes, uint64_t *words,
                          struct anchors_counts *counts, struct error *err)
{
    const struct anchors_options *o = episodes->options;
    struct mask_piece piece;
    enum status status = piece_init(&piece, o, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0, first = 0; i < episodes->count; first = episodes->ends[i++]) {
        uint64_t anchor, count = next_episode(episodes, i, &first, &anchor, counts);
        if (count == 0)
            continue;
        set_strides(words, anchor, count, o->stride);
        if (o->blocked || o->wanted) {
            uint64_t to = anchor + (count - 1) * o->stride + 1;
            apply_masks(&piece, o, words, (const uint64_t[]){anchor, to, first, episodes->ends[i]},
                        counts);
        }
    }
    counts->samples -= counts->blocked + counts->unwanted;
    free(piece.source);
    return STATUS_OK;
}
