/* The run directory: where a node's readers listen, and where its trainers look for them.
 *
 *     RUN_DIR               0700, of the user who runs the service
 *     RUN_DIR/reader-3.sock where reader 3 listens
 *     RUN_DIR/reader-3.lock locked by reader 3 while reader 3 lives; holds its pid, and in a second
 *                           line the mark of what has started it, which may clean up behind it
 *     RUN_DIR/reader-3.metrics  reader 3's metrics file (metrics/metrics_file.h)
 *     RUN_DIR/reader-0.overview metrics files of readers of other nodes (metrics/overview.h)
 *     RUN_DIR/reader-3.trace    what reader 3 did, when `penstock trace` asks
 *     RUN_DIR/penstock-run.lock of penstock-run --restarts, which makes the directory then
 *     RUN_DIR/reader-3.json     where Prometheus finds the reader's metrics, with metrics.listen
 *
 * A name that ends in '/' stands for the same directory without the '/'. The directory of a run of
 * --also has a dot and that run's name behind (`rundir_name()`). The directory is opened once,
 * without following a symbolic link at the end of its path, and is checked. All further calls use
 * the descriptor `dir`, which is borrowed: nobody can put another directory there instead, and the
 * path may be longer than a socket address allows. The lock belongs to an open file description
 * (fcntl, F_OFD_SETLK): it ends with its owner, however the owner ends, and others can look whether
 * it is held without taking it. Any thread.
 */
#ifndef PENSTOCK_DELIVERY_RING_RUNDIR_H
#define PENSTOCK_DELIVERY_RING_RUNDIR_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the name of the directory `given`, or of the run `also` (NULL: none) beside that, into
 * `name`, as snprintf() does, and returns the name's length. */
int rundir_name(const char *given, const char *also, char *name, size_t size);

/* Where a run directory lies that nobody has named: /tmp, or TMPDIR where nothing can be written to
 * /tmp. */
const char *rundir_parent(void);

/* Opens the directory. With `create` a missing directory is made, in a parent that must exist.
 * *ret_dir is the caller's, to close. NOT_FOUND: there is no such directory. REFUSED: `path` is a
 * symbolic link or no directory, belongs to another user, or is open to others. IO: any other
 * failure. */
MUST_USE enum status rundir_open(const char *path, bool create, int *ret_dir, struct error *err);

/* Takes the lock of reader `reader` for this process, and removes a dead owner's other files.
 * `mark`, one line, is NULL or written to the lock file. *ret_lock is the caller's: closing it
 * gives the lock up. REFUSED: a live process holds the lock; the message names its pid. IO: any
 * other failure. */
enum { RUNDIR_MARK_BYTES = 256 };
MUST_USE enum status rundir_claim(int dir, uint32_t reader, const char *mark, int *ret_lock,
                                  struct error *err);

/* Makes the socket of a reader whose lock this process holds. From now on trainers find the reader,
 * and they can connect once the caller has called listen(). *ret_socket is the caller's,
 * non-blocking. IO: the socket cannot be made. */
MUST_USE enum status rundir_bind(int dir, uint32_t reader, int *ret_socket, struct error *err);

/* Removes the reader's files. For the owner of the lock, before closing the lock. */
void rundir_leave(int dir, uint32_t reader);

/* Writes the numbers of the live readers of this directory, ascending, and returns how many there
 * are, at most `capacity`. 0 also where the directory cannot be read. */
size_t rundir_readers(int dir, uint32_t *readers, size_t capacity);

/* Connects to a reader. *ret_socket is the caller's, non-blocking. NOT_FOUND: no reader of that
 * number listens, or its queue is full: try again. IO: any other failure. */
MUST_USE enum status rundir_connect(int dir, uint32_t reader, int *ret_socket, struct error *err);

#endif
