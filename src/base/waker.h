/* Wakes one sleeping thread without a system call when it is awake.
 *
 * One thread sleeps (in poll(), on waker_fd() among others); any number of threads wake it. The
 * sleeper announces its sleep, looks once more for work, and only then sleeps. So a wake-up between
 * the last look and the sleep is never lost:
 *
 *     waker_arm(w);
 *     if (!found_work_after_all())
 *         poll(... waker_fd(w) ...);
 *     waker_disarm(w);
 */
#ifndef PENSTOCK_BASE_WAKER_H
#define PENSTOCK_BASE_WAKER_H

#include "base/error.h"

#include <stdatomic.h>

struct waker {
    int fd; /* eventfd, owned; -1 when not initialised */
    _Atomic unsigned armed;
    unsigned owed; /* by wakers that have disarmed, and whose write is not read yet */
};

/* IO: no descriptor left. */
MUST_USE enum status waker_init(struct waker *waker, struct error *err);
void waker_done(struct waker *waker);

/* Any thread, never blocks. Work that the sleeper shall see must be visible before this call. */
void waker_wake(struct waker *waker);

/* The sleeping thread only. */
void waker_arm(struct waker *waker);
void waker_disarm(struct waker *waker);

/* Readable after a wake-up, until the first waker_disarm() after the waking thread's write. */
int waker_fd(const struct waker *waker);

#endif
