/* Uris of zip archives behind a network: "zip+SCHEME://..." whatever the name, and uris of a server
 * that end in ".zip". One that ends in "/" is of what lies below. Pure.
 */
#ifndef PENSTOCK_STORE_ZIP_ZIP_URI_H
#define PENSTOCK_STORE_ZIP_ZIP_URI_H

#include "base/error.h"

#include <stdbool.h>

/* The uri behind "zip+", which says that an archive is there; else NULL. Points into `uri`. */
const char *zip_uri_inside(const char *uri);

/* Whether a uri of a server names an archive: "s3://BUCKET/a.zip", but not a bucket "s3://a.zip".
 */
bool zip_uri_is_archive(const char *uri);

/* Where an archive lies: the uri of the store that has it, and its key there, both the caller's.
 * INVALID: no value can be called so. NO_MEMORY. */
MUST_USE enum status zip_uri_split(const char *uri, char **ret_base, char **ret_key,
                                   struct error *err);

#endif
