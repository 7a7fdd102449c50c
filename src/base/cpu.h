/* The processors that this process may use. Pure; any thread. */
#ifndef PENSTOCK_BASE_CPU_H
#define PENSTOCK_BASE_CPU_H

#include <stdint.h>

/* CPUs that the calling thread may use, at least 1. */
uint32_t cpu_count(void);

#endif
