/* One request for a fetch, and its answer: a curl handle that is used again and again. Inside
 * src/store, for http_client.c; belongs to its thread. Nothing here waits. */
#ifndef PENSTOCK_STORE_HTTP_TRANSFER_H
#define PENSTOCK_STORE_HTTP_TRANSFER_H

#include "store/http_client.h"
#include "store/http_judge.h"

#include <curl/curl.h>

enum { TRANSFER_RECEIVE_BYTES = 64 << 10 }; /* that a connection reads at once */

struct transfer {
    const struct store_settings *settings; /* borrowed */
    CURL *easy;
    struct fetch *fetch; /* NULL: free */
    struct transfer *next_free;
    struct text url;
    struct curl_slist *headers;
    struct http_answer answer;
    char trouble[CURL_ERROR_SIZE];
    unsigned char *out; /* where the value goes */
    size_t capacity;
    struct http_try made;
    bool second;   /* `out` is its own */
    bool too_long; /* more than there is room for, or than is passed over for a range */
    bool begun;    /* bytes of the body came */
    bool enough;   /* the range that is wanted is there: the rest is not waited for */
    uint64_t start_ns;
};

/* NULL: no memory. `settings` is borrowed. */
struct transfer *http_transfer_new(const struct store_settings *settings);
void http_transfer_free(struct transfer *transfer); /* NULL is fine */

/* Makes the handle ready for the fetch, to `out`, and takes the fetch on; what the server sends is
 * checked against it from then on. The request has `left_ns`. NO_MEMORY; and as target->prepare().
 */
MUST_USE enum status http_transfer_begin(struct transfer *transfer,
                                         const struct http_target *target, struct fetch *fetch,
                                         uint64_t left_ns, struct error *err);

/* What the answer comes to, with the error if it is not good; `code` as curl ended the transfer.
 * May set fetch->total. */
enum http_verdict http_transfer_judge(struct transfer *transfer, CURLcode code, struct error *err);

/* Takes the fetch off, and forgets what the request was made of. */
void http_transfer_end(struct transfer *transfer);

#endif
