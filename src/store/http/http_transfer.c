/* See http_transfer.h. */
#include "store/http/http_transfer.h"

#include "store/http/http_redirect.h"
#include "store/http/url.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

enum {
    CONNECT_S = 10,
    SILENCE_S = 10,        /* of a network, or amid a value: then the connection counts as lost */
    PROBE_S = 5,           /* a network that is silent is asked whether it is there */
    REST_BYTES = 64 << 10, /* that nobody wants are read so that the connection can be used again */
};
static const uint64_t ms_ns = 1000000;

#define SET(easy, option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

/* From its first byte on a value has to come: until then the server has all the time there is. */
static void watch_speed(struct transfer *transfer)
{
    long silence_s = transfer->settings->timeout_s / 3;
    silence_s = silence_s < 1 ? 1 : silence_s > SILENCE_S ? SILENCE_S : silence_s;
    if (!transfer->begun && SET(transfer->easy, CURLOPT_LOW_SPEED_TIME, silence_s))
        transfer->begun = true;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *argument)
{
    struct transfer *transfer = argument;
    http_answer_line(&transfer->answer, bytes, size * count);
    return size * count;
}

/* How long the value is, if that is said. */
static bool says_length(const struct http_answer *answer)
{
    return answer->has_length && !answer->encoded;
}

/* Takes bytes of what was asked for. */
static bool take_asked(struct transfer *transfer, const char *bytes, size_t size)
{
    const struct http_answer *answer = &transfer->answer;
    struct http_try *made = &transfer->made;
    if (size > transfer->capacity - made->got ||
        (says_length(answer) && answer->length > transfer->capacity)) {
        transfer->too_long = true;
        return false;
    }
    if (size > 0)
        memcpy(transfer->out + made->got, bytes, size);
    made->got += size;
    made->seen += size;
    return true;
}

/* Keeps the last bytes so far, as in a ring. */
static void keep_last(struct transfer *transfer, const char *bytes, size_t size)
{
    size_t room = transfer->fetch->size;
    for (size_t skip = size > room ? size - room : 0; skip < size;) {
        size_t at = (size_t)((transfer->made.seen + skip) % room);
        size_t run = size - skip < room - at ? size - skip : room - at;
        memcpy(transfer->out + at, bytes + skip, run);
        skip += run;
    }
}

/* Keeps what lies in the range. */
static void keep_range(struct transfer *transfer, const char *bytes, size_t size)
{
    const struct fetch *fetch = transfer->fetch;
    struct http_try *made = &transfer->made;
    uint64_t begin = made->seen > fetch->offset ? made->seen : fetch->offset;
    uint64_t end = fetch->offset + fetch->size;
    end = end < made->seen + size ? end : made->seen + size;
    if (begin >= end)
        return;
    memcpy(transfer->out + (begin - fetch->offset), bytes + (begin - made->seen), end - begin);
    made->got += end - begin;
}

/* Takes bytes of all there is, where a range or only its size is wanted. */
static bool take_of_all(struct transfer *transfer, const char *bytes, size_t size)
{
    const struct fetch *fetch = transfer->fetch;
    const struct http_answer *answer = &transfer->answer;
    struct http_try *made = &transfer->made;
    uint64_t all = says_length(answer) ? answer->length : made->seen + size;
    uint64_t wanted = fetch->kind == FETCH_STAT ? 0 : fetch->size;
    uint64_t before = fetch->kind == FETCH_RANGE ? fetch->offset : all > wanted ? all - wanted : 0;
    transfer->enough = fetch->kind == FETCH_STAT && answer->has_length;
    transfer->too_long = before > HTTP_PASS_BYTES && !transfer->enough;
    if (transfer->too_long || transfer->enough)
        return false;
    if (fetch->kind == FETCH_SUFFIX)
        keep_last(transfer, bytes, size);
    if (fetch->kind == FETCH_RANGE)
        keep_range(transfer, bytes, size);
    made->seen += size;
    bool is_there = fetch->kind == FETCH_RANGE && made->got == fetch->size;
    transfer->enough = is_there && (!says_length(answer) || all - made->seen > REST_BYTES);
    return !transfer->enough;
}

/* Takes bytes of a body that is not the value. The rest of a short one is read and dropped. */
static bool take_text(struct transfer *transfer, const char *bytes, size_t size)
{
    struct http_answer *answer = &transfer->answer;
    http_answer_body(answer, bytes, size);
    transfer->made.seen += size;
    uint64_t all = says_length(answer) ? answer->length : transfer->made.seen;
    return all <= REST_BYTES || answer->body_bytes < sizeof answer->body - 1;
}

