/* S3 and servers with the protocol of S3: where a bucket lies, and signed requests. s3_list.c
 * lists.
 *
 * The client's threads make requests. The first one to notice that credentials of an endpoint run
 * out asks for new ones, while the others wait.
 */
#include "store/remote/remote_internal.h"

#include "base/clock.h"
#include "store/http/http_judge.h"
#include "store/http/url.h"
#include "store/remote/credentials.h"
#include "store/remote/s3_sign.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFRESH_BEFORE_S = 120 };

struct s3 {
    pthread_mutex_t mutex; /* once the store is open, around: */
    struct credentials credentials;
    uint64_t renewed_ns; /* when there were newer ones; 0: never */

    bool metadata;
    char region[STORE_TEXT_BYTES];
    char *base;   /* "https://host" or "http://host:port" */
    char *host;   /* as in the Host header */
    char *bucket; /* path of the bucket, encoded: "" or "/bucket" */
    char *name;   /* of the bucket */
    char *prefix; /* of all keys: "" or "prefix/" */
};

/* Requests
 * ---------------------------------------------------------------------------------------------- */

static enum status sign(const struct s3 *s3, const struct fetch *fetch, const char *path,
                        struct curl_slist **headers, struct error *err)
{
    const struct credentials *credentials = &s3->credentials;
    struct s3_request request = {.method = http_asks_head(fetch) ? "HEAD" : "GET",
                                 .host = s3->host,
                                 .path = path,
                                 .query = fetch->kind == FETCH_QUERY ? fetch->key : "",
                                 .token = credentials->token[0] ? credentials->token : NULL,
                                 .region = s3->region,
                                 .time = time(NULL)};
    char stamp[S3_TIME_BYTES];
    struct text authorization = {0};
    s3_time(request.time, stamp);
    s3_authorize(&request, credentials->access_key, credentials->secret, &authorization);
    enum status status = http_header(headers, err, "Authorization: %s", authorization.data);
    if (status == STATUS_OK)
        status = http_header(headers, err, "x-amz-date: %s", stamp);
    if (status == STATUS_OK)
        status = http_header(headers, err, "x-amz-content-sha256: %s", s3_empty_hash);
    if (status == STATUS_OK && request.token)
        status = http_header(headers, err, "x-amz-security-token: %s", request.token);
    text_done(&authorization);
    return status;
}

/* Asks for new credentials. True: there are newer ones now. Under the mutex. */
static bool renew(struct s3 *s3)
{
    struct credentials fresh;
    if (!s3->metadata || !s3->credentials.expires ||
        credentials_find(true, true, &fresh, NULL) != STATUS_OK)
        return false;
    bool newer = fresh.found && strcmp(fresh.token, s3->credentials.token) != 0;
    if (newer) {
        s3->credentials = fresh;
        s3->renewed_ns = clock_now_ns();
    } else { /* not asked for again with every request */
        s3->credentials.expires = time(NULL) + REFRESH_BEFORE_S + 10;
    }
    credentials_done(&fresh);
    return newer;
}

enum status s3_prepare(void *context, const struct fetch *fetch, struct text *url,
                       struct curl_slist **headers, struct error *err)
{
    struct s3 *s3 = context;
    pthread_mutex_lock(&s3->mutex);
    if (s3->credentials.expires && time(NULL) > s3->credentials.expires - REFRESH_BEFORE_S)
        (void)renew(s3); /* what there is may still do */
    text_append(url, "%s", s3->base);
    size_t path = url->length;
    text_append(url, "%s/", s3->bucket);
    if (fetch->kind != FETCH_QUERY) {
        s3_encode(s3->prefix, true, url);
        s3_encode(fetch->key, true, url);
    }
    enum status status =
        s3->credentials.found ? sign(s3, fetch, url->data + path, headers, err) : STATUS_OK;
    pthread_mutex_unlock(&s3->mutex);
    if (fetch->kind == FETCH_QUERY)
        text_append(url, "?%s", fetch->key);
    return status;
}

bool s3_refresh(void *context, uint64_t sent_ns)
{
    struct s3 *s3 = context;
    pthread_mutex_lock(&s3->mutex);
    bool newer = s3->renewed_ns > sent_ns || renew(s3);
    pthread_mutex_unlock(&s3->mutex);
    return newer;
}

