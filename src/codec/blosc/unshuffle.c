/* See unshuffle.h: which loops, and what they leave over. */
#include "codec/blosc/unshuffle.h"

#include "base/number.h"

#include <endian.h>
#include <stdatomic.h>
#include <string.h>

/* Which loops
 * ---------------------------------------------------------------------------------------- */

const struct unshuffle_loops *unshuffle_variant(enum unshuffle_variant variant)
{
    switch (variant) {
    case UNSHUFFLE_PORTABLE:
        return &unshuffle_portable;
#ifdef __x86_64__
    case UNSHUFFLE_AVX2:
        return __builtin_cpu_supports("avx2") ? &unshuffle_avx2 : NULL;
    case UNSHUFFLE_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("gfni")
                   ? &unshuffle_avx512
                   : NULL;
#endif
    default:
        return NULL;
    }
}

const char *unshuffle_variant_name(enum unshuffle_variant variant)
{
    static const char *const names[UNSHUFFLE_VARIANTS] = {"portable", "avx2", "avx512"};
    return names[variant];
}

/* Found out once; whoever comes first at the same time finds the same. */
const struct unshuffle_loops *unshuffle_best(void)
{
    static const struct unshuffle_loops *_Atomic best;
    const struct unshuffle_loops *loops = atomic_load_explicit(&best, memory_order_relaxed);
    for (int variant = UNSHUFFLE_VARIANTS - 1; !loops && variant >= 0; variant--)
        loops = unshuffle_variant((enum unshuffle_variant)variant);
    atomic_store_explicit(&best, loops, memory_order_relaxed);
    return loops;
}

/* What the loops leave over
 * ------------------------------------------------------------------------- */

static void bytes_left(const uint8_t *const *planes, size_t type_bytes, size_t begin, size_t end,
                       uint8_t *out)
{
    for (size_t i = begin; i < end; i++)
        for (size_t k = 0; k < type_bytes; k++)
            out[i * type_bytes + k] = planes[k][i];
}

/* Eight bytes as rows of eight bits, turned into columns: bit k of byte i was bit i of byte k. By
 * swapping ever larger squares across the diagonal. */
static uint64_t turn(uint64_t x)
{
    uint64_t swapped = (x ^ (x >> 7)) & 0x00aa00aa00aa00aa;
    x ^= swapped ^ (swapped << 7);
    swapped = (x ^ (x >> 14)) & 0x0000cccc0000cccc;
    x ^= swapped ^ (swapped << 14);
    swapped = (x ^ (x >> 28)) & 0x00000000f0f0f0f0;
    return x ^ swapped ^ (swapped << 28);
}

static void bits_left(const uint8_t *planes, size_t plane_bytes, size_t begin, size_t end,
                      uint8_t *out)
{
    for (size_t i = begin; i < end; i++) {
        uint64_t rows = 0;
        for (size_t k = 0; k < 8; k++)
            rows |= (uint64_t)planes[k * plane_bytes + i] << (8 * k);
        rows = htole64(turn(rows));
        memcpy(out + 8 * i, &rows, sizeof rows);
    }
}

/* All elements
 * --------------------------------------------------------------------------------------- */

void unshuffle_bytes(const struct unshuffle_loops *loops, const uint8_t *const *planes,
                     size_t type_bytes, size_t count, bool streams, uint8_t *out)
{
    if (type_bytes == 1) {
        memcpy(out, planes[0], count);
        return;
    }
    size_t done = loops->bytes(planes, type_bytes, count, streams, out);
    bytes_left(planes, type_bytes, done, count, out);
}

/* Planes of bits become planes of bytes in memory that stays in the first-level cache, some
 * elements at a time. */
enum { BLOCK_BYTES = 16384, VECTOR_GROUPS = 64 };

static void unshuffle_block(const struct unshuffle_loops *loops, const uint8_t *const *planes,
                            size_t type_bytes, size_t plane_bytes, size_t group, size_t group_count,
                            uint8_t *bytes)
{
    for (size_t k = 0; k < type_bytes; k++) {
        uint8_t *out = bytes + k * group_count * 8;
        size_t done = loops->bits(planes[k] + group, plane_bytes, group_count, out);
        bits_left(planes[k] + group, plane_bytes, done, group_count, out);
    }
}

void unshuffle_bits(const struct unshuffle_loops *loops, const uint8_t *const *planes,
                    size_t type_bytes, size_t count, size_t begin, size_t end, uint8_t *out)
{
    uint8_t bytes[BLOCK_BYTES];
    const uint8_t *rows[UNSHUFFLE_MAX_TYPE_BYTES];
    size_t most_groups = BLOCK_BYTES / 8 / type_bytes;
    if (most_groups > VECTOR_GROUPS)
        most_groups -= most_groups % VECTOR_GROUPS;
    while (begin < end) {
        size_t group = begin / 8;
        size_t group_count = min_u64((end + 7) / 8 - group, most_groups);
        size_t stop = min_u64((group + group_count) * 8, end);
        unshuffle_block(loops, planes, type_bytes, count / 8, group, group_count, bytes);
        for (size_t k = 0; k < type_bytes; k++)
            rows[k] = bytes + k * group_count * 8 + begin % 8;
        unshuffle_bytes(loops, rows, type_bytes, stop - begin, false, out);
        out += (stop - begin) * type_bytes;
        begin = stop;
    }
}
