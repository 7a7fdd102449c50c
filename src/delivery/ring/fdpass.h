/* Packets with file descriptors (SCM_RIGHTS) over a Unix socket.
 *
 * Descriptors that arrive in excess of the caller's expectation are closed here, so that a hostile
 * peer cannot leave descriptors behind. Any thread; on one socket one thread at a time may send,
 * and one may receive. Sockets are borrowed.
 */
#ifndef PENSTOCK_DELIVERY_RING_FDPASS_H
#define PENSTOCK_DELIVERY_RING_FDPASS_H

#include "base/error.h"

#include <stddef.h>

enum { PACKET_MAX_FDS = 4 };

/* Sends one packet of `size` bytes and `fd_count` descriptors. `flags`: MSG_DONTWAIT, or 0 to
 * block. The peer gets copies of the descriptors: the caller keeps its own. INVALID: more than
 * PACKET_MAX_FDS descriptors. TIMEOUT: the packet does not fit now (MSG_DONTWAIT, or a non-blocking
 * socket). LOST: the peer closed its socket. IO: any other failure. */
MUST_USE enum status packet_send(int socket, const void *data, size_t size, const int *fds,
                                 size_t fd_count, int flags, struct error *err);

/* Receives one packet of at most `capacity` bytes and PACKET_MAX_FDS descriptors. The descriptors
 * are the caller's, close-on-exec. `flags` as above. On failure all descriptors of the packet are
 * closed. TIMEOUT: no packet is there (MSG_DONTWAIT, or a non-blocking socket). LOST: the peer
 * closed its socket or died. PROTOCOL: the packet is longer than `capacity`, or has more
 * descriptors. NO_MEMORY: this process may open no more files, so that a descriptor of the packet
 * is lost. IO: any other failure. */
MUST_USE enum status packet_receive(int socket, void *data, size_t capacity, int flags,
                                    size_t *ret_size, int ret_fds[PACKET_MAX_FDS],
                                    size_t *ret_fd_count, struct error *err);

/* Closes *fd unless *fd is -1, and sets *fd to -1. */
void fd_close(int *fd);

#endif
