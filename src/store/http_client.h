/* A client of one HTTP server: answers fetches (fetch.h) by libcurl's multi interface.
 *
 * One thread for all requests, made by http_client_new() and joined by http_client_free(). Hundreds
 * of requests over connections that are used again (http_pace.h says how many), each with a
 * deadline; what fails for a cause that may pass is tried again:
 *
 *     429, 503                         until the deadline, after Retry-After if the server says so
 *     408, 500, 502, 504,              as often as `retries` says
 *     connection lost, refused or
 *     silent amid a value, answers
 *     that end early
 *
 * Pauses are 0.1 s at first, four times as long each time, more or less by chance. The first byte
 * may take until the deadline, as long as the other machine acknowledges. What is late, or silent
 * for 10 s, is asked for a second time, into memory of its own; the first good answer counts.
 * Answers are checked: the length against Content-Length and Content-Range, ranges against what was
 * asked.
 *
 * What a server does not have is asked for in another form (enum http_form): a size by GET where
 * HEAD is refused; and where there are no ranges, or they are of encoded bytes, the value from its
 * start, of which the range is kept. No form takes more memory than the fetch has.
 * Redirects are errors, proxies are not used, certificates are verified: no other address is
 * contacted than the one given.
 */
#ifndef PENSTOCK_STORE_HTTP_CLIENT_H
#define PENSTOCK_STORE_HTTP_CLIENT_H

#include "base/text.h"
#include "store/fetch.h"

struct curl_slist;
struct http_answer;
struct http_client;

/* What makes requests of fetches. Called by the client's thread, for each try. */
struct http_target {
    void *context;
    /* Appends the url, and prepends headers ("Name: value") to *headers with http_header(). */
    enum status (*prepare)(void *context, const struct fetch *fetch, struct text *url,
                           struct curl_slist **headers, struct error *err);
    /* NULL: never. The server refused the request's credentials as out of date: true if there are
     * newer ones now. */
    bool (*refresh)(void *context);
    /* NULL: nothing. Adds to what is wrong with an answer what this kind of server has to say of
     * it. */
    void (*explain)(void *context, const struct fetch *fetch, const struct http_answer *answer,
                    struct error *err);
};

/* `options`: its settings must be set. NO_MEMORY; IO: no thread or descriptor. */
MUST_USE enum status http_client_new(const struct http_target *target,
                                     const struct store_options *options, const char *uri,
                                     struct http_client **ret_client, struct error *err);

/* Ends the thread; fetches under way, and later ones, are done with LOST. */
void http_client_stop(struct http_client *client);

/* The same, and frees. NULL is fine. */
void http_client_free(struct http_client *client);

/* Any thread. */
void http_client_start(struct http_client *client, struct fetch *fetch);

/* NO_MEMORY. */
MUST_USE enum status http_header(struct curl_slist **headers, struct error *err, const char *format,
                                 ...) PRINTF_LIKE(3, 4);

#endif
