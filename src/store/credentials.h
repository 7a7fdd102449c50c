/* Credentials for S3, from where other programs have them. Never logged, never in a message.
 *
 * Looked for in this order:
 *
 *     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     ~/.aws/credentials, ~/.aws/config    (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE), section
 *                                          AWS_PROFILE, or "default"
 *     the container's endpoint             AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI
 *     the instance's endpoint              169.254.169.254, or AWS_EC2_METADATA_SERVICE_ENDPOINT
 *
 * Endpoints are asked (credentials_endpoint.h) only where `metadata` allows it: they are other
 * addresses than the store's.
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_H
#define PENSTOCK_STORE_CREDENTIALS_H

#include "base/error.h"

#include <stdbool.h>
#include <time.h>

enum { CREDENTIAL_BYTES = 256, CREDENTIAL_TOKEN_BYTES = 6144 };

struct credentials {
    char access_key[CREDENTIAL_BYTES];
    char secret[CREDENTIAL_BYTES];
    char token[CREDENTIAL_TOKEN_BYTES]; /* "": none */
    time_t expires;                     /* 0: never */
    bool found;
    char source[CREDENTIAL_BYTES]; /* where they were found, for messages */
    /* Of the profile or the environment; "": not given. */
    char region[CREDENTIAL_BYTES];
    char endpoint[CREDENTIAL_BYTES];
};

/* `wanted` false: region and endpoint alone. Where nothing is found, that is no error. Blocks on
 * files, and on the endpoints for seconds. INVALID: half of a key pair, a profile that is not
 * there, a value that is too long. UNSUPPORTED: a profile that takes its credentials elsewhere. IO:
 * a file or an endpoint that does not answer. */
MUST_USE enum status credentials_find(bool wanted, bool metadata, struct credentials *ret_found,
                                      struct error *err);

/* Forgets them. */
void credentials_done(struct credentials *credentials);

#endif
