/* Azure's Shared Key: signatures of requests for blobs, without a body. Pure; thread-safe.
 * Source: Microsoft, "Authorize with Shared Key" (Blob, 2009-09-19 and later).
 */
#ifndef PENSTOCK_STORE_REMOTE_AZURE_SIGN_H
#define PENSTOCK_STORE_REMOTE_AZURE_SIGN_H

#include "base/text.h"

struct azure_request {
    const char *method; /* "GET" */
    const char *account;
    const char *path;                        /* as in the url, encoded */
    const char *query;                       /* encoded, without '?': "": none */
    const char *range;                       /* value of the Range header; "": none */
    const char *if_match, *unmodified_since; /* of the headers If-...; "": none */
    const char *headers;                     /* lines "x-ms-name:value\n", in order of name */
};

/* Appends the text that is signed. */
void azure_to_sign(const struct azure_request *request, struct text *out);

/* Appends the value of the Authorization header. `key` is base64. INVALID: it is not. */
MUST_USE enum status azure_authorize(const struct azure_request *request, const char *key,
                                     struct text *out, struct error *err);

#endif
