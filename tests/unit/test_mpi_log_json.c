/* Lines of the log as JSON: whole objects, each small enough that a pipe takes it at once. */
#include "log_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int ends[2];

/* Standard error goes to a pipe meanwhile. */
static void take(const char *message, char *ret_object, size_t size)
{
    int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    fprintf(stderr, "%s\n", message);
    dup2(before, STDERR_FILENO);
    close(before);
    ssize_t got = read(ends[0], ret_object, size - 1);
    ret_object[got > 0 ? got : 0] = '\0';
}

static void assert_ends(const char *text, const char *end)
{
    assert_true(strlen(text) > strlen(end));
    assert_string_equal(text + strlen(text) - strlen(end), end);
}

static void a_short_message_is_whole(void **state)
{
    (void)state;
    char object[16384];
    take("penstock-reader: warning: short \"and\" whole", object, sizeof object);
    assert_non_null(strstr(object, "\"level\":\"warning\""));
    assert_ends(object, "\"message\":\"short \\\"and\\\" whole\"}\n");
}

/* Of letters, of what JSON makes longer, and of characters of three bytes. */
static void a_long_message_is_cut(void **state)
{
    (void)state;
    static const char *const units[] = {"a", "\"", "\x01", "\xe2\x82\xac"};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (size_t bytes = 3500; bytes < 9000; bytes += 61) {
            char message[9100] = "penstock-reader: error: ", object[32768];
            for (size_t at = strlen(message); at < bytes; at += strlen(units[u]))
                strcpy(message + at, units[u]);
            take(message, object, sizeof object);
            assert_true(strlen(object) <= PIPE_BUF);
            assert_true(object[0] == '{');
            assert_non_null(strstr(object, "\"level\":\"error\""));
            assert_null(strstr(object, "\\xe2")); /* half a character */
            if (bytes > PIPE_BUF)
                assert_ends(object, "...\"}\n");
            else
                assert_ends(object, "\"}\n");
        }
}

static int begin(void **state)
{
    struct error err;
    (void)state;
    return pipe(ends) < 0 || log_json_begin(&err) != STATUS_OK ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_message_is_whole),
        cmocka_unit_test(a_long_message_is_cut),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
