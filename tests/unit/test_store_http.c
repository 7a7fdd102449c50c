/* What answers are taken for, and how many requests are made at once: both without a network. */
#include "store/http/http_judge.h"
#include "store/http/http_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Header lines separated by newlines, then a blank line and the body of an error. */
static struct http_answer answer_of(const char *text)
{
    struct http_answer answer = {0};
    while (*text && *text != '\n') {
        size_t length = strcspn(text, "\n");
        http_answer_line(&answer, text, length);
        text += length + (text[length] == '\n');
    }
    if (*text)
        http_answer_body(&answer, text + 1, strlen(text + 1));
    return answer;
}

/* `got` bytes went to the buffer; all that came, but where the answer is more than was asked for.
 */
static enum http_verdict judge(const char *text, struct fetch *fetch, size_t got, struct error *err)
{
    struct store_settings settings = {.missing_count = 2, .missing = {404, 403}};
    struct http_answer answer = answer_of(text);
    struct http_try made = {.form = fetch->own.form, .got = got, .seen = got};
    if (http_body_is(&answer, fetch) == HTTP_BODY_ALL && answer.has_length)
        made.seen = answer.length;
    return http_judge(&answer, &settings, fetch, &made, err);
}

static void expect(const char *text, struct fetch fetch, size_t got, enum http_verdict verdict,
                   enum status status)
{
    struct error err;
    error_clear(&err);
    enum http_verdict found = judge(text, &fetch, got, &err);
    if (found != verdict || (verdict != HTTP_GOOD && err.status != (int32_t)status))
        fail_msg("'%s': verdict %d, status %d: %s", text, (int)found, (int)err.status, err.message);
}

/* A range of a value that was opened earlier. */
static void test_a_value_that_must_be_unchanged(void **state)
{
    static const char range[] = "HTTP/1.1 206 x\nContent-Range: bytes 0-9/20",
                      all[] = "HTTP/1.1 200 OK\nContent-Length: 20";
    struct fetch fetch = {.kind = FETCH_RANGE, .size = 10};
    char text[128];
    struct error err;
    (void)state;
    snprintf(text, sizeof text, "%s\nETag: \"a\"", range);
    assert_int_equal(judge(text, &fetch, 10, &err), HTTP_GOOD);
    assert_int_equal(fetch.total, 20);
    assert_false(fetch.all);
    fetch.unchanged = fetch.version;
    assert_int_not_equal(fetch.unchanged, 0);
    assert_int_equal(judge(text, &fetch, 10, &err), HTTP_GOOD);
    assert_int_equal(judge(range, &fetch, 10, &err), HTTP_GOOD); /* it does not say */
    snprintf(text, sizeof text, "%s\nETag: \"b\"", range);
    assert_int_equal(judge(text, &fetch, 10, &err), HTTP_FAILED);
    assert_non_null(strstr(err.message, "was changed after it was opened"));
    snprintf(text, sizeof text, "%s\nETag: \"b\"", all);
    assert_int_equal(judge(text, &fetch, 10, &err), HTTP_FAILED);
    assert_int_equal(judge(all, &fetch, 10, &err), HTTP_GOOD);
    assert_true(fetch.all);
}

