/* See s3.h. */
#include "store/remote/s3.h"

#include "store/credentials/s3_sign.h"
#include "store/http/http_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_region(const char *region)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return *region && strspn(region, plain) == strlen(region) && strlen(region) < STORE_TEXT_BYTES;
}

static enum status settle_region(struct s3 *s3, const struct store_settings *settings,
                                 const struct credentials *found, struct error *err)
{
    const char *region = settings->region[0] ? settings->region : found->region;
    if (s3->is_google)
        region = "auto";
    if (!*region)
        region = "us-east-1";
    if (!is_region(region))
        return error_set(err, STATUS_INVALID,
                         "store.s3_region: '%.100s' is not the name of a region", region);
    strcpy(s3->region, region);
    return STATUS_OK;
}

/* Names of buckets that a certificate for *.s3.REGION.amazonaws.com does not cover, or that are no
 * host's name at all. */
static bool needs_path(const char *bucket)
{
    return strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(bucket);
}

static void aws_endpoint(const char *region, struct text *out)
{
    text_append(out, "https://s3.%s.amazonaws.com%s", region,
                strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
}

/* Puts the bucket in front of the endpoint's host. */
static char *with_bucket(const char *endpoint, const char *bucket)
{
    const char *host = strstr(endpoint, "://") + 3;
    char *base = NULL;
    return asprintf(&base, "%.*s%s.%s", (int)(host - endpoint), endpoint, bucket, host) < 0 ? NULL
                                                                                            : base;
}

static enum status settle_endpoint(struct s3 *s3, const char *bucket, const char *given,
                                   enum store_addressing addressing, struct error *err)
{
    static const char *const what[] = {
        "the endpoint for S3 (store.endpoint, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL)",
        "the endpoint for gs:// (store.endpoint)"};
    struct text endpoint = {0}, encoded = {0};
    enum status status = STATUS_OK;
    s3->is_given = *given || s3->is_google;
    if (*given)
        status = origin_endpoint(what[s3->is_google], given, &endpoint, err);
    else if (s3->is_google)
        text_append(&endpoint, "https://storage.googleapis.com");
    else
        aws_endpoint(s3->region, &endpoint);
    bool by_path = s3->is_google || addressing == ADDRESSING_PATH ||
                   (addressing == ADDRESSING_AUTO && (*given || needs_path(bucket)));
    text_append(&encoded, "%s", by_path ? "/" : "");
    if (by_path)
        s3_encode(bucket, false, &encoded);
    if (status == STATUS_OK) {
        s3->name = strdup(bucket);
        s3->bucket = strdup(encoded.data ? encoded.data : "");
        s3->base = by_path ? strdup(endpoint.data) : with_bucket(endpoint.data, bucket);
        if (!s3->name || !s3->bucket || !s3->base)
            status = error_set(err, STATUS_NO_MEMORY, "no memory to open the store");
    }
    text_done(&endpoint);
    text_done(&encoded);
    return status;
}

static enum status check_bucket(const char *name, size_t length, bool is_google, struct error *err)
{
    if (length >= 256)
        return error_set(err, STATUS_INVALID,
                         "the bucket's name has %zu bytes, which is too long for a bucket", length);
    if (!is_google && length > 6 && strncmp(name + length - 6, "--x-s3", 6) == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%.*s' is a directory bucket (S3 Express One Zone), whose sessions are "
                         "not supported: use a general purpose bucket",
                         (int)length, name);
    return STATUS_OK;
}

enum status s3_settle(struct s3 *s3, const char *uri, const struct store_settings *settings,
                      const struct credentials *found, struct error *err)
{
    const char *name = strstr(uri, "://") + 3;
    size_t length = strcspn(name, "/");
    char bucket[256];
    enum status status = check_bucket(name, length, s3->is_google, err);
    if (status != STATUS_OK)
        return status;
    memcpy(bucket, name, length);
    bucket[length] = '\0';
    name += length + (name[length] == '/');
    const char *given = settings->endpoint[0] ? settings->endpoint : found->endpoint;
    status = settle_region(s3, settings, found, err);
    if (status == STATUS_OK)
        status =
            settle_endpoint(s3, bucket, given, (enum store_addressing)settings->addressing, err);
    if (status == STATUS_OK && (asprintf(&s3->origin.prefix, "%s%s", name, *name ? "/" : "") < 0 ||
                                asprintf(&s3->origin.identity, "%s%s", s3->base, s3->bucket) < 0))
        status = error_set(err, STATUS_NO_MEMORY, "no memory to open the store");
    return status;
}

/* The region that an answer says: in a header, an element, or the name of a host. */
static void region_of(const struct http_answer *answer, char *out, size_t capacity)
{
    char host[256];
    snprintf(out, capacity, "%s", answer->region);
    if (!out[0])
        http_answer_element(answer, "Region", out, capacity);
    if (out[0])
        return;
    http_answer_element(answer, "Endpoint", host, sizeof host);
    const char *at = strstr(host, "s3.");
    if (!at)
        at = strstr(host, "s3-");
    if (at && strstr(at, ".amazonaws.com"))
        snprintf(out, capacity, "%.*s", (int)strcspn(at + 3, "."), at + 3);
}

bool s3_moved(void *context, const struct http_answer *answer)
{
    struct s3 *s3 = context;
    char region[STORE_TEXT_BYTES];
    int status = answer->status;
    region_of(answer, region, sizeof region);
    if (!is_region(region) || s3->is_google || status < 300 || (status >= 400 && status != 400))
        return false;
    pthread_mutex_lock(&s3->mutex);
    struct text endpoint = {0};
    aws_endpoint(region, &endpoint);
    char *base = s3->is_given    ? NULL
                 : s3->bucket[0] ? strdup(endpoint.data)
                                 : with_bucket(endpoint.data, s3->name);
    if (base) {
        free(s3->base);
        s3->base = base;
    }
    strcpy(s3->region, region);
    text_done(&endpoint);
    pthread_mutex_unlock(&s3->mutex);
    return true;
}
