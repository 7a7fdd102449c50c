/* The trace: rings that wrap around, tracing that is off, threads, and the file as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/trace.h"

#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char path[] = "trace-of-test.json";

/* The file as JSON, to be put back. */
static struct json_object *written(uint64_t since_ns)
{
    struct error err;
    assert_int_equal(trace_write(path, "test", 1000000007, since_ns, &err), STATUS_OK);
    struct json_object *trace = json_object_from_file(path);
    assert_non_null(trace);
    assert_int_equal(unlink(path), 0);
    return trace;
}

static int64_t number(struct json_object *event, const char *key)
{
    return json_object_get_int64(json_object_object_get(event, key));
}

/* The track's tid; 0: there is no such track. */
static int64_t tid_of(struct json_object *trace, const char *track)
{
    struct json_object *events = json_object_object_get(trace, "traceEvents");
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *event = json_object_array_get_idx(events, i), *arguments;
        if (json_object_object_get_ex(event, "args", &arguments) &&
            json_object_object_get_ex(arguments, "name", &arguments) &&
            strcmp(json_object_get_string(arguments), track) == 0)
            return number(event, "tid");
    }
    return 0;
}

/* The track's spans, to be put back. */
static struct json_object *spans_of(struct json_object *trace, const char *track)
{
    struct json_object *events = json_object_object_get(trace, "traceEvents");
    struct json_object *spans = json_object_new_array();
    int64_t tid = tid_of(trace, track);
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *event = json_object_array_get_idx(events, i);
        if (number(event, "tid") == tid &&
            strcmp(json_object_get_string(json_object_object_get(event, "ph")), "X") == 0)
            json_object_array_add(spans, json_object_get(event));
    }
    return spans;
}

static void test_notes_nothing_while_it_is_off(void **state)
{
    (void)state;
    struct trace_track *track = trace_claim("off");
    trace_use(track);
    trace_note(TRACE_READ, 10, 20, 1);
    trace_note_in(track, TRACE_READ, 10, 20, 1);
    struct json_object *trace = written(0), *spans = spans_of(trace, "off");
    assert_true(tid_of(trace, "off") > 0);
    assert_int_equal(json_object_array_length(spans), 0);
    json_object_put(spans);
    json_object_put(trace);
    trace_release(track);
}

/* The last spans are there, and as few of the oldest are left out as may be written. */
static void test_keeps_the_last_spans(void **state)
{
    (void)state;
    const uint64_t count = 2 * TRACE_SPANS + 100;
    struct trace_track *track = trace_claim("wraps");
    trace_use(track);
    trace_start();
    for (uint64_t i = 0; i < count; i++)
        trace_note(TRACE_COPY, 1000 * i, 1000 * i + 500, i);
    struct json_object *trace = written(0), *spans = spans_of(trace, "wraps");
    size_t kept = json_object_array_length(spans);
    assert_in_range(kept, TRACE_SPANS - 16, TRACE_SPANS - 1);
    for (size_t i = 0; i < kept; i++) {
        struct json_object *span = json_object_array_get_idx(spans, i);
        int64_t expected = (int64_t)(count - kept + i);
        assert_int_equal(number(json_object_object_get(span, "args"), "samples"), expected);
        assert_int_equal(number(span, "ts"), expected); /* in microseconds */
        assert_true(json_object_get_double(json_object_object_get(span, "dur")) == 0.5);
    }
    json_object_put(spans);
    json_object_put(trace);
    trace_release(track);
}

static void test_leaves_out_what_began_before(void **state)
{
    (void)state;
    struct trace_track *track = trace_claim("since");
    trace_use(track);
    trace_start();
    trace_note(TRACE_ROW, 5000, 30000, 3);
    trace_note(TRACE_READ, 12000, 20000, 4);
    struct json_object *trace = written(10000), *spans = spans_of(trace, "since");
    assert_int_equal(json_object_array_length(spans), 1);
    struct json_object *span = json_object_array_get_idx(spans, 0);
    assert_string_equal(json_object_get_string(json_object_object_get(span, "name")), "read");
    assert_int_equal(number(span, "ts"), 2);
    assert_int_equal(number(span, "pid"), 1000000007);
    json_object_put(spans);
    json_object_put(trace);
    trace_release(track);
}

/* A track that was given back is taken again; one that is in use is not. */
static void test_tracks_are_claimed_once(void **state)
{
    (void)state;
    struct trace_track *first = trace_claim("track"), *second = trace_claim("track");
    assert_ptr_not_equal(first, second);
    trace_release(first);
    assert_ptr_equal(trace_claim("track"), first);
    trace_release(first);
    trace_release(second);
}

static _Atomic bool ended;

static void *note_spans(void *name)
{
    struct trace_track *track = trace_claim(name);
    trace_use(track);
    while (!atomic_load(&ended)) {
        uint64_t now_ns = clock_now_ns();
        trace_note(TRACE_DECODE, now_ns, now_ns + 7, 77);
    }
    trace_use(NULL);
    trace_release(track);
    return NULL;
}

/* While threads write, a trace has no span that is half another one. */
static void test_is_written_while_threads_work(void **state)
{
    (void)state;
    pthread_t threads[2];
    char names[2][8] = {"busy-0", "busy-1"};
    atomic_store(&ended, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, note_spans, names[i]), 0);
    for (int turn = 0; turn < 10; turn++) {
        uint64_t since_ns = clock_now_ns();
        trace_start();
        clock_sleep_ns(3000000);
        struct json_object *trace = written(since_ns), *spans = spans_of(trace, "busy-0");
        for (size_t i = 0; i < json_object_array_length(spans); i++) {
            struct json_object *span = json_object_array_get_idx(spans, i);
            assert_true(json_object_get_double(json_object_object_get(span, "dur")) == 0.007);
            assert_int_equal(number(json_object_object_get(span, "args"), "bytes"), 77);
        }
        json_object_put(spans);
        json_object_put(trace);
    }
    atomic_store(&ended, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static int late_looks; /* at the time of day, after which another process has the core for 50 ms */

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret_time);
    if (clock == CLOCK_REALTIME && late_looks > 0) {
        late_looks--;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return failed;
}

static int64_t base_of(struct json_object *trace)
{
    int64_t base = json_object_get_int64(json_object_object_get(trace, "baseTimeNanoseconds"));
    json_object_put(trace);
    return base;
}

/* Others may have the core between a look at one clock and at the other. */
static void test_the_time_of_day_is_right_on_a_busy_machine(void **state)
{
    (void)state;
    late_looks = 0;
    int64_t base = base_of(written(1000));
    late_looks = 2;
    int64_t late = base_of(written(1000));
    assert_int_equal(late_looks, 0);
    assert_in_range(late - base + 10000000, 0, 20000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notes_nothing_while_it_is_off),
        cmocka_unit_test(test_keeps_the_last_spans),
        cmocka_unit_test(test_leaves_out_what_began_before),
        cmocka_unit_test(test_tracks_are_claimed_once),
        cmocka_unit_test(test_is_written_while_threads_work),
        cmocka_unit_test(test_the_time_of_day_is_right_on_a_busy_machine),
    };
    return cmocka_run_group_tests_name("base trace", tests, NULL, NULL);
}