static void test_whole_values(void **state)
{
    const struct fetch whole = {.kind = FETCH_WHOLE};
    (void)state;
    expect("HTTP/1.1 200 OK\ncontent-length: 10", whole, 10, HTTP_GOOD, 0);
    expect("HTTP/1.1 200 OK\nContent-Length: 10", whole, 9, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", whole, 9, HTTP_GOOD, 0);
    expect("HTTP/1.0 200 OK", whole, 9, HTTP_GOOD, 0);
    expect("HTTP/1.1 200 OK\nContent-Length: 5\nContent-Encoding: gzip", whole, 9, HTTP_GOOD, 0);
    expect("HTTP/1.1 206 Partial\nContent-Range: bytes 0-9/20", whole, 10, HTTP_FAILED, STATUS_IO);
    expect("HTTP/1.1 100 Continue\nHTTP/1.1 404 Not Found", whole, 0, HTTP_FAILED,
           STATUS_NOT_FOUND);
    expect("HTTP/1.1 403 Forbidden", whole, 0, HTTP_FAILED, STATUS_NOT_FOUND);
    expect("HTTP/1.1 401 Unauthorized", whole, 0, HTTP_EXPIRED, STATUS_IO);
    expect("HTTP/1.1 410 Gone", whole, 0, HTTP_FAILED, STATUS_IO);
    expect("HTTP/1.1 302 Found\nLocation: http://else/where?secret", whole, 0, HTTP_FAILED,
           STATUS_IO);
    expect("HTTP/1.1 503 Slow Down", whole, 0, HTTP_THROTTLED, STATUS_IO);
    expect("HTTP/1.1 429 Too Many", whole, 0, HTTP_THROTTLED, STATUS_IO);
    expect("HTTP/1.1 500 Internal Server Error", whole, 0, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 502 Bad Gateway", whole, 0, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 400 Bad\n\n<Code>RequestTimeout</Code>", whole, 0, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 400 Bad\n\n<Code>ExpiredToken</Code>", whole, 0, HTTP_EXPIRED, STATUS_IO);
    expect("HTTP/1.1 404 No\n\n<Code>NoSuchKey</Code>", whole, 0, HTTP_FAILED, STATUS_NOT_FOUND);
    expect("HTTP/1.1 404 No\n\n<Code>NoSuchBucket</Code>", whole, 0, HTTP_FAILED, STATUS_IO);
    expect("HTTP/1.1 404 No\n\nlist", (struct fetch){.kind = FETCH_QUERY}, 0, HTTP_FAILED,
           STATUS_IO);
}

static void test_ranges(void **state)
{
    const struct fetch range = {.kind = FETCH_RANGE, .offset = 10, .size = 5};
    struct fetch tail = {.kind = FETCH_SUFFIX, .size = 5};
    struct error err;
    (void)state;
    expect("HTTP/1.1 206 x\nContent-Range: bytes 10-14/100", range, 5, HTTP_GOOD, 0);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 10-14/*", range, 5, HTTP_GOOD, 0);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 10-14/100", range, 4, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 0-4/100", range, 5, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 206 x", range, 5, HTTP_AGAIN, STATUS_IO);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 10-12/13", range, 3, HTTP_FAILED, STATUS_CORRUPT);
    expect("HTTP/1.1 416 x\nContent-Range: bytes */7", range, 0, HTTP_FAILED, STATUS_CORRUPT);
    expect("HTTP/1.1 200 x\nContent-Length: 100", range, 5, HTTP_GOOD, 0);
    expect("HTTP/1.1 200 x\nContent-Length: 13", range, 3, HTTP_FAILED, STATUS_CORRUPT);
    expect("HTTP/1.1 501 x", range, 0, HTTP_OTHERWISE, STATUS_IO);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 10-14/100\nContent-Encoding: gzip", range, 0,
           HTTP_OTHERWISE, STATUS_IO);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 10-14/100\nContent-Encoding: gzip",
           (struct fetch){.kind = FETCH_RANGE, .offset = 10, .size = 5, .own.form = HTTP_FORM_ALL},
           0, HTTP_FAILED, STATUS_IO);
    expect("HTTP/1.1 200 x\nContent-Length: 5", (struct fetch){.kind = FETCH_RANGE, .size = 5}, 5,
           HTTP_GOOD, 0);
    assert_int_equal(judge("HTTP/1.1 206 x\nContent-Range: bytes 95-99/100", &tail, 5, &err),
                     HTTP_GOOD);
    assert_int_equal(tail.total, 100);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 0-2/3", tail, 3, HTTP_FAILED, STATUS_CORRUPT);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 0-4/100", tail, 5, HTTP_FAILED,
           STATUS_UNSUPPORTED);
    tail.total = 0;
    assert_int_equal(judge("HTTP/1.1 200 x\nContent-Length: 100", &tail, 5, &err), HTTP_GOOD);
    assert_int_equal(tail.total, 100);
    expect("HTTP/1.1 200 x\nContent-Length: 3", tail, 3, HTTP_FAILED, STATUS_CORRUPT);
}

