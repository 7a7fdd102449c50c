/* Connects a trainer to its reader: finds the run directory and the socket, exchanges the messages
 * of the handshake, maps the ring.
 *
 * Between tries the caller's thread sleeps, until the service has started delivery or the timeout
 * is over. Each WAIT of the service starts the timeout anew, since waiting for other trainers is no
 * failure. A reader that goes away during the handshake is looked for again, if it had announced
 * reconnecting or had said nothing yet. One thread at a time.
 */
#ifndef PENSTOCK_DELIVERY_CLIENT_DIAL_H
#define PENSTOCK_DELIVERY_CLIENT_DIAL_H

#include "base/error.h"
#include "delivery/client/connection.h"
#include "delivery/ring/handout.h"
#include "delivery/ring/protocol.h"

#include <stdbool.h>
#include <stdint.h>

struct dial_options {
    const char *run_dir;
    int64_t reader; /* its number; -1: dial_reader_of() chooses among the live readers */
    uint32_t local_rank, local_world_size;
    uint32_t rank, world_size;
    const char *coordinates; /* in the mesh, as the protocol has them; "": those of the rank */
    int64_t timeout_ms;      /* -1: no limit */
    enum protocol_wish wish; /* WISH_FRESH: `state` is NULL */
    const char *state;       /* JSON, at most PROTOCOL_STATE_BYTES with NUL */
    int page_fd;             /* of the cursor page (cursor_page.h), borrowed; loader_new() sets it
                              */
    const char *cursors;     /* prefix of the cursor files' paths (cursor_file.h); NULL: there are
                              * none */
};

/* What the service has told at the end of the handshake. */
struct connection_terms {
    struct ring_header header;       /* of connection_open() */
    uint32_t rank;                   /* likewise */
    struct protocol_welcome welcome; /* this trainer's first batch */
    struct handout handout;          /* owned; zero: the service has none */
    uint64_t reconnect_ms;           /* how long to look for a reader if this one goes away; 0: not
                                      * at all */
};

/* A connection in the making. */
struct dial {
    const struct dial_options *options; /* borrowed */
    int socket;                         /* owned; -1: no reader is reached */
    uint64_t deadline_ns;               /* UINT64_MAX: none */
    struct protocol_wait news;          /* the last WAIT */
    struct handout handout;             /* owned; that came so far */
    bool heard;                         /* the reader at `socket` has sent a WAIT */
    bool told;                          /* the service has said why there will be no connection */
};

/* Starts the clock of `options->timeout_ms`. `options` is borrowed until dial_done(). */
void dial_begin(struct dial *ret_dial, const struct dial_options *options);

/* Goes on until the connection is made or has failed. *ret_over is false if `until_ns` (UINT64_MAX:
 * never) came first, or if `wake_fd` (-1: none) is readable: call again to go on. With *ret_over
 * and OK, *ret_connection is the caller's, and *ret_terms is filled. Blocks.
 *
 * NOT_FOUND: within the timeout no reader listened in the run directory. TIMEOUT: a reader took the
 * connection, and said nothing more for the timeout. REFUSED: the service refused this trainer, or
 * another user runs it, or the run directory is a symbolic link, another user's or open to others.
 * LOST: the service went away, and does not come back. PROTOCOL: the service sent an impossible
 * message or ring. Other statuses: from the service's FAIL, or from the system. */
MUST_USE enum status dial_continue(struct dial *dial, uint64_t until_ns, int wake_fd,
                                   bool *ret_over, struct connection *ret_connection,
                                   struct connection_terms *ret_terms, struct error *err);

/* Frees what is under way. Twice is fine. */
void dial_done(struct dial *dial);

/* Which of `count` readers (> 0), by index, serves local trainer `local_rank` of
 * `local_world_size`: the readers get equal shares of consecutive local ranks. Pure. */
uint32_t dial_reader_of(uint32_t local_rank, uint32_t local_world_size, uint32_t count);

#endif