/* The last bytes, put in order. */
static void end_ring(unsigned char *ring, size_t size, size_t first)
{
    size_t ends[3][2] = {{0, first}, {first, size}, {0, size}};
    for (int i = 0; i < 3; i++)
        for (size_t a = ends[i][0], b = ends[i][1]; a + 1 < b; a++, b--) {
            unsigned char swap = ring[a];
            ring[a] = ring[b - 1];
            ring[b - 1] = swap;
        }
}

static size_t on_body(char *bytes, size_t size, size_t count, void *argument)
{
    struct transfer *transfer = argument;
    enum http_body body = http_body_is(&transfer->answer, transfer->fetch);
    bool more;
    size *= count;
    watch_speed(transfer);
    if (body == HTTP_BODY_TEXT)
        more = take_text(transfer, bytes, size);
    else
        more = body == HTTP_BODY_ASKED ? take_asked(transfer, bytes, size)
                                       : take_of_all(transfer, bytes, size);
    return more ? size : CURL_WRITEFUNC_ERROR;
}

/* Sockets must not be inherited by trainers that the reader starts. A peer that does not even
 * acknowledge is gone, however long an answer may take. */
static curl_socket_t open_socket(void *argument, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    const unsigned silence_ms = SILENCE_S * 1000;
    (void)argument;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    return fd;
}

