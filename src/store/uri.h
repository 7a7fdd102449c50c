/* What the uri of a store means: a path, or a server. Pure; any thread. Inside src/store.
 */
#ifndef PENSTOCK_STORE_URI_H
#define PENSTOCK_STORE_URI_H

#include "base/error.h"

/* Takes a uri apart. *ret_path: the path of a directory or file, malloc'ed and decoded, returned;
 * NULL: the uri is http://, https:// or s3://. INVALID: a uri that is empty, has a secret in it, or
 * is malformed. UNSUPPORTED: another scheme; the message names the scheme, and what to write
 * instead. NO_MEMORY. */
MUST_USE enum status uri_parse(const char *uri, char **ret_path, struct error *err);

#endif