/* Only what names a way to encode makes a value an encoded one, of which no range is any use. */
static void test_what_is_no_encoding(void **state)
{
    static const struct {
        const char *encoding;
        enum http_verdict verdict;
    } cases[] = {{"utf-8", HTTP_GOOD},       {"none", HTTP_GOOD},
                 {"binary", HTTP_GOOD},      {"identity", HTTP_GOOD},
                 {"aws-chunked", HTTP_GOOD}, {"gzipped", HTTP_GOOD},
                 {"GZip", HTTP_OTHERWISE},   {"utf-8,br", HTTP_OTHERWISE},
                 {"zstd", HTTP_OTHERWISE},   {"deflate , x", HTTP_OTHERWISE}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "HTTP/1.1 206 x\nContent-Range: bytes 10-14/100\nContent-Encoding: %s",
                 cases[i].encoding);
        expect(text, (struct fetch){.kind = FETCH_RANGE, .offset = 10, .size = 5}, 5,
               cases[i].verdict, STATUS_IO);
    }
}

/* HEAD, then GET of the first byte, then whatever tells how long it is. */
static void test_sizes(void **state)
{
    struct fetch size = {.kind = FETCH_STAT}, by_get = size;
    struct error err;
    (void)state;
    by_get.own.form = HTTP_FORM_GET;
    static const char *const refusals[] = {"HTTP/1.1 403 x", "HTTP/1.1 405 x", "HTTP/1.1 501 x",
                                           "HTTP/1.1 200 x"};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        expect(refusals[i], size, 0, HTTP_OTHERWISE, STATUS_IO);
    expect("HTTP/1.1 404 x", size, 0, HTTP_FAILED, STATUS_NOT_FOUND);
    expect("HTTP/1.1 403 x", by_get, 0, HTTP_FAILED, STATUS_NOT_FOUND);
    expect("HTTP/1.1 405 x", by_get, 0, HTTP_FAILED, STATUS_IO);
    expect("HTTP/1.1 206 x\nContent-Range: bytes 0-0/*", by_get, 0, HTTP_FAILED, STATUS_IO);
    static const struct {
        const char *answer;
        uint64_t total;
    } told[] = {{"HTTP/1.1 206 x\nContent-Range: bytes 0-0/77", 77},
                {"HTTP/1.1 416 x\nContent-Range: bytes */0", 0},
                {"HTTP/1.1 200 x\nContent-Length: 9", 9},
                {"HTTP/1.1 200 x", 33}};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct fetch fetch = by_get;
        assert_int_equal(judge(told[i].answer, &fetch, 33, &err), HTTP_GOOD);
        assert_int_equal(fetch.total, told[i].total);
    }
}

static void test_messages(void **state)
{
    struct fetch whole = {.kind = FETCH_WHOLE};
    struct error err;
    (void)state;
    judge("HTTP/1.1 400 Bad\n\n<?xml?>\n<Error><Code>NoSuch</Code><Message>what\x1b</Message>",
          &whole, 0, &err);
    assert_string_equal(err.message, "400 Bad: NoSuch: what ");
    judge("HTTP/1.1 302 Found\nLocation: http://else/where?secret", &whole, 0, &err);
    assert_null(strstr(err.message, "secret"));
}

static void test_versions(void **state)
{
    struct fetch a = {.kind = FETCH_STAT}, b = a;
    struct error err;
    (void)state;
    assert_int_equal(judge("HTTP/1.1 200 x\nContent-Length: 7\nETag: \"1\"", &a, 0, &err),
                     HTTP_GOOD);
    assert_int_equal(judge("HTTP/1.1 200 x\nContent-Length: 7\nETag: \"2\"", &b, 0, &err),
                     HTTP_GOOD);
    assert_int_equal(a.total, 7);
    assert_true(a.version != b.version);
}

static const uint64_t ms_ns = 1000000;

/* Answers of 64 KiB as a server gives them that needs `latency_ms` and has `most` bytes a second.
 */
static uint64_t serve(struct http_pace *pace, uint64_t now_ns, unsigned rounds, unsigned latency_ms,
                      double most)
{
    for (unsigned i = 0; i < rounds; i++) {
        double seconds = latency_ms / 1e3, bytes = pace->limit * 65536.0;
        if (bytes / seconds > most)
            seconds = bytes / most;
        now_ns += (uint64_t)(seconds * 1e9);
        for (uint32_t j = 0, count = pace->limit; j < count; j++)
            http_pace_answered(pace, now_ns, (uint64_t)(seconds * 1e9), 65536, true);
    }
    return now_ns;
}

