/* anchors_build(): options that are checked, the smaller encoding, ranks, rows and hash. */
#include "anchors/anchors_internal.h"
#include "anchors/bits.h"

#include "base/size.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const uint64_t MAX_FRAMES = UINT64_C(1) << 48;

/* The store that `frame` lies in; not before `store`. */
static size_t store_of(const struct anchors_options *o, uint64_t frame, size_t store)
{
    while (store + 1 < o->store_count && o->store_frames[store + 1] <= frame)
        store++;
    return store;
}

static enum status check_episodes(const struct anchors_options *o, struct error *err)
{
    uint64_t frames = o->store_frames[o->store_count], first = 0;
    size_t store = 0;
    for (size_t i = 0; i < o->episode_count; first = o->episode_ends[i++]) {
        uint64_t end = o->episode_ends[i];
        store = store_of(o, first, store);
        if (end < first)
            return error_set(err, STATUS_INVALID,
                             "the ends of episodes fall: episode %zu ends at frame %" PRIu64
                             ", and episode %zu at frame %" PRIu64
                             "; each value has to be the number of frames up to its episode's end",
                             i - 1, first, i, end);
        if (end > frames)
            return error_set(err, STATUS_INVALID,
                             "episode %zu ends at frame %" PRIu64 ", but there are %" PRIu64
                             " frames; the ends belong to other arrays, or count something else",
                             i, end, frames);
        if (!o->continuous && end > first && end > o->store_frames[store + 1])
            return error_set(err, STATUS_INVALID,
                             "episode %zu, frames %" PRIu64 " to %" PRIu64
                             ", crosses the end of store %zu at frame %" PRIu64
                             "; samples.continuous: true allows this",
                             i, first, end, store, o->store_frames[store + 1]);
    }
    if (o->episode_ends && first != frames)
        return error_set(err, STATUS_INVALID,
                         "the last of %zu episodes ends at frame %" PRIu64
                         ", but there are %" PRIu64
                         " frames: the last ones belong to no episode; the last end has to be the "
                         "number of frames",
                         o->episode_count, first, frames);
    return STATUS_OK;
}

static enum status check_steps(const struct anchors_options *o, struct error *err)
{
    size_t count = o->step_count > 0 ? o->step_count : 1;
    for (size_t i = 0; i < o->step_count; i++)
        if (o->steps[i] < -ANCHORS_MOST_STEP || o->steps[i] > ANCHORS_MOST_STEP)
            return error_set(err, STATUS_INVALID,
                             "step %" PRId32 " is out of range: steps are frames from the sample's "
                             "own, %d to %d",
                             o->steps[i], -ANCHORS_MOST_STEP, ANCHORS_MOST_STEP);
        else if (i > 0 && o->steps[i] <= o->steps[i - 1])
            return error_set(err, STATUS_INVALID,
                             "the steps do not rise: %" PRId32 " comes after %" PRId32, o->steps[i],
                             o->steps[i - 1]);
    if (o->pad_before >= count || o->pad_after >= count - o->pad_before)
        return error_set(err, STATUS_INVALID,
                         "samples.pad lets %" PRIu64 " steps before and %" PRIu64
                         " after an episode be missing, but a sample has %zu step%s: one of them "
                         "has to be real; the two pads together have to be less than %zu",
                         o->pad_before, o->pad_after, count, count_plural(count), count);
    return STATUS_OK;
}

static enum status check(const struct anchors_options *o, struct error *err)
{
    if (o->stride == 0)
        return error_set(err, STATUS_INVALID,
                         "samples.stride is 0: samples have to be at least 1 frame apart");
    if (o->row_length == 0 || o->row_length > UINT32_MAX)
        return error_set(err, STATUS_INVALID,
                         "a row of %" PRIu64 " frames: rows have 1 to 2^32 - 1 frames",
                         o->row_length);
    for (size_t i = 0; i < o->store_count; i++)
        if (o->store_frames[i + 1] < o->store_frames[i])
            return error_set(err, STATUS_INVALID, "store %zu has a negative number of frames", i);
    if (o->store_frames[o->store_count] > MAX_FRAMES)
        return error_set(err, STATUS_INVALID, "%" PRIu64 " frames are too many: at most 2^48",
                         o->store_frames[o->store_count]);
    enum status status = check_steps(o, err);
    return status != STATUS_OK ? status : check_episodes(o, err);
}

