/* A trainer's connection to its reader: the socket, the ring, and an eventfd in each direction. One
 * thread, but for what loader.h says of the ring.
 */
#ifndef PENSTOCK_CLIENT_CONNECTION_H
#define PENSTOCK_CLIENT_CONNECTION_H

#include "base/error.h"
#include "delivery/protocol.h"
#include "delivery/ring.h"

#include <stdint.h>

struct connection {
    int socket; /* non-blocking */
    struct ring ring;
    int publish_fd; /* eventfd: readable after a publish that was waited for */
    int release_fd; /* eventfd: wakes the reader */
};

/* Makes one of what a WELCOME to trainer `rank` of `world_size` brought. The socket and the
 * descriptors are taken, also on failure. *ret_header is a checked private copy. PROTOCOL: it is no
 * ring of this trainer, or no eventfd. Else as ring_open(). */
MUST_USE enum status connection_open(int socket, const int fds[WELCOME_FDS], uint32_t rank,
                                     uint32_t world_size, struct connection *ret_connection,
                                     struct ring_header *ret_header, struct error *err);

/* Closes all but the ring: what is leased of it stays mapped. */
void connection_hang_up(struct connection *connection);

void connection_done(struct connection *connection);

#endif
