/* The verdict on an HTTP server's answer (http_answer.h) to a fetch's request, and other forms of a
 * request where the server refuses the usual one. Foreign bytes. Pure; one thread for each fetch.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_JUDGE_H
#define PENSTOCK_STORE_HTTP_HTTP_JUDGE_H

#include "store/http/http_answer.h"
#include "store/kind/fetch.h"

/* Other forms of a request, for a server that refuses the usual one. A fetch's own.form has a bit
 * for each form that is in use. */
enum http_form {
    HTTP_FORM_GET = 1,      /* a size by GET of the first byte, not by HEAD */
    HTTP_FORM_ALL = 2,      /* the whole value without a range; the range is cut out of the value */
    HTTP_FORM_VERBATIM = 4, /* the bytes as stored: a Content-Encoding is ignored */
};

/* The most bytes that are read and dropped: in front of a range of a server without ranges, and of
 * a value whose size the server does not say. */
#define HTTP_PASS_BYTES (UINT64_C(256) << 20)

/* Whether the fetch's next request is a HEAD. */
static inline bool http_asks_head(const struct fetch *fetch)
{
    return fetch->kind == FETCH_STAT && !(fetch->own.form & HTTP_FORM_GET);
}

/* What the body of an answer is. */
enum http_body {
    HTTP_BODY_TEXT,  /* not the value: must not go to the fetch's buffer */
    HTTP_BODY_ASKED, /* the bytes that were asked for */
    HTTP_BODY_ALL,   /* the whole value, where a range or a size was asked for */
};
enum http_body http_body_is(const struct http_answer *answer, const struct fetch *fetch);

/* One request for a fetch: how it was made, and what came. */
struct http_try {
    unsigned form; /* bits of enum http_form */
    size_t got;    /* bytes that went to the buffer */
    uint64_t seen; /* bytes of the body that came, decoded */
    bool is_coded; /* a value is missing only if the answer's code says so */
};

enum http_verdict {
    HTTP_GOOD,      /* the fetch's results are set */
    HTTP_OTHERWISE, /* to be asked for again, in the form that own.form has now */
    HTTP_FAILED,    /* for good */
    HTTP_AGAIN,     /* the cause may pass */
    HTTP_THROTTLED, /* the server wants fewer requests */
    HTTP_EXPIRED,   /* credentials are out of date */
};

/* Judges a complete answer. HTTP_GOOD sets `total`, `encoded`, `all` and `version` of the fetch,
 * where its kind has them. HTTP_OTHERWISE sets own.form. Any other verdict sets *err, without the
 * url; its status is NOT_FOUND if there is no such value. `settings` is borrowed. */
enum http_verdict http_judge(const struct http_answer *answer,
                             const struct store_settings *settings, struct fetch *fetch,
                             const struct http_try *made, struct error *err);

#endif
