/* See random.h. */
#include "base/random.h"

#include <Random123/philox.h>

uint64_t random_u64(uint64_t key, uint64_t counter_high, uint64_t counter_low)
{
    philox4x32_ctr_t counter = {{(uint32_t)counter_low, (uint32_t)(counter_low >> 32),
                                 (uint32_t)counter_high, (uint32_t)(counter_high >> 32)}};
    philox4x32_key_t philox_key = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    philox4x32_ctr_t bits = philox4x32(counter, philox_key);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}
