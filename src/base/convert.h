/* Converting items in memory: to another dtype, scaled and shifted on the way, and byte order.
 *
 * An item x becomes round(x * scale + offset), exactly as follows, the same to the bit on every
 * machine:
 *
 *   work type  float32 for bool, integers of up to 16 bits, float16, bfloat16 and float32;
 *              float64 for wider ones. An item becomes a number of the work type first:
 *              exactly, except 64-bit integers, which are rounded to float64. True is 1.
 *   scaling    if `scale` is not 1 or `offset` not 0: a product, rounded, then a sum, rounded (no
 *              fused operation), of scale and offset rounded to the work type
 *   rounding   once, from the work type to the dtype asked for: to nearest, ties to even, denormal
 *              numbers included. A number that is too large becomes infinity; infinities stay. NaNs
 *              stay NaNs, quiet, with their sign and the high bits of their payload.
 *
 * So NumPy says the same: (x.astype(work) * work(scale) + work(offset)).astype(dtype).
 *
 * Items are converted in blocks that stay in the first-level cache: load to the work type, scale,
 * store. The loops are compiled for several instruction sets (convert_loops.h); the best one that
 * the machine has is taken at run time. Pure functions, safe from any thread; the default rounding
 * mode is assumed. Items may lie at any address.
 */
#ifndef PENSTOCK_BASE_CONVERT_H
#define PENSTOCK_BASE_CONVERT_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>

struct convert {
    enum dtype from, to; /* `to` DTYPE_NONE: items stay as they are */
    double scale, offset;
};

/* Whether items of `from` can become ones of `to`: any number that is not complex, to float16,
 * bfloat16, float32 or float64. */
bool convert_is_possible(enum dtype from, enum dtype to);

/* Whether converting would change items at all. */
bool convert_is_needed(const struct convert *convert);

/* Converts `count` items from `in` to `out`, which do not overlap. The conversion is possible. */
void convert_items(const struct convert *convert, const void *in, size_t count, void *out);

/* Reverses the bytes of each unit of `unit_bytes` (1, 2, 4, 8 or 16, of which `size` is a
 * multiple), within the array. */
void convert_swap(void *data, size_t size, size_t unit_bytes);

/* One instruction set's loops, for tests and measurements: NULL if this machine lacks it. */
enum convert_variant { CONVERT_PORTABLE, CONVERT_AVX2, CONVERT_AVX512, CONVERT_VARIANTS };
struct convert_loops;
const struct convert_loops *convert_variant(enum convert_variant variant);
const char *convert_variant_name(enum convert_variant variant);
void convert_items_by(const struct convert_loops *loops, const struct convert *convert,
                      const void *in, size_t count, void *out);
void convert_swap_by(const struct convert_loops *loops, void *data, size_t size, size_t unit_bytes);

#endif
