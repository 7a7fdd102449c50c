/* The loops of unshuffle.h for CPUs with AVX2. See unshuffle_vectors.h for how they work. */
#include "codec/blosc/unshuffle.h"

#ifdef __x86_64__

#include <immintrin.h>

#define VECTOR_FUNCTION static inline __attribute__((target("avx2"), always_inline))
#define VECTOR_ENTRY    static __attribute__((target("avx2")))

enum { VECTOR_BYTES = 32 };
typedef __m256i vector;

VECTOR_FUNCTION vector vector_load(const uint8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

VECTOR_FUNCTION vector vector_low(vector a, vector b)
{
    return _mm256_unpacklo_epi8(a, b);
}

VECTOR_FUNCTION vector vector_high(vector a, vector b)
{
    return _mm256_unpackhi_epi8(a, b);
}

/* turn() of unshuffle.c, on every 64 bits. */
VECTOR_FUNCTION vector vector_turn(vector x)
{
    vector swapped = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 7)),
                                      _mm256_set1_epi64x(0x00aa00aa00aa00aa));
    x = _mm256_xor_si256(x, _mm256_xor_si256(swapped, _mm256_slli_epi64(swapped, 7)));
    swapped = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 14)),
                               _mm256_set1_epi64x(0x0000cccc0000cccc));
    x = _mm256_xor_si256(x, _mm256_xor_si256(swapped, _mm256_slli_epi64(swapped, 14)));
    swapped = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 28)),
                               _mm256_set1_epi64x(0x00000000f0f0f0f0));
    return _mm256_xor_si256(x, _mm256_xor_si256(swapped, _mm256_slli_epi64(swapped, 28)));
}

/* Past the caches, or not; vector_fence() orders the former with other stores. */
VECTOR_FUNCTION void vector_store(__m256i *out, vector x, bool streams)
{
    if (streams)
        _mm256_stream_si256(out, x);
    else
        _mm256_storeu_si256(out, x);
}

VECTOR_FUNCTION void vector_fence(void)
{
    _mm_sfence();
}

/* The vectors' first lanes, then all second lanes. */
VECTOR_FUNCTION void vector_store_lanes(const vector *vectors, int count, bool streams,
                                        uint8_t *out)
{
    __m256i *to = (__m256i *)out;
    for (int i = 0; i < count; i += 2) {
        vector_store(to + i / 2, _mm256_permute2x128_si256(vectors[i], vectors[i + 1], 0x20),
                     streams);
        vector_store(to + (count + i) / 2,
                     _mm256_permute2x128_si256(vectors[i], vectors[i + 1], 0x31), streams);
    }
}

/* The vectors' first lanes `stride` bytes apart, then all second lanes. In this order: what a lane
 * leaves beyond an element is written over by the next. */
VECTOR_FUNCTION void vector_scatter_lanes(const vector *vectors, int count, size_t stride,
                                          uint8_t *out)
{
    for (int i = 0; i < count; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(vectors[i]));
    for (int i = 0; i < count; i++, out += stride)
        _mm_storeu_si128((__m128i *)out, _mm256_extracti128_si256(vectors[i], 1));
}

#define UNSHUFFLE_LOOPS unshuffle_avx2
#include "codec/blosc/unshuffle_vectors.h"

#endif