/* What to do where no sample is left: about the reason that excludes most frames. */
static const char *advice(const struct anchors_options *o, const struct anchors_counts *c)
{
    if (c->frames == 0)
        return "the arrays are empty";
    if (c->at_ends >= c->blocked && c->at_ends >= c->unwanted)
        return "episodes are too short for the steps: take fewer steps, or larger samples.pad";
    if (c->blocked >= c->unwanted)
        return "look at samples.missing and samples.split";
    return o->weights ? "look at samples.weight and samples.where" : "look at samples.where";
}

static enum status nothing_left(const struct anchors_options *o, const struct anchors_counts *c,
                                struct error *err)
{
    return error_set(
        err, STATUS_INVALID,
        "no sample is left of %s frame%s in %s episode%s: %s are not at the stride of "
        "%s, %s are too "
        "near an end of their episode, %s touch a frame that is missing or outside "
        "the split's part, "
        "and %s are %snot in samples.where; %s",
        count_format(c->frames).text, count_plural(c->frames), count_format(c->episodes).text,
        count_plural(c->episodes), count_format(c->off_stride).text, count_format(o->stride).text,
        count_format(c->at_ends).text, count_format(c->blocked).text,
        count_format(c->unwanted).text, o->weights ? "of weight 0 or " : "", advice(o, c));
}

void run_list_add(struct run_list *list, uint64_t first, uint64_t count)
{
    if (count == 0)
        return;
    if (list->count == 0 || first != list->next) {
        if (list->runs)
            list->runs[list->count] = (struct run){first, list->samples};
        list->count++;
    }
    list->samples += count;
    list->next = first + count * list->stride;
}

/* The bitmap's anchors, as runs; stops where there are more than `most`. */
static void list_bits(const uint64_t *words, uint64_t frames, uint64_t most, struct run_list *list)
{
    for (uint64_t w = 0; w < bits_words(frames) && list->count <= most; w++)
        if (words[w] == UINT64_MAX && list->stride == 1)
            run_list_add(list, w * 64, 64);
        else
            for (uint64_t left = words[w]; left; left &= left - 1)
                run_list_add(list, w * 64 + (uint64_t)__builtin_ctzll(left), 1);
}

static void end_runs(struct anchors *anchors, const struct run_list *list)
{
    anchors->runs[list->count] = (struct run){UINT64_MAX, list->samples};
}

static bool wants_runs(const struct anchors_options *o, struct anchors_header sizes, uint64_t runs)
{
    sizes.runs = 0;
    uint64_t bitmap_bytes = anchors_block_bytes(&sizes);
    sizes.runs = runs;
    return o->encoding == ANCHORS_AUTO ? anchors_block_bytes(&sizes) <= bitmap_bytes
                                       : o->encoding == ANCHORS_RUNS;
}

/* Without masks: runs from the ends alone, if they are to be runs. */
static enum status build_runs(const struct anchors_options *o, const struct episodes *episodes,
                              struct anchors_header sizes, struct anchors **ret,
                              struct anchors_counts *counts, struct error *err)
{
    struct run_list list = {.stride = o->stride};
    struct anchors_counts found = *counts;
    episodes_list_runs(episodes, &list, &found);
    if (list.count > 0 && !wants_runs(o, sizes, list.count))
        return STATUS_OK;
    *counts = found;
    if (list.count == 0)
        return STATUS_OK;
    sizes.runs = list.count;
    enum status status = anchors_new(&sizes, ret, err);
    if (status != STATUS_OK)
        return status;
    list = (struct run_list){.runs = (*ret)->runs, .stride = o->stride};
    episodes_list_runs(episodes, &list, &(struct anchors_counts){0});
    end_runs(*ret, &list);
    return STATUS_OK;
}

