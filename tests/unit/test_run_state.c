/* The resume state: reads what it prints, and distrusts everything else. */
#include "run/state.h"

#include "penstock.h"
#include "plan/order/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD                                                                                \
    "{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":17,\"epoch\":2,\"step\":41," \
    "\"global_batch\":256}"
#define IDENTITY "\"dataset\":\"1f0c94d33ac07e52\",\"order_id\":\"0123456789abcdef\",\"seed\":17,"
#define ORDER    "\"global_batch\":256,\"row_length\":8,\"window_rows\":64,"
#define GOOD                                                    \
    "{\"version\":2," IDENTITY "\"epoch\":2,\"step\":41," ORDER \
    "\"shuffle\":true,\"last\":\"partial\"}"

static const struct run_state good = {.version = 2,
                                      .order = {.id = UINT64_C(0x0123456789abcdef),
                                                .fingerprint = UINT64_C(0x1f0c94d33ac07e52),
                                                .seed = 17,
                                                .global_batch = 256,
                                                .row_length = 8,
                                                .window_rows = 64,
                                                .shuffle = 1,
                                                .last = PLAN_PARTIAL},
                                      .epoch = 2,
                                      .step = 41};

static void reads_what_it_prints(void **state)
{
    (void)state;
    /* The longest: epochs * steps stay below 2^64. */
    struct run_state extreme = {.version = 2,
                                .order = {.id = UINT64_MAX,
                                          .fingerprint = UINT64_MAX,
                                          .seed = UINT64_MAX,
                                          .global_batch = UINT32_MAX,
                                          .row_length = UINT32_MAX,
                                          .window_rows = UINT32_MAX,
                                          .last = PLAN_PARTIAL,
                                          .locality = UINT32_MAX},
                                .epoch = UINT32_MAX,
                                .step = UINT32_MAX},
                     back;
    struct text text = {0};
    run_state_print(&good, &text);
    assert_string_equal(text.data, GOOD);
    assert_int_equal(run_state_parse(text.data, text.length, &back, NULL), STATUS_OK);
    assert_memory_equal(&back, &good, sizeof good);
    text_done(&text);
    run_state_print(&extreme, &text);
    assert_int_equal(run_state_parse(text.data, text.length, &back, NULL), STATUS_OK);
    assert_memory_equal(&back, &extreme, sizeof extreme);
    assert_true(text.length + 1 <
                ORDER_STATE_BYTES); /* 21 digits for epoch and step are the most */
    assert_true(text.length + 1 < PENSTOCK_STATE_BYTES);
    text_done(&text);
}

static void spaces_and_other_keys(void **state)
{
    (void)state;
    const char text[] =
        " {\"mine\": [1, {\"a\": null, \"a:\\\": {\": 1}], \"version\": 1, \"epoch\": 2,\n"
        "\"dataset\": \"1F0C94D33AC07E52\", \"step\": 41, \"seed\": 17,\n"
        "\"global_batch\": 256}\n";
    struct run_state back;
    assert_int_equal(run_state_parse(text, sizeof text - 1, &back, NULL), STATUS_OK);
    const struct run_state old = {
        .version = 1,
        .order = {.fingerprint = good.order.fingerprint, .seed = 17, .global_batch = 256},
        .epoch = 2,
        .step = 41};
    assert_memory_equal(&back, &old, sizeof old);
}

static void expect_refused(const char *json, size_t size, enum status expected, const char *words)
{
    struct run_state back = {.step = 99};
    struct error err = {0};
    assert_int_equal(run_state_parse(json, size, &back, &err), expected);
    if (!strstr(err.message, words))
        fail_msg("'%.200s' gives '%s', not '%s'", json, err.message, words);
    assert_int_equal(back.step, 99);
}

