/* See ragged_lengths.h. Pure. */
#include "dataset/ragged_lengths.h"

#include "base/number.h"
#include "base/size.h"

unsigned lengths_bucket(uint64_t length)
{
    if (length < LENGTHS_EXACT)
        return (unsigned)length;
    unsigned power = 63 - (unsigned)__builtin_clzll(length); /* at least 6 */

    return LENGTHS_EXACT + (power - 6) * 32 + (unsigned)(length >> (power - 5) & 31);
}

uint64_t lengths_bound(unsigned bucket)
{
    if (bucket < LENGTHS_EXACT)
        return bucket;
    unsigned power = 6 + (bucket - LENGTHS_EXACT) / 32; /* below 64 */

    return ((UINT64_C(33) + (bucket - LENGTHS_EXACT) % 32) << (power - 5)) - 1;
}

void lengths_add(struct lengths *lengths, uint64_t length)
{
    unsigned bucket = lengths_bucket(length);
    lengths->buckets[bucket].count++;
    lengths->buckets[bucket].most = max_u64(lengths->buckets[bucket].most, length);
}

uint64_t lengths_most(const struct lengths *lengths, uint64_t count)
{
    uint64_t sum = 0;
    for (unsigned i = LENGTHS_BUCKETS; i-- > 0 && count > 0;) {
        uint64_t taken = min_u64(lengths->buckets[i].count, count), part;
        if (__builtin_mul_overflow(taken, lengths->buckets[i].most, &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return UINT64_MAX;
        count -= taken;
    }
    return sum;
}

void lengths_add_longest(struct lengths *lengths, const struct lengths *from, uint64_t count,
                         uint64_t copies)
{
    for (unsigned i = LENGTHS_BUCKETS; i-- > 0 && count > 0;) {
        uint64_t taken = min_u64(mul_sat(from->buckets[i].count, copies), count);
        if (taken == 0)
            continue;
        lengths->buckets[i].count += taken;
        lengths->buckets[i].most = max_u64(lengths->buckets[i].most, from->buckets[i].most);
        count -= taken;
    }
}
