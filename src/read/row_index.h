/* Which buffer holds a row: a hash table from row to buffer that never grows. Inside src/read.
 *
 * Open addressing with linear probing, at most half full. Removal shifts later entries back. So
 * there are no tombstones, and lookups stay short however often rows come and go. One thread.
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
    struct row_index_entry *entries; /* [mask + 1], a power of 2 */
    uint64_t mask;
};

/* Makes an empty index with room for `capacity` rows. NO_MEMORY. */
MUST_USE enum status row_index_init(struct row_index *index, uint32_t capacity, struct error *err);

/* An index that is all zero is fine. */
void row_index_done(struct row_index *index);

/* The buffer of `row`; ROW_NONE: the row is not there. */
int32_t row_index_find(const struct row_index *index, uint64_t row);

/* Adds a row that is not there yet. */
void row_index_add(struct row_index *index, uint64_t row, int32_t buffer);

/* Removes a row that is there. */
void row_index_remove(struct row_index *index, uint64_t row);

#endif
