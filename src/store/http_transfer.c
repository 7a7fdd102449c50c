/* See http_transfer.h. */
#include "store/http_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CONNECT_S = 10,
    SILENCE_S = 10, /* without a byte, then the connection counts as lost */
};
static const uint64_t ms_ns = 1000000;

static size_t on_header(char *bytes, size_t size, size_t count, void *argument)
{
    struct transfer *transfer = argument;
    http_answer_line(&transfer->answer, bytes, size * count);
    return size * count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *argument)
{
    struct transfer *transfer = argument;
    struct http_answer *answer = &transfer->answer;
    size *= count;
    if (!http_answer_is_value(answer, transfer->fetch)) {
        http_answer_body(answer, bytes, size);
        /* Enough is known; a whole value where a range was asked for is not read to its end. */
        return answer->body_bytes < sizeof answer->body - 1 ? size : CURL_WRITEFUNC_ERROR;
    }
    if (size > transfer->capacity - transfer->got ||
        (answer->has_length && answer->length > transfer->capacity)) {
        transfer->too_long = true;
        return CURL_WRITEFUNC_ERROR;
    }
    if (size > 0)
        memcpy(transfer->out + transfer->got, bytes, size);
    transfer->got += size;
    return size;
}

/* Sockets must not be inherited by trainers that the reader starts. */
static curl_socket_t open_socket(void *argument, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    (void)argument;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

#define SET(easy, option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

static bool set_up(struct transfer *transfer)
{
    const struct store_settings *settings = transfer->settings;
    CURL *easy = transfer->easy;
    const char *ca_file = settings->ca_file;
    long silence_s = settings->timeout_s / 3;
    silence_s = silence_s < 1 ? 1 : silence_s > SILENCE_S ? SILENCE_S : silence_s;
    return SET(easy, CURLOPT_PRIVATE, transfer) && SET(easy, CURLOPT_NOSIGNAL, 1L) &&
           SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           SET(easy, CURLOPT_PROTOCOLS_STR, "http,https") && SET(easy, CURLOPT_PROXY, "") &&
           SET(easy, CURLOPT_FOLLOWLOCATION, 0L) && SET(easy, CURLOPT_PATH_AS_IS, 1L) &&
           SET(easy, CURLOPT_SSL_VERIFYPEER, 1L) && SET(easy, CURLOPT_SSL_VERIFYHOST, 2L) &&
           (!*ca_file || SET(easy, CURLOPT_CAINFO, ca_file)) &&
           SET(easy, CURLOPT_USERAGENT, "penstock") &&
           SET(easy, CURLOPT_HEADERFUNCTION, on_header) &&
           SET(easy, CURLOPT_HEADERDATA, transfer) && SET(easy, CURLOPT_WRITEFUNCTION, on_body) &&
           SET(easy, CURLOPT_WRITEDATA, transfer) &&
           SET(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           SET(easy, CURLOPT_ERRORBUFFER, transfer->trouble) &&
           SET(easy, CURLOPT_BUFFERSIZE, (long)TRANSFER_RECEIVE_BYTES) &&
           SET(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S) &&
           SET(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) && SET(easy, CURLOPT_LOW_SPEED_TIME, silence_s) &&
           SET(easy, CURLOPT_TCP_KEEPALIVE, 1L) && SET(easy, CURLOPT_TCP_NODELAY, 1L);
}

struct transfer *http_transfer_new(const struct store_settings *settings)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    transfer->settings = settings;
    transfer->easy = curl_easy_init();
    if (transfer->easy && set_up(transfer))
        return transfer;
    http_transfer_free(transfer);
    return NULL;
}

void http_transfer_free(struct transfer *transfer)
{
    if (!transfer)
        return;
    curl_easy_cleanup(transfer->easy);
    text_done(&transfer->url);
    free(transfer);
}

static bool set_request(struct transfer *transfer, const struct fetch *fetch, uint64_t left_ns)
{
    CURL *easy = transfer->easy;
    char range[64];
    const char *asked = NULL;
    if (fetch->kind == FETCH_RANGE) {
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)fetch->offset,
                 (unsigned long long)(fetch->offset + fetch->size - 1));
        asked = range;
    } else if (fetch->kind == FETCH_TAIL) {
        snprintf(range, sizeof range, "-%zu", fetch->size);
        asked = range;
    }
    return (fetch->kind == FETCH_STAT ? SET(easy, CURLOPT_NOBODY, 1L)
                                      : SET(easy, CURLOPT_HTTPGET, 1L)) &&
           SET(easy, CURLOPT_URL, transfer->url.data) && SET(easy, CURLOPT_RANGE, asked) &&
           SET(easy, CURLOPT_HTTPHEADER, transfer->headers) &&
           SET(easy, CURLOPT_TIMEOUT_MS, (long)(left_ns / ms_ns + 1));
}

