/* Credentials for S3, from the places where other programs have them. Credentials are never logged,
 * and never in a message.
 *
 * Keys are looked for in this order:
 *
 *     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     ~/.aws/credentials, ~/.aws/config    (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE), section
 *                                          AWS_PROFILE, or "default"
 *     the container's endpoint             AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI
 *     the instance's endpoint              169.254.169.254, or AWS_EC2_METADATA_SERVICE_ENDPOINT
 *
 * The endpoints have other addresses than the store. So they are asked (credentials_endpoint.h)
 * only where `metadata` allows it.
 *
 * A region is that of AWS_REGION, AWS_DEFAULT_REGION or the profile, an endpoint that of
 * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile. The first one given counts.
 */
#ifndef PENSTOCK_STORE_REMOTE_CREDENTIALS_H
#define PENSTOCK_STORE_REMOTE_CREDENTIALS_H

#include "base/error.h"

#include <stdbool.h>
#include <time.h>

enum { CREDENTIAL_BYTES = 256, CREDENTIAL_TOKEN_BYTES = 6144 };

struct credentials {
    char access_key[CREDENTIAL_BYTES];
    char secret[CREDENTIAL_BYTES];
    char token[CREDENTIAL_TOKEN_BYTES]; /* "": none */
    time_t expires;                     /* 0: never */
    bool found;                         /* access_key and secret are set */
    char source[CREDENTIAL_BYTES];      /* where the keys were found, for messages */
    char region[CREDENTIAL_BYTES];      /* "": not given */
    char endpoint[CREDENTIAL_BYTES];    /* "": not given */
};

/* Finds keys, region and endpoint; with `wanted` false, region and endpoint alone. If there are no
 * keys, the status is OK and `found` is false. Blocks on files, and on the endpoints for up to 15
 * s. Reads the environment, which no other thread may change meanwhile.
 *
 * INVALID: half of a key pair, an AWS_PROFILE that no file has, a value that is too long or holds a
 * control character, or as of credentials_ask_endpoint(). UNSUPPORTED: a profile whose keys come
 * from a role, a login or a program. IO: a file cannot be read, or an endpoint does not answer. */
MUST_USE enum status credentials_find(bool wanted, bool metadata, struct credentials *ret_found,
                                      struct error *err);

/* Overwrites the struct with zeros. */
void credentials_done(struct credentials *credentials);

#endif
