/* Anchors against a brute force over frames: small configurations of all kinds, in both encodings,
 * and every kind of bad input. */
#include "anchors/anchors.h"

#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONFIGURATIONS = 20000, MOST_FRAMES = 700, MOST_STORES = 4, MOST_STEPS = 12, WORDS = 12 };

struct made {
    struct anchors_options options;
    uint64_t store_frames[MOST_STORES + 1], ends[MOST_FRAMES + 50], blocked[WORDS], wanted[WORDS];
    int32_t steps[MOST_STEPS];
    uint64_t frames, seed, draws;
};

static uint64_t draw(struct made *made, uint64_t below)
{
    return random_below(random_u64(made->seed, 0, made->draws++), below);
}

static bool bit(const uint64_t *words, uint64_t i)
{
    return words[i / 64] >> i % 64 & 1;
}

static void make_stores(struct made *made)
{
    size_t stores = 1 + draw(made, MOST_STORES);
    uint64_t most = draw(made, 3) ? 40 : MOST_FRAMES / MOST_STORES;
    for (size_t s = 0; s < stores; s++)
        made->store_frames[s + 1] =
            made->store_frames[s] + (draw(made, 6) ? draw(made, most + 1) : 0);
    made->frames = made->store_frames[stores];
    made->options.store_frames = made->store_frames;
    made->options.store_count = stores;
    made->options.continuous = draw(made, 3) == 0;
    made->options.row_length = 1 + draw(made, draw(made, 2) ? 10 : 100);
}

/* Episodes of all lengths, empty ones and single frames among them; each store's end is one. */
static void make_episodes(struct made *made)
{
    uint64_t longest = (const uint64_t[]){1, 2, 10, 60, 300}[draw(made, 5)], frame = 0;
    size_t count = 0, store = 0;
    if (draw(made, 5) == 0)
        return;
    while (frame < made->frames && count < MOST_FRAMES) {
        uint64_t end = frame + draw(made, longest + 1);
        while (made->store_frames[store + 1] <= frame)
            store++;
        uint64_t most = made->options.continuous ? made->frames : made->store_frames[store + 1];
        made->ends[count++] = frame = end < most ? end : most;
    }
    if (frame < made->frames)
        return;
    if (draw(made, 4) == 0)
        made->ends[count++] = frame;
    made->options.episode_ends = made->ends;
    made->options.episode_count = count;
}

static void make_steps(struct made *made)
{
    int32_t reach = (int32_t)(const uint64_t[]){2, 12, 80}[draw(made, 3)];
    size_t count = draw(made, MOST_STEPS + 1);
    int32_t step = -(int32_t)draw(made, (uint64_t)reach);
    bool holes = draw(made, 2);
    for (size_t i = 0; i < count; i++) {
        made->steps[i] = step;
        step += 1 + (holes ? (int32_t)draw(made, (uint64_t)reach) : 0);
    }
    made->options.steps = count ? made->steps : NULL;
    made->options.step_count = count;
    count = count ? count : 1;
    if (draw(made, 2))
        made->options.pad_before = draw(made, count);
    if (draw(made, 2))
        made->options.pad_after = draw(made, count - made->options.pad_before);
    made->options.stride = draw(made, 2) ? 1 : 1 + draw(made, 9);
}

static const uint64_t *make_mask(struct made *made, uint64_t *words)
{
    uint64_t one_in = (const uint64_t[]){0, 0, 2, 10, 100}[draw(made, 5)];
    if (one_in == 0)
        return NULL;
    for (uint64_t i = 0; i < WORDS * 64; i++)
        words[i / 64] |= (uint64_t)(draw(made, one_in) == 0) << i % 64;
    return words;
}

static void make(struct made *made, uint64_t seed)
{
    memset(made, 0, sizeof *made);
    made->seed = seed;
    make_stores(made);
    make_episodes(made);
    make_steps(made);
    made->options.blocked = make_mask(made, made->blocked);
    made->options.wanted = make_mask(made, made->wanted);
    if (made->options.wanted && draw(made, 2))
        for (size_t i = 0; i < WORDS; i++)
            made->wanted[i] = ~made->wanted[i];
}

