/* A snapshot as Prometheus' text and as JSON: the format's rules, exact numbers, and the table. */
#include "delivery/ring/waits.h"
#include "metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct metrics_snapshot *make(uint32_t trainers)
{
    struct metrics_snapshot *snapshot =
        calloc(1, sizeof *snapshot + trainers * sizeof snapshot->trainers[0]);
    assert_non_null(snapshot);
    snapshot->reader = 3;
    snapshot->seed = 17;
    snapshot->order_id = 0xabc;
    snapshot->trainer_count = trainers;
    strcpy(snapshot->node, "n1");
    strcpy(snapshot->version, "0.1.0");
    strcpy(snapshot->dataset, "a \"b\\c\nd");
    snapshot->values.samples = 1234567;
    snapshot->values.blocked_storage_ns = 1500000000;
    snapshot->values.blocked_decode_ns = 1;
    snapshot->values.start_ms = UINT64_C(1700000000001);
    for (uint32_t t = 0; t < trainers; t++) {
        snapshot->trainers[t].rank = 10 + t;
        snapshot->trainers[t].values.batches = 6;
        snapshot->trainers[t].values.wait = 250000000;
        snapshot->trainers[t].wait_buckets[0] = 5;
        snapshot->trainers[t].wait_buckets[METRICS_BUCKETS - 1] = 1;
    }
    return snapshot;
}

/* Whether the text has this very line. */
static bool has_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

#define EXPECT_LINE(text, line)                          \
    do                                                   \
        if (!has_line(text, line))                       \
            fail_msg("no line '%s' in\n%s", line, text); \
    while (0)

static void lines_are_as_prometheus_reads_them(void **state)
{
    (void)state;
    struct metrics_snapshot *snapshot = make(2);
    struct text text = {0};
    metrics_text(snapshot, &text);
    EXPECT_LINE(text.data, "# TYPE penstock_samples_delivered_total counter");
    EXPECT_LINE(text.data, "penstock_samples_delivered_total{reader=\"3\"} 1234567");
    EXPECT_LINE(text.data, "penstock_blocked_seconds_total{reader=\"3\",on=\"storage\"} 1.5");
    EXPECT_LINE(text.data,
                "penstock_blocked_seconds_total{reader=\"3\",on=\"decode\"} 0.000000001");
    EXPECT_LINE(text.data, "penstock_start_time_seconds{reader=\"3\"} 1700000000.001");
    EXPECT_LINE(text.data,
                "penstock_run_info{reader=\"3\",dataset=\"a \\\"b\\\\c\\nd\",seed=\"17\","
                "order_id=\"0000000000000abc\",node=\"n1\"} 1");
    EXPECT_LINE(text.data, "# TYPE penstock_trainer_wait_seconds histogram");
    EXPECT_LINE(text.data,
                "penstock_trainer_wait_seconds_bucket{reader=\"3\",rank=\"11\",le=\"0.0001\"} 5");
    EXPECT_LINE(text.data,
                "penstock_trainer_wait_seconds_bucket{reader=\"3\",rank=\"11\",le=\"10\"} 5");
    EXPECT_LINE(text.data,
                "penstock_trainer_wait_seconds_bucket{reader=\"3\",rank=\"11\",le=\"+Inf\"} 6");
    EXPECT_LINE(text.data, "penstock_trainer_wait_seconds_sum{reader=\"3\",rank=\"11\"} 0.25");
    EXPECT_LINE(text.data, "penstock_trainer_wait_seconds_count{reader=\"3\",rank=\"11\"} 6");
    assert_int_equal(text.data[text.length - 1], '\n');
    text_done(&text);
    free(snapshot);
}

/* The same name, or the same series, in two places is an error for Prometheus. */
static void no_name_has_two_heads(void **state)
{
    (void)state;
    struct metrics_snapshot *snapshot = make(1);
    struct text text = {0};
    metrics_text(snapshot, &text);
    uint32_t heads = 0;
    for (const char *at = text.data; (at = strstr(at, "# TYPE ")); at++) {
        char head[128];
        size_t length = strcspn(at + 7, " ");
        assert_true(length < sizeof head - 9);
        snprintf(head, sizeof head, "# TYPE %.*s ", (int)length, at + 7);
        assert_null(strstr(at + 1, head));
        heads++;
    }
    assert_true(heads > 30);
    text_done(&text);
    free(snapshot);
}

static void the_table_keeps_the_rules_for_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < metrics_row_count; i++) {
        const struct metrics_row *row = &metrics_rows[i];
        size_t length = strlen(row->name);
        bool total = length > 6 && strcmp(row->name + length - 6, "_total") == 0;
        assert_int_equal(total, row->type == METRICS_COUNTER);
        if (row->unit == METRICS_BYTES)
            assert_non_null(strstr(row->name, "_bytes"));
        if (row->unit == METRICS_NS || row->unit == METRICS_MS)
            assert_non_null(strstr(row->name, "_seconds"));
        assert_null(strpbrk(row->help, "\n\\"));
    }
}

static void numbers_are_exact(void **state)
{
    (void)state;
    assert_string_equal(metrics_number(METRICS_COUNT, UINT64_MAX).text, "18446744073709551615");
    assert_string_equal(metrics_number(METRICS_NS, 0).text, "0");
    assert_string_equal(metrics_number(METRICS_NS, UINT64_C(100000000001)).text, "100.000000001");
    assert_string_equal(metrics_number(METRICS_NS, 120000000).text, "0.12");
    assert_string_equal(metrics_number(METRICS_MS, 20).text, "0.02");
    assert_string_equal(metrics_number(METRICS_BYTES, 100).text, "100");
}

static void json_has_the_same_names(void **state)
{
    (void)state;
    struct metrics_snapshot *snapshot = make(1);
    struct text text = {0};
    metrics_snapshot_json(snapshot, &text);
    assert_non_null(strstr(text.data, "\"samples_delivered_total\":1234567,"));
    assert_non_null(strstr(text.data, "\"blocked_seconds_total{on=\\\"storage\\\"}\":1.5,"));
    assert_non_null(strstr(text.data, "\"trainers\":[{\"rank\":10,\"connected\":false,"
                                      "\"metrics\":{\"trainer_batches_total\":6,"));
    text_done(&text);
    free(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_as_prometheus_reads_them),
        cmocka_unit_test(no_name_has_two_heads),
        cmocka_unit_test(the_table_keeps_the_rules_for_names),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(json_has_the_same_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
