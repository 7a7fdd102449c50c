/* What a row is read from: the pieces that dataset_read_row() will ask stores for, listed to be
 * fetched ahead of it (read/fetch_stage.h). */
#ifndef PENSTOCK_DATASET_READ_ROW_PIECES_H
#define PENSTOCK_DATASET_READ_ROW_PIECES_H

#include "dataset/dataset.h"

struct zarr_piece;

/* The most that a row is read from: *ret_pieces pieces, which have *ret_bytes in all, each rounded
 * up to 64. Gaps between inner chunks that are read by one range do not count. Of ragged fields
 * only as much counts as a row of twice the mean has. Pure. */
void dataset_row_demand(const struct dataset *dataset, uint64_t *ret_pieces, uint64_t *ret_bytes);

/* A lister: lists what rows are read from. Belongs to one thread; the dataset is borrowed.
 * NO_MEMORY. */
struct dataset_lister;
MUST_USE enum status dataset_lister_new(const struct dataset *dataset,
                                        struct dataset_lister **ret_lister, struct error *err);

/* NULL is fine. */
void dataset_lister_free(struct dataset_lister *lister);

/* The memory that a lister takes. */
size_t dataset_lister_bytes(const struct dataset *dataset);

/* Calls visit() for each piece (zarr/chunk/chunk.h) that dataset_read_row() of `row` will ask
 * remote stores for, in the order of the reads. Chunks in the disk cache are left out. If a shard's
 * index is not known, the index is the only piece of that shard: the row is to be listed again
 * after dataset_take_index(). A piece is borrowed until visit() returns; its array, as long as the
 * dataset. Asks no store; may block on the disk cache. */
typedef void dataset_piece_visit(const struct store *store, const struct zarr_piece *piece,
                                 void *argument);
void dataset_row_pieces(struct dataset_lister *lister, uint64_t row, dataset_piece_visit *visit,
                        void *argument);

/* Keeps an index that was listed, and is fetched by now; `bytes` and `value_bytes` as in
 * zarr_take_index(). An index that is not valid is dropped: the read of the row reports the error.
 */
void dataset_take_index(struct dataset_lister *lister, const struct zarr_piece *piece,
                        const void *bytes, uint64_t value_bytes);

#endif
