/* The watchdog: a thread that notices when the store does not answer.
 *
 * A read that hangs in the kernel, of a dead file server for example, cannot be called back. The
 * watchdog looks at the reads under way (store/watch.h) a few times a second, says which one has
 * hung for half of store.timeout, and after all of it has an error for the main thread, which ends
 * the run with it: the stuck worker is left behind. If the main thread itself hangs in the store,
 * as while the dataset is opened, the watchdog prints the error and ends the process, and MPI the
 * job. It also says, at most twice a minute, when reads had to be tried again.
 *
 * It calls no MPI. One in a process.
 */
#ifndef PENSTOCK_MPI_WATCHDOG_H
#define PENSTOCK_MPI_WATCHDOG_H

#include "base/waker.h"
#include "comm.h"
#include "store/watch.h"

#include <stdbool.h>
#include <stdint.h>

struct watchdog;

/* All borrowed until watchdog_free(). `waker` is woken when there is an error; it need not be
 * initialised before watchdog_serve(). NO_MEMORY, IO: no thread. */
MUST_USE enum status watchdog_new(const struct comm *comm, struct store_watch *watch,
                                  uint64_t timeout_s, struct watchdog **ret_watchdog,
                                  struct error *err);

/* From now on (`waker` not NULL) the main thread asks for errors, or (NULL) no longer does. */
void watchdog_serve(struct watchdog *watchdog, struct waker *waker);

/* Whether a read has hung for too long: true once, with the error. Main thread; one atomic load
 * when there is none. */
bool watchdog_take(struct watchdog *watchdog, struct error *ret_error);

/* Stops the thread. NULL is fine. */
void watchdog_free(struct watchdog *watchdog);

#endif
