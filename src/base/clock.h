/* Monotonic time. Safe from any thread. */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary start; never goes back. */
uint64_t clock_now_ns(void);

/* The time in `timeout_ms` milliseconds. UINT64_MAX stands for never: a negative timeout, or one
 * beyond 64 bits of nanoseconds. */
uint64_t clock_deadline_ns(int64_t timeout_ms);

/* Nanoseconds of CPU time that this process has used, all threads together. */
uint64_t clock_process_cpu_ns(void);

/* Sleeps; may return early on a signal. */
void clock_sleep_ns(uint64_t duration_ns);

#endif
