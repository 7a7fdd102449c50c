/* The list of bad chunks: each once, counted by sample, kept over restarts, refused when too many.
 */
#include "run/bad_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/penstock-bad-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static struct bad_chunk make_bad(const char *array, uint64_t first, uint64_t count)
{
    struct bad_chunk bad = {.source = -1, .first_sample = first, .sample_count = count};
    snprintf(bad.array, sizeof bad.array, "%s", array);
    snprintf(bad.chunk.text, sizeof bad.chunk.text, "%llu.0", (unsigned long long)(first / 8));
    (void)error_set(&bad.cause, STATUS_CORRUPT, "array '%s' chunk %s: of no \"use\"", array,
                    bad.chunk.text);
    return bad;
}

static struct bad_list *open_list(const char *name, uint64_t dataset, uint64_t most)
{
    struct bad_list *list;
    struct error err;
    if (bad_list_new(name, dataset, most, &list, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return list;
}

static enum status add(struct bad_list *list, struct bad_chunk bad, struct error *err)
{
    return bad_list_add(list, &bad, 1, "n2", err);
}

static void read_back(char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

#define LINE(array, chunk, samples)                                                       \
    "{\"dataset\":\"00000000000000ab\",\"array\":\"" array "\",\"chunk\":\"" chunk        \
    "\",\"samples\":[" samples "],\"reader\":1,\"node\":\"n2\",\"error\":\"array '" array \
    "' chunk " chunk ": of no \\\"use\\\"\"}\n"

static void each_once(void **state)
{
    (void)state;
    struct bad_list *list = open_list(path, 0xab, 100);
    struct error err;
    char text[4096];
    for (int epoch = 0; epoch < 3; epoch++) {
        assert_int_equal(add(list, make_bad("a", 16, 8), &err), STATUS_OK);
        assert_int_equal(add(list, make_bad("b", 20, 8), &err), STATUS_OK); /* 4 are both's */
    }
    assert_int_equal(bad_list_samples(list), 12);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    read_back(text, sizeof text);
    assert_string_equal(text, LINE("a", "2.0", "16,24") LINE("b", "2.0", "20,28"));
    bad_list_free(list);
}

static void kept_over_restarts(void **state)
{
    (void)state;
    struct error err;
    char text[4096];
    struct bad_list *list = open_list(path, 0xab, 10);
    assert_int_equal(add(list, make_bad("a", 16, 8), &err), STATUS_OK);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    bad_list_free(list);
    list = open_list(path, 0xab, 10); /* earlier runs' do not count towards the limit */
    assert_int_equal(add(list, make_bad("a", 32, 8), &err), STATUS_OK);
    assert_int_equal(add(list, make_bad("a", 16, 2), &err), STATUS_OK);
    assert_int_equal(bad_list_samples(list), 10);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    read_back(text, sizeof text);
    assert_string_equal(text, LINE("a", "2.0", "16,24") LINE("a", "4.0", "32,40")
                                  LINE("a", "2.0", "16,18"));
    bad_list_free(list);
    list = open_list(path, 0xcd, 10); /* another dataset: its list begins anew */
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    read_back(text, sizeof text);
    assert_string_equal(text, "");
    bad_list_free(list);
}

/* A name cannot end a line's key early. */
static void names_like_the_end_of_a_key(void **state)
{
    (void)state;
    struct error err;
    char text[4096];
    struct bad_list *list = open_list(path, 0xab, 100);
    assert_int_equal(add(list, make_bad("a],b", 16, 8), &err), STATUS_OK);
    assert_int_equal(add(list, make_bad("a],b", 32, 8), &err), STATUS_OK);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    bad_list_free(list);
    list = open_list(path, 0xab, 100);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    read_back(text, sizeof text);
    assert_string_equal(text, LINE("a],b", "2.0", "16,24") LINE("a],b", "4.0", "32,40"));
    bad_list_free(list);
}

/* Sources of a mix have samples of the same numbers. */
static void of_each_source(void **state)
{
    (void)state;
    struct bad_list *list = open_list(path, 0xab, 16);
    struct error err;
    char text[4096];
    for (int32_t source = 0; source < 2; source++) {
        struct bad_chunk bad = make_bad("a", 16, 8);
        bad.source = source;
        assert_int_equal(add(list, bad, &err), STATUS_OK);
    }
    assert_int_equal(bad_list_samples(list), 16);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    bad_list_free(list);
    list = open_list(path, 0xab, 16); /* lines are kept */
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    read_back(text, sizeof text);
    assert_non_null(
        strstr(text, "{\"dataset\":\"00000000000000ab\",\"source\":0,\"array\":\"a\","));
    assert_non_null(
        strstr(text, "{\"dataset\":\"00000000000000ab\",\"source\":1,\"array\":\"a\","));
    bad_list_free(list);
}

static void too_many(void **state)
{
    (void)state;
    struct error err;
    struct bad_list *list = open_list("", 0xab, 9);
    assert_int_equal(add(list, make_bad("a", 16, 8), &err), STATUS_OK);
    assert_int_equal(add(list, make_bad("a", 16, 8), &err), STATUS_OK);
    assert_int_equal(add(list, make_bad("a", 32, 2), &err), STATUS_CORRUPT);
    assert_string_equal(err.message,
                        "more than errors.max_bad 9 bad samples; the last, of reader 1 "
                        "on n2: array 'a' chunk 4.0: of no \"use\"");
    bad_list_free(list);
    list = open_list("", 0xab, 0);
    assert_int_equal(add(list, make_bad("a", 0, 1), &err), STATUS_CORRUPT);
    bad_list_free(list);
}

/* Many samples, so that the sets grow. */
static void many(void **state)
{
    (void)state;
    struct error err;
    struct bad_list *list = open_list("", 0xab, 100000);
    for (uint64_t i = 0; i < 100000; i += 8)
        assert_int_equal(add(list, make_bad("a", 99992 - i, 8), &err), STATUS_OK);
    for (uint64_t i = 0; i < 100000; i += 8)
        assert_int_equal(add(list, make_bad("b", i, 8), &err), STATUS_OK);
    assert_int_equal(bad_list_samples(list), 100000);
    assert_int_equal(add(list, make_bad("a", 100000, 1), &err), STATUS_CORRUPT);
    bad_list_free(list);
}

static void foreign_files(void **state)
{
    (void)state;
    struct bad_list *list;
    struct error err;
    char text[4096];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("nonsense\n\n" LINE("a", "2.0", "16,24") LINE(
              "a", "2.0",
              "16,24") "{\"dataset\":\"00000000000000ab\"\n{\"dataset\":\"00000000000000ab\",\"cut",
          file);
    fclose(file);
    list = open_list(path, 0xab, 10);
    assert_int_equal(bad_list_write(list, &err), STATUS_OK);
    read_back(text, sizeof text);
    assert_string_equal(text, LINE("a", "2.0", "16,24"));
    bad_list_free(list);
    assert_int_equal(bad_list_new("/nonexistent/x", 1, 1, &list, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "errors.report"));
    assert_int_equal(truncate(path, BAD_LIST_MAX_BYTES + 1), 0);
    assert_int_equal(bad_list_new(path, 1, 1, &list, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_once, make_path, remove_path),
        cmocka_unit_test_setup_teardown(kept_over_restarts, make_path, remove_path),
        cmocka_unit_test_setup_teardown(names_like_the_end_of_a_key, make_path, remove_path),
        cmocka_unit_test_setup_teardown(of_each_source, make_path, remove_path),
        cmocka_unit_test(too_many),
        cmocka_unit_test(many),
        cmocka_unit_test_setup_teardown(foreign_files, make_path, remove_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
