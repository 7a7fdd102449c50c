/* See http_judge.h. */
#include "store/http/http_judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_range(const struct fetch *fetch)
{
    return fetch->kind == FETCH_RANGE || fetch->kind == FETCH_SUFFIX;
}

enum http_body http_body_is(const struct http_answer *answer, const struct fetch *fetch)
{
    if (answer->status == 200)
        return is_range(fetch) || fetch->kind == FETCH_STAT ? HTTP_BODY_ALL : HTTP_BODY_ASKED;
    /* A range of encoded bytes means nothing. */
    return answer->status == 206 && is_range(fetch) && !answer->encoded ? HTTP_BODY_ASKED
                                                                        : HTTP_BODY_TEXT;
}

static bool is_missing(const struct store_settings *settings, int status)
{
    for (uint32_t i = 0; i < settings->missing_count; i++)
        if (settings->missing[i] == status)
            return true;
    return false;
}

/* Whether an answer that says "missing" means the value, and not what the value would lie in. */
static bool means_value(const struct http_answer *answer, const struct http_try *made)
{
    static const char *const values[] = {"EntryNotFound", "BlobNotFound", "NoSuchKey"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(answer->code, values[i]) == 0)
            return true;
    return !answer->code[0] && !made->is_coded &&
           !strstr(answer->body, "<Code>NoSuchBucket</Code>") &&
           !strstr(answer->body, "The specified bucket does not exist");
}

static const char *hint_of(const struct http_answer *answer, const struct fetch *fetch)
{
    int status = answer->status;
    if (status == 403 && fetch->kind != FETCH_QUERY &&
        (!strstr(answer->body, "<Code>") || strstr(answer->body, "<Code>AccessDenied</Code>")))
        return " (if this server answers 403 for a value that is not there, set "
               "store.missing_status to 403,404)";
    if (status == 401)
        return " (credentials are taken from the environment and files alone; see "
               "docs/use/clouds.md)";
    return "";
}

/* Whether to ask in that form, which was not tried yet. */
static bool otherwise(struct fetch *fetch, const struct http_try *made, enum http_form form)
{
    fetch->own.form |= (uint8_t)form;
    return !(made->form & form);
}

/* Whether what was refused may be had in another form: a size by GET, a range as part of all. */
static bool may_be_had_otherwise(const struct http_answer *answer, struct fetch *fetch,
                                 const struct http_try *made)
{
    int status = answer->status;
    if (fetch->kind == FETCH_STAT &&
        (status == 400 || status == 403 || status == 405 || status == 501))
        return otherwise(fetch, made, HTTP_FORM_GET);
    return is_range(fetch) && (status == 501 || (status == 206 && answer->encoded)) &&
           otherwise(fetch, made, HTTP_FORM_ALL);
}

static enum http_verdict judge_failure(const struct http_answer *answer,
                                       const struct store_settings *settings, struct fetch *fetch,
                                       const struct http_try *made, struct error *err)
{
    char body[512];
    int status = answer->status;
    http_answer_describe(answer, body, sizeof body);
    if (!body[0] && answer->code[0])
        snprintf(body, sizeof body, ": %s", answer->code);
    if (may_be_had_otherwise(answer, fetch, made)) {
        error_set(err, STATUS_IO, "%d %s%s", status, answer->reason, body);
        return HTTP_OTHERWISE;
    }
    /* A page of a listing is there, or its bucket is not, unless a code says otherwise. */
    if (is_missing(settings, status) && (fetch->kind != FETCH_QUERY || made->is_coded) &&
        means_value(answer, made)) {
        error_set(err, STATUS_NOT_FOUND, "%d %s%s", status, answer->reason, body);
        return HTTP_FAILED;
    }
    if (status >= 300 && status < 400) {
        error_set(err, STATUS_IO, "%d %s: a redirect that cannot be followed%s", status,
                  answer->reason, body);
        return HTTP_FAILED;
    }
    if (status == 412) {
        error_set(err, STATUS_CORRUPT,
                  "%d %s: the value was changed after the reference to it was written%s", status,
                  answer->reason, body);
        return HTTP_FAILED;
    }
    if (status == 416) {
        error_set(err, STATUS_CORRUPT, "the value ends before byte %" PRIu64 ": it was cut short",
                  fetch->offset + fetch->size);
        return HTTP_FAILED;
    }
    error_set(err, STATUS_IO, "%d %s%s%s", status, answer->reason, body, hint_of(answer, fetch));
    if (status == 429 || status == 503)
        return HTTP_THROTTLED;
    if (status == 408 || status == 500 || status == 502 || status == 504 ||
        (status == 400 && strstr(answer->body, "<Code>RequestTimeout</Code>")))
        return HTTP_AGAIN;
    if (status == 401 || strcmp(answer->code, "AuthenticationFailed") == 0 ||
        strstr(answer->body, "<Code>ExpiredToken</Code>") ||
        strstr(answer->body, "<Code>TokenRefreshRequired</Code>"))
        return HTTP_EXPIRED;
    return HTTP_FAILED;
}

static enum http_verdict ends_early(struct error *err, uint64_t got, uint64_t expected)
{
    error_set(err, STATUS_IO, "the answer ended after %" PRIu64 " of %" PRIu64 " bytes", got,
              expected);
    return HTTP_AGAIN;
}

static enum http_verdict too_short(struct error *err, uint64_t total, uint64_t needed)
{
    error_set(err, STATUS_CORRUPT,
              "it has %" PRIu64 " bytes, %" PRIu64 " are needed: it was cut short", total, needed);
    return HTTP_FAILED;
}

