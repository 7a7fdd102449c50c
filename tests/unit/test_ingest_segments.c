/* Which frames a segment has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "workshop/ingest/video_segments.h"

enum { FRAMES = 4 };

static const struct segment_wish wish = {.seconds = 2, .fps = 2, .frame_count = FRAMES};

static void expect(const int64_t *times, size_t count, const struct video_segments *segments,
                   int64_t start, const int64_t *expected)
{
    int64_t chosen[FRAMES];
    video_segments_choose(times, count, segments, start, &wish, chosen);
    for (int k = 0; k < FRAMES; k++)
        assert_int_equal(chosen[k], expected[k]);
}

static void times_are_sorted_and_kept_once(void **state)
{
    (void)state;
    int64_t times[] = {30, -10, 20, 30, -10, 0};
    static const int64_t sorted[] = {-10, 0, 20, 30};
    assert_int_equal(video_segments_sort(times, 6), 4);
    assert_memory_equal(times, sorted, sizeof sorted);
    assert_int_equal(video_segments_sort(times, 0), 0);
}

static void a_frame_is_the_last_at_its_moment_or_before(void **state)
{
    (void)state;
    const struct video_segments segments = {.time_base = {1, 10},
                                            .begin = 100}; /* moments are 5 ticks apart */
    static const int64_t times[] = {100, 104, 105, 109, 116, 130};
    expect(times, 6, &segments, 0, (const int64_t[]){100, 105, 109, 109});
    expect(times, 6, &segments, 1, (const int64_t[]){100, 105, 109, 116});
    expect(times, 6, &segments, 60, (const int64_t[]){130, 130, 130, 130});
}

static void before_the_first_frame_is_the_first(void **state)
{
    (void)state;
    const struct video_segments segments = {.time_base = {1, 10}, .begin = 100};
    static const int64_t times[] = {106, 112};
    expect(times, 2, &segments, 0, (const int64_t[]){106, 106, 106, 112});
    expect(times, 1, &segments, 0, (const int64_t[]){106, 106, 106, 106});
}

/* 1001/30000 s a tick: half a second is 14.985 ticks. */
static void moments_are_rounded_to_ticks(void **state)
{
    (void)state;
    const struct video_segments segments = {.time_base = {1001, 30000}, .begin = 0};
    static const int64_t times[] = {0, 14, 15, 16, 29, 30, 31, 44, 45, 46};
    expect(times, 10, &segments, 0, (const int64_t[]){0, 15, 30, 45});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_sorted_and_kept_once),
        cmocka_unit_test(a_frame_is_the_last_at_its_moment_or_before),
        cmocka_unit_test(before_the_first_frame_is_the_first),
        cmocka_unit_test(moments_are_rounded_to_ticks),
    };
    return cmocka_run_group_tests_name("ingest: segments", tests, NULL, NULL);
}
