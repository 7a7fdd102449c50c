/* What an HTTP server answered: its header lines, the start of an error's body, and what to make
 * of both. Pure; foreign bytes.
 */
#ifndef PENSTOCK_STORE_HTTP_ANSWER_H
#define PENSTOCK_STORE_HTTP_ANSWER_H

#include "store/fetch.h"

struct http_answer {
    int status; /* 0: none yet */
    bool chunked;
    bool has_length, has_range, has_total;
    uint64_t length;                             /* Content-Length */
    uint64_t range_first, range_last, range_all; /* Content-Range; range_all with has_total */
    uint32_t retry_after_s;                      /* 0: not said */
    uint64_t version;                            /* of ETag and Last-Modified; 0: neither */
    char location[128];                          /* of a redirect, without its query */
    char reason[64];
    char body[1024]; /* of an answer that is not the value: its start, NUL-terminated */
    size_t body_bytes;
};

/* Takes one header line, as it comes; a status line begins a new answer. */
void http_answer_line(struct http_answer *answer, const char *line, size_t size);

/* Takes bytes of an error's body. */
void http_answer_body(struct http_answer *answer, const char *bytes, size_t size);

/* Whether body bytes are those asked for: only then they may go to the buffer. */
bool http_answer_is_value(const struct http_answer *answer, const struct fetch *fetch);

enum http_verdict {
    HTTP_GOOD,      /* the fetch's results are set */
    HTTP_FAILED,    /* for good */
    HTTP_AGAIN,     /* may pass */
    HTTP_THROTTLED, /* the server wants fewer requests */
    HTTP_EXPIRED,   /* credentials are out of date */
};

/* Judges a complete answer of which `got` bytes went to the buffer; *err says what is wrong (its
 * status NOT_FOUND where there is no such value), without the url. Sets total and version of the
 * fetch if it is good. */
enum http_verdict http_answer_judge(const struct http_answer *answer,
                                    const struct store_settings *settings, struct fetch *fetch,
                                    size_t got, struct error *err);

#endif