/* The episode of a frame, by looking at all of them. */
static struct anchors_episode find_episode(const struct anchors_options *o, uint64_t frame)
{
    const uint64_t *ends = o->episode_ends ? o->episode_ends : o->store_frames + 1;
    size_t count = o->episode_ends ? o->episode_count : o->store_count;
    uint64_t first = 0;
    if (!o->episode_ends && o->continuous)
        return (struct anchors_episode){0, o->store_frames[o->store_count], 0};
    for (size_t i = 0; i < count; first = ends[i++])
        if (frame < ends[i])
            return (struct anchors_episode){first, ends[i], i};
    fail();
    return (struct anchors_episode){0};
}

/* NULL: the frame is an anchor; else the member of *counts for the reason. */
static uint64_t *reason(const struct anchors_options *o, uint64_t t, struct anchors_counts *counts)
{
    struct anchors_episode episode = find_episode(o, t);
    uint64_t before = 0, after = 0;
    bool blocked = false;
    for (size_t i = 0; i < (o->step_count ? o->step_count : 1); i++) {
        int64_t frame = (int64_t)t + (o->step_count ? o->steps[i] : 0);
        if (frame < (int64_t)episode.first)
            before++;
        else if (frame >= (int64_t)episode.end)
            after++;
        else
            blocked |= o->blocked && bit(o->blocked, (uint64_t)frame);
    }
    if ((t - episode.first) % o->stride)
        return &counts->off_stride;
    if (before > o->pad_before || after > o->pad_after)
        return &counts->at_ends;
    if (blocked)
        return &counts->blocked;
    return o->wanted && !bit(o->wanted, t) ? &counts->unwanted : NULL;
}

/* All anchors, the counts, and the episodes that are too short. */
static void force(const struct made *made, bool *is_anchor, struct anchors_counts *counts)
{
    const struct anchors_options *o = &made->options;
    uint64_t at = UINT64_MAX, fitting = 0;
    *counts = (struct anchors_counts){.frames = made->frames,
                                      .episodes = o->episode_ends ? o->episode_count
                                                  : o->continuous ? 1
                                                                  : o->store_count};
    for (uint64_t t = 0; t < made->frames; t++) {
        uint64_t *why = reason(o, t, counts), number = find_episode(o, t).number;
        is_anchor[t] = !why;
        ++*(why ? why : &counts->samples);
        if (number != at) {
            counts->short_episodes += at != UINT64_MAX && fitting == 0;
            at = number;
            fitting = 0;
        }
        fitting += why != &counts->off_stride && why != &counts->at_ends;
    }
    counts->short_episodes += at != UINT64_MAX && fitting == 0;
}

/* Every row, place, frame and episode. */
static void compare(const struct made *made, const struct anchors *anchors, const bool *is_anchor,
                    const struct anchors_counts *counts)
{
    uint64_t row = 0, found_row;
    assert_int_equal(anchors_count(anchors), counts->samples);
    assert_int_equal(anchors_frames(anchors), made->frames);
    for (size_t s = 0; s < made->options.store_count; s++)
        for (uint64_t first = made->store_frames[s], end; first < made->store_frames[s + 1];
             first = end, row++) {
            uint32_t offset = 0;
            assert_int_equal(anchors_row_frames(anchors, row, &end), first);
            for (uint64_t t = first; t < end; t++) {
                uint64_t place = anchors_offset_of(anchors, t, &found_row);
                assert_int_equal(found_row, row);
                assert_int_equal(place, is_anchor[t] ? offset : UINT64_MAX);
                if (is_anchor[t])
                    assert_int_equal(anchors_frame_at(anchors, row, offset++), t);
                struct anchors_episode want = find_episode(&made->options, t),
                                       have = anchors_episode_of(anchors, t);
                assert_memory_equal(&want, &have, sizeof want);
            }
            assert_int_equal(anchors_row_samples(anchors, row), offset);
        }
    assert_int_equal(anchors_row_count(anchors), row);
}

