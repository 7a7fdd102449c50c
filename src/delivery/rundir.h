/* The run directory: where the readers of a node listen and its trainers look for them.
 *
 *     RUN_DIR               0700, of the user who runs the service
 *     RUN_DIR/reader-3.sock where reader 3 listens
 *     RUN_DIR/reader-3.lock locked by reader 3 as long as it lives; its pid is in it
 *
 * The directory is opened once, without following a symbolic link at its end, checked, and then
 * used by its descriptor alone, so that nobody can swap it afterwards; and paths may be longer than
 * a socket address allows. The lock is one of an open file description (fcntl, F_OFD_SETLK): it
 * goes with its owner, however that ends, and others can look whether it is held without taking it.
 * Any thread.
 */
#ifndef PENSTOCK_DELIVERY_RUNDIR_H
#define PENSTOCK_DELIVERY_RUNDIR_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the directory; with `create` it is made if missing (its parent must be there).
 * NOT_FOUND: no such directory. REFUSED: a symbolic link, another user's, or open to others. IO. */
MUST_USE enum status rundir_open(const char *path, bool create, int *ret_dir, struct error *err);

/* Makes this process the owner of the reader's lock, removing what a dead owner left.
 * REFUSED: a live process holds it; the message names its pid. IO. */
MUST_USE enum status rundir_claim(int dir, uint32_t reader, int *ret_lock, struct error *err);

/* The reader's socket, whose lock must be claimed: from now on others find this reader, and can
 * connect once listen() has been called. Non-blocking. IO. */
MUST_USE enum status rundir_bind(int dir, uint32_t reader, int *ret_socket, struct error *err);

/* Removes reader's socket and lock file, while the lock is held. */
void rundir_leave(int dir, uint32_t reader);

/* The readers that are alive in this directory, ascending; returns their number, at most
 * `capacity`. */
size_t rundir_readers(int dir, uint32_t *readers, size_t capacity);

/* Connects to a reader. Non-blocking socket. NOT_FOUND: nobody listens there. IO. */
MUST_USE enum status rundir_connect(int dir, uint32_t reader, int *ret_socket, struct error *err);

#endif
