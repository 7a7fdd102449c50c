/* The permutation: a bijection for every small n, its own inverse's inverse for large n, and
 * uniform over keys.
 *
 * The uniformity checks are run on deliberately weak permutations too, and must fail there.
 */
#include "base/random.h"
#include "plan/permutation/permutation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef uint64_t map_function(uint64_t n, uint64_t key, uint64_t i);

static uint64_t ours(uint64_t n, uint64_t key, uint64_t i)
{
    struct permutation p;
    permutation_init(&p, n, key);
    return permutation_apply(&p, i);
}

/* i -> i*a + c mod n with a coprime to n: every value is equally likely everywhere, pairs are not.
 */
static uint64_t affine(uint64_t n, uint64_t key, uint64_t i)
{
    uint64_t a, b, rest, tries = 0;
    do {
        a = 1 + random_below(random_u64(key, 0, tries++), n - 1);
        for (b = n, rest = a; rest;) {
            uint64_t next = b % rest;
            b = rest;
            rest = next;
        }
    } while (b != 1);
    return (i * a + random_below(random_u64(key, 1, 0), n)) % n;
}

static uint64_t few_rounds(uint64_t n, uint64_t key, uint64_t i, uint32_t rounds)
{
    struct permutation p;
    permutation_init(&p, n, key);
    p.round_count = rounds;
    return permutation_apply(&p, i);
}

static uint64_t two_rounds(uint64_t n, uint64_t key, uint64_t i)
{
    return few_rounds(n, key, i, 2);
}

static uint64_t third_of_rounds(uint64_t n, uint64_t key, uint64_t i)
{
    return few_rounds(n, key, i, 8);
}

/* How many standard deviations chi-square lies above its mean; its tail beyond 6 is below 10^-6 for
 * the degrees of freedom used here. */
static double excess(const uint32_t *counts, size_t cell_count, double expected)
{
    double chi_square = 0;
    for (size_t i = 0; i < cell_count; i++)
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    double freedom = (double)cell_count - 1;
    return (chi_square - freedom) / sqrt(2 * freedom);
}

/* The number of a permutation in lexicographic order. */
static size_t number_of(const uint64_t *images, uint64_t n)
{
    size_t number = 0;
    for (uint64_t i = 0; i < n; i++) {
        size_t smaller = 0;
        for (uint64_t j = i + 1; j < n; j++)
            smaller += images[j] < images[i];
        number = number * (n - i) + smaller;
    }
    return number;
}

enum { KEYS_PER_CELL = 24 };

/* Over many keys: is each of the n! permutations equally frequent? */
static double excess_over_permutations(map_function *map, uint64_t n)
{
    size_t cell_count = 1;
    for (uint64_t i = 2; i <= n; i++)
        cell_count *= i;
    uint32_t *counts = calloc(cell_count, sizeof *counts);
    assert_non_null(counts);
    for (uint64_t key = 0; key < KEYS_PER_CELL * cell_count; key++) {
        uint64_t images[8];
        for (uint64_t i = 0; i < n; i++)
            images[i] = map(n, key, i);
        counts[number_of(images, n)]++;
    }
    double result = excess(counts, cell_count, KEYS_PER_CELL);
    free(counts);
    return result;
}

/* Over many keys: are the images of two points equally often each pair of different values? */
static double excess_over_pairs(map_function *map, uint64_t n, uint64_t i, uint64_t j)
{
    uint32_t *counts = calloc(n * (n - 1), sizeof *counts);
    assert_non_null(counts);
    for (uint64_t key = 0; key < KEYS_PER_CELL * n * (n - 1); key++) {
        uint64_t a = map(n, key, i), b = map(n, key, j);
        assert_true(a != b);
        counts[a * (n - 1) + (b > a ? b - 1 : b)]++;
    }
    double result = excess(counts, n * (n - 1), KEYS_PER_CELL);
    free(counts);
    return result;
}

static void bijection_for_every_small_n(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    static bool seen[MOST];
    for (uint64_t n = 1; n <= MOST; n++) {
        struct permutation p;
        permutation_init(&p, n, n * 77);
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t image = permutation_apply(&p, i);
            assert_true(image < n);
            assert_false(seen[image]);
            seen[image] = true;
        }
        for (uint64_t i = 0; i < n; i += 1 + n / 16)
            assert_int_equal(permutation_inverse(&p, permutation_apply(&p, i)), i);
    }
}

static void inverse_for_large_n(void **state)
{
    (void)state;
    const uint64_t counts[] = {1023,
                               1024,
                               (UINT64_C(1) << 31) + 1,
                               UINT64_C(10000000000),
                               UINT64_C(1) << 48,
                               (UINT64_C(1) << 48) - 1,
                               UINT64_C(1) << 62};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        struct permutation p;
        permutation_init(&p, counts[c], 5);
        assert_true((unsigned __int128)p.left_count * p.right_count >= counts[c]);
        assert_true((unsigned __int128)p.left_count * p.right_count - counts[c] < p.left_count);
        for (uint64_t i = 0; i < 2000; i++) {
            uint64_t point = i < 4   ? i
                             : i < 8 ? counts[c] - 1 - (i - 4)
                                     : random_below(random_u64(c, 0, i), counts[c]);
            uint64_t image = permutation_apply(&p, point);
            assert_true(image < counts[c]);
            assert_true(permutation_inverse(&p, image) == point);
            assert_true(permutation_apply(&p, permutation_inverse(&p, point)) == point);
        }
    }
}

static void keys_differ(void **state)
{
    (void)state;
    int equal = 0;
    for (uint64_t i = 0; i < 1000; i++)
        equal += ours(1000, 1, i) == ours(1000, 2, i);
    assert_in_range(equal, 0, 8);
}

static void uniform_over_all_permutations(void **state)
{
    (void)state;
    for (uint64_t n = 2; n <= 7; n++)
        assert_true(excess_over_permutations(ours, n) < 6);
    assert_true(excess_over_permutations(affine, 5) > 6);
    assert_true(excess_over_permutations(two_rounds, 5) > 6);
    assert_true(excess_over_permutations(third_of_rounds, 6) > 6);
}

static void uniform_over_pairs(void **state)
{
    (void)state;
    const uint64_t pairs[][2] = {{0, 1}, {0, 8}, {31, 32}, {5, 63}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_true(excess_over_pairs(ours, 64, pairs[i][0], pairs[i][1]) < 6);
    assert_true(excess_over_pairs(affine, 64, 0, 8) > 6);
    assert_true(excess_over_pairs(two_rounds, 64, 0, 8) > 6);
}

/* Large domains: images of neighbours, in 64 x 64 cells. */
static void neighbours_part_in_large_domains(void **state)
{
    (void)state;
    enum { CELLS = 64, SAMPLES = CELLS * CELLS * KEYS_PER_CELL };
    static uint32_t counts[CELLS * CELLS];
    const uint64_t n = UINT64_C(10000000000);
    struct permutation p;
    permutation_init(&p, n, 3);
    uint64_t previous = permutation_apply(&p, 0);
    for (uint64_t i = 1; i <= SAMPLES; i++) {
        uint64_t image = permutation_apply(&p, i);
        counts[previous * CELLS / n * CELLS + image * CELLS / n]++;
        previous = image;
    }
    assert_true(excess(counts, CELLS * CELLS, KEYS_PER_CELL) < 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bijection_for_every_small_n),
        cmocka_unit_test(inverse_for_large_n),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(uniform_over_all_permutations),
        cmocka_unit_test(uniform_over_pairs),
        cmocka_unit_test(neighbours_part_in_large_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