/* Replaces a bitmap by runs, where they are to be runs. */
static enum status bitmap_to_runs(const struct anchors_options *o, struct anchors_header sizes,
                                  struct anchors **anchors, struct error *err)
{
    struct anchors *bitmap = *anchors, *runs;
    struct run_list list = {.stride = o->stride};
    uint64_t most = o->encoding == ANCHORS_AUTO ? sizes.frames / 64 : UINT64_MAX;
    list_bits(bitmap->words, sizes.frames, most, &list);
    if (list.count > most || !wants_runs(o, sizes, list.count))
        return STATUS_OK;
    sizes.runs = list.count;
    enum status status = anchors_new(&sizes, &runs, err);
    if (status != STATUS_OK)
        return status;
    list = (struct run_list){.runs = runs->runs, .stride = o->stride};
    list_bits(bitmap->words, sizes.frames, UINT64_MAX, &list);
    end_runs(runs, &list);
    anchors_free(bitmap);
    *anchors = runs;
    return STATUS_OK;
}

static enum status build_bitmap(const struct anchors_options *o, const struct episodes *episodes,
                                const struct anchors_header *sizes, struct anchors **ret,
                                struct anchors_counts *counts, struct error *err)
{
    struct anchors *anchors;
    enum status status = anchors_new(sizes, &anchors, err);
    if (status != STATUS_OK)
        return status;
    status = episodes_mark(episodes, anchors->words, counts, err);
    if (status == STATUS_OK && counts->samples > 0)
        status = bitmap_to_runs(o, *sizes, &anchors, err);
    if (status == STATUS_OK)
        *ret = anchors;
    else
        anchors_free(anchors);
    return status;
}

static void fill_ranks(struct anchors *anchors)
{
    uint64_t rank = 0, frames = anchors->header->frames, first = 0;
    for (uint64_t b = 0; first < frames; b++, first += RANK_BLOCK) {
        anchors->ranks[b] = rank;
        rank += bits_count(anchors->words, first, min_u64(first + RANK_BLOCK, frames));
        anchors->ranks[b + 1] = rank;
    }
}

static void fill_tables(struct anchors *anchors, const struct anchors_options *o,
                        const struct episodes *episodes)
{
    size_t stores = o->store_count;
    uint64_t last = 0, end;
    memcpy(anchors->store_frames, o->store_frames, (stores + 1) * sizeof *o->store_frames);
    for (size_t i = 0; i < stores; i++)
        anchors->store_rows[i + 1] =
            anchors->store_rows[i] +
            size_divide_up(o->store_frames[i + 1] - o->store_frames[i], o->row_length);
    memcpy(anchors->episode_ends, episodes->ends, episodes->count * sizeof *episodes->ends);
    if (anchors->words)
        fill_ranks(anchors);
    for (uint64_t row = 0; row < anchors->header->rows; row++) {
        anchors_row_frames(anchors, row, &end);
        uint64_t rank = anchors_rank(anchors, end);

        anchors->row_samples[row] = (uint32_t)(rank - last);
        last = rank;
    }
}

/* The anchors of `count` words from word `from` on, as bits; `run` is the first run that reaches
 * there. Returns the first run that reaches the words behind. */
