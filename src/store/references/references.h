/* References of kerchunk and VirtualiZarr as read-only stores: a file of JSON (reference_json.h)
 * says which parts of other files, HDF5 and netCDF files above all, are the chunks of a Zarr store.
 * Inside src/store.
 *
 *     key --> table in memory (reference_table.h) --> bytes, or an object elsewhere (virtual.h)
 *
 * The file is read once, when the store is opened.
 */
#ifndef PENSTOCK_STORE_REFERENCES_REFERENCES_H
#define PENSTOCK_STORE_REFERENCES_REFERENCES_H

#include "store/kind/store_internal.h"

/* Of a uri "reference://PATH" or "reference+SCHEME://...": the uri of the file; else NULL. Points
 * into `uri`. Pure. */
const char *references_uri_inside(const char *uri);

/* Opens the references of such a uri, by open(). The caller sets the store's uri. Errors of
 * store_open(). UNSUPPORTED also: references as Parquet, or of a form that is not read. CORRUPT:
 * the file is damaged. */
MUST_USE enum status references_open(const char *uri, const struct store_options *options,
                                     store_opener *open, struct store **ret_store,
                                     struct error *err);

/* As references_open(), of the file `key` in `base`, which is taken, on failure too. */
MUST_USE enum status references_open_in(struct store *base, const char *key, const char *uri,
                                        const struct store_options *options, store_opener *open,
                                        struct store **ret_store, struct error *err);

#endif
