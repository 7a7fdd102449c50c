/* penstock-bench-limit: what the machine can do with a dataset when nothing but the work itself is
 * done.
 *
 * Takes the configuration of a run (dataset, order, batch, threads) and measures what bounds it,
 * with the same worker pool as penstock-reader:
 *
 *   cold   read and decode every chunk row once, in the order of an epoch, into a buffer that is
 *          used again and again: no service can deliver a first epoch faster (decode.c)
 *   warm   copy samples in random order from decoded rows in memory to a ring of batches, whose
 *          consumer touches one byte a page: no service that copies can deliver a later epoch
 *          faster (copy.c)
 *   both   at once: each row is decoded once, into memory, while each sample is copied once from
 *          rows that were decoded before. Nothing waits for anything but a slot, so that this is
 *          what the cores and the memory can do of a first epoch together (copy.c)
 *
 * Of ragged fields `both` copies the items of each frame once, in no order, from rows that the
 * worker has decoded before, to memory of a ring's size (decode.c); there is no `warm`.
 */
#ifndef PENSTOCK_BENCH_LIMIT_H
#define PENSTOCK_BENCH_LIMIT_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "plan/order/plan.h"
#include "read/pool.h"

#include <stdbool.h>

/* What both measurements start from. */
struct limit {
    struct config config;
    struct dataset *dataset;
    struct plan plan;
    struct pool *pool;
};

struct limit_result {
    uint64_t samples;
    uint64_t duration_ns;
    uint64_t cpu_ns;                           /* cold: of all threads */
    uint64_t stored_bytes, read_ns, decode_ns; /* cold: sums over workers */
};

/* Reads and decodes all rows, in the row order of epoch 0. `rows` NULL: each worker into one row
 * buffer of its own; otherwise row r goes to rows + r * row_bytes. `copies_items`: each ragged item
 * is copied once, too. IO, CORRUPT: as dataset_read_row(). */
MUST_USE enum status decode_rows(const struct limit *limit, unsigned char *rows, bool copies_items,
                                 struct limit_result *ret_result, struct error *err);

/* The rows of epoch 0, which workers take one by one. decode_open(): as decode_rows() takes them.
 * decode_next(): reads and decodes the next row; false: none is left, or one failed.
 * decode_share(): how much of the rows is taken, above 1 in the end. decode_close() frees, and
 * returns the first failure. Workers call the two in the middle. */
struct decode;
MUST_USE enum status decode_open(const struct limit *limit, unsigned char *rows, bool copies_items,
                                 struct decode **ret_decode, struct error *err);
bool decode_next(struct decode *decode, struct pool_worker *worker);
double decode_share(const struct decode *decode);
MUST_USE enum status decode_close(struct decode *decode, struct error *err);

/* Decodes the dataset, of one store, into memory, then copies `passes` epochs of samples through a
 * ring of delivery.slots batches. The clock runs while copying. `decodes`: the same workers decode
 * each row once more meanwhile, whatever the passes, into other memory. NO_MEMORY: the decoded
 * dataset does not fit. INVALID: fewer samples than a batch. */
MUST_USE enum status copy_samples(const struct limit *limit, uint32_t passes, bool decodes,
                                  struct limit_result *ret_result, struct error *err);

#endif
