/* What an HTTP server answered: its header lines, the start of an error's body, and what to make
 * of both. Pure; foreign bytes.
 */
#ifndef PENSTOCK_STORE_HTTP_ANSWER_H
#define PENSTOCK_STORE_HTTP_ANSWER_H

#include "store/fetch.h"

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

struct http_answer {
    int status; /* 0: none yet */
    bool has_length, has_range, has_total;
    bool encoded;    /* the value is a Content-Encoding of what is wanted; so is its length */
    bool unencoded;  /* its Content-Encoding names no way to encode: the value is as it is */
    uint64_t length; /* Content-Length */
    uint64_t range_first, range_last, range_all; /* Content-Range; range_all with has_total */
    uint32_t retry_after_s;                      /* 0: not said */
    uint64_t version;                            /* of ETag and Last-Modified; 0: neither */
    char location[128];                          /* of a redirect, without its query */
    char encoding[32];                           /* "": none */
    char region[64];                             /* where S3 says the bucket lies */
    char reason[64];
    char body[1024]; /* of an answer that is not the value: its start, NUL-terminated */
    size_t body_bytes;
};

/* Takes one header line, as it comes; a status line begins a new answer. */
void http_answer_line(struct http_answer *answer, const char *line, size_t size);

/* Takes bytes of an error's body. */
void http_answer_body(struct http_answer *answer, const char *bytes, size_t size);

/* What the body is: only what is no text may go to the buffer. */
enum http_body { HTTP_BODY_TEXT, HTTP_BODY_ASKED, HTTP_BODY_ALL /* where a range was asked for */ };
enum http_body http_answer_body_is(const struct http_answer *answer, const struct fetch *fetch);

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
enum http_verdict http_answer_judge(const struct http_answer *answer,
                                    const struct store_settings *settings, struct fetch *fetch,
                                    const struct http_try *made, struct error *err);

/* The text of an element of an S3 server's error, such as "Code"; "" if there is none. */
void http_answer_element(const struct http_answer *answer, const char *name, char *ret_text,
                         size_t capacity);

#endif
