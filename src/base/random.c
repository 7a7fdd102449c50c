/* See random.h. */
#include "base/random.h"

#include "base/random_lanes.h"

#include <Random123/philox.h>

uint64_t random_u64(uint64_t key, uint64_t counter_high, uint64_t counter_low)
{
    philox4x32_ctr_t counter = {{(uint32_t)counter_low, (uint32_t)(counter_low >> 32),
                                 (uint32_t)counter_high, (uint32_t)(counter_high >> 32)}};
    philox4x32_key_t philox_key = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    philox4x32_ctr_t bits = philox4x32(counter, philox_key);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

#if defined(__x86_64__)

/* Returns how many it has done: all but the last few. */
RANDOM_LANES_TARGET static size_t many_lanes(uint64_t key, uint64_t counter_high,
                                             const uint64_t *counter_lows, size_t count,
                                             uint64_t *ret_values)
{
    size_t done = 0;
    for (; done + RANDOM_LANES <= count; done += RANDOM_LANES) {
        lanes lows = lanes_load(counter_lows + done);
        lanes_store(ret_values + done, random_lanes_joined(random_lanes(key, counter_high, lows)));
    }
    return done;
}

#endif

void random_u64_many(uint64_t key, uint64_t counter_high, const uint64_t *counter_lows,
                     size_t count, uint64_t *ret_values)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (random_lanes_usable())
        done = many_lanes(key, counter_high, counter_lows, count, ret_values);
#endif
    for (; done < count; done++)
        ret_values[done] = random_u64(key, counter_high, counter_lows[done]);
}