static void foreign_texts(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"", "not JSON"},
        {"17", "not JSON"},
        {"\"a\"", "not a JSON object"},
        {"[1]", "not a JSON object"},
        {"null ", "not a JSON object"},
        {"null{}", "not JSON at byte 4: something follows"},
        {"{\"version\":1,", "not JSON at byte 13: it ends early"},
        {GOOD "{}", "something follows"},
        {GOOD "x", "something follows"},
        {"{version:1}", "not JSON"},
        {"{\"version\":1}", "it has no 'dataset'"},
        {"{\"version\":\"1\"}", "'version' is not a whole number"},
        {"{\"version\":1.0}", "'version' is not a whole number"},
        {"{\"version\":1,\"dataset\":7}", "'dataset' is not a text"},
        {"{\"version\":1,\"dataset\":\"12\"}", "not 16 hex digits"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e5x\"}", "not 16 hex digits"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":-1}", "'seed' -1 is not from 0"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":18446744073709551616}",
         "'epoch'"},
        {"{\"version\":1,\"dataset\":\"\xc3\xa4\"}", "not 16 hex digits"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":1,\"epoch\":null}", "'epoch'"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":1,\"epoch\":true}", "'epoch'"},
        {"{\"version\":NaN}", "not"},
        {"{\"version\":2,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":1,\"epoch\":0,\"step\":0,"
         "\"global_batch\":1}",
         "it has no 'order_id'"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":1,\"epoch\":0,\"step\":0,"
         "\"global_batch\":0}",
         "'global_batch' 0 is not from 1"},
        {"{\"version\":2," IDENTITY "\"epoch\":2,\"step\":41,\"global_batch\":256,\"row_length\":8,"
         "\"window_rows\":4294967296,\"shuffle\":true,\"last\":\"pad\"}",
         "'window_rows' 4294967296 is not from 1"},
        {"{\"version\":2," IDENTITY "\"epoch\":2,\"step\":41," ORDER
         "\"shuffle\":1,\"last\":\"pad\"}",
         "'shuffle' is not true or false"},
        {"{\"version\":2," IDENTITY "\"epoch\":2,\"step\":41," ORDER
         "\"shuffle\":true,\"last\":\"most\"}",
         "'last' is none of drop, pad and partial"},
        {"{\"version\":2," IDENTITY "\"epoch\":2,\"step\":41," ORDER
         "\"shuffle\":true,\"last\":\"pad\",\"placement\":\"local\"}",
         "it has no 'locality'"},
        {"{\"version\":2," IDENTITY "\"epoch\":2,\"step\":41," ORDER
         "\"shuffle\":true,\"last\":\"pad\",\"placement\":\"near\"}",
         "'placement' is none of fixed and local"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":NaN}", "not"},
        {"{\"version\":1,\"epoch\":1,\"epoch\":2}", "a key is there twice"},
        {"{\"version\":1,\"epoch\":1,\"\\u0065poch\":2}", "a key is there twice"},
        {"{\"a\":[[[[[[[[[[1]]]]]]]]]]}", "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].json, strlen(cases[i].json), STATUS_INVALID, cases[i].words);
    expect_refused("{\"version\":0}", 13, STATUS_UNSUPPORTED, "version 0, this release reads");
    expect_refused("{\"version\":3}", 13, STATUS_UNSUPPORTED, "version 3, this release reads");
    expect_refused(GOOD, sizeof GOOD, STATUS_INVALID, "something follows"); /* the NUL */
    for (size_t size = 0; size < sizeof GOOD - 1; size++)
        expect_refused(GOOD, size, STATUS_INVALID, "not JSON");
    char *large = malloc(RUN_STATE_MAX_BYTES + 1);
    assert_non_null(large);
    memset(large, ' ', RUN_STATE_MAX_BYTES + 1);
    expect_refused(large, RUN_STATE_MAX_BYTES + 1, STATUS_INVALID, "65537 bytes");
    expect_refused(large, RUN_STATE_MAX_BYTES, STATUS_INVALID, "not JSON");
    free(large);
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/penstock-state-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, GOOD "\n", sizeof GOOD), sizeof GOOD);
    struct run_state back;
    struct error err;
    assert_int_equal(run_state_read_file(path, &back, NULL), STATUS_OK);
    assert_memory_equal(&back, &good, sizeof good);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    assert_int_equal(run_state_read_file(path, &back, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, path));
    unlink(path);
    assert_int_equal(run_state_read_file(path, &back, &err), STATUS_NOT_FOUND);
    assert_int_equal(run_state_read_file("/tmp", &back, &err), STATUS_IO);
}

