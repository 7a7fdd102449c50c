/* Credentials of Google's cloud: the first of
 *
 *     GS_ACCESS_KEY_ID, GS_SECRET_ACCESS_KEY     HMAC keys, which sign as for S3
 *     GOOGLE_APPLICATION_CREDENTIALS, or         application default credentials: of a service
 *     application_default_credentials.json       account, or of a user (`gcloud auth
 *     in $CLOUDSDK_CONFIG or ~/.config/gcloud    application-default login`), or of another
 *                                                provider whose tokens Google takes
 *     metadata.google.internal                   (GCE_METADATA_HOST), where store.metadata allows
 * it
 *
 * A file names the server that gives tokens (token_uri), which has to be https, or this machine.
 *
 * Sources: Google, "Using OAuth 2.0 for Server to Server Applications", RFC 7523; "How Application
 * Default Credentials works".
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_GOOGLE_H
#define PENSTOCK_STORE_CREDENTIALS_GOOGLE_H

#include "store/credentials/credentials.h"

/* As credentials_look(). INVALID: half of a pair of keys, or a file that lacks what its type needs.
 * UNSUPPORTED: a file of another type. */
MUST_USE enum status google_look(const struct store_settings *settings,
                                 struct credentials *ret_found, struct error *err);

#endif
