/* penstock-bench-limit: what the machine can do with a dataset when nothing but the work itself is
 * done.
 *
 * Takes the configuration of a run (dataset, order, batch, threads) and measures what bounds it,
 * with the same worker pool as penstock-reader:
 *
 *   cold   read and decode every chunk row once, in the order of an epoch, into a buffer that is
 * used again and again: no service can deliver a first epoch faster (decode.c) warm   copy samples
 * in random order from decoded rows in memory to a ring of batches, whose consumer touches one byte
 * a page: no service that copies can deliver a later epoch faster        (copy.c)
 */
#ifndef PENSTOCK_BENCH_LIMIT_H
#define PENSTOCK_BENCH_LIMIT_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "plan/plan.h"
#include "read/pool.h"

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
 * buffer of its own; otherwise row r goes to rows + r * row_bytes. IO, CORRUPT: as
 * dataset_read_row(). */
MUST_USE enum status decode_rows(const struct limit *limit, unsigned char *rows,
                                 struct limit_result *ret_result, struct error *err);

/* Decodes the dataset, of one store, into memory, then copies `passes` epochs of samples through a
 * ring of delivery.slots batches. The clock runs while copying. NO_MEMORY: the decoded dataset does not
 * fit. INVALID: fewer samples than a batch. */
MUST_USE enum status copy_samples(const struct limit *limit, uint32_t passes,
                                  struct limit_result *ret_result, struct error *err);

#endif
