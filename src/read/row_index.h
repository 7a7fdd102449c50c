/* Which buffer holds a row: a hash table from row to buffer that never grows. Internal to read/.
 *
 * Open addressing with linear probing, at most half full; removal shifts later entries back, so
 * that there are no tombstones and lookups stay short however often rows come and go. One thread.
 */
#ifndef PENSTOCK_READ_ROW_INDEX_H
#define PENSTOCK_READ_ROW_INDEX_H

#include "base/error.h"
#include "read/row_store.h"

#include <stdint.h>

struct row_index_entry {
    uint64_t row;
    int32_t buffer; /* ROW_NONE: the entry is empty */
};

struct row_index {
    struct row_index_entry *entries; /* [mask + 1] */
    uint64_t mask;
};

/* Room for `capacity` rows. NO_MEMORY. */
MUST_USE enum status row_index_init(struct row_index *index, uint32_t capacity, struct error *err);
void row_index_done(struct row_index *index);

int32_t row_index_find(const struct row_index *index, uint64_t row);

/* The row must not be there yet, or must be there, respectively. */
void row_index_add(struct row_index *index, uint64_t row, int32_t buffer);
void row_index_remove(struct row_index *index, uint64_t row);

#endif
