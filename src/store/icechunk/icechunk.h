/* Icechunk repositories, formats 1 and 2, as read-only stores. Inside src/store.
 *
 * A uri (icechunk_uri.h) names a branch, a tag or a snapshot. The snapshot is looked up once, when
 * the store is opened: commits that come later change nothing.
 */
#ifndef PENSTOCK_STORE_ICECHUNK_ICECHUNK_H
#define PENSTOCK_STORE_ICECHUNK_ICECHUNK_H

#include "store/kind/store_internal.h"

/* Opens the repository at an icechunk uri, by open(). The caller sets the store's uri. Errors of
 * store_open(). NOT_FOUND also: no such branch, tag or snapshot. */
MUST_USE enum status icechunk_open(const char *uri, const struct store_options *options,
                                   store_opener *open, struct store **ret_store, struct error *err);

/* As icechunk_open(), of a repository in `base`, which is taken, on failure too. The uri's own base
 * is not opened. */
MUST_USE enum status icechunk_open_in(struct store *base, const char *uri,
                                      const struct store_options *options, store_opener *open,
                                      struct store **ret_store, struct error *err);

#endif
