/* Credentials from the endpoints that clouds have for their containers and instances. They are
 * asked only where store.metadata allows it. Blocks for 5 s a request at most: one request to a
 * container's endpoint, three to an instance's.
 *
 * Sources: AWS, "Container credential provider" and "Instance metadata service version 2".
 */
#ifndef PENSTOCK_STORE_REMOTE_CREDENTIALS_ENDPOINT_H
#define PENSTOCK_STORE_REMOTE_CREDENTIALS_ENDPOINT_H

#include "store/remote/credentials.h"

/* Asks the endpoint that the environment names, or the instance's. Sets keys, token, expiry and
 * `found`. On failure keys and token may be set, and `found` is untouched. IO: no answer, another
 * answer than expected, or a token file that cannot be read. INVALID: a variable has no url that
 * url_parse() takes; AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https, nor on this machine, nor
 * a container's endpoint. AWS_EC2_METADATA_SERVICE_ENDPOINT may be any host. */
MUST_USE enum status credentials_ask_endpoint(struct credentials *credentials, struct error *err);

#endif
