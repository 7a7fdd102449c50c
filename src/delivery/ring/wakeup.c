/* See wakeup.h. */
#include "delivery/ring/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum status wakeup_new(int *ret_fd, struct error *err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create an eventfd");
    *ret_fd = fd;
    return STATUS_OK;
}

bool wakeup_check(int fd)
{
    static const char expected[] = "anon_inode:[eventfd]";
    char path[32], target[sizeof expected];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target);
    return length == sizeof expected - 1 && memcmp(target, expected, sizeof expected - 1) == 0 &&
           fcntl(fd, F_GETFL) & O_NONBLOCK;
}

void wakeup_signal(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* a full counter means that the sleeper is woken already */
}

void wakeup_waiting(_Atomic uint32_t *waits, int fd)
{
    if (atomic_load(waits) && atomic_exchange(waits, 0))
        wakeup_signal(fd);
}

void wakeup_waiting_for(_Atomic uint32_t *waits, uint64_t reached, int fd)
{
    uint32_t count = atomic_load(waits);
    if (count && (uint32_t)reached - count <= INT32_MAX)
        wakeup_waiting(waits, fd);
}

void wakeup_drain(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got; /* nothing to read when nobody woke us */
}
