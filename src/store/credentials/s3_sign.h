/* AWS Signature Version 4. Pure; thread-safe.
 * Source: AWS, "Authenticating Requests (AWS Signature Version 4)", S3 API reference.
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_S3_SIGN_H
#define PENSTOCK_STORE_CREDENTIALS_S3_SIGN_H

#include "base/text.h"

#include <stdbool.h>
#include <time.h>

/* SHA-256 of nothing: the body of all requests for values. */
extern const char s3_empty_hash[];

/* Writes the SHA-256 of a text, in hexadecimal. */
enum { S3_HASH_BYTES = 65 };
void s3_hash(const char *text, char ret_hash[S3_HASH_BYTES]);

struct s3_request {
    const char *method; /* "GET" */
    const char *host;   /* as in the Host header */
    const char *path;   /* percent-encoded, begins with '/' */
    const char *query;  /* percent-encoded, in order of name; "": none */
    const char *range;  /* value of a Range header to sign; NULL: none is signed */
    const char *token;  /* session token; NULL: none */
    const char *region;
    const char *service; /* NULL: "s3" */
    const char *hash;    /* of the body: value of x-amz-content-sha256; NULL: s3_empty_hash */
    const char *payer;   /* value of x-amz-request-payer, which is signed; NULL: none */
    const char *project; /* value of x-goog-user-project, which is signed; NULL: none */
    time_t time;
};

enum { S3_TIME_BYTES = 17 };

/* Writes "20130524T000000Z", the value of x-amz-date; "" for a year beyond 9999. */
void s3_time(time_t time, char ret_time[S3_TIME_BYTES]);

/* Appends the value of the Authorization header. The signature covers Host, x-amz-content-sha256
 * (the request's hash), x-amz-date, Range, and of those below if
 * there are such. */
void s3_authorize(const struct s3_request *request, const char *access_key, const char *secret,
                  struct text *out);

/* Appends `bytes` percent-encoded as signatures want it. A-Z a-z 0-9 - . _ ~ stay as they are, and
 * '/' if `keep_slash`. */
void s3_encode(const char *bytes, bool keep_slash, struct text *out);

#endif