static bool set_up(struct transfer *transfer)
{
    const struct store_settings *settings = transfer->settings;
    CURL *easy = transfer->easy;
    const char *ca_file = *settings->ca_file ? settings->ca_file : url_system_ca_file();
    return SET(easy, CURLOPT_PRIVATE, transfer) && SET(easy, CURLOPT_NOSIGNAL, 1L) &&
           SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           SET(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           SET(easy, CURLOPT_PROXY, settings->proxy) && SET(easy, CURLOPT_NOPROXY, "") &&
           SET(easy, CURLOPT_FOLLOWLOCATION, 0L) && SET(easy, CURLOPT_PATH_AS_IS, 1L) &&
           SET(easy, CURLOPT_SSL_VERIFYPEER, 1L) && SET(easy, CURLOPT_SSL_VERIFYHOST, 2L) &&
           (!ca_file || SET(easy, CURLOPT_CAINFO, ca_file)) &&
           SET(easy, CURLOPT_USERAGENT, "penstock") &&
           SET(easy, CURLOPT_HEADERFUNCTION, on_header) &&
           SET(easy, CURLOPT_HEADERDATA, transfer) && SET(easy, CURLOPT_WRITEFUNCTION, on_body) &&
           SET(easy, CURLOPT_WRITEDATA, transfer) &&
           SET(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           SET(easy, CURLOPT_ERRORBUFFER, transfer->trouble) &&
           SET(easy, CURLOPT_BUFFERSIZE, (long)TRANSFER_RECEIVE_BYTES) &&
           SET(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S) &&
           SET(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) && SET(easy, CURLOPT_TCP_KEEPALIVE, 1L) &&
           SET(easy, CURLOPT_TCP_KEEPIDLE, (long)PROBE_S) &&
           SET(easy, CURLOPT_TCP_KEEPINTVL, (long)PROBE_S) && SET(easy, CURLOPT_TCP_NODELAY, 1L);
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
    text_forget(&transfer->url);
    free(transfer);
}

void http_range(const struct fetch *fetch, char ret_range[HTTP_RANGE_BYTES])
{
    ret_range[0] = '\0';
    if (fetch->own.form & HTTP_FORM_ALL)
        return;
    if (fetch->kind == FETCH_STAT && fetch->own.form & HTTP_FORM_GET)
        strcpy(ret_range, "0-0");
    else if (fetch->kind == FETCH_RANGE)
        snprintf(ret_range, HTTP_RANGE_BYTES, "%llu-%llu", (unsigned long long)fetch->offset,
                 (unsigned long long)(fetch->offset + fetch->size - 1));
    else if (fetch->kind == FETCH_SUFFIX)
        snprintf(ret_range, HTTP_RANGE_BYTES, "-%zu", fetch->size);
}

enum status http_conditions_of(const struct fetch *fetch, struct http_conditions *ret_conditions,
                               struct error *err)
{
    struct http_conditions *ret = ret_conditions;
    *ret = (struct http_conditions){.if_match = ""};
    if (fetch->kind != FETCH_RANGE)
        return STATUS_OK;
    if (fetch->etag && fetch->etag[0]) { /* some writers leave the quotes out */
        const char *quote = strchr(fetch->etag, '"') ? "" : "\"";
        int length =
            snprintf(ret->if_match, sizeof ret->if_match, "%s%s%s", quote, fetch->etag, quote);
        if ((size_t)length >= sizeof ret->if_match)
            return error_set(err, STATUS_CORRUPT, "an ETag of %d bytes", length);
    }
    if (fetch->modified_s > 0) {
        struct tm parts;
        time_t time = fetch->modified_s;
        strftime(ret->unmodified_since, sizeof ret->unmodified_since, "%a, %d %b %Y %H:%M:%S GMT",
                 gmtime_r(&time, &parts));
    }
    return STATUS_OK;
}

static bool set_request(struct transfer *transfer, const struct fetch *fetch, uint64_t left_ns)
{
    CURL *easy = transfer->easy;
    char range[HTTP_RANGE_BYTES];
    unsigned form = transfer->made.form;
    http_range(fetch, range);
    return (http_asks_head(fetch) ? SET(easy, CURLOPT_NOBODY, 1L)
                                  : SET(easy, CURLOPT_HTTPGET, 1L)) &&
           /* What is encoded nevertheless is decoded. */
           SET(easy, CURLOPT_ACCEPT_ENCODING, form & HTTP_FORM_VERBATIM ? NULL : "identity") &&
           SET(easy, CURLOPT_LOW_SPEED_TIME, 0L) && SET(easy, CURLOPT_URL, transfer->url.data) &&
           SET(easy, CURLOPT_RANGE, range[0] ? range : NULL) &&
           SET(easy, CURLOPT_HTTPHEADER, transfer->headers) &&
           SET(easy, CURLOPT_TIMEOUT_MS, (long)(left_ns / ms_ns + 1));
}

static enum status add_conditions(struct transfer *transfer, const struct fetch *fetch,
                                  struct error *err)
{
    struct http_conditions conditions;
    enum status status = http_conditions_of(fetch, &conditions, err);
    if (status == STATUS_OK && conditions.if_match[0])
        status = http_header(&transfer->headers, err, "If-Match: %s", conditions.if_match);
    if (status == STATUS_OK && conditions.unmodified_since[0])
        status = http_header(&transfer->headers, err, "If-Unmodified-Since: %s",
                             conditions.unmodified_since);
    return status;
}

enum status http_transfer_begin(struct transfer *transfer, const struct http_target *target,
                                struct fetch *fetch, uint64_t left_ns, struct error *err)
{
    transfer->made = (struct http_try){.form = fetch->own.form, .is_coded = target->is_coded};
    transfer->begun = transfer->too_long = transfer->enough = false;
    transfer->trouble[0] = '\0';
    transfer->url.length = 0;
    memset(&transfer->answer, 0, sizeof transfer->answer);
    transfer->fetch = fetch;
    enum status status =
        target->prepare(target->context, fetch, &transfer->url, &transfer->headers, err);
    if (status == STATUS_OK && fetch->own.target)
        http_redirect_begin(transfer);
    if (status == STATUS_OK)
        status = add_conditions(transfer, fetch, err);
    if (status == STATUS_OK && !set_request(transfer, fetch, left_ns))
        status = error_set(err, STATUS_NO_MEMORY, "'%s': no memory for the request", fetch->key);
    if (status != STATUS_OK)
        http_transfer_end(transfer);
    return status;
}

void http_transfer_end(struct transfer *transfer)
{
    http_headers_forget(transfer->headers);
    transfer->headers = NULL;
    transfer->fetch = NULL;
}

/* Answers
 * ---------------------------------------------------------------------------------------------- */

/* Whether what failed was the way to the proxy, or the proxy's way on. */
static bool is_of_proxy(const struct transfer *transfer, CURLcode code)
{
    long answer = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_CONNECTCODE, &answer);
    return transfer->settings->proxy[0] &&
           (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY ||
            code == CURLE_PROXY || answer >= 300);
}

/* What curl's own failures mean. */
static enum http_verdict judge_trouble(const struct transfer *transfer, CURLcode code,
                                       struct error *err)
{
    const char *text = transfer->trouble[0] ? transfer->trouble : curl_easy_strerror(code);
    if (is_of_proxy(transfer, code))
        error_set(err, STATUS_IO,
                  "%.400s (requests go through store.proxy, which is '%s': is it right, and does "
                  "it let this host through?)",
                  text, transfer->settings->proxy);
    else
        error_set(err, STATUS_IO, "%.400s", text);
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        error_set(err, STATUS_IO,
                  "%.400s: the server's certificate is not trusted: name the certificates to trust "
                  "in store.ca_file",
                  text);
        return HTTP_FAILED;
    case CURLE_SSL_CONNECT_ERROR:
        error_set(err, STATUS_IO, "%.400s: does the server speak https?", text);
        return HTTP_AGAIN;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_OUT_OF_MEMORY:
        return HTTP_FAILED;
    default:
        return HTTP_AGAIN;
    }
}

