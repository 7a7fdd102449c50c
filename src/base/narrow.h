/* Narrow elements: of elements of 4 or 8 bytes whose upper bytes are all zero, or whose lower bytes
 * are, only the others are kept:
 *
 *     7, 40000 as int32      07 00 00 00  40 9c 00 00      lower two bytes: 07 00  40 9c
 *     1, 2 as float32        00 00 80 3f  00 00 00 40      upper two bytes: 80 3f  00 40
 *
 * Indices and counts of a sparse matrix are mostly such. They are copied as often as they are
 * decoded, from memory that no cache has any more, so that a copy takes as long as what it reads.
 *
 * Bytes are those of a little-endian machine; on others nothing is narrow. All functions are pure,
 * and may be called by any thread. Nothing needs to be aligned.
 */
#ifndef PENSTOCK_BASE_NARROW_H
#define PENSTOCK_BASE_NARROW_H

#include <stdbool.h>
#include <stddef.h>

/* Which bytes of each element are kept: all; or the lower or upper 2 or 4, fewer than it has. */
enum narrow_width { NARROW_NOT, NARROW_LOW_2, NARROW_HIGH_2, NARROW_LOW_4, NARROW_HIGH_4 };

/* How many bytes of an element are kept. */
static inline size_t narrow_kept(enum narrow_width width, size_t element_bytes)
{
    static const unsigned char kept[] = {0, 2, 2, 4, 4};
    return width == NARROW_NOT ? element_bytes : kept[width];
}

/* The first byte of an element that is kept. */
static inline size_t narrow_first(enum narrow_width width, size_t element_bytes)
{
    bool high = width == NARROW_HIGH_2 || width == NARROW_HIGH_4;
    return high ? element_bytes - narrow_kept(width, element_bytes) : 0;
}

/* Whether elements of this size can be narrow on this machine. */
static inline bool narrow_takes(size_t element_bytes)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && (element_bytes == 4 || element_bytes == 8);
}

/* Makes `count` whole elements at `to` of those kept at `from`, which do not overlap. Meanwhile it
 * tells the CPU of `next_bytes` bytes at `next`, as copy_and_fetch() does. */
void narrow_copy(void *restrict to, const void *restrict from, size_t count, size_t element_bytes,
                 enum narrow_width width, const void *next, size_t next_bytes);

/* Makes elements whole in place: those from number `begin` to before `end` of what begins at
 * `elements`. Their kept bytes lie one after another from there, and whole ones as well. */
void narrow_widen(void *elements, size_t begin, size_t end, size_t element_bytes,
                  enum narrow_width width);

#endif
