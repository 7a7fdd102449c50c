/* Philox 4x32-10 for several counters at once: what random_u64() computes, for code that draws many
 * numbers. Four with AVX2; eight with AVX-512 in a file that defines RANDOM_LANES_WIDE before. For
 * x86 with gcc or clang; callers ask random_lanes_usable() first and have another way for other
 * machines. Pure.
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

#if defined(RANDOM_LANES_WIDE)

#define RANDOM_LANES          8
#define RANDOM_LANES_TARGET   __attribute__((target("avx512f,avx512dq")))
#define RANDOM_LANES_FUNCTION static inline RANDOM_LANES_TARGET __attribute__((always_inline))

typedef __m512i lanes;
typedef __m512d lanes_double;

/* Asked for each time: the compiler's runtime has found out at the start. */
static inline bool random_lanes_usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

RANDOM_LANES_FUNCTION lanes lanes_load(const uint64_t *from)
{
    return _mm512_loadu_si512(from);
}

RANDOM_LANES_FUNCTION void lanes_store(uint64_t *to, lanes a)
{
    _mm512_storeu_si512(to, a);
}

RANDOM_LANES_FUNCTION lanes lanes_of(uint64_t value)
{
    return _mm512_set1_epi64((long long)value);
}

RANDOM_LANES_FUNCTION lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_epi64(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_subtract(lanes a, lanes b)
{
    return _mm512_sub_epi64(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_multiply(lanes a, lanes b)
{
    return _mm512_mul_epu32(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_xor(lanes a, lanes b)
{
    return _mm512_xor_si512(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_upper(lanes a)
{
    return _mm512_srli_epi64(a, 32);
}

/* The lower halves of `lower`, and the lower halves of `upper` above them. */
RANDOM_LANES_FUNCTION lanes lanes_join_halves(lanes lower, lanes upper)
{
    return _mm512_mask_blend_epi32(0xaaaa, lower, _mm512_slli_epi64(upper, 32));
}

/* What is less wraps round to more than the other. */
RANDOM_LANES_FUNCTION lanes lanes_reduce(lanes sum, lanes modulus)
{
    return _mm512_min_epu64(sum, _mm512_sub_epi64(sum, modulus));
}

RANDOM_LANES_FUNCTION lanes lanes_lift(lanes difference, lanes modulus)
{
    return _mm512_min_epu64(difference, _mm512_add_epi64(difference, modulus));
}

RANDOM_LANES_FUNCTION lanes_double lanes_inverse_of(uint64_t value)
{
    return _mm512_set1_pd(1.0 / (double)value);
}

RANDOM_LANES_FUNCTION lanes lanes_divide(lanes x, lanes_double inverse)
{
    return _mm512_cvttpd_epu64(_mm512_mul_pd(_mm512_cvtepu64_pd(x), inverse));
}

/* All ones where a < b, as signed numbers. */
RANDOM_LANES_FUNCTION lanes lanes_less(lanes a, lanes b)
{
    return _mm512_movm_epi64(_mm512_cmplt_epi64_mask(a, b));
}

RANDOM_LANES_FUNCTION lanes lanes_and(lanes a, lanes b)
{
    return _mm512_and_si512(a, b);
}

#else

#define RANDOM_LANES          4
#define RANDOM_LANES_TARGET   __attribute__((target("avx2")))
#define RANDOM_LANES_FUNCTION static inline RANDOM_LANES_TARGET __attribute__((always_inline))

typedef __m256i lanes;
typedef __m256d lanes_double;

/* Asked for each time: the compiler's runtime has found out at the start. */
static inline bool random_lanes_usable(void)
{
    return __builtin_cpu_supports("avx2");
}

RANDOM_LANES_FUNCTION lanes lanes_load(const uint64_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

RANDOM_LANES_FUNCTION void lanes_store(uint64_t *to, lanes a)
{
    _mm256_storeu_si256((__m256i *)(void *)to, a);
}

RANDOM_LANES_FUNCTION lanes lanes_of(uint64_t value)
{
    return _mm256_set1_epi64x((long long)value);
}

RANDOM_LANES_FUNCTION lanes lanes_add(lanes a, lanes b)
{
    return _mm256_add_epi64(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_subtract(lanes a, lanes b)
{
    return _mm256_sub_epi64(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_multiply(lanes a, lanes b)
{
    return _mm256_mul_epu32(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_xor(lanes a, lanes b)
{
    return _mm256_xor_si256(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_and(lanes a, lanes b)
{
    return _mm256_and_si256(a, b);
}

RANDOM_LANES_FUNCTION lanes lanes_upper(lanes a)
{
    return _mm256_srli_epi64(a, 32);
}

/* The lower halves of `lower`, and the lower halves of `upper` above them. */
RANDOM_LANES_FUNCTION lanes lanes_join_halves(lanes lower, lanes upper)
{
    return _mm256_blend_epi32(lower, _mm256_slli_epi64(upper, 32), 0xAA);
}

/* All ones where a < b, as signed numbers. */
RANDOM_LANES_FUNCTION lanes lanes_less(lanes a, lanes b)
{
    return _mm256_cmpgt_epi64(b, a);
}

RANDOM_LANES_FUNCTION lanes lanes_reduce(lanes sum, lanes modulus)
{
    return _mm256_sub_epi64(sum, _mm256_andnot_si256(lanes_less(sum, modulus), modulus));
}

RANDOM_LANES_FUNCTION lanes lanes_lift(lanes difference, lanes modulus)
{
    lanes below = lanes_less(difference, _mm256_setzero_si256());
    return _mm256_add_epi64(difference, _mm256_and_si256(below, modulus));
}

RANDOM_LANES_FUNCTION lanes_double lanes_inverse_of(uint64_t value)
{
    return _mm256_set1_pd(1.0 / (double)value);
}

/* Whole numbers below 2^52 become doubles, and doubles whole numbers, by way of the bits of
 * 2^52 + x. */
RANDOM_LANES_FUNCTION lanes lanes_divide(lanes x, lanes_double inverse)
{
    const __m256d two52 = _mm256_set1_pd(4503599627370496.0);
    const __m256i bits52 = _mm256_castpd_si256(two52);
    __m256d value = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, bits52)), two52);
    __m256d quotient = _mm256_floor_pd(_mm256_mul_pd(value, inverse));
    return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(quotient, two52)), bits52);
}

#endif

/* The lower and the upper half of each lane's number, in the lower half of the lane; what is above
 * is not defined. */
struct random_lanes {
    lanes lower, upper;
};

/* random_u64(key, counter_high, counter_lows[lane]) in each lane. */
RANDOM_LANES_FUNCTION struct random_lanes random_lanes(uint64_t key, uint64_t counter_high,
                                                       lanes counter_lows)
{
    enum { ROUNDS = 10 };
    const lanes multiplier0 = lanes_of(0xD2511F53);
    const lanes multiplier1 = lanes_of(0xCD9E8D57);
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    lanes word0 = counter_lows;
    lanes word1 = lanes_upper(counter_lows);
    lanes word2 = lanes_of((uint32_t)counter_high);
    lanes word3 = lanes_of(counter_high >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        lanes product0 = lanes_multiply(multiplier0, word0);
        lanes product1 = lanes_multiply(multiplier1, word2);
        lanes keyed1 = lanes_xor(word1, lanes_of(key0));
        lanes keyed3 = lanes_xor(word3, lanes_of(key1));
        word0 = lanes_xor(lanes_upper(product1), keyed1);
        word1 = product1;
        word2 = lanes_xor(lanes_upper(product0), keyed3);
        word3 = product0;
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    return (struct random_lanes){word0, word1};
}

/* The numbers themselves. */
RANDOM_LANES_FUNCTION lanes random_lanes_joined(struct random_lanes bits)
{
    return lanes_join_halves(bits.lower, bits.upper);
}

/* random_below() in each lane, for a bound below 2^32. */
RANDOM_LANES_FUNCTION lanes random_lanes_below(struct random_lanes bits, lanes bound)
{
    lanes upper = lanes_multiply(bits.upper, bound);
    lanes lower = lanes_multiply(bits.lower, bound);
    return lanes_upper(lanes_add(upper, lanes_upper(lower)));
}

#endif
#endif
