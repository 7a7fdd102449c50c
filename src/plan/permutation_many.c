/* See permutation.h: many values at a time.
 *
 * With AVX2, 8 values go through the network together, in two registers of 4. A Philox is a long
 * chain of operations that wait for one another; the operations of one register fill the gaps of
 * the other. Values that must go through again (cycle walking) are rare and go alone.
 */
#include "plan/permutation.h"

#include "base/random_lanes.h"

#include <assert.h>
#include <stdbool.h>

#if defined(__x86_64__)

enum { REGISTERS = 2, BLOCK = REGISTERS * RANDOM_LANES };

/* The network's constants in all lanes. */
struct network {
    __m256i left_count, right_count;
    __m256d left_inverse; /* 1 / left_count */
};

struct halves {
    __m256i left, right;
};

/* Division by way of doubles must be off by one at most, and halves must fit 32 bits. */
static bool small_enough(const struct permutation *p)
{
    return p->count <= UINT64_C(1) << 50 && p->round_count % 2 == 0;
}

RANDOM_LANES_FUNCTION struct network network_of(const struct permutation *p)
{
    return (struct network){_mm256_set1_epi64x((int64_t)p->left_count),
                            _mm256_set1_epi64x((int64_t)p->right_count),
                            _mm256_set1_pd(1.0 / (double)p->left_count)};
}

/* x = left + left_count * right, for x < 2^50. Whole numbers below 2^52 become doubles, and doubles
 * whole numbers, by way of the bits of 2^52 + x. */
RANDOM_LANES_FUNCTION struct halves split(const struct network *n, __m256i x)
{
    const __m256d two52 = _mm256_set1_pd(4503599627370496.0);
    const __m256i bits52 = _mm256_castpd_si256(two52);
    __m256d value = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, bits52)), two52);
    __m256d quotient = _mm256_floor_pd(_mm256_mul_pd(value, n->left_inverse));
    __m256i right = _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(quotient, two52)), bits52);
    __m256i left = _mm256_sub_epi64(x, _mm256_mul_epu32(right, n->left_count));
    __m256i below = _mm256_cmpgt_epi64(_mm256_setzero_si256(), left); /* -1 where one too many */
    right = _mm256_add_epi64(right, below);
    left = _mm256_add_epi64(left, _mm256_and_si256(below, n->left_count));
    __m256i within = _mm256_cmpgt_epi64(n->left_count, left); /* 0 where one too few */
    right = _mm256_add_epi64(right, _mm256_add_epi64(within, _mm256_set1_epi64x(1)));
    left = _mm256_sub_epi64(left, _mm256_andnot_si256(within, n->left_count));
    return (struct halves){left, right};
}

RANDOM_LANES_FUNCTION __m256i join(const struct network *n, struct halves h)
{
    return _mm256_add_epi64(h.left, _mm256_mul_epu32(h.right, n->left_count));
}

RANDOM_LANES_FUNCTION __m256i round_values(const struct permutation *p, uint32_t round,
                                           __m256i half, __m256i bound)
{
    return random_lanes_below(random_lanes(p->key, round, half), bound);
}

RANDOM_LANES_FUNCTION __m256i add(__m256i a, __m256i b, __m256i modulus)
{
    __m256i sum = _mm256_add_epi64(a, b);
    __m256i below = _mm256_cmpgt_epi64(modulus, sum);
    return _mm256_sub_epi64(sum, _mm256_andnot_si256(below, modulus));
}

RANDOM_LANES_FUNCTION __m256i subtract(__m256i a, __m256i b, __m256i modulus)
{
    __m256i difference = _mm256_sub_epi64(a, b);
    __m256i below = _mm256_cmpgt_epi64(_mm256_setzero_si256(), difference);
    return _mm256_add_epi64(difference, _mm256_and_si256(below, modulus));
}

RANDOM_LANES_FUNCTION void encrypt_rounds(const struct permutation *p, const struct network *n,
                                          struct halves h[REGISTERS])
{
    for (uint32_t round = 0; round < p->round_count; round += 2) {
        for (int i = 0; i < REGISTERS; i++)
            h[i].left =
                add(h[i].left, round_values(p, round, h[i].right, n->left_count), n->left_count);
        for (int i = 0; i < REGISTERS; i++)
            h[i].right = add(h[i].right, round_values(p, round + 1, h[i].left, n->right_count),
                             n->right_count);
    }
}

RANDOM_LANES_FUNCTION void decrypt_rounds(const struct permutation *p, const struct network *n,
                                          struct halves h[REGISTERS])
{
    for (uint32_t round = p->round_count; round > 0; round -= 2) {
        for (int i = 0; i < REGISTERS; i++)
            h[i].right = subtract(h[i].right, round_values(p, round - 1, h[i].left, n->right_count),
                                  n->right_count);
        for (int i = 0; i < REGISTERS; i++)
            h[i].left = subtract(h[i].left, round_values(p, round - 2, h[i].right, n->left_count),
                                 n->left_count);
    }
}

/* Returns how many it has done: all but the last few. */
__attribute__((target("avx2"))) static size_t
map_blocks(const struct permutation *p, uint64_t *values, size_t count, bool inverse)
{
    struct network network = network_of(p);
    size_t done = 0;
    for (; done + BLOCK <= count; done += BLOCK) {
        struct halves h[REGISTERS];
        __m256i *block = (__m256i *)(values + done);
        for (int i = 0; i < REGISTERS; i++)
            h[i] = split(&network, _mm256_loadu_si256(block + i));
        if (inverse)
            decrypt_rounds(p, &network, h);
        else
            encrypt_rounds(p, &network, h);
        for (int i = 0; i < REGISTERS; i++)
            _mm256_storeu_si256(block + i, join(&network, h[i]));
    }
    return done;
}

#endif

/* For CPUs without AVX2: no value is done. */
static size_t map_some(const struct permutation *p, uint64_t *values, size_t count, bool inverse)
{
#if defined(__x86_64__)
    if (small_enough(p) && random_lanes_usable())
        return map_blocks(p, values, count, inverse);
#endif
    (void)p, (void)values, (void)count, (void)inverse;
    return 0;
}

void permutation_apply_many(const struct permutation *permutation, uint64_t *values, size_t count)
{
    size_t done = map_some(permutation, values, count, false);
    for (size_t i = 0; i < done; i++)
        if (values[i] >= permutation->count)
            values[i] = permutation_walk(permutation, values[i]);
    for (size_t i = done; i < count; i++)
        values[i] = permutation_apply(permutation, values[i]);
}

void permutation_inverse_many(const struct permutation *permutation, uint64_t *images, size_t count)
{
    size_t done = map_some(permutation, images, count, true);
    for (size_t i = 0; i < done; i++)
        if (images[i] >= permutation->count)
            images[i] = permutation_walk_back(permutation, images[i]);
    for (size_t i = done; i < count; i++)
        images[i] = permutation_inverse(permutation, images[i]);
}