static uint64_t runs_to_bits(const struct anchors *anchors, uint64_t run, uint64_t from,
                             uint64_t count, uint64_t *words)
{
    uint64_t stride = anchors->header->stride, low = from * 64, high = (from + count) * 64;
    memset(words, 0, count * sizeof *words);
    for (; run < anchors->header->runs && anchors->runs[run].first < high; run++) {
        const struct run *at = &anchors->runs[run];
        uint64_t last = at->first + (at[1].rank - at->rank - 1) * stride, t = at->first;
        if (t < low)
            t += size_round_up(low - t, stride);
        if (stride == 1)
            bits_set(words, t - low, min_u64(last + 1, high) - low);
        else
            for (; t <= last && t < high; t += stride)
                words[(t - low) / 64] |= UINT64_C(1) << (t - low) % 64;
        if (last >= high)
            break;
    }
    return run;
}

/* The bitmap is what both encodings have in common. */
static enum status fill_hash(struct anchors *anchors, struct error *err)
{
    enum { WORDS = 1024 };
    uint64_t words[WORDS], count = bits_words(anchors->header->frames);
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a hash");
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, anchors->store_frames,
                       (anchors->header->stores + 1) * sizeof(uint64_t));
    XXH3_64bits_update(state, anchors->episode_ends, anchors->header->episodes * sizeof(uint64_t));
    for (uint64_t from = 0, run = 0; from < count; from += WORDS) {
        uint64_t part = min_u64(WORDS, count - from);
        const uint64_t *source = anchors->words ? anchors->words + from : words;
        if (anchors->runs)
            run = runs_to_bits(anchors, run, from, part, words);
        XXH3_64bits_update(state, source, part * sizeof *words);
    }
    if (anchors->weight_sums) {
        XXH3_64bits_update(state, &anchors->header->weights, sizeof(uint64_t));
        XXH3_64bits_update(state, anchors->weight_sums,
                           (anchors->header->samples + 1) * sizeof(uint64_t));
    }
    anchors->header->hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return STATUS_OK;
}

static uint64_t count_rows(const struct anchors_options *o)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < o->store_count; i++)
        rows += size_divide_up(o->store_frames[i + 1] - o->store_frames[i], o->row_length);
    return rows;
}

/* Without ends: each store is an episode, or all of them are one. */
static struct episodes list_episodes(const struct anchors_options *o)
{
    if (o->episode_ends)
        return (struct episodes){o, o->episode_ends, o->episode_count};
    if (o->continuous)
        return (struct episodes){o, o->store_frames + o->store_count, 1};
    return (struct episodes){o, o->store_frames + 1, o->store_count};
}

enum status anchors_build(const struct anchors_options *options, struct anchors **ret,
                          struct anchors_counts *ret_counts, struct error *err)
{
    enum status status = check(options, err);
    if (status != STATUS_OK)
        return status;

    struct episodes episodes = list_episodes(options);
    struct anchors_header sizes = {.frames = options->store_frames[options->store_count],
                                   .stores = options->store_count,
                                   .episodes = episodes.count,
                                   .rows = count_rows(options),
                                   .row_length = options->row_length,
                                   .stride = options->stride};
    struct anchors_counts counts = {.frames = sizes.frames, .episodes = episodes.count};
    struct anchors *anchors = NULL;

    if (!options->blocked && !options->wanted)
        status = build_runs(options, &episodes, sizes, &anchors, &counts, err);
    bool decided = anchors || counts.off_stride + counts.at_ends > 0;
    if (status == STATUS_OK && !decided && sizes.frames > 0)
        status = build_bitmap(options, &episodes, &sizes, &anchors, &counts, err);
    if (status == STATUS_OK) {
        *ret_counts = counts;
        if (counts.samples == 0)
            status = nothing_left(options, &counts, err);
    }
    if (status == STATUS_OK) {
        assert(anchors);
        anchors->header->samples = counts.samples;
        fill_tables(anchors, options, &episodes);
        if (options->weights)
            status = anchors_weigh(&anchors, options->weights, options->draws, err);
    }
    if (status == STATUS_OK)
        status = fill_hash(anchors, err);
    if (status != STATUS_OK)
        anchors_free(anchors);
    else
        *ret = anchors;
    return status;
}
