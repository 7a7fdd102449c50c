/* The verdict says what the numbers say, and gives advice only where they allow it. */
#include "metrics/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRAINERS = 2, WORKERS = 4 };
static const uint64_t second_ns = 1000000000;

/* Two looks at a reader, ten seconds apart, whose second one is to be filled in. */
struct looks {
    struct metrics_snapshot *before, *after;
};

static struct metrics_snapshot *make(uint64_t now_ms)
{
    struct metrics_snapshot *snapshot =
        calloc(1, sizeof *snapshot + TRAINERS * sizeof snapshot->trainers[0]);
    assert_non_null(snapshot);
    snapshot->now_ms = now_ms;
    snapshot->state = METRICS_SERVING;
    snapshot->reader_count = 1;
    snapshot->trainer_count = TRAINERS;
    snapshot->values.workers = WORKERS;
    for (uint32_t t = 0; t < TRAINERS; t++)
        snapshot->trainers[t] = (struct metrics_trainer){.rank = 5 + t, .connected = 1};
    return snapshot;
}

static struct looks looks_new(void)
{
    return (struct looks){make(1000), make(11000)};
}

static struct metrics_verdict judge(const struct looks *looks, uint32_t cores)
{
    const struct metrics_pair pair = {looks->before, looks->after};
    return metrics_judge(&pair, 1, cores);
}

static void looks_done(struct looks *looks)
{
    free(looks->before);
    free(looks->after);
}

static void no_wait_is_said_so(void **state)
{
    (void)state;
    struct looks looks = looks_new();
    looks.after->values.blocked_trainers_ns = 9 * second_ns;
    looks.after->trainers[1].values.wait = second_ns / 20; /* half a percent */
    struct metrics_verdict verdict = judge(&looks, 8);
    assert_string_equal(verdict.text, "training does not wait for data");
    assert_int_equal(verdict.cause, CAUSE_COUNT);
    looks_done(&looks);
}

/* 3 of 10 seconds: work of 4 threads in 7 s takes 5.7 in all, so 2 more. */
static void decoding_asks_for_threads_if_workers_are_busy(void **state)
{
    (void)state;
    struct looks looks = looks_new();
    looks.after->trainers[1].values.wait = 3 * second_ns;
    looks.after->values.blocked_decode_ns = 3 * second_ns;
    looks.after->values.blocked_storage_ns = 2 * second_ns;
    looks.after->values.decode_ns = 38 * second_ns;
    struct metrics_verdict verdict = judge(&looks, 16);
    assert_string_equal(verdict.text, "training waits 30% of the time: decode; 2 more threads a "
                                      "reader would do (readers.threads)");
    assert_int_equal(verdict.more_threads, 2);
    assert_int_equal(verdict.rank, 6);
    verdict = judge(&looks, WORKERS + TRAINERS + 1); /* one core is free */
    assert_int_equal(verdict.more_threads, 0);
    assert_non_null(strstr(verdict.text, "its node has no cores"));
    looks.after->values.decode_ns = 20 * second_ns; /* half of the time they are idle */
    verdict = judge(&looks, 16);
    assert_string_equal(verdict.text, "training waits 30% of the time: decode");
    looks_done(&looks);
}

static void a_slow_store_is_named_with_its_rate(void **state)
{
    (void)state;
    struct looks looks = looks_new();
    looks.after->trainers[0].values.wait = 5 * second_ns;
    looks.after->values.blocked_storage_ns = 5 * second_ns;
    looks.after->values.stored_bytes = UINT64_C(10) << 20;
    looks.after->values.store_retries = 3;
    struct metrics_verdict verdict = judge(&looks, 16);
    assert_string_equal(verdict.text, "training waits 50% of the time: storage; the store gives "
                                      "1.00 MiB/s, and 3 requests were tried again");
    looks_done(&looks);
}

/* The wait is counted when its batch comes: until then the flag says so. */
static void a_wait_that_lasts_counts(void **state)
{
    (void)state;
    struct looks looks = looks_new();
    looks.after->trainers[0].values.waiting = 1;
    looks.after->values.blocked_trainers_ns = 10 * second_ns;
    looks.after->trainers[1].values.held = 2;
    struct metrics_verdict verdict = judge(&looks, 16);
    assert_string_equal(verdict.text, "training waits 100% of the time: trainers; trainer 6 keeps "
                                      "the others waiting");
    looks.after->trainers[0].values.batches = 1; /* it waits now, and has not all the time */
    looks.after->trainers[0].values.wait = second_ns;
    assert_int_equal(judge(&looks, 16).wait_share * 100, 10);
    looks_done(&looks);
}

/* Reader 1 waits for reader 0's rows, which the network has nothing to do with. */
static void the_network_is_what_even_the_least_concerned_reader_waits_for(void **state)
{
    (void)state;
    struct looks looks[2] = {looks_new(), looks_new()};
    looks[0].after->trainers[0].values.wait = 5 * second_ns;
    looks[0].after->values.blocked_storage_ns = 4 * second_ns;
    looks[1].after->values.blocked_network_ns = 5 * second_ns;
    const struct metrics_pair pairs[] = {{looks[0].before, looks[0].after},
                                         {looks[1].before, looks[1].after}};
    assert_int_equal(metrics_judge(pairs, 2, 16).cause, CAUSE_STORAGE);
    looks[0].after->values.blocked_network_ns = 5 * second_ns;
    assert_int_equal(metrics_judge(pairs, 2, 16).cause, CAUSE_NETWORK);
    looks_done(&looks[0]);
    looks_done(&looks[1]);
}

static void nothing_is_made_up_without_numbers(void **state)
{
    (void)state;
    struct looks looks = looks_new();
    const struct metrics_pair same = {looks.after, looks.after};
    looks.after->trainers[0].values.waiting = 1;
    struct metrics_verdict verdict = metrics_judge(&same, 1, 16);
    assert_int_equal(verdict.cause, CAUSE_COUNT);
    assert_non_null(strstr(verdict.text, "held up"));
    looks.after->state = METRICS_GATHERING;
    assert_string_equal(metrics_judge(&same, 1, 16).text, "trainers are waited for");
    looks_done(&looks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wait_is_said_so),
        cmocka_unit_test(decoding_asks_for_threads_if_workers_are_busy),
        cmocka_unit_test(a_slow_store_is_named_with_its_rate),
        cmocka_unit_test(a_wait_that_lasts_counts),
        cmocka_unit_test(the_network_is_what_even_the_least_concerned_reader_waits_for),
        cmocka_unit_test(nothing_is_made_up_without_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