/* Builds in each encoding, and compares these, packed and unpacked, too. */
static uint64_t check_made(struct made *made)
{
    bool is_anchor[MOST_FRAMES + 1];
    struct anchors_counts want, have;
    uint64_t hash = 0;
    force(made, is_anchor, &want);
    for (enum anchors_encoding encoding = ANCHORS_AUTO; encoding <= ANCHORS_BITMAP; encoding++) {
        struct anchors *anchors, *copy;
        struct error err = {0};
        made->options.encoding = encoding;
        memset(&have, 0, sizeof have);
        enum status status = anchors_build(&made->options, &anchors, &have, &err);
        assert_int_equal(status, want.samples ? STATUS_OK : STATUS_INVALID);
        assert_memory_equal(&have, &want, sizeof want);
        if (status != STATUS_OK) {
            assert_non_null(strstr(err.message, "no sample is left"));
            continue;
        }
        compare(made, anchors, is_anchor, &want);
        assert_true(hash == 0 || hash == anchors_hash(anchors));
        hash = anchors_hash(anchors);
        bool borrow = encoding == ANCHORS_RUNS;
        assert_int_equal(
            anchors_unpack(anchors_packed(anchors), anchors_bytes(anchors), borrow, &copy, NULL),
            STATUS_OK);
        compare(made, copy, is_anchor, &want);
        assert_int_equal(anchors_unpack(anchors_packed(anchors), anchors_bytes(anchors) - 8, borrow,
                                        &copy, NULL),
                         STATUS_CORRUPT);
        anchors_free(copy);
        anchors_free(anchors);
    }
    return want.samples;
}

/* Runs say many frames in few bytes. */
static void long_runs_are_packed(void **state)
{
    const uint64_t stores[] = {0, 2000000};
    const struct anchors_options options = {
        .store_frames = stores, .store_count = 1, .row_length = 100000, .stride = 1};
    struct anchors_counts counts;
    struct anchors *anchors, *copy;
    (void)state;
    assert_int_equal(anchors_build(&options, &anchors, &counts, NULL), STATUS_OK);
    assert_true(anchors_bytes(anchors) < 1000);
    assert_int_equal(
        anchors_unpack(anchors_packed(anchors), anchors_bytes(anchors), false, &copy, NULL),
        STATUS_OK);
    assert_int_equal(anchors_frame_at(copy, 19, 99999), 1999999);
    anchors_free(copy);
    anchors_free(anchors);
}

static void agrees_with_brute_force(void **state)
{
    uint64_t with = 0;
    struct made made;
    (void)state;
    for (uint64_t seed = 0; seed < CONFIGURATIONS; seed++) {
        make(&made, seed);
        with += check_made(&made) > 0;
    }
    printf("%" PRIu64 " of %d configurations have samples\n", with, CONFIGURATIONS);
    assert_true(with > CONFIGURATIONS / 4);
}

/* As diffusion_policy's SequenceSampler: windows of 16 from 1 before on, padded by 1 and 7. */
static void diffusion_policy(void **state)
{
    const uint64_t frames[] = {0, 30}, ends[] = {20, 30};
    int32_t steps[16];
    struct anchors *anchors;
    struct anchors_counts counts;
    (void)state;
    for (int32_t i = 0; i < 16; i++)
        steps[i] = i - 1;
    struct anchors_options options = {.store_frames = frames,
                                      .store_count = 1,
                                      .row_length = 8,
                                      .episode_ends = ends,
                                      .episode_count = 2,
                                      .steps = steps,
                                      .step_count = 16,
                                      .stride = 1,
                                      .pad_before = 1,
                                      .pad_after = 7};
    assert_int_equal(anchors_build(&options, &anchors, &counts, NULL), STATUS_OK);
    assert_int_equal(counts.samples, 13 + 3); /* t in [0, L - 8] */
    assert_int_equal(counts.at_ends, 7 + 7);
    assert_int_equal(anchors_frame_at(anchors, 2, 0), 20);
    anchors_free(anchors);
}

