/* Counter-based random numbers: the same value for the same key and counter on every machine.
 *
 * Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11), from
 * Random123. Pure functions, safe from any thread.
 */
#ifndef PENSTOCK_BASE_RANDOM_H
#define PENSTOCK_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* 64 random bits, a function of the key and of a 128-bit counter (high, low). */
uint64_t random_u64(uint64_t key, uint64_t counter_high, uint64_t counter_low);

/* ret_values[i] = random_u64(key, counter_high, counter_lows[i]), several at a time where the CPU
 * can. The arrays may be the same. */
void random_u64_many(uint64_t key, uint64_t counter_high, const uint64_t *counter_lows,
                     size_t count, uint64_t *ret_values);

/* Maps 64 random bits to [0, bound) by multiplication (Lemire); the bias is at most bound / 2^64.
 */
static inline uint64_t random_below(uint64_t bits, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)bits * bound) >> 64);
}

#endif
