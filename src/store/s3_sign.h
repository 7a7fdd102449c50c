/* AWS Signature Version 4 for requests without a body. Pure; thread-safe.
 * Source: AWS, "Authenticating Requests (AWS Signature Version 4)", S3 API reference.
 */
#ifndef PENSTOCK_STORE_S3_SIGN_H
#define PENSTOCK_STORE_S3_SIGN_H

#include "base/text.h"

#include <stdbool.h>
#include <time.h>

/* SHA-256 of nothing: the body of all our requests. */
extern const char s3_empty_hash[];

struct s3_request {
    const char *method; /* "GET" */
    const char *host;   /* as in the Host header */
    const char *path;   /* percent-encoded, starts with '/' */
    const char *query;  /* percent-encoded and in order of name; "" for none */
    const char *range;  /* of a Range header that is to be signed, too; NULL: none */
    const char *token;  /* NULL: none */
    const char *region;
    time_t time;
};

enum { S3_TIME_BYTES = 17 };

/* "20130524T000000Z", the value of x-amz-date. */
void s3_time(time_t time, char ret_time[S3_TIME_BYTES]);

/* Appends the value of the Authorization header. Signed are Host, x-amz-content-sha256 (which must
 * be s3_empty_hash), x-amz-date, and x-amz-security-token if there is a token. */
void s3_authorize(const struct s3_request *request, const char *access_key, const char *secret,
                  struct text *out);

/* Appends `bytes` percent-encoded as signatures want it: everything but A-Z a-z 0-9 - . _ ~, and
 * but '/' if `keep_slash`. */
void s3_encode(const char *bytes, bool keep_slash, struct text *out);

#endif
