/* What an HTTP server answered: its header lines, and the start of an error's body. Pure; foreign
 * bytes. http_judge.h says what to make of both.
 */
#ifndef PENSTOCK_STORE_HTTP_ANSWER_H
#define PENSTOCK_STORE_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ": " and what the body says: code and message of S3's documents, else the first line; "" if there
 * is nothing. */
void http_answer_describe(const struct http_answer *answer, char *ret_text, size_t capacity);

/* The text of an element of an S3 server's error, such as "Code"; "" if there is none. */
void http_answer_element(const struct http_answer *answer, const char *name, char *ret_text,
                         size_t capacity);

#endif
