/* Credentials from the endpoints that clouds have for their containers and instances; asked only
 * where store.s3_metadata allows it. Blocks for a few seconds at most.
 *
 * Sources: AWS, "Container credential provider" and "Instance metadata service version 2".
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_ENDPOINT_H
#define PENSTOCK_STORE_CREDENTIALS_ENDPOINT_H

#include "store/credentials.h"

/* Sets keys, token and expiry, and `found`. IO: no answer, or not what is expected. INVALID: the
 * environment names an endpoint that is neither this machine, nor the cloud's, nor https. */
MUST_USE enum status credentials_ask_endpoint(struct credentials *credentials, struct error *err);

#endif
