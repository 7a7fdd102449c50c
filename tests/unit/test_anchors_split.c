/* Splits: each frame is in one part, groups stay whole, and where they are when the dataset grows.
 */
#include "anchors/split.h"

#include "anchors/anchors.h"
#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_FRAMES = 2000, WORDS = MOST_FRAMES / 64 + 1, CONFIGURATIONS = 2000 };

static const struct split_part thirds[] = {{"train", 0.8}, {"val", 0.1}, {"test", 0.1}};

struct made {
    uint64_t store_frames[4], ends[MOST_FRAMES];
    int64_t values[MOST_FRAMES];
    struct split_groups groups;
    uint64_t frames, seed, draws;
};

static uint64_t draw(struct made *made, uint64_t below)
{
    return random_below(random_u64(made->seed, 7, made->draws++), below);
}

/* Episodes, values that come back, or frames; three stores, of which one may be empty. */
static void make(struct made *made, uint64_t seed)
{
    size_t store = 0;
    memset(made, 0, sizeof *made);
    made->seed = seed;
    for (size_t s = 0; s < 3; s++)
        made->store_frames[s + 1] = made->store_frames[s] + draw(made, MOST_FRAMES / 3);
    made->frames = made->store_frames[3];
    made->groups = (struct split_groups){.store_frames = made->store_frames, .store_count = 3};
    uint64_t kind = draw(made, 3), values = 3 + draw(made, 40);
    if (kind == 0)
        return;
    made->groups.ends = made->ends;
    made->groups.values = kind == 2 ? made->values : NULL;
    for (uint64_t frame = 0; frame < made->frames;) {
        while (made->store_frames[store + 1] <= frame)
            store++;
        uint64_t end = frame + 1 + draw(made, 60);
        frame = end < made->store_frames[store + 1] ? end : made->store_frames[store + 1];
        made->values[made->groups.run_count] = (int64_t)draw(made, values) - 5;
        made->ends[made->groups.run_count++] = frame;
    }
}

static bool bit(const uint64_t *words, uint64_t i)
{
    return words[i / 64] >> i % 64 & 1;
}

static enum status parts_of(const struct made *made, const struct split_part *parts, size_t count,
                            uint64_t blocked[][WORDS], struct error *err)
{
    for (size_t p = 0; p < count; p++) {
        const struct split_options options = {parts, count, parts[p].name, made->seed};
        struct split split;
        enum status status = split_init(&options, &made->groups, &split, err);
        if (status != STATUS_OK)
            return status;
        memset(blocked[p], 0, sizeof blocked[p]);
        split_block(&split, &made->groups, blocked[p]);
    }
    return STATUS_OK;
}

/* The part of a frame, which is in one and no other. */
static size_t part_at(uint64_t blocked[][WORDS], size_t count, uint64_t frame)
{
    size_t part = count;
    for (size_t p = 0; p < count; p++)
        if (!bit(blocked[p], frame)) {
            assert_int_equal(part, count);
            part = p;
        }
    return part;
}

static uint64_t run_of(const struct made *made, uint64_t frame)
{
    uint64_t run = 0;
    while (made->groups.ends && made->ends[run] <= frame)
        run++;
    return made->groups.ends ? run : frame;
}

static void check_whole(const struct made *made, uint64_t blocked[][WORDS])
{
    size_t part_of_value[64], frames_in[3] = {0};
    memset(part_of_value, 0xff, sizeof part_of_value);
    for (uint64_t frame = 0; frame < made->frames; frame++) {
        size_t part = part_at(blocked, 3, frame);
        uint64_t run = run_of(made, frame);
        assert_true(part < 3);
        frames_in[part]++;
        if (frame > 0 && run_of(made, frame - 1) == run)
            assert_int_equal(part, part_at(blocked, 3, frame - 1));
        if (!made->groups.values)
            continue;
        size_t *seen = &part_of_value[made->values[run] + 5];
        assert_true(*seen == SIZE_MAX || *seen == part);
        *seen = part;
    }
    for (size_t p = 0; p < 3; p++)
        assert_true(frames_in[p] > 0);
}

