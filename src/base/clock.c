/* See clock.h. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_deadline_ns(int64_t timeout_ms)
{
    uint64_t deadline;
    if (timeout_ms < 0 ||
        __builtin_mul_overflow((uint64_t)timeout_ms, UINT64_C(1000000), &deadline) ||
        __builtin_add_overflow(deadline, clock_now_ns(), &deadline))
        return UINT64_MAX;
    return deadline;
}

uint64_t clock_process_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void clock_sleep_ns(uint64_t duration_ns)
{
    struct timespec duration = {.tv_sec = (time_t)(duration_ns / 1000000000u),
                                .tv_nsec = (long)(duration_ns % 1000000000u)};
    nanosleep(&duration, NULL);
}
