/* S3 and servers with the protocol of S3, also Google's, which has it under its own names: signed
 * requests, and what is wrong with them. s3_address.c knows where a bucket lies.
 */
#include "store/remote/s3.h"

#include "store/credentials/aws.h"
#include "store/credentials/google.h"
#include "store/credentials/s3_sign.h"
#include "store/http/http_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Requests
 * ---------------------------------------------------------------------------------------------- */

static enum status sign(const struct s3 *s3, const struct credentials *now,
                        const struct fetch *fetch, const char *url, size_t path,
                        struct curl_slist **headers, struct error *err)
{
    const char *host = strstr(url, "://") + 3;
    char *name = strndup(host, path - (size_t)(host - url));
    struct s3_request request = {.method = http_asks_head(fetch) ? "HEAD" : "GET",
                                 .host = name ? name : "",
                                 .path = url + path,
                                 .query = fetch->kind == FETCH_QUERY ? fetch->key : "",
                                 .token = now->token[0] ? now->token : NULL,
                                 .payer = s3->payer[0] && !s3->is_google ? "requester" : NULL,
                                 .project = s3->payer[0] && s3->is_google ? s3->payer : NULL,
                                 .region = s3->region,
                                 .time = time(NULL)};
    char stamp[S3_TIME_BYTES];
    struct text authorization = {0};
    s3_time(request.time, stamp);
    s3_authorize(&request, now->access_key, now->secret, &authorization);
    enum status status = http_header(headers, err, "Authorization: %s", authorization.data);
    if (status == STATUS_OK)
        status = http_header(headers, err, "x-amz-date: %s", stamp);
    if (status == STATUS_OK)
        status = http_header(headers, err, "x-amz-content-sha256: %s", s3_empty_hash);
    if (status == STATUS_OK && request.token)
        status = http_header(headers, err, "x-amz-security-token: %s", request.token);
    text_done(&authorization);
    free(name);
    return status;
}

static enum status prepare(void *context, const struct fetch *fetch, struct text *url,
                           struct curl_slist **headers, struct error *err)
{
    struct s3 *s3 = context;
    struct credentials now;
    enum status status = credentials_take(s3->origin.provider, &now, err);
    if (status != STATUS_OK)
        return status;
    pthread_mutex_lock(&s3->mutex);
    text_append(url, "%s", s3->base);
    size_t path = url->length;
    text_append(url, "%s/", s3->bucket);
    if (fetch->kind != FETCH_QUERY) {
        s3_encode(s3->origin.prefix, true, url);
        s3_encode(fetch->key, true, url);
    }
    if (s3->payer[0])
        status = s3->is_google ? http_header(headers, err, "x-goog-user-project: %s", s3->payer)
                               : http_header(headers, err, "x-amz-request-payer: requester");
    if (status == STATUS_OK && now.found)
        status = now.kind == CREDENTIALS_BEARER
                     ? origin_bearer(&now, headers, err)
                     : sign(s3, &now, fetch, url->data, path, headers, err);
    pthread_mutex_unlock(&s3->mutex);
    credentials_done(&now);
    if (fetch->kind == FETCH_QUERY)
        text_append(url, "?%s", fetch->key);
    return status;
}

/* The parts in order of name, as a signature wants them. */
static void add_query(const char *prefix, bool folders, const char *mark, struct text *out)
{
    if (*mark) {
        text_append(out, "continuation-token=");
        s3_encode(mark, false, out);
        text_append(out, "&");
    }
    text_append(out, "%slist-type=2&max-keys=%d&prefix=", folders ? "delimiter=%2F&" : "",
                PAGE_ENTRIES);
    s3_encode(prefix, false, out);
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
    bool is_redirect = answer->status >= 300 && answer->status < 400; /* S3's own, or any */
    return (is_redirect && (*code || *ret_region || !answer->location[0])) ||
           strcmp(code, "AuthorizationHeaderMalformed") == 0 ||
           strcmp(code, "IllegalLocationConstraintException") == 0;
}

/* Under the mutex. */
static void explain_bucket(const struct s3 *s3, const struct http_answer *answer, const char *code,
                           struct error *err)
{
    const struct error before = *err;
    enum status status = (enum status)err->status;
    char region[64];
    bool elsewhere = is_elsewhere(answer, code, region, sizeof region);
    if (strcmp(code, "NoSuchBucket") == 0)
        error_set(err, status,
                  "%.600s (there is no bucket '%s' at %s: check its name, and store.endpoint)",
                  before.message, s3->name, s3->base);
    else if (elsewhere && s3->is_google)
        error_set(err, status, "%.600s (the bucket '%s' is not at %s: check store.endpoint)",
                  before.message, s3->name, s3->base);
    else if (elsewhere && region[0] && strcmp(region, s3->region) != 0)
        error_set(err, status,
                  "%.600s (the bucket '%s' lies in region '%s', and requests are for '%s': set "
                  "store.s3_region)",
                  before.message, s3->name, region, s3->region);
    else if (elsewhere)
        error_set(err, status,
                  "%.600s (the bucket '%s' is not in region '%s' at %s: set "
                  "store.s3_region, or store.endpoint)",
                  before.message, s3->name, s3->region, s3->base);
}