static void each_frame_is_in_one_part(void **state)
{
    static uint64_t blocked[3][WORDS];
    uint64_t split = 0;
    struct error err = {0};
    struct made made;
    (void)state;
    for (uint64_t seed = 0; seed < CONFIGURATIONS; seed++) {
        make(&made, seed);
        if (parts_of(&made, thirds, 3, blocked, &err) == STATUS_OK) {
            check_whole(&made, blocked);
            split++;
        } else {
            assert_non_null(strstr(err.message, "need at least as many groups"));
        }
    }
    assert_true(split > CONFIGURATIONS * 9 / 10);
}

/* A dataset of `frames` frames, one store, episodes of 7 frames or single frames. */
static void make_one(struct made *made, uint64_t frames, bool episodes)
{
    memset(made, 0, sizeof *made);
    made->seed = 3;
    made->frames = made->store_frames[1] = frames;
    made->groups = (struct split_groups){.store_frames = made->store_frames, .store_count = 1};
    if (!episodes)
        return;
    made->groups.ends = made->ends;
    for (uint64_t end = 7; end <= frames; end += 7)
        made->ends[made->groups.run_count++] = end;
}

/* More episodes at the end, and another store. */
static void growth_moves_no_group(void **state)
{
    static uint64_t before[3][WORDS], after[3][WORDS];
    struct made small, large;
    (void)state;
    for (int episodes = 0; episodes < 2; episodes++)
        for (uint64_t more = 7; more < 700; more += 7) {
            make_one(&small, 700, episodes);
            make_one(&large, 700 + more, episodes);
            large.store_frames[1] -= more / 14 * 7;
            large.store_frames[2] = large.frames;
            large.groups.store_count = 2;
            assert_int_equal(parts_of(&small, thirds, 3, before, NULL), STATUS_OK);
            assert_int_equal(parts_of(&large, thirds, 3, after, NULL), STATUS_OK);
            for (uint64_t frame = 0; frame < 700; frame++)
                assert_int_equal(part_at(before, 3, frame), part_at(after, 3, frame));
        }
}

static void parts_have_their_fractions(void **state)
{
    static uint64_t blocked[3][WORDS];
    uint64_t frames_in[3] = {0};
    struct made made;
    (void)state;
    make_one(&made, MOST_FRAMES, false);
    assert_int_equal(parts_of(&made, thirds, 3, blocked, NULL), STATUS_OK);
    for (uint64_t frame = 0; frame < made.frames; frame++)
        frames_in[part_at(blocked, 3, frame)]++;
    for (size_t p = 0; p < 3; p++)
        assert_in_range(frames_in[p], thirds[p].fraction * MOST_FRAMES - 60,
                        thirds[p].fraction * MOST_FRAMES + 60);
}

/* Parts of nearly nothing get a group each, whatever the number of groups; what is over is free. */
static void small_parts_get_a_group(void **state)
{
    static const struct split_part parts[] = {{"a", 1e-30}, {"b", 0.5}, {"c", 1e-9}, {"d", 0.4}};
    static uint64_t blocked[4][WORDS];
    struct made made;
    (void)state;
    for (uint64_t frames = 4; frames < 200; frames++) {
        uint64_t frames_in[5] = {0};
        make_one(&made, frames, false);
        made.seed = frames;
        assert_int_equal(parts_of(&made, parts, 4, blocked, NULL), STATUS_OK);
        for (uint64_t frame = 0; frame < frames; frame++)
            frames_in[part_at(blocked, 4, frame)]++;
        for (size_t p = 0; p < 4; p++)
            assert_true(frames_in[p] > 0);
        assert_int_equal(frames_in[0], 1);
        assert_int_equal(frames_in[2], 1);
    }
}