/* What is wrong
 * ---------------------------------------------------------------------------------------------- */

/* Where the bucket lies instead, as far as the answer says. */
static bool is_elsewhere(const struct http_answer *answer, const char *code, char *ret_region,
                         size_t capacity)
{
    http_answer_element(answer, "Region", ret_region, capacity);
    if (answer->region[0])
        snprintf(ret_region, capacity, "%s", answer->region);
    return (answer->status >= 300 && answer->status < 400) ||
           strcmp(code, "AuthorizationHeaderMalformed") == 0 ||
           strcmp(code, "IllegalLocationConstraintException") == 0;
}

static void explain(const struct s3 *s3, const struct fetch *fetch,
                    const struct http_answer *answer, struct error *err)
{
    const struct error before = *err;
    const char *name = s3->name;
    enum status status = (enum status)err->status;
    char code[96], region[64];
    http_answer_element(answer, "Code", code, sizeof code);
    bool elsewhere = is_elsewhere(answer, code, region, sizeof region);
    if (strcmp(code, "NoSuchBucket") == 0)
        error_set(err, status,
                  "%.600s (there is no bucket '%s' at %s: check its name, and store.endpoint)",
                  before.message, name, s3->base);
    else if (elsewhere && region[0] && strcmp(region, s3->region) != 0)
        error_set(err, status,
                  "%.600s (the bucket '%s' lies in region '%s', and requests are for '%s': set "
                  "store.s3_region)",
                  before.message, name, region, s3->region);
    else if (elsewhere)
        error_set(err, status,
                  "%.600s (the bucket '%s' is not in region '%s' at %s: set "
                  "store.s3_region, or store.endpoint)",
                  before.message, name, s3->region, s3->base);
    else if ((answer->status == 403 || answer->status == 401) && s3->credentials.found)
        error_set(err, status, "%.600s (for bucket '%s', key '%s%s'; signed with %s)",
                  before.message, name, fetch->kind == FETCH_QUERY ? "" : s3->prefix,
                  fetch->kind == FETCH_QUERY ? "" : fetch->key, s3->credentials.source);
    else if (answer->status == 403 || answer->status == 401)
        error_set(err, status,
                  "%.600s (for bucket '%s'; requests are not signed: store.anonymous)",
                  before.message, name);
}

void s3_explain(void *context, const struct fetch *fetch, const struct http_answer *answer,
                struct error *err)
{
    struct s3 *s3 = context;
    pthread_mutex_lock(&s3->mutex);
    explain(s3, fetch, answer, err);
    pthread_mutex_unlock(&s3->mutex);
}

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static enum status copy_region(struct s3 *s3, const char *region, struct error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if (!*region)
        region = "us-east-1";
    if (strspn(region, plain) != strlen(region) || strlen(region) >= sizeof s3->region)
        return error_set(err, STATUS_INVALID,
                         "store.s3_region: '%.100s' is not the name of a region", region);
    strcpy(s3->region, region);
    return STATUS_OK;
}

/* "http://HOST[:PORT]". */
static enum status check_endpoint(const char *endpoint, struct error *err)
{
    static const char what[] =
        "the endpoint for S3 (store.endpoint, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL)";
    char shown[URL_SHOWN_BYTES];
    struct url url;
    enum status status = url_parse(what, endpoint, &url, err);
    if (status != STATUS_OK || !(url.has_path || url.has_query))
        return status;
    url_show(shown, sizeof shown, endpoint);
    return error_set(err, STATUS_INVALID, "%s is '%s': write http://HOST:PORT or https://HOST",
                     what, shown);
}

static void cut_end(char *text, const char *end)
{
    size_t length = strlen(text), cut = strlen(end);
    if (length > cut && strcmp(text + length - cut, end) == 0)
        text[length - cut] = '\0';
}

/* Names of buckets that a certificate for *.s3.REGION.amazonaws.com does not cover, or that are no
 * host's name at all. */
static bool needs_path(const char *bucket)
{
    return strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(bucket);
}

