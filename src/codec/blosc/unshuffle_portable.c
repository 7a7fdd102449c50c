/* The loops of unshuffle.h for any machine, over vectors of 16 bytes that compilers know. See
 * unshuffle_vectors.h for how they work. */
#include "codec/blosc/unshuffle.h"

#include <string.h>

#define VECTOR_FUNCTION static inline __attribute__((always_inline))
#define VECTOR_ENTRY    static

enum { VECTOR_BYTES = 16 };
typedef uint8_t vector __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t halves __attribute__((vector_size(VECTOR_BYTES)));

VECTOR_FUNCTION vector vector_load(const uint8_t *from)
{
    vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

VECTOR_FUNCTION vector vector_low(vector a, vector b)
{
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

VECTOR_FUNCTION vector vector_high(vector a, vector b)
{
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian machines need a swap here");

/* turn() of unshuffle.c, on both halves. */
VECTOR_FUNCTION vector vector_turn(vector bytes)
{
    halves x = (halves)bytes;
    halves swapped = (x ^ (x >> 7)) & 0x00aa00aa00aa00aa;
    x ^= swapped ^ (swapped << 7);
    swapped = (x ^ (x >> 14)) & 0x0000cccc0000cccc;
    x ^= swapped ^ (swapped << 14);
    swapped = (x ^ (x >> 28)) & 0x00000000f0f0f0f0;
    return (vector)(x ^ swapped ^ (swapped << 28));
}

/* A vector is one lane. */
VECTOR_FUNCTION void vector_scatter_lanes(const vector *vectors, int count, size_t stride,
                                          uint8_t *out)
{
    for (int i = 0; i < count; i++, out += stride)
        memcpy(out, &vectors[i], sizeof vectors[i]);
}

VECTOR_FUNCTION void vector_store_lanes(const vector *vectors, int count, bool streams,
                                        uint8_t *out)
{
    (void)streams;
    vector_scatter_lanes(vectors, count, VECTOR_BYTES, out);
}

VECTOR_FUNCTION void vector_fence(void)
{
}

#define UNSHUFFLE_LOOPS unshuffle_portable
#include "codec/blosc/unshuffle_vectors.h"