/* Windows of a part touch no frame of another: blocked frames are the split's part of a sample's
 * existence. */
static void windows_stay_in_their_part(void **state)
{
    static uint64_t blocked[3][WORDS];
    const int32_t steps[] = {-2, -1, 0, 1, 4};
    struct made made;
    (void)state;
    make_one(&made, MOST_FRAMES / 7 * 7, true);
    assert_int_equal(parts_of(&made, thirds, 3, blocked, NULL), STATUS_OK);
    for (size_t p = 0; p < 3; p++) {
        struct anchors_options options = {.store_frames = made.store_frames,
                                          .store_count = 1,
                                          .row_length = 10,
                                          .steps = steps,
                                          .step_count = 5,
                                          .stride = 1,
                                          .blocked = blocked[p]};
        struct anchors_counts counts;
        struct anchors *anchors;
        uint64_t row, found = 0;
        if (anchors_build(&options, &anchors, &counts, NULL) != STATUS_OK)
            continue; /* no two neighbours are in a small part */
        for (uint64_t frame = 0; frame < made.frames; frame++)
            if (anchors_offset_of(anchors, frame, &row) != UINT64_MAX) {
                found++;
                for (size_t i = 0; i < 5; i++)
                    assert_int_equal(part_at(blocked, 3, frame + (uint64_t)(int64_t)steps[i]), p);
            }
        assert_int_equal(found, counts.samples);
        anchors_free(anchors);
    }
}

static void range_leaves_a_gap(void **state)
{
    uint64_t blocked[2] = {0}, first[2] = {0};
    struct error err = {0};
    (void)state;
    assert_int_equal(split_block_range(60, UINT64_MAX, 10, 100, blocked, NULL), STATUS_OK);
    for (uint64_t frame = 0; frame < 100; frame++)
        assert_int_equal(bit(blocked, frame), frame < 70);
    assert_int_equal(split_block_range(0, 60, 10, 100, first, NULL), STATUS_OK);
    for (uint64_t frame = 0; frame < 100; frame++)
        assert_int_equal(bit(first, frame), frame >= 60);
    assert_int_equal(split_block_range(60, 70, 10, 100, first, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "60:70 with a gap of 10 frames has no frame"));
    assert_int_equal(split_block_range(0, 101, 0, 100, first, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "ends at frame 101, but there are 100 frames"));
}

static void refuses(const struct split_part *parts, size_t count, const char *part,
                    const char *message)
{
    const struct split_options options = {parts, count, part, 0};
    struct split split;
    struct error err = {0};
    struct made made;
    make_one(&made, 3, false);
    assert_int_equal(split_init(&options, &made.groups, &split, &err), STATUS_INVALID);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not in: %s", message, err.message);
}

static void refuses_bad_parts(void **state)
{
    const struct split_part parts[] = {{"a", 0.5}, {"b", 0.5}, {"c", 0.1}},
                            negative[] = {{"a", 1.5}, {"b", -0.5}},
                            twice[] = {{"a", 0.5}, {"a", 0.5}},
                            many[] = {{"a", 0.2}, {"b", 0.2}, {"c", 0.2}, {"d", 0.2}};
    (void)state;
    refuses(parts, 3, "a", "the parts sum up to 1.1");
    refuses(negative, 2, "a", "part 'b' is -0.5 of the groups");
    refuses(twice, 2, "a", "two parts 'a'");
    refuses(parts, 2, "c", "there is no part 'c'");
    refuses(parts, 0, "a", "has 0 parts");
    refuses(many, 4, "a", "4 parts need at least as many groups, but there are 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_frame_is_in_one_part),  cmocka_unit_test(growth_moves_no_group),
        cmocka_unit_test(parts_have_their_fractions), cmocka_unit_test(small_parts_get_a_group),
        cmocka_unit_test(windows_stay_in_their_part), cmocka_unit_test(range_leaves_a_gap),
        cmocka_unit_test(refuses_bad_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