static enum status settle_endpoint(struct s3 *s3, const char *bucket, const char *given,
                                   enum store_addressing addressing, struct error *err)
{
    char *endpoint = NULL;
    enum status status = *given ? check_endpoint(given, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    if ((*given ? asprintf(&endpoint, "%.*s",
                           (int)(strcspn(strstr(given, "://") + 3, "/") +
                                 (size_t)(strstr(given, "://") + 3 - given)),
                           given)
                : asprintf(&endpoint, "https://s3.%s.amazonaws.com", s3->region)) < 0)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open the store");
    cut_end(endpoint, strncmp(endpoint, "http:", 5) == 0 ? ":80" : ":443");
    bool by_path = addressing == ADDRESSING_PATH ||
                   (addressing == ADDRESSING_AUTO && (*given || needs_path(bucket)));
    const char *host = strstr(endpoint, "://") + 3;
    struct text encoded = {0};
    s3->name = strdup(bucket);
    if (by_path) {
        text_append(&encoded, "/");
        s3_encode(bucket, false, &encoded);
        s3->bucket = strdup(encoded.data);
        s3->host = strdup(host);
        s3->base = strdup(endpoint);
    } else {
        s3->bucket = strdup("");
        if (asprintf(&s3->host, "%s.%s", bucket, host) < 0 ||
            asprintf(&s3->base, "%.*s%s", (int)(host - endpoint), endpoint, s3->host) < 0)
            s3->host = s3->base = NULL;
    }
    text_done(&encoded);
    free(endpoint);
    return s3->name && s3->bucket && s3->host && s3->base
               ? STATUS_OK
               : error_set(err, STATUS_NO_MEMORY, "no memory to open the store");
}

static enum status settle_credentials(struct s3 *s3, const struct store_settings *settings,
                                      struct error *err)
{
    s3->metadata = settings->metadata;
    enum status status =
        credentials_find(!settings->anonymous, settings->metadata, &s3->credentials, err);
    if (status != STATUS_OK || s3->credentials.found || settings->anonymous)
        return status;
    return error_set(err, STATUS_INVALID,
                     "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                     "AWS_PROFILE; for a public bucket, store.anonymous: true%s",
                     settings->metadata ? ""
                                        : "; for those of the cloud's instance or container, "
                                          "store.metadata: true");
}

static enum status settle(struct s3 *s3, const char *uri, const struct store_settings *settings,
                          struct error *err)
{
    const char *name = uri + strlen("s3://");
    size_t length = strcspn(name, "/");
    char bucket[256];
    if (length >= sizeof bucket)
        return error_set(err, STATUS_INVALID,
                         "the bucket's name has %zu bytes, which is too long for a bucket", length);
    memcpy(bucket, name, length);
    bucket[length] = '\0';
    name += length + (name[length] == '/');
    enum status status = settle_credentials(s3, settings, err);
    if (status == STATUS_OK)
        status =
            copy_region(s3, settings->region[0] ? settings->region : s3->credentials.region, err);
    if (status == STATUS_OK)
        status = settle_endpoint(
            s3, bucket, settings->endpoint[0] ? settings->endpoint : s3->credentials.endpoint,
            (enum store_addressing)settings->addressing, err);
    if (status == STATUS_OK && asprintf(&s3->prefix, "%s%s", name, *name ? "/" : "") < 0) {
        s3->prefix = NULL;
        status = error_set(err, STATUS_NO_MEMORY, "no memory to open the store");
    }
    return status;
}

enum status s3_new(const char *uri, const struct store_settings *settings, struct s3 **ret_s3,
                   struct error *err)
{
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (!s3)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    pthread_mutex_init(&s3->mutex, NULL);
    enum status status = settle(s3, uri, settings, err);
    if (status != STATUS_OK) {
        s3_free(s3);
        return error_prefix(err, status, "store '%s': ", uri);
    }
    *ret_s3 = s3;
    return STATUS_OK;
}

void s3_free(struct s3 *s3)
{
    if (!s3)
        return;
    credentials_done(&s3->credentials);
    pthread_mutex_destroy(&s3->mutex);
    free(s3->base);
    free(s3->host);
    free(s3->bucket);
    free(s3->name);
    free(s3->prefix);
    free(s3);
}

bool s3_encrypts(const struct s3 *s3)
{
    return strncmp(s3->base, "https:", 6) == 0;
}

void s3_identify(const struct s3 *s3, struct text *out)
{
    text_append(out, "%s%s ", s3->base, s3->bucket);
}

const char *s3_prefix(const struct s3 *s3)
{
    return s3->prefix;
}