/* Equal sets have equal hashes; another anchor, or another episode, has not. */
static void hash_tells_anchors_apart(void **state)
{
    const uint64_t frames[] = {0, 1000}, ends[] = {500, 1000};
    uint64_t wanted[16], hashes[4];
    struct anchors *anchors;
    struct anchors_counts counts;
    struct anchors_options options = {
        .store_frames = frames, .store_count = 1, .row_length = 8, .stride = 1};
    (void)state;
    memset(wanted, 0xff, sizeof wanted);
    for (size_t i = 0; i < 4; i++) {
        options.wanted = i == 0 ? NULL : wanted;
        wanted[15] = i == 2 ? UINT64_MAX << 1 : UINT64_MAX;
        options.episode_ends = i == 3 ? ends : NULL;
        options.episode_count = i == 3 ? 2 : 0;
        options.row_length = 8 + i;
        assert_int_equal(anchors_build(&options, &anchors, &counts, NULL), STATUS_OK);
        hashes[i] = anchors_hash(anchors);
        anchors_free(anchors);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(hashes[0] != hashes[2] && hashes[0] != hashes[3] && hashes[2] != hashes[3]);
}

static void refuses(struct anchors_options options, const char *message)
{
    struct anchors *anchors;
    struct anchors_counts counts;
    struct error err = {0};
    assert_int_equal(anchors_build(&options, &anchors, &counts, &err), STATUS_INVALID);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not in: %s", message, err.message);
}

static const uint64_t two_stores[] = {0, 6, 10};
static const int32_t three_steps[] = {-1, 0, 1};
static const struct anchors_options good = {
    .store_frames = two_stores, .store_count = 2, .row_length = 4, .stride = 1};

static struct anchors_options with_ends(const uint64_t *ends, size_t count)
{
    struct anchors_options options = good;
    options.episode_ends = ends;
    options.episode_count = count;
    return options;
}

static void refuses_bad_episodes(void **state)
{
    (void)state;
    refuses(with_ends((const uint64_t[]){4, 3, 10}, 3),
            "the ends of episodes fall: episode 0 ends at frame 4, and episode 1 at frame 3");
    refuses(with_ends((const uint64_t[]){4, 6, 11}, 3),
            "episode 2 ends at frame 11, but there are 10 frames");
    refuses(with_ends((const uint64_t[]){4, 6, 9}, 3),
            "the last of 3 episodes ends at frame 9, but there are 10 frames");
    refuses(with_ends((const uint64_t[]){4, 8, 10}, 3),
            "episode 1, frames 4 to 8, crosses the end of store 0 at frame 6");
}

static void refuses_bad_steps(void **state)
{
    struct anchors_options options = good;
    (void)state;
    options.stride = 0;
    refuses(options, "samples.stride is 0");
    options = good;
    options.steps = three_steps;
    options.step_count = 3;
    options.pad_before = 3;
    refuses(options, "a sample has 3 steps");
    options.pad_before = 1;
    options.pad_after = 2;
    refuses(options, "the two pads together have to be less than 3");
    options = good;
    options.steps = (const int32_t[]){0, ANCHORS_MOST_STEP + 1};
    options.step_count = 2;
    refuses(options, "step 16777216 is out of range");
    options.steps = (const int32_t[]){1, 0};
    refuses(options, "0 comes after 1");
    options = good;
    options.row_length = 0;
    refuses(options, "a row of 0 frames");
}

/* Too short, masked, not wanted, empty: each says what excluded the frames. */
static void refuses_nothing(void **state)
{
    const uint64_t all[] = {1023}, none[] = {0}, empty[] = {0, 0};
    struct anchors_options options = good;
    (void)state;
    options.steps = (const int32_t[]){0, 9};
    options.step_count = 2;
    refuses(options, "no sample is left of 10 frames in 2 episodes: 0 are not at the stride of 1, "
                     "10 are too near an end");
    options = good;
    options.blocked = all;
    refuses(options, "10 touch a frame that is missing");
    options.blocked = NULL;
    options.wanted = none;
    refuses(options, "look at samples.where");
    options = good;
    options.store_frames = empty;
    options.store_count = 1;
    refuses(options, "the arrays are empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force), cmocka_unit_test(long_runs_are_packed),
        cmocka_unit_test(diffusion_policy),        cmocka_unit_test(hash_tells_anchors_apart),
        cmocka_unit_test(refuses_bad_episodes),    cmocka_unit_test(refuses_bad_steps),
        cmocka_unit_test(refuses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
