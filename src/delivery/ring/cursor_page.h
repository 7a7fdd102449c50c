/* How far a trainer is, as its reader sees it. The page is shared memory with one word: the cursor
 * behind the last batch that the trainer has released in order, whichever ring held the batch.
 *
 * The trainer makes the page once, and sends its descriptor with each HELLO. From the HELLO on a
 * reader knows the trainer's cursor at any time: before there is a ring, and after the trainer's
 * death. No message is needed, and none can come too late. A reader maps the page read-only, and
 * checks the number as it checks whatever a peer sends. Any thread may read the word; the trainer
 * alone writes it. The functions are for the page's owner.
 *
 *     0   | cursor | not used |   4096
 */
#ifndef PENSTOCK_DELIVERY_RING_CURSOR_PAGE_H
#define PENSTOCK_DELIVERY_RING_CURSOR_PAGE_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

struct cursor_page {
    _Atomic uint64_t *cursor; /* the mapped page, owned; NULL: no page */
    int memfd;                /* owned; the trainer sends a copy with each HELLO; -1 in a reader */
};

/* Makes a trainer's page, with cursor 0. NO_MEMORY: no page is free. IO: a system call failed. */
MUST_USE enum status cursor_page_new(struct cursor_page *ret_page, struct error *err);

/* Maps a trainer's page in a reader. `memfd` came with a HELLO; it is taken, and closed also on
 * failure. PROTOCOL: `memfd` is not sealed memory of the page's size. IO: the page cannot be
 * mapped. */
MUST_USE enum status cursor_page_open(int memfd, struct cursor_page *ret_page, struct error *err);

/* Unmaps and closes. A zeroed page is fine. */
void cursor_page_done(struct cursor_page *page);

#endif
