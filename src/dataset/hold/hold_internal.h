/* What the files of holding share: hold.c (which arrays, and where), hold_load.c (the threads that
 * load them) and hold_fetch.c (what a thread fetches ahead). Inside src/dataset. */
#ifndef PENSTOCK_DATASET_HOLD_HOLD_INTERNAL_H
#define PENSTOCK_DATASET_HOLD_HOLD_INTERNAL_H

#include "dataset/dataset_internal.h"

/* An array to be loaded whole. */
struct hold_array {
    const struct zarr_array *array; /* borrowed */
    unsigned char *out;             /* its samples go here; borrowed */
    size_t field, ragged; /* that the array is of: an index into fields; or into dataset->ragged,
                           * with `field` SIZE_MAX */
};

/* hold_load.c: loads [count] arrays by several threads, which it starts and joins. Calls
 * options->progress() on the calling thread. *ret_failed is the number of the first array, in
 * order, of which something cannot be read; `count` if none, or if the threads cannot work. Other
 * arrays may be incomplete then. Errors as of dataset_hold_with(). */
MUST_USE enum status hold_load(const struct dataset *dataset, const struct hold_array *arrays,
                               size_t count, const struct dataset_hold_options *options,
                               size_t *ret_failed, struct error *err);

/* hold_load.c: how many chunks an array has. */
uint64_t hold_chunks(const struct zarr_array *array);

/* A fetcher: fetches what a thread is going to read, all at once, and waits for it. Belongs to one
 * thread. */
struct hold_fetcher;

/* The memory of a fetcher, without that for the chunks. */
size_t hold_fetcher_bytes(void);

/* Makes a fetcher with `bytes` for chunks. The dataset is borrowed. NO_MEMORY. */
MUST_USE enum status hold_fetcher_new(const struct dataset *dataset, size_t bytes,
                                      struct hold_fetcher **ret_fetcher, struct error *err);

/* NULL is fine. */
void hold_fetcher_free(struct hold_fetcher *fetcher);

/* How many samples of the array `bytes` of a fetcher are enough for, in whole chunks; at least one
 * chunk's. 0: the array's store is not remote, and nothing is fetched ahead. */
uint64_t hold_fetcher_samples(const struct dataset *dataset, const struct zarr_array *array,
                              size_t bytes);

/* Fetches what `reader` will ask for to read samples [begin, end). Blocks on the store. The fetched
 * values, with errors among them, are borrowed until the next call. What is left out, for want of
 * room, the reader asks for itself. */
struct fetched *hold_fetch(struct hold_fetcher *fetcher, struct zarr_chunk_reader *reader,
                           const struct zarr_array *array, uint64_t begin, uint64_t end);

#endif