static void explain(void *context, const struct fetch *fetch, const struct http_answer *answer,
                    struct error *err)
{
    struct s3 *s3 = context;
    bool refused = answer->status == 403 || answer->status == 401;
    char code[96], source[CREDENTIAL_BYTES];
    http_answer_element(answer, "Code", code, sizeof code);
    pthread_mutex_lock(&s3->mutex);
    explain_bucket(s3, answer, code, err);
    pthread_mutex_unlock(&s3->mutex);
    const struct error before = *err;
    enum status status = (enum status)err->status;
    credentials_source(s3->origin.provider, source);
    if (refused && source[0])
        error_set(err, status, "%.600s (for bucket '%s', key '%s%s'; signed with %s)",
                  before.message, s3->name, fetch->kind == FETCH_QUERY ? "" : s3->origin.prefix,
                  fetch->kind == FETCH_QUERY ? "" : fetch->key, source);
    else if (refused)
        error_set(err, status, "%.600s (for bucket '%s'; requests are not signed: store.anonymous)",
                  before.message, s3->name);
    else if (answer->status == 400 && strstr(answer->body, "UserProjectMissing"))
        error_set(err, status, "%.600s (the requester pays: set store.requester_pays)",
                  before.message);
}

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static void release(struct origin *origin)
{
    struct s3 *s3 = (struct s3 *)origin;
    pthread_mutex_destroy(&s3->mutex);
    free(s3->base);
    free(s3->bucket);
    free(s3->name);
    free(s3);
}

static const struct origin_kind s3_kind = {.prepare = prepare,
                                           .explain = explain,
                                           .moved = s3_moved,
                                           .query = add_query,
                                           .format = &page_s3,
                                           .free = release};

static enum status settle_payer(struct s3 *s3, const char *payer, struct error *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-:.";
    bool fits = s3->is_google ? strspn(payer, plain) == strlen(payer) && strcmp(payer, "true") != 0
                              : !*payer || strcmp(payer, "true") == 0;
    if (!fits)
        return error_set(err, STATUS_INVALID,
                         "store.requester_pays: '%.100s': write true for s3://, and the project "
                         "that pays for gs://",
                         payer);
    strcpy(s3->payer, payer);
    return STATUS_OK;
}

static enum status no_credentials(const struct s3 *s3, const struct store_settings *settings,
                                  struct error *err)
{
    return error_set(
        err, STATUS_INVALID, "no credentials: %s; for a public bucket, store.anonymous: true%s",
        s3->is_google ? "run `gcloud auth application-default login` on each node, or set "
                        "GOOGLE_APPLICATION_CREDENTIALS, or GS_ACCESS_KEY_ID and "
                        "GS_SECRET_ACCESS_KEY"
                      : "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        settings->metadata ? ""
                           : "; for those of the cloud's instance or container, "
                             "store.metadata: true");
}

static enum status settle(struct s3 *s3, const char *uri, const struct store_settings *settings,
                          struct error *err)
{
    struct credentials now;
    const char *first = settings->endpoint[0] ? settings->endpoint : "https:";
    enum status status = settle_payer(s3, settings->payer, err);
    if (status == STATUS_OK)
        status =
            origin_look(&s3->origin, s3->is_google ? google_look : aws_look, settings, first, err);
    if (status == STATUS_OK)
        status = credentials_take(s3->origin.provider, &now, err);
    if (status != STATUS_OK)
        return status;
    status = s3_settle(s3, uri, settings, &now, err);
    bool found = now.found;
    credentials_done(&now);
    if (status == STATUS_OK && !found && !settings->anonymous)
        status = no_credentials(s3, settings, err);
    s3->origin.encrypts = status == STATUS_OK && strncmp(s3->base, "https:", 6) == 0;
    return status;
}

enum status s3_new(const char *uri, const struct store_settings *settings,
                   struct origin **ret_origin, struct error *err)
{
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (!s3)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    s3->origin.kind = &s3_kind;
    s3->is_google = strncmp(uri, "gs:", 3) == 0;
    pthread_mutex_init(&s3->mutex, NULL);
    enum status status = settle(s3, uri, settings, err);
    if (status != STATUS_OK) {
        origin_free(&s3->origin);
        return error_prefix(err, status, "store '%s': ", uri);
    }
    *ret_origin = &s3->origin;
    return STATUS_OK;
}