enum status http_transfer_begin(struct transfer *transfer, const struct http_target *target,
                                struct fetch *fetch, uint64_t left_ns, struct error *err)
{
    transfer->got = 0;
    transfer->too_long = false;
    transfer->trouble[0] = '\0';
    transfer->url.length = 0;
    memset(&transfer->answer, 0, sizeof transfer->answer);
    transfer->fetch = fetch;
    enum status status =
        target->prepare(target->context, fetch, &transfer->url, &transfer->headers, err);
    if (status == STATUS_OK && !set_request(transfer, fetch, left_ns))
        status =
            error_set(err, STATUS_NO_MEMORY, "'%s': no memory for the request", transfer->url.data);
    if (status != STATUS_OK)
        http_transfer_end(transfer);
    return status;
}

void http_transfer_end(struct transfer *transfer)
{
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    transfer->fetch = NULL;
}

/* Answers
 * ---------------------------------------------------------------------------------------------- */

/* What curl's own failures mean. */
static enum http_verdict judge_trouble(const struct transfer *transfer, CURLcode code,
                                       struct error *err)
{
    const char *text = transfer->trouble[0] ? transfer->trouble : curl_easy_strerror(code);
    error_set(err, STATUS_IO, "%.400s", text);
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        error_set(err, STATUS_IO,
                  "%.400s: the server's certificate is not trusted: name the certificates to trust "
                  "in store.ca_file",
                  text);
        return HTTP_FAILED;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_OUT_OF_MEMORY:
        return HTTP_FAILED;
    default:
        return HTTP_AGAIN;
    }
}

static enum http_verdict judge_too_long(struct transfer *transfer, struct error *err)
{
    struct fetch *fetch = transfer->fetch;
    fetch->total = transfer->answer.has_length ? transfer->answer.length : 0;
    if (fetch->total)
        error_set(err, STATUS_CORRUPT, "it has %llu bytes, at most %zu can be right",
                  (unsigned long long)fetch->total, transfer->capacity);
    else
        error_set(err, STATUS_CORRUPT, "it has more bytes than the %zu that can be right",
                  transfer->capacity);
    return HTTP_FAILED;
}

enum http_verdict http_transfer_judge(struct transfer *transfer, CURLcode code, struct error *err)
{
    struct fetch *fetch = transfer->fetch;
    const struct http_answer *answer = &transfer->answer;
    bool cut = code == CURLE_WRITE_ERROR && answer->status && !http_answer_is_value(answer, fetch);
    enum http_verdict verdict;
    error_clear(err);
    if (transfer->too_long)
        verdict = judge_too_long(transfer, err);
    else if (code == CURLE_OK || cut || (answer->status >= 400 && code == CURLE_PARTIAL_FILE))
        verdict = http_answer_judge(answer, transfer->settings, fetch, transfer->got, err);
    else
        verdict = judge_trouble(transfer, code, err);
    if (verdict != HTTP_GOOD)
        error_prepend(err, (enum status)err->status,
                      "%s '%.300s': ", fetch->kind == FETCH_STAT ? "HEAD" : "GET",
                      transfer->url.data);
    return verdict;
}
