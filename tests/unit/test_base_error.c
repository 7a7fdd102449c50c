/* Errors: messages built from the inside out, cut and never overflowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

static void message_grows_from_cause_to_where(void **state)
{
    (void)state;
    struct error err;
    errno = EACCES;
    assert_int_equal(error_set_errno(&err, STATUS_IO, "open '%s'", "images/0.3"), STATUS_IO);
    assert_int_equal(error_prefix(&err, STATUS_IO, "array '%s' chunk %s: ", "images", "0.3"),
                     STATUS_IO);
    assert_string_equal(err.message,
                        "array 'images' chunk 0.3: open 'images/0.3': Permission denied");
    assert_int_equal(err.system_errno, EACCES);
    assert_int_equal(err.rank, -1);
    assert_string_equal(err.file, "test_base_error.c");
}

static void no_error_wanted(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, STATUS_CORRUPT, "nobody reads this"), STATUS_CORRUPT);
    assert_int_equal(error_prefix(NULL, STATUS_CORRUPT, "nor this"), STATUS_CORRUPT);
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char long_text[2 * ERROR_MESSAGE_BYTES];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    struct error err;
    error_set(&err, STATUS_INVALID, "%s", long_text);
    assert_int_equal(strlen(err.message), ERROR_MESSAGE_BYTES - 1);
    error_prefix(&err, STATUS_INVALID, "in front: ");
    assert_int_equal(strlen(err.message), ERROR_MESSAGE_BYTES - 1);
    assert_int_equal(strncmp(err.message, "in front: xxx", 13), 0);
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(status_text(STATUS_CORRUPT), "data is corrupt");
    assert_string_equal(status_text((enum status)99), "unknown status");
}

static void dtypes_know_their_sizes(void **state)
{
    (void)state;
    assert_int_equal(dtype_bytes(DTYPE_COMPLEX64), 8);
    assert_int_equal(dtype_swap_bytes(DTYPE_COMPLEX64), 4);
    assert_int_equal(dtype_by_name("bfloat16"), DTYPE_BFLOAT16);
    assert_int_equal(dtype_by_name("string"), DTYPE_NONE);
    assert_int_equal(dtype_bytes((enum dtype)77), 0);
    assert_true(dtype_is_integer(DTYPE_UINT64));
    assert_false(dtype_is_integer(DTYPE_BOOL));
    assert_false(dtype_is_integer(DTYPE_FLOAT16));
}

static void texts_grow(void **state)
{
    (void)state;
    struct text text = {0};
    for (int i = 0; i < 1000; i++)
        text_append(&text, "%d,", i % 10);
    assert_int_equal(text.length, 2000);
    assert_int_equal(strlen(text.data), 2000);
    text_append_bytes(&text, "a\0b", 3);
    assert_int_equal(text.length, 2003);
    text_done(&text);
    assert_null(text.data);
}

static void passwords_in_uris(void **state)
{
    static const char *const with[] = {
        "https://me:secret@host/x", "http://me@host",
        "https://me:ab/cd@host/x",  "https://me:/cd@host/x",
        "https://me:12ab/cd@host",  "data.zarr,s3://key:word/part@bucket/x",
        "//me:secret@host/x",       "gs://me@host"};
    static const char *const signed_uris[] = {
        "https://host/x?X-Amz-Signature=1", "https://host/x?a=1&sig=2", "abfs://host/x?sv=3;SIG=2",
        "https://host/x#access_token=1", "a.zarr,https://host/x?AWSAccessKeyId=1"};
    static const char *const unsigned_uris[] = {"https://host/x?design", "/data/x?sig=1",
                                                "https://host/sig=1", "https://host/x?a=sig"};
    static const char *const without[] = {"",
                                          "a:b@c",
                                          "/data/me@here.zarr",
                                          "file:///data/a@b:c",
                                          "http://host:8080/a:b@c",
                                          "http://[::1]:80/x",
                                          "https://[fe80::1]/x",
                                          "s3://bucket/a@b:c",
                                          "http://a:1,http://b/x:y"};
    (void)state;
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        if (!text_has_password(with[i]))
            fail_msg("%s", with[i]);
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if (text_has_password(without[i]) || text_has_secret(without[i]))
            fail_msg("%s", without[i]);
    for (size_t i = 0; i < sizeof signed_uris / sizeof signed_uris[0]; i++)
        if (!text_has_secret(signed_uris[i]))
            fail_msg("%s", signed_uris[i]);
    for (size_t i = 0; i < sizeof unsigned_uris / sizeof unsigned_uris[0]; i++)
        if (text_has_secret(unsigned_uris[i]))
            fail_msg("%s", unsigned_uris[i]);
}

/* What a dataset says is shown, and does nothing on a terminal, in a log or in JSON. */
static void foreign_text_is_shown(void **state)
{
    static const struct {
        const char *foreign, *shown;
    } cases[] = {
        {"", ""},
        {"temp\xc3\xa9rature \xe6\xb8\xa9\xe5\xba\xa6 \xf0\x9f\x98\x80 \\ \"'%s",
         "temp\xc3\xa9rature \xe6\xb8\xa9\xe5\xba\xa6 \xf0\x9f\x98\x80 \\ \"'%s"},
        {"\x1b[31mred\x1b[0m\r\n\t\x7f", "\\x1b[31mred\\x1b[0m\\x0d\\x0a\\x09\\x7f"},
        {"\xc2\x9b"
         "31m \xe2\x80\xae \xe2\x80\xa8",
         "\\x9b31m \\u202e \\u2028"}, /* C1, turned, line */
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82",
         "\\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xe2\\x82"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text once = {0}, json = {0};
        struct error err;
        char cut[8];
        text_append_bytes(&once, "", 0);
        text_append_shown(&once, cases[i].foreign);
        assert_string_equal(once.data, cases[i].shown);
        assert_string_equal(text_shown(once.data).text, cases[i].shown);
        text_show(cut, sizeof cut, cases[i].foreign);
        assert_int_equal(strncmp(cut, cases[i].shown, strlen(cut)), 0);
        (void)!error_set(&err, STATUS_CORRUPT, "%s", cases[i].foreign);
        assert_string_equal(err.message, cases[i].shown);
        (void)!error_prefix(&err, STATUS_CORRUPT, "%s: ", cases[i].foreign);
        assert_int_equal(strncmp(err.message, cases[i].shown, strlen(cases[i].shown)), 0);
        text_append_json(&json, cases[i].foreign);
        assert_null(strchr(json.data, '\n'));
        text_done(&once);
        text_done(&json);
    }
    struct text json = {0};
    text_append_json(&json, "a\"b\\\n");
    assert_string_equal(json.data, "\"a\\\"b\\\\\\\\x0a\"");
    text_done(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_grows_from_cause_to_where),
        cmocka_unit_test(no_error_wanted),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(dtypes_know_their_sizes),
        cmocka_unit_test(texts_grow),
        cmocka_unit_test(passwords_in_uris),
        cmocka_unit_test(foreign_text_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
