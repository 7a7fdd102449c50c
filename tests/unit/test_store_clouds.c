/* Signatures against published examples, addresses of clouds, and what a redirect may not do: by
 * what is refused before a request. */
#include "store/credentials/aws.h"
#include "store/credentials/headers.h"
#include "store/credentials/jwt.h"
#include "store/http/http_answer.h"
#include "store/remote/azure_sign.h"
#include "store/remote/remote_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* RFC 7515, appendix A.2: the key, in PEM, the claims and the signature. */
static const char rfc_key[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO\n"
                              "jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL\n"
                              "aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn\n"
                              "juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5\n"
                              "ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf\n"
                              "toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg\n"
                              "VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW\n"
                              "PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G\n"
                              "O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj\n"
                              "kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6\n"
                              "XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB\n"
                              "4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K\n"
                              "pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr\n"
                              "0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE\n"
                              "lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6\n"
                              "kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP\n"
                              "rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw\n"
                              "kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp\n"
                              "5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2\n"
                              "9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/\n"
                              "evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG\n"
                              "yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj\n"
                              "OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2\n"
                              "tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3\n"
                              "ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56\n"
                              "03k2+ZQwVK0JKSHuLFkuQ3U=\n"
                              "-----END PRIVATE KEY-----\n";
static const char rfc_claims[] = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n "
                                 "\"http://example.com/is_root\":true}";
static const char rfc_token[] =
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGx"
    "lLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5R"
    "Zmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrn"
    "byTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHW"
    "EsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig"
    "cN_IoypGlUPQGe77Rw";

static void test_tokens_are_signed_as_the_rfc_does(void **state)
{
    struct text out = {0};
    struct error err;
    (void)state;
    if (jwt_sign(rfc_key, "{\"alg\":\"RS256\"}", rfc_claims, &out, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_string_equal(out.data, rfc_token);
    text_done(&out);
    assert_int_equal(jwt_sign("no key", "{}", "{}", &out, &err), STATUS_INVALID);
    assert_null(out.data);
}

/* Microsoft, "Authorize with Shared Key": the example of a listing, without the date's header that
 * the service of blobs does not need. */
static void test_what_azure_signs(void **state)
{
    struct azure_request request = {
        .method = "GET",
        .account = "myaccount",
        .path = "/mycontainer",
        .query = "restype=metadata&comp=metadata&timeout=20",
        .range = "",
        .if_match = "",
        .unmodified_since = "",
        .headers = "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"};
    struct text out = {0};
    struct error err;
    (void)state;
    azure_to_sign(&request, &out);
    assert_string_equal(out.data,
                        "GET\n\n\n\n\n\n\n\n\n\n\n\n"
                        "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
                        "/myaccount/mycontainer\ncomp:metadata\nrestype:metadata\ntimeout:20");
    text_done(&out);
    request.if_match = "\"e\"";
    request.unmodified_since = "Fri, 26 Jun 2015 23:39:12 GMT";
    azure_to_sign(&request, &out);
    assert_memory_equal(
        out.data, "GET\n\n\n\n\n\n\n\n\"e\"\n\nFri, 26 Jun 2015 23:39:12 GMT\n\nx-ms-date:", 57);
    text_done(&out);
    request.if_match = request.unmodified_since = "";
    request.range = "bytes=0-9";
    request.query = "prefix=a%2Fb%20c&comp=list";
    azure_to_sign(&request, &out);
    assert_non_null(strstr(out.data, "\nbytes=0-9\nx-ms-date:"));
    assert_non_null(strstr(out.data, "\ncomp:list\nprefix:a/b c"));
    text_done(&out);
    assert_int_equal(azure_authorize(&request, "c2VjcmV0", &out, &err), STATUS_OK);
    assert_string_equal(out.data,
                        "SharedKey myaccount:U+IlDQzLVkOAS0xQrN3xfdp6J2d1da841KGFsPE64Fk=");
    text_done(&out);
    assert_int_equal(azure_authorize(&request, "no base64!", &out, &err), STATUS_INVALID);
}

/* Where a uri's key is asked for; NULL: refused, with INVALID. */
static void expect_url(const char *uri, const char *url)
{
    const struct store_settings preset = store_settings_default();
    struct store_settings settings = preset;
    struct origin *origin = NULL;
    struct error err;
    struct fetch fetch = {.kind = FETCH_WHOLE, .key = "c/0"};
    struct text made = {0};
    struct curl_slist *headers = NULL;
    bool is_s3 = strncmp(uri, "s3:", 3) == 0 || strncmp(uri, "gs:", 3) == 0;
    bool is_azure = strncmp(uri, "az:", 3) == 0 || strncmp(uri, "abfs", 4) == 0 || azure_is(uri);
    settings.anonymous = true;
    enum status status = is_s3      ? s3_new(uri, &settings, &origin, &err)
                         : is_azure ? azure_new(uri, &settings, &origin, &err)
                                    : web_new(uri, &settings, &origin, &err);
    if (!url) {
        assert_int_equal(status, STATUS_INVALID);
        return;
    }
    if (status != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(origin->kind->prepare(origin, &fetch, &made, &headers, &err), STATUS_OK);
    assert_string_equal(made.data, url);
    http_headers_forget(headers);
    text_done(&made);
    origin_free(origin);
}

static void test_where_uris_lead(void **state)
{
    static const struct {
        const char *uri, *url;
    } cases[] = {
        {"gs://b/a b", "https://storage.googleapis.com/b/a%20b/c/0"},
        {"az://data/x", "https://acc.blob.core.windows.net/data/x/c/0"},
        {"abfss://data@other.dfs.core.windows.net/x",
         "https://other.blob.core.windows.net/data/x/c/0"},
        {"https://other.blob.core.windows.net/data",
         "https://other.blob.core.windows.net/data/c/0"},
        {"https://other.blob.core.windows.net.example.org/data",
         "https://other.blob.core.windows.net.example.org/data/c/0"},
        {"abfss://data@example.org/x", NULL},
        {"abfss://data@core.windows.net/x", NULL},
        {"az://Data!/x", NULL},
        {"hf://datasets/o/n", "https://huggingface.co/datasets/o/n/resolve/main/c/0"},
        {"hf://datasets/o/n@v1.0/p/q", "https://huggingface.co/datasets/o/n/resolve/v1.0/p/q/c/0"},
        {"hf://o/n@refs/pr/7/p", "https://huggingface.co/o/n/resolve/refs%2Fpr%2F7/p/c/0"},
        {"hf://datasets/o/n@refs/convert/x", "https://huggingface.co/datasets/o/n/resolve/"
                                             "refs%2Fconvert%2Fx/c/0"},
        {"hf://datasets/o", NULL},
        {"s3://b/x", "https://b.s3.us-east-1.amazonaws.com/x/c/0"}};
    (void)state;
    setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_url(cases[i].uri, cases[i].url);
}

/* AWS's other regions have other hosts; an endpoint that was given stays. */
static void test_another_region_has_another_host(void **state)
{
    static const struct {
        const char *uri, *endpoint, *url;
    } cases[] = {{"s3://b/x", "", "https://b.s3.eu-south-9.amazonaws.com/x/c/0"},
                 {"s3://b.c/x", "", "https://s3.eu-south-9.amazonaws.com/b.c/x/c/0"},
                 {"s3://b/x", "http://127.0.0.1:1", "http://127.0.0.1:1/b/x/c/0"}};
    static const char body[] = "<Error><Code>TemporaryRedirect</Code>"
                               "<Endpoint>b.s3.eu-south-9.amazonaws.com</Endpoint></Error>";
    struct fetch fetch = {.kind = FETCH_WHOLE, .key = "c/0"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store_settings settings = store_settings_default();
        struct http_answer answer = {.status = 307};
        struct origin *origin = NULL;
        struct curl_slist *headers = NULL;
        struct text made = {0};
        struct error err;
        settings.anonymous = true;
        strcpy(settings.endpoint, cases[i].endpoint);
        http_answer_body(&answer, body, strlen(body));
        assert_int_equal(s3_new(cases[i].uri, &settings, &origin, &err), STATUS_OK);
        assert_true(origin->kind->moved(origin, &answer));
        assert_int_equal(origin->kind->prepare(origin, &fetch, &made, &headers, &err), STATUS_OK);
        assert_string_equal(made.data, cases[i].url);
        answer.status = 404;
        assert_false(origin->kind->moved(origin, &answer));
        text_done(&made);
        origin_free(origin);
    }
}

static void test_uris_that_are_refused_or_taken(void **state)
{
    static const struct {
        const char *uri;
        enum status status;
        const char *said;
    } cases[] = {
        {"s3://fast--usw2-az1--x-s3/x", STATUS_UNSUPPORTED, "use a general purpose bucket"},
        {"gs://fast--usw2-az1--x-s3/x", STATUS_INVALID, "no credentials"},
        {"gcs://b/x", STATUS_UNSUPPORTED, "write gs://BUCKET/PATH"},
        {"GS://b/x", STATUS_UNSUPPORTED, "small letters"},
        {"gs://b/x", STATUS_INVALID, "gcloud auth"},
        {"s3://b/x", STATUS_INVALID, "or AWS_PROFILE"},
        {"az://b/x", STATUS_IO, "AZURE_STORAGE_SAS_TOKEN_FILE: open '/nonexistent"},
        {"abfss://me:hidden@a.dfs.core.windows.net/x", STATUS_INVALID, "docs/use/clouds.md"},
        {"https://me:hidden@host/x", STATUS_INVALID, "store.headers"},
        {"icechunk+https://me:hidden@host/x", STATUS_INVALID, "icechunk+https://HOST/@BRANCH"}};
    (void)state;
    setenv("HOME", "/nonexistent", 1);
    setenv("AZURE_STORAGE_SAS_TOKEN_FILE", "/nonexistent/sas", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = NULL;
        struct error err;
        assert_int_equal(store_open(cases[i].uri, &store, &err), cases[i].status);
        assert_null(strstr(err.message, "hidden"));
        if (!strstr(err.message, cases[i].said))
            fail_msg("%s: %s", cases[i].uri, err.message);
    }
}

/* Nothing that is wrong with credentials is in the way of who wants none. */
static void test_anonymous_needs_none(void **state)
{
    struct store_settings settings = store_settings_default();
    struct store_options options = {.settings = &settings};
    struct error err;
    (void)state;
    settings.anonymous = true;
    setenv("AWS_PROFILE", "stale", 1);
    setenv("AZURE_STORAGE_SAS_TOKEN_FILE", "/nonexistent/sas", 1);
    setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/google", 1);
    const char *const uris[] = {"s3://b/x", "gs://b/x", "abfss://c@a.dfs.core.windows.net/x"};
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct store *store = NULL;
        if (store_open_with(uris[i], &options, &store, &err) != STATUS_OK)
            fail_msg("%s: %s", uris[i], err.message);
        store_free(store);
    }
    settings.anonymous = false;
    assert_int_equal(store_open_with(uris[0], &options, NULL, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "AWS_PROFILE is 'stale'"));
}

/* `said`: NULL: they are taken. */
static void expect_headers(const char *lines, const char *said)
{
    struct store_settings settings = store_settings_default();
    struct credentials found = {0};
    struct error err = {0};
    strcpy(settings.headers, "env:LINES");
    setenv("LINES", lines, 1);
    enum status status = headers_look(&settings, &found, &err);
    if (said ? status != STATUS_INVALID || !strstr(err.message, said) : status != STATUS_OK)
        fail_msg("'%s': %s", lines, err.message);
    assert_null(strstr(err.message, "hidden"));
}

static void test_headers(void **state)
{
    (void)state;
    expect_headers("Authorization: Bearer hidden", NULL);
    expect_headers("X-Key: hidden\nX-Other: 1", NULL);
    expect_headers("", "'env:LINES': the variable is not set");
    expect_headers("hidden", "line 1 is no header");
    expect_headers("range: bytes=hidden", "line 1 sets Range, which Penstock sets itself");
    expect_headers("X-Key: 1\nX hidden: 2", "line 2 is no header");
}

/* A bearer token goes over https, or to this machine. */
static void test_tokens_are_not_sent_in_the_open(void **state)
{
    struct store_settings settings = store_settings_default();
    struct store *store = NULL;
    struct error err;
    (void)state;
    setenv("LINES", "Authorization: Bearer hidden", 1);
    strcpy(settings.headers, "env:LINES");
    struct store_options options = {.settings = &settings};
    assert_int_equal(store_open_with("http://127.0.0.2:1/x", &options, &store, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, "over https alone"));
    assert_int_equal(store_open_with("http://127.0.0.1:1/x", &options, &store, &err), STATUS_OK);
    store_free(store);
    strcpy(settings.proxy, "http://me:hidden@127.0.0.1:1");
    assert_int_equal(store_open_with("http://127.0.0.1:1/x", &options, &store, &err),
                     STATUS_INVALID);
    assert_null(strstr(err.message, "hidden"));
}

#define GOOD "echo '{\"Version\":1,\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"hidden\"}'"

/* A program that does not end, or writes too much, is killed with what it has started. */
static void test_programs_for_credentials(void **state)
{
    static const struct {
        const char *script, *said; /* NULL: it is good */
    } cases[] = {{GOOD, NULL},
                 {GOOD "; exec >&-; sleep 0.2", NULL},
                 {"sleep 60", "did not end within 1 s, and was killed"},
                 {GOOD "; exec >&-; sleep 60", "did not end within 1 s, and was killed"},
                 {GOOD "; exec cat /dev/zero", "wrote more than 64 KiB"},
                 {GOOD "; exit 3", "failed (exit status 3)"},
                 {"echo hidden", "something else than JSON"}};
    char path[] = "/tmp/penstock-program-XXXXXX", command[64];
    int fd = mkstemp(path);
    (void)state;
    snprintf(command, sizeof command, "sh %s", path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct credentials found = {0};
        struct error err;
        const char *said = cases[i].said;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_true(pwrite(fd, cases[i].script, strlen(cases[i].script), 0) > 0);
        enum status status = aws_program(command, 1, &found, &err);
        if (said ? status != STATUS_IO || !strstr(err.message, said) : status != STATUS_OK)
            fail_msg("%s: %s", cases[i].script, err.message);
        if (said)
            assert_null(strstr(err.message, "hidden"));
        else
            assert_string_equal(found.secret, "hidden");
    }
    close(fd);
    unlink(path);
}

static enum status count(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                         struct error *err)
{
    (void)err;
    text_append(argument, "%s%s %llu\n", key, is_prefix ? "*" : "", (unsigned long long)bytes);
    return STATUS_OK;
}

static void test_pages_of_azure(void **state)
{
    struct text noted = {0};
    struct page page;
    struct error err;
    (void)state;
    assert_int_equal(
        page_read(&page_azure,
                  "<?xml version=\"1.0\"?><EnumerationResults ContainerName=\"c\"><Blobs><Blob>"
                  "<Name>a/b&amp;c</Name><Properties><Content-Length>12</Content-Length>"
                  "<ResourceType>file</ResourceType></Properties></Blob><Blob><Name>a/d</Name>"
                  "<Properties><Content-Length>0</Content-Length><ResourceType>directory"
                  "</ResourceType></Properties></Blob><BlobPrefix><Name>a/e/</Name></BlobPrefix>"
                  "</Blobs><NextMarker>m</NextMarker></EnumerationResults>",
                  count, &noted, &page, &err),
        STATUS_OK);
    assert_string_equal(noted.data, "a/b&c 12\na/e/* 0\n");
    assert_true(page.more);
    assert_string_equal(page.next, "m");
    assert_int_equal(page_read(&page_azure, "<EnumerationResults><NextMarker></NextMarker>", count,
                               &noted, &page, &err),
                     STATUS_OK);
    assert_false(page.more);
    text_done(&noted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_are_signed_as_the_rfc_does),
        cmocka_unit_test(test_what_azure_signs),
        cmocka_unit_test(test_where_uris_lead),
        cmocka_unit_test(test_another_region_has_another_host),
        cmocka_unit_test(test_uris_that_are_refused_or_taken),
        cmocka_unit_test(test_anonymous_needs_none),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_tokens_are_not_sent_in_the_open),
        cmocka_unit_test(test_programs_for_credentials),
        cmocka_unit_test(test_pages_of_azure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
