/* The trainer's way to its reader: finds the run directory and the socket, shakes hands, maps the
 * ring.
 *
 * Sleeps between tries until the service has started delivery or the timeout is over. Each sign of
 * life from the service (a WAIT) starts the timeout anew: while other trainers are awaited there is
 * nothing wrong. A reader that goes away during the handshake is looked for again, if it had said
 * so or had not said anything yet. One thread.
 */
#ifndef PENSTOCK_CLIENT_DIAL_H
#define PENSTOCK_CLIENT_DIAL_H

#include "base/error.h"
#include "client/connection.h"
#include "delivery/protocol.h"

#include <stdbool.h>
#include <stdint.h>

struct dial_options {
    const char *run_dir;
    int64_t
        reader; /* -1: the local_rank-th of local_world_size shares of the readers that are there */
    uint32_t local_rank, local_world_size;
    uint32_t rank, world_size;
    int64_t timeout_ms;      /* -1: for ever */
    enum protocol_wish wish; /* FRESH: `state` is NULL */
    const char *state;       /* JSON, at most PROTOCOL_STATE_BYTES with NUL */
    int page_fd;             /* of the cursor page (cursor_page.h); loader_open() sets it */
    const char *cursors;     /* where cursors outlive processes (cursor_file.h); NULL: nowhere */
};

/* What a service has agreed to. */
struct connection_terms {
    struct ring_header header;       /* a checked private copy */
    struct protocol_welcome welcome; /* this trainer's first batch */
    uint64_t reconnect_ms;           /* how long to look for a reader again; 0: not at all */
};

/* A connection in the making. */
struct dial {
    const struct dial_options *options; /* borrowed */
    int socket;                         /* -1: nobody reached yet */
    uint64_t deadline_ns;               /* UINT64_MAX: none */
    struct protocol_wait news;          /* the last one */
    bool heard;                         /* `news` is of the reader at `socket` */
};

void dial_begin(struct dial *ret_dial, const struct dial_options *options);

/* Goes on until the connection stands or has failed; *ret_over is false if instead `until_ns`
 * (UINT64_MAX: never) is reached or `wake_fd` (-1: none) is readable: then call again.
 * OK: the connection is made. NOT_FOUND: nobody listened there within the timeout. TIMEOUT:
 * connected, but the service did not start. REFUSED: by the service, or the run directory is not
 * ours. LOST: the service went away for good. Any other: from the service or the system. */
MUST_USE enum status dial_continue(struct dial *dial, uint64_t until_ns, int wake_fd,
                                   bool *ret_over, struct connection *ret_connection,
                                   struct connection_terms *ret_terms, struct error *err);

/* Gives up. Twice is fine. */
void dial_done(struct dial *dial);

/* Which of `count` readers (> 0) serves local trainer `local_rank` of `local_world_size`. */
uint32_t dial_reader_of(uint32_t local_rank, uint32_t local_world_size, uint32_t count);

#endif
