/* The inside of stored rows, shared by stored_rows.c (the owner's side) and stored_rows_pass.c (the
 * worker's side).
 *
 * The index from row to entry belongs to the owner. An entry's pages belong to the worker that
 * records them until the worker sets RECORDED (release), then to the holders of the entry.
 * `holders` counts the owner, until the row is dropped, and the load under way. The last holder to
 * let go frees pages and entry. So a row may be dropped at any time.
 */
#ifndef PENSTOCK_READ_STORED_ROWS_INTERNAL_H
#define PENSTOCK_READ_STORED_ROWS_INTERNAL_H

#include "read/page_arena.h"
#include "read/row_index.h"
#include "read/stored_rows.h"

#include <pthread.h>
#include <stdatomic.h>

enum entry_state { ENTRY_ASKED, ENTRY_RECORDED };

/* A row that is to be recorded, or is. */
struct entry {
    _Atomic int state; /* enum entry_state */
    _Atomic uint32_t holders;
    int32_t first_page;
    int32_t next_free; /* valid while free */
    uint64_t page_count;
    uint64_t bytes; /* of the tape */
};

struct stored_rows {
    struct page_arena arena;
    struct entry *entries;
    uint32_t entry_count;
    struct row_index index;
    pthread_mutex_t entry_mutex;
    int32_t first_free_entry; /* under entry_mutex */
    _Atomic uint64_t recorded_rows, recorded_count, played_count, full_count;
};

/* stored_rows.c: one holder lets go of the entry `index`. Any thread. */
void stored_rows_let_go(struct stored_rows *rows, int32_t index);

#endif
