/* See items_internal.h: an MSD radix sort within the caller's array, which needs no second one
 * (McIlroy, Bostic and McIlroy, "Engineering radix sort", Computing Systems 6, 1993). It takes time
 * linear in the items and 4 KiB of stack a level, and allocates nothing.
 */
#include "plan/items/items_internal.h"

enum { RADIX_BITS = 8, RADIX = 1 << RADIX_BITS, INSERTION_COUNT = 32 };

static void sort_by_insertion(struct round_item *items, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        struct round_item item = items[i];
        uint64_t j = i;
        for (; j > 0 && items[j - 1].round > item.round; j--)
            items[j] = items[j - 1];
        items[j] = item;
    }
}

static unsigned digit(const struct round_item *item, unsigned shift)
{
    return (unsigned)(item->round >> shift) & (RADIX - 1);
}

/* Moves every item into the bucket of its digit; bucket d ends at ret_ends[d]. */
static void distribute(struct round_item *items, uint64_t count, unsigned shift,
                       uint64_t ret_ends[RADIX])
{
    uint64_t next[RADIX], sizes[RADIX] = {0};
    for (uint64_t i = 0; i < count; i++)
        sizes[digit(&items[i], shift)]++;
    uint64_t end = 0;
    for (unsigned d = 0; d < RADIX; d++) {
        next[d] = end;
        end += sizes[d];
        ret_ends[d] = end;
    }
    for (unsigned d = 0; d < RADIX; d++) {
        while (next[d] < ret_ends[d]) {
            struct round_item item = items[next[d]];
            unsigned to = digit(&item, shift);
            while (to != d) {
                struct round_item displaced = items[next[to]];
                items[next[to]++] = item;
                item = displaced;
                to = digit(&item, shift);
            }
            items[next[d]++] = item;
        }
    }
}

/* Sorts by the bits of the key below shift + RADIX_BITS; the bits above are equal. At most 8 levels
 * deep. */
static void sort_by_radix(struct round_item *items, uint64_t count, unsigned shift)
{
    if (count <= INSERTION_COUNT) {
        sort_by_insertion(items, count);
        return;
    }
    uint64_t ends[RADIX];
    distribute(items, count, shift, ends);
    if (shift == 0)
        return;
    for (unsigned d = 0; d < RADIX; d++) {
        uint64_t begin = d ? ends[d - 1] : 0;
        sort_by_radix(items + begin, ends[d] - begin, shift >= RADIX_BITS ? shift - RADIX_BITS : 0);
    }
}

/* The top digit starts at the highest bit that is set in any key, so that its buckets are of even
 * size. */
void items_sort(struct round_item *items, uint64_t count)
{
    uint64_t bits = 1;
    for (uint64_t i = 0; i < count; i++)
        bits |= items[i].round;
    unsigned width = 64 - (unsigned)__builtin_clzll(bits);
    sort_by_radix(items, count, width > RADIX_BITS ? width - RADIX_BITS : 0);
}
