/* Division by a number that stays the same for a while, as a multiplication.
 *
 * Exact: for operands below 2^32 by the reciprocal in 64 bits (Lemire, Kaser and Kurz, "Faster
 * remainder by direct computation", Software: Practice and Experience 49, 2019), beyond that by the
 * CPU's division. A plain value; pure.
 */
#ifndef PENSTOCK_BASE_DIVIDE_H
#define PENSTOCK_BASE_DIVIDE_H

#include <stdint.h>

struct divider {
    uint64_t divisor;
    uint64_t reciprocal; /* ceil(2^64 / divisor); 0 for divisor 1 */
};

/* `divisor` > 0. */
static inline struct divider divider_of(uint64_t divisor)
{
    return (struct divider){divisor, UINT64_MAX / divisor + 1};
}

static inline uint64_t divide(struct divider divider, uint64_t x)
{
    if ((x | divider.divisor) >> 32)
        return x / divider.divisor;
    if (divider.reciprocal == 0)
        return x;
    return (uint64_t)(((unsigned __int128)divider.reciprocal * x) >> 64);
}

#endif
