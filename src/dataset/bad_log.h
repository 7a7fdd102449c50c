/* What could not be read and is masked, on its way from the workers that find it to the main
 * thread.
 *
 * A queue of fixed size, allocated at start. Workers add; the main thread takes. The same chunk may
 * come again, in a later epoch: whoever takes sees to that.
 */
#ifndef PENSTOCK_DATASET_BAD_LOG_H
#define PENSTOCK_DATASET_BAD_LOG_H

#include "base/error.h"
#include "zarr/array.h"

#include <stdbool.h>
#include <stdint.h>

/* One chunk, and which samples it makes bad. Travels between readers as plain bytes. */
struct bad_chunk {
    char array[ZARR_PATH_BYTES];
    struct zarr_index_text chunk;
    uint64_t first_sample, sample_count;
    struct error cause; /* its message begins with array and chunk */
};

struct bad_log;

/* NO_MEMORY. */
MUST_USE enum status bad_log_new(struct bad_log **ret_log, struct error *err);
void bad_log_free(struct bad_log *log);

/* False: as many are queued as there is room for. Any thread. */
MUST_USE bool bad_log_add(struct bad_log *log, const struct bad_chunk *bad);

/* The oldest that is queued; false: none. Costs one atomic load then. One thread. */
bool bad_log_take(struct bad_log *log, struct bad_chunk *ret_bad);

#endif
