/* See waker.h. Arming and the work it guards against are ordered by sequentially consistent fences
 * on both sides (Dekker's pattern): either the sleeper sees the work, or the waker sees `armed`. */
#include "base/waker.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum status waker_init(struct waker *waker, struct error *err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create an eventfd");
    waker->fd = fd;
    waker->owed = 0;
    atomic_init(&waker->armed, 0);
    return STATUS_OK;
}

void waker_done(struct waker *waker)
{
    if (waker->fd >= 0)
        close(waker->fd);
    waker->fd = -1;
}

void waker_wake(struct waker *waker)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&waker->armed, memory_order_relaxed))
        return;
    if (!atomic_exchange(&waker->armed, 0))
        return;
    uint64_t one = 1;
    ssize_t written = write(waker->fd, &one, sizeof one);
    (void)written; /* a full counter means that the sleeper is woken already */
}

void waker_arm(struct waker *waker)
{
    atomic_store(&waker->armed, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

void waker_disarm(struct waker *waker)
{
    if (!atomic_exchange(&waker->armed, 0))
        waker->owed++;
    uint64_t count;
    if (waker->owed && read(waker->fd, &count, sizeof count) == sizeof count)
        waker->owed -= (unsigned)count;
}

int waker_fd(const struct waker *waker)
{
    return waker->fd;
}
