/* Where a trainer is, as its reader sees it: one word of shared memory, the cursor behind the last
 * batch that the trainer has released, in order, of whatever ring.
 *
 * The trainer makes the page once, and sends it with each HELLO. So a reader knows the cursor at
 * any time from the HELLO on, before there is a ring and when the trainer is dead: nobody has to
 * say anything, and nothing can come too late. A reader maps it read-only, and takes the word for
 * what a peer says: a number to be checked.
 *
 *     0   | cursor | not used |   4096
 */
#ifndef PENSTOCK_DELIVERY_CURSOR_PAGE_H
#define PENSTOCK_DELIVERY_CURSOR_PAGE_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

struct cursor_page {
    _Atomic uint64_t *cursor; /* mapped; NULL: no page */
    int memfd;                /* the trainer's, to send; -1 with a reader */
};

/* A trainer's, at cursor 0. NO_MEMORY, IO. */
MUST_USE enum status cursor_page_new(struct cursor_page *ret_page, struct error *err);

/* A reader's, of a descriptor that came from elsewhere, which is taken also on failure. PROTOCOL:
 * it is no such memory. IO. */
MUST_USE enum status cursor_page_open(int memfd, struct cursor_page *ret_page, struct error *err);

/* Unmaps and closes. A zeroed page is fine. */
void cursor_page_done(struct cursor_page *page);

#endif
