/* The inside of stored rows, shared by stored_rows.c (the owner's side) and stored_rows_pass.c (the
 * worker's side).
 *
 * The index from row to entry belongs to the owner. An entry belongs to the worker that records it
 * until the worker sets RECORDED (release); then it stays as it is.
 */
#ifndef PENSTOCK_READ_STORED_ROWS_INTERNAL_H
#define PENSTOCK_READ_STORED_ROWS_INTERNAL_H

#include "read/page_arena.h"
#include "read/row_index.h"
#include "read/stored_rows.h"

#include <stdatomic.h>

enum entry_state { ENTRY_ASKED, ENTRY_RECORDED };

/* A row that is to be recorded, or is. */
struct entry {
    _Atomic int state; /* enum entry_state */
    int32_t first_page;
    uint64_t bytes; /* of the tape */
};

struct stored_rows {
    struct page_arena arena;
    struct entry *entries; /* of the rows asked for, in that order */
    uint32_t entry_count, most_entries;
    struct row_index index;
    _Atomic uint64_t recorded_rows, played_count, full_count;
};

#endif
