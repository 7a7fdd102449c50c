/* What an HTTP server's answer (http_answer.h) is worth to the fetch that it answers, and how to
 * ask where the server lacks something. Pure; foreign bytes.
 */
#ifndef PENSTOCK_STORE_HTTP_JUDGE_H
#define PENSTOCK_STORE_HTTP_JUDGE_H

#include "store/fetch.h"
#include "store/http_answer.h"

/* How a fetch is asked for where the server does not have what is asked for first. */
enum http_form {
    HTTP_FORM_GET = 1, /* a size by GET of the first byte, not by HEAD */
    HTTP_FORM_ALL = 2, /* without a range: the value is taken as it comes, and the range kept */
    HTTP_FORM_VERBATIM = 4, /* a Content-Encoding is not looked at */
};

/* Bytes in front of the range that is wanted that are passed over at most, where there are no
 * ranges; and of a value whose size nobody says. */
#define HTTP_PASS_BYTES (UINT64_C(256) << 20)

static inline bool http_asks_head(const struct fetch *fetch)
{
    return fetch->kind == FETCH_STAT && !(fetch->own.form & HTTP_FORM_GET);
}

/* What the body is: only what is no text may go to the buffer. */
enum http_body { HTTP_BODY_TEXT, HTTP_BODY_ASKED, HTTP_BODY_ALL /* where a range was asked for */ };
enum http_body http_body_is(const struct http_answer *answer, const struct fetch *fetch);

/* One request, as it was made, and what came of it. */
struct http_try {
    unsigned form;
    size_t got;    /* bytes that went to the buffer */
    uint64_t seen; /* bytes of the value that came, decoded */
};

enum http_verdict {
    HTTP_GOOD,      /* the fetch's results are set */
    HTTP_OTHERWISE, /* to be asked for in another form, which the fetch has now */
    HTTP_FAILED,    /* for good */
    HTTP_AGAIN,     /* may pass */
    HTTP_THROTTLED, /* the server wants fewer requests */
    HTTP_EXPIRED,   /* credentials are out of date */
};

/* Judges a complete answer; *err says what is wrong (its status NOT_FOUND where there is no such
 * value), without the url. Sets total and version of the fetch if it is good. */
enum http_verdict http_judge(const struct http_answer *answer,
                             const struct store_settings *settings, struct fetch *fetch,
                             const struct http_try *made, struct error *err);

#endif
