/* Urls: what is taken, which host gets the request, and what messages show. Without a network:
 * whatever is refused here was refused before a request. */
#include "store/credentials/aws.h"
#include "store/http/http_answer.h"
#include "store/http/url.h"

#include "base/text.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_hosts(void **state)
{
    static const struct {
        const char *url, *host;
    } taken[] = {{"http://127.0.0.1:80/x", "127.0.0.1"},
                 {"https://Example.org", "example.org"},
                 {"http://[::1]:9000/", "[::1]"},
                 {"http://0x7f.1/", "127.0.0.1"},
                 {"http://127.0.0.1.example.org/x", "127.0.0.1.example.org"}};
    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        struct url url = {0};
        struct error err;
        if (url_parse("it", taken[i].url, &url, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        assert_string_equal(url.host, taken[i].host);
    }
}

static void test_refused(void **state)
{
    static const char *const refused[] = {"http://127.0.0.1:hidden@example.org/",
                                          "http://127.0.0.1:80:hidden@example.org/",
                                          "http://hidden@127.0.0.1/",
                                          "https://hidden:a/b@127.0.0.1/",
                                          "http://localhost/?token=hidden",
                                          "http://127.0.0.1\\@example.org/",
                                          "me:hidden@example.org:9000",
                                          "me:hidden/x@example.org",
                                          "https:/me:hidden@example.org",
                                          "hidden@example.org",
                                          "http://127.0.0.1 .example.org/",
                                          "http://127.0.0.1:99999/",
                                          "http:///x",
                                          "ftp://127.0.0.1/",
                                          "127.0.0.1",
                                          ""};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct url url;
        struct error err;
        if (url_parse("it", refused[i], &url, &err) != STATUS_INVALID)
            fail_msg("'%s' is taken", refused[i]);
        if (strncmp(err.message, "it: ", 4) != 0 || strstr(err.message, "hidden"))
            fail_msg("'%s': %s", refused[i], err.message);
    }
}

/* The token of a container goes to no other host, whichever variable names the host. */
static void test_credentials_are_asked_of_no_other_host(void **state)
{
    static const struct {
        const char *variable, *value;
    } cases[] = {
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:hidden@127.0.0.2:1/"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost:hidden@127.0.0.2:1/"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://[::1]:hidden@127.0.0.2:1/"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://hidden@127.0.0.2:1/"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.2:1/"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.org:1/"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x?token=hidden"},
        {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254:hidden@127.0.0.2:1"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct credentials credentials = {0};
        struct error err;
        setenv(cases[i].variable, cases[i].value, 1);
        enum status status = aws_metadata(&credentials, &err);
        unsetenv(cases[i].variable);
        if (status != STATUS_INVALID || !strstr(err.message, cases[i].variable) ||
            strstr(err.message, "hidden"))
            fail_msg("%s=%s: %s", cases[i].variable, cases[i].value,
                     status != STATUS_OK ? err.message : "taken");
    }
}

/* What a server redirects to is shown without what is nobody's business. */
static void test_redirects(void **state)
{
    static const struct {
        const char *line, *shown;
    } cases[] = {{"Location: https://host/x?X-Amz-Signature=hidden", "https://host/x"},
                 {"Location: https://me:hidden@host/x", "https://..."},
                 {"Location: //me:hidden@host/x", "//..."},
                 {"Location: me:hidden@host/x", "..."},
                 {"Location: https://host/a@b", "https://host/a@b"},
                 {"Location: /a@b", "/a@b"},
                 {"Location: /x/y#hidden", "/x/y"}};
    struct http_answer answer = {0};
    char line[8192] = "Location: https://";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        http_answer_line(&answer, cases[i].line, strlen(cases[i].line));
        assert_string_equal(answer.location, cases[i].shown);
    }
    memset(line + strlen(line), 'a', 6000);/* and behind them "@host", which is cut away */
    strcat(line, "@host/");
    http_answer_line(&answer, line, strlen(line));
    assert_string_equal(answer.location, "...");
}

/* Uris of stores of every kind, also of those that are not read. */
static void test_uris_of_stores(void **state)
{
    static const char *const uris[] = {
        "http://me:hidden@host/x",    "https://host/x?X-Amz-Signature=hidden",
        "https://host/x?hidden",      "https://host/x#hidden",
        "s3://me:hidden@bucket/x",    "s3://bucket/x?sig=hidden",
        "gs://me:hidden@bucket/x",    "az://host/x?sv=1&sig=hidden",
        "simplecache::gs://hidden@x", "ftp://me:hidden/x@host/y",
        "file://me:hidden@host/x",    "FILE://hidden@localhost/x",
        "file://me:hidden/x@host/y",  "file:me:hidden@host/x"};
    (void)state;
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct store *store = NULL;
        struct error err;
        if (store_open(uris[i], &store, &err) == STATUS_OK || strstr(err.message, "hidden"))
            fail_msg("'%s': %s", uris[i], store ? "taken" : err.message);
    }
}

static void test_parts(void **state)
{
    static const char *const bases[][2] = {{"https://host/", "https://host"},
                                           {"https://host:443/", "https://host"},
                                           {"https://host:80", "https://host:80"},
                                           {"http://host:80", "http://host"},
                                           {"http://[::1]:8080/", "http://[::1]:8080"}};
    static const struct {
        const char *text;
        int byte; /* -1: it is none */
    } escapes[] = {{"%2f", '/'}, {"%fF/", 0xff}, {"%00", 0}, {"%2", -1},
                   {"%g0", -1},  {"%", -1},      {"2f", -1}, {"", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        struct text out = {0};
        url_append_base(bases[i][0], &out);
        assert_string_equal(out.data, bases[i][1]);
        text_done(&out);
    }
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        char c = 'x';
        assert_int_equal(url_is_escape(escapes[i].text, &c), escapes[i].byte >= 0);
        assert_int_equal(c, escapes[i].byte >= 0 ? (char)escapes[i].byte : 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_credentials_are_asked_of_no_other_host),
        cmocka_unit_test(test_redirects),
        cmocka_unit_test(test_uris_of_stores),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
