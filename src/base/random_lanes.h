/* Philox 4x32-10 for four counters at once with AVX2: what random_u64() computes, for code that
 * draws many numbers. For x86 with gcc or clang; callers ask random_lanes_usable() first and have
 * another way for other machines. Pure.
 *
 * A lane is 64 bits wide and holds one 32-bit word of a counter. Multiplying looks at the lower
 * half of a lane alone, so that what a word's upper half holds does not matter until the end.
 */
#ifndef PENSTOCK_BASE_RANDOM_LANES_H
#define PENSTOCK_BASE_RANDOM_LANES_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define RANDOM_LANES          4
#define RANDOM_LANES_FUNCTION static inline __attribute__((target("avx2"), always_inline))

static inline bool random_lanes_usable(void)
{
    return __builtin_cpu_supports("avx2");
}

/* The lower and the upper half of each lane's number, in the lower half of the lane; what is above
 * is not defined. */
struct random_lanes {
    __m256i lower, upper;
};

/* random_u64(key, counter_high, counter_lows[lane]) in each lane. */
RANDOM_LANES_FUNCTION struct random_lanes random_lanes(uint64_t key, uint64_t counter_high,
                                                       __m256i counter_lows)
{
    enum { ROUNDS = 10 };
    const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53);
    const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    __m256i word0 = counter_lows;
    __m256i word1 = _mm256_srli_epi64(counter_lows, 32);
    __m256i word2 = _mm256_set1_epi64x((int64_t)(uint32_t)counter_high);
    __m256i word3 = _mm256_set1_epi64x((int64_t)(counter_high >> 32));
    for (int round = 0; round < ROUNDS; round++) {
        __m256i product0 = _mm256_mul_epu32(multiplier0, word0);
        __m256i product1 = _mm256_mul_epu32(multiplier1, word2);
        __m256i keyed1 = _mm256_xor_si256(word1, _mm256_set1_epi64x((int64_t)key0));
        __m256i keyed3 = _mm256_xor_si256(word3, _mm256_set1_epi64x((int64_t)key1));
        word0 = _mm256_xor_si256(_mm256_srli_epi64(product1, 32), keyed1);
        word1 = product1;
        word2 = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), keyed3);
        word3 = product0;
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    return (struct random_lanes){word0, word1};
}

/* The numbers themselves. */
RANDOM_LANES_FUNCTION __m256i random_lanes_joined(struct random_lanes bits)
{
    return _mm256_blend_epi32(bits.lower, _mm256_slli_epi64(bits.upper, 32), 0xAA);
}

/* random_below() in each lane, for a bound below 2^32. */
RANDOM_LANES_FUNCTION __m256i random_lanes_below(struct random_lanes bits, __m256i bound)
{
    __m256i upper = _mm256_mul_epu32(bits.upper, bound);
    __m256i lower = _mm256_mul_epu32(bits.lower, bound);
    return _mm256_srli_epi64(_mm256_add_epi64(upper, _mm256_srli_epi64(lower, 32)), 32);
}

#endif
#endif
