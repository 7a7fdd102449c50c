/* Transfers: one request for a fetch, and its answer, on a curl handle that is used again and
 * again. Inside src/store, for an HTTP client, whose thread alone calls these functions. Nothing
 * waits. */
#ifndef PENSTOCK_STORE_HTTP_HTTP_TRANSFER_H
#define PENSTOCK_STORE_HTTP_HTTP_TRANSFER_H

#include "store/http/http_client.h"
#include "store/http/http_judge.h"

#include <curl/curl.h>

struct http_thread;

enum { TRANSFER_RECEIVE_BYTES = 64 << 10 }; /* the most that one read of a connection takes */

struct transfer {
    const struct store_settings *settings; /* borrowed */
    CURL *easy;                            /* owned */
    struct fetch *fetch;                   /* borrowed while the request is under way; NULL: free */
    struct http_thread *thread; /* borrowed: the one that has it (http_client_internal.h) */
    struct transfer *next_free;
    struct text url;
    struct curl_slist *headers; /* owned */
    struct http_answer answer;
    char trouble[CURL_ERROR_SIZE]; /* curl's message */
    unsigned char *out; /* where the value goes: the fetch's buffer, or its own (second) */
    size_t capacity;    /* of `out` */
    struct http_try made;
    bool second;   /* a second request: `out` is owned */
    bool too_long; /* more bytes came than `out` has room for, or than may be dropped before a range
                    */
    bool begun;    /* bytes of the body came */
    bool enough;   /* the wanted range is there: the rest is not waited for */
    uint64_t start_ns;
};

/* `settings` is borrowed until http_transfer_free(). NULL: no memory. */
struct transfer *http_transfer_new(const struct store_settings *settings);

/* NULL is fine. `out` is not freed. */
void http_transfer_free(struct transfer *transfer);

/* Prepares the handle for the fetch's request, which may take `left_ns`. From now on what the
 * server sends is checked against the fetch, and goes to `out`, which the caller has set. On
 * failure the transfer has no fetch. NO_MEMORY; and the errors of target->prepare(). */
MUST_USE enum status http_transfer_begin(struct transfer *transfer,
                                         const struct http_target *target, struct fetch *fetch,
                                         uint64_t left_ns, struct error *err);

/* Judges the answer; curl ended the transfer with `code`. May set the fetch's results and own.form,
 * as http_judge() does, and `total` of a value that was too long. *err is set, with method
 * and url, if the verdict is not HTTP_GOOD. */
enum http_verdict http_transfer_judge(struct transfer *transfer, CURLcode code, struct error *err);

/* Takes the fetch off the transfer, and frees the request's headers. */
void http_transfer_end(struct transfer *transfer);

#endif