/* Asks once more, for the value as it is stored. */
static enum http_verdict take_verbatim(struct transfer *transfer, struct error *err)
{
    error_set(err, STATUS_CORRUPT, "its Content-Encoding '%s' does not decode",
              transfer->answer.encoding);
    transfer->fetch->own.form |= HTTP_FORM_VERBATIM;
    return HTTP_OTHERWISE;
}

/* Whether a Content-Encoding names the way that the value is packed in itself: what was decoded
 * does not begin as it should then. */
static bool is_label(const struct transfer *transfer, CURLcode code)
{
    const struct fetch *fetch = transfer->fetch;
    const struct http_answer *answer = &transfer->answer;
    return fetch->kind == FETCH_WHOLE && fetch->begins && answer->encoded &&
           answer->status == 200 && !(transfer->made.form & HTTP_FORM_VERBATIM) &&
           (code == CURLE_BAD_CONTENT_ENCODING || transfer->too_long ||
            (code == CURLE_OK && !fetch->begins(transfer->out, transfer->made.got)));
}

/* What does not decode from its Content-Encoding, or is not said to be encoded in earnest. */
static enum http_verdict judge_encoding(struct transfer *transfer, struct error *err)
{
    const struct http_answer *answer = &transfer->answer;
    bool known = strcasecmp(answer->encoding, "gzip") == 0 ||
                 strcasecmp(answer->encoding, "x-gzip") == 0 ||
                 strcasecmp(answer->encoding, "deflate") == 0;
    error_set(err, known ? STATUS_CORRUPT : STATUS_UNSUPPORTED, "Content-Encoding '%s': %.300s%s",
              answer->encoding, transfer->trouble,
              answer->encoded ? ": if the header only names a codec of the array, remove the "
                                "header from the stored value"
                              : "");
    bool passed_over = answer->unencoded && !(transfer->made.form & HTTP_FORM_VERBATIM);
    return passed_over ? take_verbatim(transfer, err) : HTTP_FAILED;
}

static enum http_verdict judge_too_long(struct transfer *transfer, struct error *err)
{
    struct fetch *fetch = transfer->fetch;
    fetch->total = says_length(&transfer->answer) ? transfer->answer.length : 0;
    if (http_body_is(&transfer->answer, fetch) == HTTP_BODY_ALL)
        error_set(
            err, STATUS_UNSUPPORTED,
            "the server has no ranges, or says no sizes, and the wanted bytes begin more than "
            "%llu MiB into the value",
            (unsigned long long)(HTTP_PASS_BYTES >> 20));
    else if (fetch->total)
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
    enum http_body body = http_body_is(answer, fetch);
    bool cut = (code == CURLE_WRITE_ERROR || code == CURLE_BAD_CONTENT_ENCODING) &&
               answer->status && body == HTTP_BODY_TEXT;
    enum http_verdict verdict;
    error_clear(err);
    if (http_redirect_is(transfer))
        verdict = http_redirect_judge(transfer, err);
    else if (is_label(transfer, code))
        verdict = take_verbatim(transfer, err);
    else if (transfer->too_long)
        verdict = judge_too_long(transfer, err);
    else if (code == CURLE_OK || cut || transfer->enough ||
             (answer->status >= 400 && code == CURLE_PARTIAL_FILE))
        verdict = http_judge(answer, transfer->settings, fetch, &transfer->made, err);
    else if (code == CURLE_BAD_CONTENT_ENCODING)
        verdict = judge_encoding(transfer, err);
    else
        verdict = judge_trouble(transfer, code, err);
    if (verdict == HTTP_GOOD && body == HTTP_BODY_ALL && fetch->kind == FETCH_SUFFIX) {
        end_ring(transfer->out, fetch->size, (size_t)(transfer->made.seen % fetch->size));
        transfer->made.got = fetch->size;
    }
    if (verdict != HTTP_GOOD) {
        char shown[300];
        url_show(shown, sizeof shown, transfer->url.data);
        error_prepend(err, (enum status)err->status, "%s '%s': ",
                      transfer->made.form & HTTP_FORM_GET || fetch->kind != FETCH_STAT ? "GET"
                                                                                       : "HEAD",
                      shown);
    }
    return verdict;
}
