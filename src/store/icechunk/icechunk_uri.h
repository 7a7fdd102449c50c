/* Uris of Icechunk repositories: "icechunk://PATH" and "icechunk+SCHEME://...", with the reference
 * behind the first '@', if any. An '@' of the path itself is written %40. Pure.
 *
 *     @NAME, @branch:NAME      a branch; without any reference, the branch main
 *     @tag:NAME                a tag
 *     @snapshot:ID             a snapshot
 */
#ifndef PENSTOCK_STORE_ICECHUNK_ICECHUNK_URI_H
#define PENSTOCK_STORE_ICECHUNK_ICECHUNK_URI_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum icechunk_reference { REFERENCE_BRANCH, REFERENCE_TAG, REFERENCE_SNAPSHOT };

struct icechunk_uri {
    char *base; /* owned: the uri of the store that the repository lies in */
    enum icechunk_reference kind;
    char *name; /* owned: of the branch or tag, or the snapshot's id */
};

/* INVALID: a secret in it, no path, or no name behind the '@'. NO_MEMORY. */
MUST_USE enum status icechunk_uri_parse(const char *uri, struct icechunk_uri *ret_uri,
                                        struct error *err);

void icechunk_uri_done(struct icechunk_uri *uri);

/* Of an Icechunk repository's uri: the uri of the store that the repository lies in, with the
 * reference behind it; else NULL. Points into `uri`. */
const char *icechunk_uri_inside(const char *uri);

/* How many bytes of any store's uri are not a reference: "@tag:a". */
size_t icechunk_uri_path_bytes(const char *uri);

#endif
