/* Threads that a module runs for itself, and conditions that they wait for with a deadline.
 *
 * Signals belong to the program's main thread: all are blocked in the threads that start here.
 * Everything else is of <pthread.h>. Safe from any thread.
 */
#ifndef PENSTOCK_BASE_THREAD_H
#define PENSTOCK_BASE_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Starts a thread that runs `body`, to be joined or detached by the caller. Tools show its `name`,
 * of 15 bytes at most. False, with errno: no thread can be started. */
MUST_USE bool thread_start(const char *name, void *(*body)(void *), void *argument,
                           pthread_t *ret_thread);

/* Joins the thread if it ends within `timeout_ns`. False: it has not, and is still to be joined. */
MUST_USE bool thread_join_within(pthread_t thread, uint64_t timeout_ns);

/* A condition whose pthread_cond_timedwait() takes a thread_deadline(). */
void thread_cond_init(pthread_cond_t *condition);

/* The time in `timeout_ns` nanoseconds. */
struct timespec thread_deadline(uint64_t timeout_ns);

#endif
