/* See thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

bool thread_start(const char *name, void *(*body)(void *), void *argument, pthread_t *ret_thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(ret_thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == 0)
        pthread_setname_np(*ret_thread, name);
    else
        errno = failure;
    return failure == 0;
}

static struct timespec deadline_of(clockid_t clock, uint64_t timeout_ns)
{
    const uint64_t second_ns = 1000000000;
    struct timespec now;
    clock_gettime(clock, &now);
    uint64_t ns = (uint64_t)now.tv_nsec + timeout_ns % second_ns;
    return (struct timespec){.tv_sec =
                                 now.tv_sec + (time_t)(timeout_ns / second_ns + ns / second_ns),
                             .tv_nsec = (long)(ns % second_ns)};
}

bool thread_join_within(pthread_t thread, uint64_t timeout_ns)
{
    struct timespec until =
        deadline_of(CLOCK_REALTIME, timeout_ns); /* as the call has it, which TSan knows */
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

void thread_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec thread_deadline(uint64_t timeout_ns)
{
    return deadline_of(CLOCK_MONOTONIC, timeout_ns);
}