static void test_the_limit_grows_while_that_helps(void **state)
{
    struct http_pace pace;
    (void)state;
    http_pace_init(&pace, 0);
    serve(&pace, ms_ns, 40, 50, 1e12);
    assert_in_range(pace.limit, HTTP_PACE_MOST * 3 / 4, HTTP_PACE_MOST);
    http_pace_init(&pace, 0);
    serve(&pace, ms_ns, 40, 50, 100e6); /* 76 requests fill the link */
    assert_in_range(pace.limit, 60, 120);
    http_pace_init(&pace, 17);
    serve(&pace, ms_ns, 40, 50, 1e12);
    assert_int_equal(pace.limit, 17);
}

/* Readers that share a link of 100 MB/s, to a server that answers at once: rounds of one after
 * those of another, so that each sees a gain where it takes from the others. */
static void test_readers_do_not_outbid_each_other(void **state)
{
    enum { READERS = 4, BYTES = 340000, TURNS = 4 };
    struct http_pace paces[READERS];
    uint64_t now_ns = ms_ns;
    uint32_t under_way = 0;
    (void)state;
    for (unsigned r = 0; r < READERS; r++)
        http_pace_init(&paces[r], 0);
    for (unsigned i = 0; i < 2000; i++) {
        struct http_pace *pace = &paces[i / TURNS % READERS];
        under_way = 0;
        for (unsigned r = 0; r < READERS; r++)
            under_way += paces[r].limit;
        uint64_t latency_ns = (uint64_t)under_way * BYTES * 10; /* of 100 MB/s */
        now_ns += latency_ns;
        for (uint32_t j = 0, count = pace->limit; j < count; j++)
            http_pace_answered(pace, now_ns, latency_ns, BYTES, true);
    }
    assert_in_range(under_way, READERS * HTTP_PACE_LEAST, READERS * 3 * HTTP_PACE_FIRST);
}

static void test_the_limit_shrinks_when_the_server_says_so(void **state)
{
    struct http_pace pace;
    (void)state;
    http_pace_init(&pace, 0);
    uint64_t now_ns = serve(&pace, ms_ns, 40, 50, 1e12);
    uint32_t before = pace.limit;
    http_pace_throttled(&pace, now_ns);
    http_pace_throttled(&pace, now_ns + ms_ns); /* of the same burst */
    assert_int_equal(pace.limit, before / 2);
    for (unsigned i = 1; i < 20; i++)
        http_pace_throttled(&pace, now_ns + i * 1000 * ms_ns);
    assert_int_equal(pace.limit, HTTP_PACE_LEAST);
    serve(&pace, now_ns + 20000 * ms_ns, 400, 50, 1e12);
    assert_in_range(pace.limit, HTTP_PACE_FIRST, HTTP_PACE_MOST);
}

static void test_lateness(void **state)
{
    struct http_pace pace;
    unsigned taken = 0;
    (void)state;
    http_pace_init(&pace, 8);
    assert_true(http_pace_late_ns(&pace, 1000) == UINT64_MAX);
    for (unsigned i = 0; i < 1000; i++) {
        http_pace_answered(&pace, i * ms_ns, (i % 50 == 0 ? 900 : 30) * ms_ns, 1000, false);
        taken += http_pace_take_second(&pace);
    }
    assert_in_range(http_pace_late_ns(&pace, 1000), 60 * ms_ns, 120 * ms_ns);
    assert_true(http_pace_late_ns(&pace, 10 << 20) ==
                UINT64_MAX); /* of that size nothing is known */
    assert_in_range(taken, 20, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_that_must_be_unchanged),
        cmocka_unit_test(test_whole_values),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_what_is_no_encoding),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_the_limit_grows_while_that_helps),
        cmocka_unit_test(test_readers_do_not_outbid_each_other),
        cmocka_unit_test(test_the_limit_shrinks_when_the_server_says_so),
        cmocka_unit_test(test_lateness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
