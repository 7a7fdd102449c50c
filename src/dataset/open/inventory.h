/* The inventory of a dataset: what one process finds, in its stores, of the arrays that the fields
 * are made of. Processes of several nodes make one each and compare them: whether all see the same
 * dataset, or copies of the dataset, and whether the copies are whole.
 *
 * Where all have the same stamps, all see the same folders, and there is nothing more to compare.
 * Else the documents are compared, then the stocks (zarr/chunk/stock.h). One thread calls all
 * functions. They block on the stores, and use threads of their own meanwhile.
 */
#ifndef PENSTOCK_DATASET_OPEN_INVENTORY_H
#define PENSTOCK_DATASET_OPEN_INVENTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;
struct store;
struct zarr_array;

/* An array in one store. All pointers are borrowed from the dataset. */
struct inventory_array {
    const struct store *store;
    const struct zarr_array *array;
    const char *uri, *path, *field; /* of the store; in the store; a field that is made of it */
    const char *unit;               /* what its values are: "chunks" or "shards" */
    uint64_t total;                 /* values in its grid */
    bool may_be_empty; /* no value need be there: the writer says of no item that there is any */
    bool is_spared;    /* its document is not read: inventory_read_documents() */
    uint64_t stamp; /* once stamped: store_stamp() of its folders; 0: there are none, or remote */
    uint64_t document; /* once read: a hash of the metadata document; 0: there is none, or spared */
    /* Once listed: how many values are there; and a hash of their numbers and contents. */
    _Atomic uint64_t value_count, stock;
};

struct inventory {
    struct inventory_array *arrays; /* [count], owned: each array once */
    size_t count;
    uint64_t stamp;        /* once stamped: of all arrays' stamps */
    uint64_t remote_count; /* arrays behind a network, where all processes see the same */
};

/* Called about ten times a second while the functions below wait; `done` of `total` parts. */
struct inventory_waiting {
    void (*call)(void *argument, uint64_t done, uint64_t total);
    void *argument;
};

/* Finds the arrays, in the metadata that is in memory. The dataset is borrowed until
 * inventory_done(), which is fine after a failure, too. INVALID, NO_MEMORY. */
MUST_USE enum status inventory_init(struct inventory *inventory, const struct dataset *dataset,
                                    struct error *err);
void inventory_done(struct inventory *inventory);

/* Takes the stamps: one call to the file system for each folder. Errors as of store_stamp(). */
MUST_USE enum status inventory_stamp(struct inventory *inventory,
                                     const struct inventory_waiting *waiting, struct error *err);

/* Reads the metadata documents; of remote arrays at most 64, spread evenly, and the same ones in
 * each process: servers are one store for all, or none, whichever array is asked for. Errors as of
 * store_get_text(), but NOT_FOUND. */
MUST_USE enum status inventory_read_documents(struct inventory *inventory,
                                              const struct inventory_waiting *waiting,
                                              struct error *err);

/* NOT_FOUND: an array of which the store has no value at all. INVALID: only under names with
 * another separator (zarr/chunk/separator.h). The message names field, array and store, and says
 * what to do. Not to be called where missing chunks are to be filled. */
MUST_USE enum status inventory_require(struct inventory *inventory,
                                       const struct inventory_waiting *waiting, struct error *err);

/* Lists all values of all arrays that are not remote, without memory for them. Errors as of
 * zarr_list_stock(). */
MUST_USE enum status inventory_list(struct inventory *inventory,
                                    const struct inventory_waiting *waiting, struct error *err);

/* Marks which values [first, first + count) of array number `i` are there: one bit a value in
 * `bits` ([count / 8], rounded up), the lowest bit first. */
MUST_USE enum status inventory_mark(struct inventory *inventory, size_t i, uint64_t first,
                                    uint64_t count, _Atomic unsigned char *bits,
                                    const struct inventory_waiting *waiting, struct error *err);

/* The key of value number `number` of an array, NUL-terminated. Pure. */
enum { INVENTORY_KEY_BYTES = 1024 };
void inventory_value_key(const struct inventory_array *of, uint64_t number,
                         char ret_key[INVENTORY_KEY_BYTES]);

#endif