static enum http_verdict judge_range(const struct http_answer *answer, struct fetch *fetch,
                                     size_t got, struct error *err)
{
    uint64_t end = fetch->offset + fetch->size;
    if (answer->status == 206 && (!answer->has_range || answer->range_first != fetch->offset)) {
        error_set(err, STATUS_IO, "206 (Partial Content) with another range than was asked for");
        return HTTP_AGAIN;
    }
    if (answer->has_total && answer->range_all < end)
        return too_short(err, answer->range_all, end);
    return got == fetch->size ? HTTP_GOOD : ends_early(err, got, fetch->size);
}

static enum http_verdict judge_suffix(const struct http_answer *answer, struct fetch *fetch,
                                      size_t got, struct error *err)
{
    if (!answer->has_range || !answer->has_total || answer->range_last != answer->range_all - 1) {
        error_set(err, STATUS_UNSUPPORTED,
                  "206 (Partial Content) without the end of the value, which was asked for");
        return HTTP_FAILED;
    }
    if (answer->range_all < fetch->size)
        return too_short(err, answer->range_all, fetch->size);
    fetch->total = answer->range_all;
    return got == fetch->size ? HTTP_GOOD : ends_early(err, got, fetch->size);
}

/* Without a length what is cut short is noticed by whoever reads the value. */
static enum http_verdict judge_whole(const struct http_answer *answer, uint64_t seen,
                                     struct error *err)
{
    bool says = answer->has_length && !answer->encoded;
    return !says || seen == answer->length ? HTTP_GOOD : ends_early(err, seen, answer->length);
}

/* A range that was cut out of all there is. */
static enum http_verdict judge_range_of_all(const struct http_answer *answer, struct fetch *fetch,
                                            const struct http_try *made, struct error *err)
{
    bool is_suffix = fetch->kind == FETCH_SUFFIX;
    uint64_t end = is_suffix ? fetch->size : fetch->offset + fetch->size;
    bool is_there = is_suffix ? made->seen >= end : made->got == fetch->size;
    enum http_verdict verdict = HTTP_GOOD;
    if (is_suffix || !is_there) /* nothing is left out on purpose */
        verdict = judge_whole(answer, made->seen, err);
    if (verdict == HTTP_GOOD && !is_there)
        return too_short(err, made->seen, end);
    if (verdict == HTTP_GOOD && is_suffix)
        fetch->total = made->seen;
    return verdict;
}

/* Whether the answer tells a size: also one to a request for the first byte, of which an empty
 * value has none. */
static bool tells_size(const struct http_answer *answer, const struct http_try *made)
{
    return answer->status == 200 ||
           ((made->form & HTTP_FORM_GET) &&
            (answer->status == 206 ||
             (answer->status == 416 && answer->has_total && answer->range_all == 0)));
}

static enum http_verdict judge_size(const struct http_answer *answer, struct fetch *fetch,
                                    const struct http_try *made, struct error *err)
{
    bool all = answer->status == 200, by_get = made->form & HTTP_FORM_GET;
    bool says = all ? answer->has_length : answer->has_total;
    if (!says && !(by_get && all)) {
        error_set(err, STATUS_IO, "the server does not say how long the value is");
        return otherwise(fetch, made, HTTP_FORM_GET) ? HTTP_OTHERWISE : HTTP_FAILED;
    }
    fetch->total = !says ? made->seen : all ? answer->length : answer->range_all;
    fetch->encoded = says && answer->encoded;
    fetch->version = answer->version ^ fetch->total * UINT64_C(0x9e3779b97f4a7c15);
    return HTTP_GOOD;
}

/* Takes what the answer to a request for a range says of the whole value. False: it is not the
 * value that it should be. */
static bool take_value(const struct http_answer *answer, struct fetch *fetch, struct error *err)
{
    bool all = answer->status == 200;
    if (all ? answer->has_length && !answer->encoded : answer->has_total)
        fetch->total = all ? answer->length : answer->range_all;
    fetch->all = all;
    fetch->version = answer->version;
    if (!fetch->unchanged || !answer->version || answer->version == fetch->unchanged)
        return true;
    error_set(err, STATUS_CORRUPT,
              "the value was changed after it was opened: its ETag or its Last-Modified differs");
    return false;
}

static bool take_mark(const struct http_answer *answer, struct fetch *fetch, struct error *err)
{
    if (answer->next_cut)
        error_set(err, STATUS_UNSUPPORTED, "the mark of the listing's next page is too long");
    else if (fetch->ret_mark)
        memcpy(fetch->ret_mark, answer->next, sizeof answer->next);
    return !answer->next_cut;
}

enum http_verdict http_judge(const struct http_answer *answer,
                             const struct store_settings *settings, struct fetch *fetch,
                             const struct http_try *made, struct error *err)
{
    enum http_body body = http_body_is(answer, fetch);
    if (fetch->kind == FETCH_STAT && tells_size(answer, made))
        return judge_size(answer, fetch, made, err);
    if (body == HTTP_BODY_TEXT)
        return judge_failure(answer, settings, fetch, made, err);
    if (fetch->kind == FETCH_RANGE && !take_value(answer, fetch, err))
        return HTTP_FAILED;
    if (body == HTTP_BODY_ALL)
        return judge_range_of_all(answer, fetch, made, err);
    if (fetch->kind == FETCH_RANGE)
        return judge_range(answer, fetch, made->got, err);
    if (fetch->kind == FETCH_SUFFIX)
        return judge_suffix(answer, fetch, made->got, err);
    if (fetch->kind == FETCH_QUERY && !take_mark(answer, fetch, err))
        return HTTP_FAILED;
    return judge_whole(answer, made->seen, err);
}
