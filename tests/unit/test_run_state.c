/* The resume state: reads what it prints, and distrusts everything else. */
#include "run/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define GOOD                                                                               \
    "{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":17,\"epoch\":2,\"step\":41," \
    "\"global_batch\":256}"

static const struct run_state good = {UINT64_C(0x1f0c94d33ac07e52), 17, 2, 41, 256};

static void reads_what_it_prints(void **state)
{
    (void)state;
    struct run_state extreme = {UINT64_MAX, UINT64_MAX, 1, UINT64_MAX, INT32_MAX}, back;
    struct text text = {0};
    run_state_print(&good, &text);
    assert_string_equal(text.data, GOOD);
    assert_int_equal(run_state_parse(text.data, text.length, &back, NULL), STATUS_OK);
    assert_memory_equal(&back, &good, sizeof good);
    text_done(&text);
    run_state_print(&extreme, &text);
    assert_int_equal(run_state_parse(text.data, text.length, &back, NULL), STATUS_OK);
    assert_memory_equal(&back, &extreme, sizeof extreme);
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
    assert_memory_equal(&back, &good, sizeof good);
}

static void expect_refused(const char *json, size_t size, enum status expected, const char *words)
{
    struct run_state back = {.seed = 99};
    struct error err = {0};
    assert_int_equal(run_state_parse(json, size, &back, &err), expected);
    if (!strstr(err.message, words))
        fail_msg("'%.200s' gives '%s', not '%s'", json, err.message, words);
    assert_int_equal(back.seed, 99);
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
        {"null{}", "not JSON: it is null"},
        {"{\"version\":1,", "not JSON: it ends too early"},
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
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":1,\"epoch\":null}", "'epoch'"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":1,\"epoch\":true}", "'epoch'"},
        {"{\"version\":NaN}", "not"},
        {"{\"version\":1,\"dataset\":\"1f0c94d33ac07e52\",\"seed\":NaN}", "not"},
        {"{\"version\":1,\"epoch\":1,\"epoch\":2}", "a key is there twice"},
        {"{\"version\":1,\"epoch\":1,\"\\u0065poch\":2}", "a key is there twice"},
        {"{\"a\":[[[[[[[[[[1]]]]]]]]]]}", "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].json, strlen(cases[i].json), STATUS_INVALID, cases[i].words);
    expect_refused("{\"version\":2}", 13, STATUS_UNSUPPORTED, "version 2, this release reads");
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

static void expect_mismatch(struct run_state saved, const char *words, const char *other_words)
{
    struct plan plan = {.seed = 17, .global_batch = 256, .steps_per_epoch = 100};
    struct error err = {0};
    assert_int_equal(run_state_check(&saved, &plan, good.fingerprint, 4, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, words));
    assert_non_null(strstr(err.message, other_words));
}

static void mismatches_name_both_values(void **state)
{
    (void)state;
    struct plan plan = {.seed = 17, .global_batch = 256, .steps_per_epoch = 100};
    struct run_state saved = good;
    assert_int_equal(run_state_check(&saved, &plan, good.fingerprint, 4, NULL), STATUS_OK);
    saved.step = 100;
    assert_int_equal(run_state_check(&saved, &plan, good.fingerprint, 4, NULL), STATUS_OK);
    saved.epoch = 3;
    expect_mismatch(saved, "epoch 3, step 100", "order.epochs 4");
    saved.step = 101;
    expect_mismatch(saved, "step 101", "100 steps");
    saved = good;
    saved.epoch = UINT64_MAX;
    expect_mismatch(saved, "epoch 18446744073709551615", "order.epochs 4");
    saved = good;
    saved.fingerprint = 0xabc;
    expect_mismatch(saved, "0000000000000abc", "1f0c94d33ac07e52");
    saved = good;
    saved.seed = 3;
    expect_mismatch(saved, "order.seed was 3", "has 17");
    saved = good;
    saved.global_batch = 64;
    expect_mismatch(saved, "batch.global_size was 64", "has 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_prints),
        cmocka_unit_test(spaces_and_other_keys),
        cmocka_unit_test(foreign_texts),
        cmocka_unit_test(files),
        cmocka_unit_test(mismatches_name_both_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
