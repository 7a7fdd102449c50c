/* Monotonic time. Safe from any thread. */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary start; never goes back. */
uint64_t clock_now_ns(void);

/* Nanoseconds of CPU time that this process has used, all threads together. */
uint64_t clock_process_cpu_ns(void);

/* Sleeps; may return early on a signal. */
void clock_sleep_ns(uint64_t duration_ns);

#endif