static struct ring_service service_of(const struct run_state *state)
{
    return (struct ring_service){.steps_per_epoch = 100, .epochs = 4, .order = state->order};
}

static void expect_mismatch(struct run_state saved, const char *words, const char *other_words)
{
    const struct ring_service service = service_of(&good);
    struct error err = {0};
    assert_int_equal(run_state_check(&saved, &service, &err), STATUS_INVALID);
    if (!strstr(err.message, words) || !strstr(err.message, other_words))
        fail_msg("'%s' does not say '%s' and '%s'", err.message, words, other_words);
}

/* The good state but for one member. */
#define EXPECT_MISMATCH(member, value, words, other_words) \
    do {                                                   \
        struct run_state other = good;                     \
        other.member = value;                              \
        expect_mismatch(other, words, other_words);        \
    } while (0)

static void mismatches_name_both_values(void **state)
{
    (void)state;
    const struct ring_service service = service_of(&good);
    struct run_state saved = good;
    assert_int_equal(run_state_check(&saved, &service, NULL), STATUS_OK);
    saved.step = 100;
    assert_int_equal(run_state_check(&saved, &service, NULL), STATUS_OK);
    saved.epoch = 3;
    expect_mismatch(saved, "epoch 3, step 100", "order.epochs 4");
    saved.step = 101;
    expect_mismatch(saved, "step 101", "100 steps");
    EXPECT_MISMATCH(epoch, UINT64_MAX, "epoch 18446744073709551615", "order.epochs 4");
    EXPECT_MISMATCH(order.fingerprint, 0xabc, "0000000000000abc", "1f0c94d33ac07e52");
    EXPECT_MISMATCH(order.seed, 3, "order.seed was 3", "has 17");
    EXPECT_MISMATCH(order.global_batch, 64, "batch.global_size was 64", "has 256");
    EXPECT_MISMATCH(order.window_rows, 63, "order.window_rows was 63", "has 64");
    EXPECT_MISMATCH(order.row_length, 4, "chunk row length was 4", "has 8");
    EXPECT_MISMATCH(order.shuffle, 0, "order.shuffle was false", "has true");
    EXPECT_MISMATCH(order.last, PLAN_DROP, "batch.last was drop", "has partial");
    EXPECT_MISMATCH(order.locality, 5, "order.placement was local", "has fixed");
    EXPECT_MISMATCH(order.id, 1, "order id was 0000000000000001", "has 0123456789abcdef");
    EXPECT_MISMATCH(order.id, 1, "the release of Penstock differs", "mix.samples, a weight,");
}

/* What it says is compared, what it does not say is taken for what the run has, and told. */
static void old_states_are_read(void **state)
{
    (void)state;
    const struct ring_service service = service_of(&good);
    struct run_state saved;
    assert_int_equal(run_state_parse(OLD, sizeof OLD - 1, &saved, NULL), STATUS_OK);
    assert_int_equal(run_state_check(&saved, &service, NULL), STATUS_OK);
    saved.order.seed = 3;
    expect_mismatch(saved, "order.seed was 3", "has 17");
    struct text warning = {0};
    run_state_describe_gaps(&service, &warning);
    assert_non_null(strstr(warning.data, "order.window_rows, order.shuffle and batch.last"));
    assert_non_null(strstr(warning.data, "64, true and partial"));
    text_done(&warning);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_prints),
        cmocka_unit_test(spaces_and_other_keys),
        cmocka_unit_test(foreign_texts),
        cmocka_unit_test(files),
        cmocka_unit_test(mismatches_name_both_values),
        cmocka_unit_test(old_states_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
