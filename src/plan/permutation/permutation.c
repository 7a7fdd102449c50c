/* See permutation.h.
 *
 * A point x of the domain is (left, right) with x = left + left_count * right. Even rounds add to
 * the left half, odd ones to the right half; undoing them subtracts in reverse order.
 */
#include "plan/permutation/permutation.h"

#include "base/random.h"
#include "base/size.h"

#include <assert.h>

/* Few rounds show in a chi-square test over keys on small domains; see test_plan_permutation.c,
 * which fails with a third of these. Large domains are never seen often enough to tell: 8 is twice
 * the 4 rounds after which a Feistel network resists chosen inputs in both directions (Luby and
 * Rackoff, SIAM J. Comput. 17, 1988). */
enum { SMALL_COUNT = 1024, SMALL_ROUNDS = 24, LARGE_ROUNDS = 8 };

/* ceil(sqrt(n)), bit by bit, so that it is the same on every machine. */
static uint64_t square_root_up(uint64_t n)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1) {
        uint64_t trial = root | bit;
        if (trial * trial <= n)
            root = trial;
    }
    return root * root < n ? root + 1 : root;
}

void permutation_init(struct permutation *ret_permutation, uint64_t count, uint64_t key)
{
    assert(count > 0 && count <= UINT64_C(1) << 62);
    uint64_t left_count = square_root_up(count);
    left_count += left_count & 1;
    *ret_permutation = (struct permutation){
        .count = count,
        .left_count = left_count,
        .right_count = size_divide_up(count, left_count),
        .key = key,
        .round_count = count < SMALL_COUNT ? SMALL_ROUNDS : LARGE_ROUNDS,
    };
}

static uint64_t round_value(const struct permutation *p, uint32_t round, uint64_t half,
                            uint64_t bound)
{
    return random_below(random_u64(p->key, round, half), bound);
}

/* Both operands and the result are below `modulus`. */
static uint64_t add(uint64_t a, uint64_t b, uint64_t modulus)
{
    uint64_t sum = a + b;
    return sum >= modulus ? sum - modulus : sum;
}

static uint64_t subtract(uint64_t a, uint64_t b, uint64_t modulus)
{
    return a >= b ? a - b : a + modulus - b;
}

static uint64_t encrypt(const struct permutation *p, uint64_t x)
{
    uint64_t left = x % p->left_count;
    uint64_t right = x / p->left_count;
    for (uint32_t round = 0; round < p->round_count; round += 2) {
        left = add(left, round_value(p, round, right, p->left_count), p->left_count);
        right = add(right, round_value(p, round + 1, left, p->right_count), p->right_count);
    }
    return left + p->left_count * right;
}

static uint64_t decrypt(const struct permutation *p, uint64_t x)
{
    uint64_t left = x % p->left_count;
    uint64_t right = x / p->left_count;
    for (uint32_t round = p->round_count; round > 0; round -= 2) {
        right = subtract(right, round_value(p, round - 1, left, p->right_count), p->right_count);
        left = subtract(left, round_value(p, round - 2, right, p->left_count), p->left_count);
    }
    return left + p->left_count * right;
}

uint64_t permutation_walk(const struct permutation *permutation, uint64_t i)
{
    do
        i = encrypt(permutation, i);
    while (i >= permutation->count);
    return i;
}

uint64_t permutation_walk_back(const struct permutation *permutation, uint64_t image)
{
    do
        image = decrypt(permutation, image);
    while (image >= permutation->count);
    return image;
}

uint64_t permutation_apply(const struct permutation *permutation, uint64_t i)
{
    assert(i < permutation->count);
    return permutation_walk(permutation, i);
}

uint64_t permutation_inverse(const struct permutation *permutation, uint64_t image)
{
    assert(image < permutation->count);
    return permutation_walk_back(permutation, image);
}
