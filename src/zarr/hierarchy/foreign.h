/* What a store is that has no Zarr metadata at its root: another library's format, a folder of
 * stores, chunks without their documents. For messages alone.
 */
#ifndef PENSTOCK_ZARR_HIERARCHY_FOREIGN_H
#define PENSTOCK_ZARR_HIERARCHY_FOREIGN_H

#include "base/error.h"
#include "store/store.h"

/* Adds what the store looks like, and what to write instead, to the message of *err, which says
 * that there is no metadata. Blocks on the store: lists the root, or looks for some names where
 * there is no listing. Adds nothing if nothing is known. `err` may be NULL. */
void foreign_explain(const struct store *store, struct error *err);

#endif
