/* The loops of unshuffle.h for CPUs with AVX-512 (F, BW) and GFNI. See unshuffle_vectors.h for how
 * they work. */
#include "codec/blosc/unshuffle.h"

#ifdef __x86_64__

#include <immintrin.h>

#define VECTOR_TARGET   "avx512f,avx512bw,gfni"
#define VECTOR_FUNCTION static inline __attribute__((target(VECTOR_TARGET), always_inline))
#define VECTOR_ENTRY    static __attribute__((target(VECTOR_TARGET)))
#define VECTOR_REVERSES 1

enum { VECTOR_BYTES = 64 };
typedef __m512i vector;

VECTOR_FUNCTION vector vector_load(const uint8_t *from)
{
    return _mm512_loadu_si512(from);
}

VECTOR_FUNCTION vector vector_low(vector a, vector b)
{
    return _mm512_unpacklo_epi8(a, b);
}

VECTOR_FUNCTION vector vector_high(vector a, vector b)
{
    return _mm512_unpackhi_epi8(a, b);
}

/* turn() of unshuffle.c, on every 64 bits whose bytes are in reverse order: a product of the
 * matrix with one row at a time of the unit matrix. */
VECTOR_FUNCTION vector vector_turn(vector x)
{
    return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(0x8040201008040201), x, 0);
}

/* Past the caches, or not; vector_fence() orders the former with other stores. */
VECTOR_FUNCTION void vector_store(uint8_t *out, vector x, bool streams)
{
    if (streams)
        _mm512_stream_si512((void *)out, x);
    else
        _mm512_storeu_si512(out, x);
}

VECTOR_FUNCTION void vector_fence(void)
{
    _mm_sfence();
}

/* The vectors' first lanes, then all second lanes, and so on. */
VECTOR_FUNCTION void vector_store_lanes(const vector *vectors, int count, bool streams,
                                        uint8_t *out)
{
    if (count == 2) {
        const vector front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        const vector back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        vector_store(out, _mm512_permutex2var_epi64(vectors[0], front, vectors[1]), streams);
        vector_store(out + 64, _mm512_permutex2var_epi64(vectors[0], back, vectors[1]), streams);
        return;
    }
    for (int i = 0; i < count; i += 4, out += 64) {
        vector a = _mm512_shuffle_i64x2(vectors[i], vectors[i + 1], 0x44);
        vector b = _mm512_shuffle_i64x2(vectors[i + 2], vectors[i + 3], 0x44);
        vector c = _mm512_shuffle_i64x2(vectors[i], vectors[i + 1], 0xee);
        vector d = _mm512_shuffle_i64x2(vectors[i + 2], vectors[i + 3], 0xee);
        vector_store(out, _mm512_shuffle_i64x2(a, b, 0x88), streams);
        vector_store(out + 16 * count, _mm512_shuffle_i64x2(a, b, 0xdd), streams);
        vector_store(out + 32 * count, _mm512_shuffle_i64x2(c, d, 0x88), streams);
        vector_store(out + 48 * count, _mm512_shuffle_i64x2(c, d, 0xdd), streams);
    }
}

/* The vectors' first lanes `stride` bytes apart, then all second lanes, and so on. In this order:
 * what a lane leaves beyond an element is written over by the next. */
VECTOR_FUNCTION void vector_scatter_lanes(const vector *vectors, int count, size_t stride,
                                          uint8_t *out)
{
    for (int i = 0; i < count; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(vectors[i]));
    for (int i = 0; i < count; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, _mm512_extracti32x4_epi32(vectors[i], 1));
    for (int i = 0; i < count; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, _mm512_extracti32x4_epi32(vectors[i], 2));
    for (int i = 0; i < count; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, _mm512_extracti32x4_epi32(vectors[i], 3));
}

#define UNSHUFFLE_LOOPS unshuffle_avx512
#include "codec/blosc/unshuffle_vectors.h"

#endif
