/* See s3_sign.h. */
#include "store/credentials/s3_sign.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

enum { HASH_BYTES = SHA256_DIGEST_LENGTH, HEX_BYTES = 2 * HASH_BYTES + 1 };

const char s3_empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void to_hex(const unsigned char *bytes, char ret_hex[HEX_BYTES])
{
    for (int i = 0; i < HASH_BYTES; i++)
        snprintf(ret_hex + 2 * (size_t)i, 3, "%02x", bytes[i]);
}

void s3_hash(const char *text, char ret_hash[S3_HASH_BYTES])
{
    unsigned char hash[HASH_BYTES];
    SHA256((const unsigned char *)text, strlen(text), hash);
    to_hex(hash, ret_hash);
}

static void hmac(const void *key, size_t key_bytes, const char *text,
                 unsigned char ret_hash[HASH_BYTES])
{
    HMAC(EVP_sha256(), key, (int)key_bytes, (const unsigned char *)text, strlen(text), ret_hash,
         NULL);
}

void s3_time(time_t time, char ret_time[S3_TIME_BYTES])
{
    struct tm parts;
    gmtime_r(&time, &parts);
    if (strftime(ret_time, S3_TIME_BYTES, "%Y%m%dT%H%M%SZ", &parts) == 0)
        ret_time[0] = '\0'; /* a year beyond 9999 */
}

void s3_encode(const char *bytes, bool keep_slash, struct text *out)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    while (*bytes) {
        size_t count = strspn(bytes, plain);
        const char *slash = keep_slash ? NULL : memchr(bytes, '/', count);
        if (slash)
            count = (size_t)(slash - bytes);
        text_append_bytes(out, bytes, count);
        bytes += count;
        if (*bytes)
            text_append(out, "%%%02X", (unsigned char)*bytes++);
    }
}

/* One hash over the whole request, of which the server makes the same. */
static void hash_request(const struct s3_request *request, const char *time,
                         const char *signed_headers, char ret_hex[HEX_BYTES])
{
    struct text text = {0};
    unsigned char hash[HASH_BYTES];
    const char *body = request->hash ? request->hash : s3_empty_hash;
    text_append(&text, "%s\n%s\n%s\nhost:%s\n", request->method, request->path, request->query,
                request->host);
    if (request->range)
        text_append(&text, "range:%s\n", request->range);
    text_append(&text, "x-amz-content-sha256:%s\nx-amz-date:%s\n", body, time);
    if (request->payer)
        text_append(&text, "x-amz-request-payer:%s\n", request->payer);
    if (request->token)
        text_append(&text, "x-amz-security-token:%s\n", request->token);
    if (request->project)
        text_append(&text, "x-goog-user-project:%s\n", request->project);
    text_append(&text, "\n%s\n%s", signed_headers, body);
    SHA256((const unsigned char *)text.data, text.length, hash);
    to_hex(hash, ret_hex);
    text_forget(&text);
}

/* The key of a day, region and service, from the secret. */
static void derive_key(const char *secret, const char *date, const char *region,
                       const char *service, unsigned char ret_key[HASH_BYTES])
{
    struct text first = {0};
    unsigned char key[HASH_BYTES], next[HASH_BYTES];
    text_append(&first, "AWS4%s", secret);
    hmac(first.data, first.length, date, key);
    hmac(key, sizeof key, region, next);
    hmac(next, sizeof next, service, key);
    hmac(key, sizeof key, "aws4_request", ret_key);
    explicit_bzero(key, sizeof key);
    explicit_bzero(next, sizeof next);
    text_forget(&first);
}

void s3_authorize(const struct s3_request *request, const char *access_key, const char *secret,
                  struct text *out)
{
    char time[S3_TIME_BYTES], date[9], hex[HEX_BYTES], signed_headers[128];
    unsigned char key[HASH_BYTES], signature[HASH_BYTES];
    struct text to_sign = {0};
    const char *service = request->service ? request->service : "s3";
    s3_time(request->time, time);
    snprintf(date, sizeof date, "%.8s", time);
    snprintf(signed_headers, sizeof signed_headers, "host;%sx-amz-content-sha256;x-amz-date%s%s%s",
             request->range ? "range;" : "", request->payer ? ";x-amz-request-payer" : "",
             request->token ? ";x-amz-security-token" : "",
             request->project ? ";x-goog-user-project" : "");
    hash_request(request, time, signed_headers, hex);
    text_append(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%s", time, date,
                request->region, service, hex);
    derive_key(secret, date, request->region, service, key);
    hmac(key, sizeof key, to_sign.data, signature);
    to_hex(signature, hex);
    text_append(out,
                "AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request,SignedHeaders=%s,"
                "Signature=%s",
                access_key, date, request->region, service, signed_headers, hex);
    explicit_bzero(key, sizeof key);
    text_done(&to_sign);
}
