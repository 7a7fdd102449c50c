/* Packets with file descriptors (SCM_RIGHTS) over a Unix socket.
 *
 * Whatever arrives in excess of what the caller expects is closed here, so that a hostile peer
 * cannot leave descriptors behind. Any thread; a socket by one thread at a time and direction.
 */
#ifndef PENSTOCK_DELIVERY_FDPASS_H
#define PENSTOCK_DELIVERY_FDPASS_H

#include "base/error.h"

#include <stddef.h>

enum { PACKET_MAX_FDS = 4 };

/* Sends one packet. `flags`: MSG_DONTWAIT or 0. The descriptors stay the caller's.
 * TIMEOUT: it would block (MSG_DONTWAIT). LOST: the peer is gone. IO. */
MUST_USE enum status packet_send(int socket, const void *data, size_t size, const int *fds,
                                 size_t fd_count, int flags, struct error *err);

/* Receives one packet of at most `capacity` bytes with at most PACKET_MAX_FDS descriptors, which
 * are the caller's then, close-on-exec. TIMEOUT: nothing there (MSG_DONTWAIT). LOST: the peer
 * closed or died. PROTOCOL: it was longer, or carried more descriptors (all are closed). NO_MEMORY:
 * this process has no descriptor free for one that it carried. IO. */
MUST_USE enum status packet_receive(int socket, void *data, size_t capacity, int flags,
                                    size_t *ret_size, int ret_fds[PACKET_MAX_FDS],
                                    size_t *ret_fd_count, struct error *err);

/* One descriptor, for example the ring that readers of a node share. Blocks; any Unix socket type.
 */
MUST_USE enum status fd_send(int socket, int fd, struct error *err);
MUST_USE enum status fd_receive(int socket, int *ret_fd, struct error *err);

/* Closes it, unless it is -1, which it is afterwards. */
void fd_close(int *fd);

#endif
