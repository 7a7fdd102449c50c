/* Undoing byte and bit shuffles: elements that are stored as planes, all first bytes, then all
 * second bytes, and so on, or all first bits, all second bits. Internal to src/codec.
 *
 * There is a variant for each instruction set; all give the same bytes. None reads or writes beyond
 * what its caller names; nothing needs to be aligned; input and output must not overlap. Pure.
 */
#ifndef PENSTOCK_CODEC_BLOSC_UNSHUFFLE_H
#define PENSTOCK_CODEC_BLOSC_UNSHUFFLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNSHUFFLE_MAX_TYPE_BYTES = 255 };

struct unshuffle_loops {
    /* Makes `count` elements of `type_bytes`: byte k of element i is planes[k][i]. Returns how many
     * it has made, from the first on. `streams`: as of unshuffle_bytes(). */
    size_t (*bytes)(const uint8_t *const *planes, size_t type_bytes, size_t count, bool streams,
                    uint8_t *out);

    /* Makes 8 * `count` bytes of eight planes of bits, one every `plane_bytes`: bit k of byte i is
     * bit i % 8 of plane k's byte i / 8. Returns of how many of `count` it has done so. */
    size_t (*bits)(const uint8_t *planes, size_t plane_bytes, size_t count, uint8_t *out);
};

enum unshuffle_variant {
    UNSHUFFLE_PORTABLE,
    UNSHUFFLE_AVX2,
    UNSHUFFLE_AVX512, /* with GFNI, which turns 8x8 bits in one instruction */
    UNSHUFFLE_VARIANTS
};

/* NULL where this CPU cannot run the variant. For tests; the rest takes the best one. */
const struct unshuffle_loops *unshuffle_variant(enum unshuffle_variant variant);
const char *unshuffle_variant_name(enum unshuffle_variant variant);
const struct unshuffle_loops *unshuffle_best(void);

/* `count` elements whose byte k is planes[k][i]. `type_bytes` is in [1, UNSHUFFLE_MAX_TYPE_BYTES].
 * `streams`: elements of 2, 4 or 8 bytes are written past the caches, where the CPU can and `out`
 * is at a multiple of 64. */
void unshuffle_bytes(const struct unshuffle_loops *loops, const uint8_t *const *planes,
                     size_t type_bytes, size_t count, bool streams, uint8_t *out);

/* The elements from `begin` to before `end` of `count`, a multiple of 8. planes[k] has the bits of
 * all elements' byte k: eight planes of count / 8 bytes, one after another. */
void unshuffle_bits(const struct unshuffle_loops *loops, const uint8_t *const *planes,
                    size_t type_bytes, size_t count, size_t begin, size_t end, uint8_t *out);

/* Variants: see unshuffle_variant(). */
extern const struct unshuffle_loops unshuffle_portable;
#ifdef __x86_64__
extern const struct unshuffle_loops unshuffle_avx2, unshuffle_avx512;
#endif

#endif
