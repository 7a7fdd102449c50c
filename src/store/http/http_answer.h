/* What an HTTP server answered: header lines, and the start of an error's body. http_judge.h judges
 * both. Foreign bytes. Pure; one thread for each answer.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_ANSWER_H
#define PENSTOCK_STORE_HTTP_HTTP_ANSWER_H

#include "store/kind/fetch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_answer {
    int status;      /* of HTTP; 0: none yet */
    bool has_length; /* `length` is set */
    bool has_range;  /* range_first and range_last are set */
    bool has_total;  /* range_all is set */
    bool encoded;    /* the body is the value in a Content-Encoding, and `length` counts that */
    bool unencoded;  /* the Content-Encoding names no encoding: the body is the value */
    uint64_t length; /* Content-Length */
    uint64_t range_first;   /* Content-Range: the first byte */
    uint64_t range_last;    /* Content-Range: the last byte */
    uint64_t range_all;     /* Content-Range: bytes of the whole value */
    uint32_t retry_after_s; /* 0: not said */
    uint64_t version;       /* of ETag and Last-Modified; 0: neither */
    char location[128];     /* of a redirect, as url_show() shows it */
    char encoding[32];      /* Content-Encoding; "": none */
    char code[64];          /* what the server calls the failure, in a header; "": not said */
    char region[64];        /* where S3 says that the bucket lies; "": not said */
    char
        next[FETCH_MARK_BYTES]; /* Link: the cursor of the next page, as it is in a url; "": none */
    bool next_cut;              /* there is one, too long for `next` */
    char reason[64];            /* of the status line */
    char body[1024];            /* the start of a body that is not the value, NUL-terminated */
    size_t body_bytes;          /* of `body` */
};

/* Takes one header line of `size` bytes, not NUL-terminated. A status line begins a new answer. */
void http_answer_line(struct http_answer *answer, const char *line, size_t size);

/* Takes `size` bytes of a body that is not the value. What does not fit is dropped. */
void http_answer_body(struct http_answer *answer, const char *bytes, size_t size);

/* Writes ": " and what the body says, cut to `capacity`: code and message of an S3 document, else
 * the first line; "" if the body says nothing. */
void http_answer_describe(const struct http_answer *answer, char *ret_text, size_t capacity);

/* Copies the text of an element of an S3 server's error, such as "Code", cut to `capacity`; "" if
 * there is none. */
void http_answer_element(const struct http_answer *answer, const char *name, char *ret_text,
                         size_t capacity);

#endif
