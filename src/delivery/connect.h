/* The trainer's way to its reader: finds the run directory and the socket, shakes hands, maps the
 * ring.
 *
 * Blocks, sleeping between tries, until the service has started delivery or the timeout is over.
 * Each sign of life from the service (a WAIT) starts the timeout anew: while other trainers are
 * awaited there is nothing wrong.
 */
#ifndef PENSTOCK_DELIVERY_CONNECT_H
#define PENSTOCK_DELIVERY_CONNECT_H

#include "base/error.h"
#include "delivery/ring.h"

#include <stdint.h>

struct connect_options {
    const char *run_dir;
    int64_t
        reader; /* -1: the local_rank-th of local_world_size shares of the readers that are there */
    uint32_t local_rank, local_world_size;
    uint32_t rank, world_size;
    int64_t timeout_ms; /* -1: for ever */
};

struct link {
    int socket; /* non-blocking */
    struct ring ring;
    int publish_fd; /* eventfd: readable after a publish that was waited for */
    int release_fd; /* eventfd: wakes the reader */
};

/* *ret_header is a checked private copy. NOT_FOUND: nobody listens there within the timeout.
 * TIMEOUT: connected, but the service did not start. REFUSED: by the service, or the run directory
 * is not ours. Any other: from the service or the system. */
MUST_USE enum status link_connect(const struct connect_options *options, struct link *ret_link,
                                  struct ring_header *ret_header, struct error *err);

/* Which of `count` readers (> 0) serves local trainer `local_rank` of `local_world_size`. */
uint32_t connect_share(uint32_t local_rank, uint32_t local_world_size, uint32_t count);

void link_done(struct link *link);

#endif
