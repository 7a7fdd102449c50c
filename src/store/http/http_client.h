/* A client of one HTTP server: answers fetches (fetch.h) by libcurl's multi interface.
 *
 * A client has a few threads for its requests: one, or with TLS one for every two cores that the
 * process may use, four at most. http_client_new() starts the threads, and http_client_free() joins
 * them. Hundreds of requests may be under way (http_pace.h says how many, on all threads together),
 * over connections that are used again. What fails for a cause that may pass is tried again, if
 * `retries` is not 0:
 *
 *     429, 503                         until the deadline, after Retry-After if the server says so
 *     408, 500, 502, 504, S3's         `retries` times
 *     RequestTimeout, a connection
 *     lost, refused or silent amid
 *     a value, an answer that ends
 *     early
 *
 * A fetch's deadline is 19/20 of timeout_s after its first request was sent. The pauses between
 * tries are those of store.h. The first byte may take until the deadline, as long as the other
 * machine acknowledges. With `hedge`, a request that is late, or without any answer for 10 s, is
 * sent a second time, into memory of its own. The first good answer counts. Answers are checked:
 * their length against Content-Length and Content-Range, ranges against what was asked.
 *
 * If a server refuses a form of request, the client asks in another form (enum http_form). A size
 * is asked for by GET where HEAD is refused. Where ranges are refused, or are of encoded bytes, the
 * value is read from its start, and the range is kept. No form takes more memory than the fetch
 * has.
 *
 * Redirects are followed (http_redirect.h). No proxy is used but the settings', and certificates
 * are verified. No other address than the given one, and those that it redirects to, is contacted.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_CLIENT_H
#define PENSTOCK_STORE_HTTP_HTTP_CLIENT_H

#include "base/text.h"
#include "store/kind/fetch.h"

struct curl_slist;
struct http_answer;
struct http_client;

/* How a kind of server is asked. The client's threads call these functions, several at once. */
struct http_target {
    void *context; /* borrowed; the first argument of each function */
    bool encrypts; /* requests go over TLS */
    bool no_end; /* the server has no ranges from the end of a value: its size is asked for first */
    bool is_coded; /* a value is missing only if the answer's code says so (http_judge.h) */
    /* Called for each try. Appends the url to `url`, and adds headers to *headers with
     * http_header(). On failure the fetch is done with the returned status. */
    enum status (*prepare)(void *context, const struct fetch *fetch, struct text *url,
                           struct curl_slist **headers, struct error *err);
    /* Called when the server refuses credentials as out of date, once a fetch at most. True: there
     * are newer ones than when the request was made, `sent_ns`, and the fetch is tried again. May
     * block. NULL: never true. */
    bool (*refresh)(void *context, uint64_t sent_ns);
    /* Called when a server says that what was asked for lies elsewhere, once a fetch at most. True:
     * prepare() asks there from now on, and the fetch is tried again. NULL: never true. */
    bool (*moved)(void *context, const struct http_answer *answer);
    /* Called when an answer with a status of 300 or more ends a fetch. May add to the message of
     * *err what this kind of server says of the answer. NULL: adds nothing. */
    void (*explain)(void *context, const struct fetch *fetch, const struct http_answer *answer,
                    struct error *err);
};

/* Starts a client. Copies *target and the options' settings, which must not be NULL. Borrows
 * target->context, `uri` (for messages), the options' watch and second_room: all must outlive the
 * client. NO_MEMORY; IO: no thread or descriptor. */
MUST_USE enum status http_client_new(const struct http_target *target,
                                     const struct store_options *options, const char *uri,
                                     struct http_client **ret_client, struct error *err);

/* Ends the threads. Fetches under way, and later ones, are done with LOST. Not from a thread of
 * the client's, and not by two threads at once. May be called again. */
void http_client_stop(struct http_client *client);

/* Stops the client, and frees it. NULL is fine. */
void http_client_free(struct http_client *client);

/* Starts a fetch whose own.store is set. Any thread; does not block. On a client that was stopped,
 * calls done() with LOST before returning. */
void http_client_start(struct http_client *client, struct fetch *fetch);

/* Adds a header ("Name: value") to *headers, a list that the caller frees. NO_MEMORY, also for a
 * line of more than 8191 bytes. */
MUST_USE enum status http_header(struct curl_slist **headers, struct error *err, const char *format,
                                 ...) PRINTF_LIKE(3, 4);

/* Overwrites and frees a list of headers; NULL is fine. */
void http_headers_forget(struct curl_slist *headers);

/* Writes the range that the fetch's next request asks for, without "bytes=", for signatures that
 * count it: "0-9", "-9"; "": none. */
enum { HTTP_RANGE_BYTES = 64 };
void http_range(const struct fetch *fetch, char ret_range[HTTP_RANGE_BYTES]);

/* The values of the headers If-Match and If-Unmodified-Since of the fetch's requests; "": none. */
struct http_conditions {
    char if_match[256], unmodified_since[64];
};

/* For signatures that count them. CORRUPT: an ETag that is too long. */
MUST_USE enum status http_conditions_of(const struct fetch *fetch,
                                        struct http_conditions *ret_conditions, struct error *err);

#endif
