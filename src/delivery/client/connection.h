/* A trainer's connection to its reader: the socket, the ring, and an eventfd in each direction. One
 * thread at a time, except that any thread may release slots (loader.h). */
#ifndef PENSTOCK_DELIVERY_CLIENT_CONNECTION_H
#define PENSTOCK_DELIVERY_CLIENT_CONNECTION_H

#include "base/error.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"

#include <stdint.h>

struct connection {
    int socket; /* owned, as all members; non-blocking */
    struct ring ring;
    int publish_fd; /* eventfd: the reader signals it at a publish if the trainer sleeps */
    int release_fd; /* eventfd: the trainer signals it at a release if the reader sleeps */
};

/* Makes the connection of member `index` of a ring from a WELCOME's descriptors. `socket` and `fds`
 * are taken, and closed on failure. *rank is the trainer's in the service; with `is_sure` the ring
 * has to be for that rank, of `world_size`, and else the ring says which rank the service has given
 * the trainer. *ret_header is a checked private copy of the ring's header, with the layout as the
 * member has it. PROTOCOL: the ring is not this trainer's, or a descriptor is no eventfd. Other
 * statuses: as ring_open(). */
MUST_USE enum status connection_open(int socket, const int fds[WELCOME_FDS], uint32_t index,
                                     uint32_t world_size, bool is_sure, uint32_t *rank,
                                     struct connection *ret_connection,
                                     struct ring_header *ret_header, struct error *err);

/* Closes the socket and the eventfds. The ring stays mapped. */
void connection_hang_up(struct connection *connection);

void connection_done(struct connection *connection);

#endif
