/* The watchdog: a thread that notices when the store does not answer.
 *
 * A read that hangs in the kernel, of a dead file server for example, cannot be interrupted. The
 * watchdog looks at the reads under way (store/kind/watch.h) a few times a second. When a read has
 * hung for half of store.timeout, it prints a warning. After the whole of store.timeout it has an
 * error for the main thread, which ends the run with that error and leaves the stuck worker behind.
 * While the main thread itself reads the store (when the dataset is opened), the watchdog prints
 * the error and ends the process, and MPI ends the job. At most twice a minute it prints how many
 * reads were tried again.
 *
 * The watchdog's thread calls no MPI. One watchdog in a process. Main thread only.
 */
#ifndef PENSTOCK_MPI_JOB_WATCHDOG_H
#define PENSTOCK_MPI_JOB_WATCHDOG_H

#include "base/waker.h"
#include "ranks/comm.h"
#include "store/kind/watch.h"

#include <stdbool.h>
#include <stdint.h>

struct watchdog;

/* Starts the thread. `comm` and `watch` are borrowed until watchdog_free(). NO_MEMORY. IO: the
 * thread cannot be started. */
MUST_USE enum status watchdog_new(const struct comm *comm, struct store_watch *watch,
                                  uint64_t timeout_s, struct watchdog **ret_watchdog,
                                  struct error *err);

/* `waker` is not NULL: from now on the main thread calls watchdog_take(), and an error wakes
 * `waker`, which is borrowed until the next call. NULL: from now on the main thread does not. */
void watchdog_serve(struct watchdog *watchdog, struct waker *waker);

/* True, once: a read has hung for store.timeout, and *ret_error names it. Costs one atomic load
 * when there is no error. */
bool watchdog_take(struct watchdog *watchdog, struct error *ret_error);

/* Stops the thread. NULL is fine. */
void watchdog_free(struct watchdog *watchdog);

#endif
