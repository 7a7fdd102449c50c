/* Values through a permutation's network, as many at a time as registers hold: for
 * permutation_many.c (AVX2) and permutation_wide.c (AVX-512), which name the function.
 *
 * A Philox is a long chain of operations that wait for one another; the operations of one register
 * fill the gaps of the others. Pure.
 */
#include "plan/permutation/permutation.h"

#include "base/random_lanes.h"

#if defined(__x86_64__)

enum { BLOCK = REGISTERS * RANDOM_LANES };

/* The network's constants in all lanes. */
struct network {
    lanes left_count, right_count;
    lanes_double left_inverse; /* 1 / left_count */
};

struct halves {
    lanes left, right;
};

RANDOM_LANES_FUNCTION struct network network_of(const struct permutation *p)
{
    return (struct network){lanes_of(p->left_count), lanes_of(p->right_count),
                            lanes_inverse_of(p->left_count)};
}

/* x = left + left_count * right, for x < 2^50: then the quotient of doubles is off by one at most.
 */
RANDOM_LANES_FUNCTION struct halves split(const struct network *n, lanes x)
{
    lanes right = lanes_divide(x, n->left_inverse);
    lanes left = lanes_subtract(x, lanes_multiply(right, n->left_count));
    lanes below = lanes_less(left, lanes_of(0)); /* -1 where one too many */
    right = lanes_add(right, below);
    left = lanes_add(left, lanes_and(below, n->left_count));
    lanes within = lanes_less(left, n->left_count); /* 0 where one too few */
    right = lanes_add(right, lanes_add(within, lanes_of(1)));
    return (struct halves){lanes_reduce(left, n->left_count), right};
}

RANDOM_LANES_FUNCTION lanes join(const struct network *n, struct halves h)
{
    return lanes_add(h.left, lanes_multiply(h.right, n->left_count));
}

RANDOM_LANES_FUNCTION lanes round_values(const struct permutation *p, uint32_t round, lanes half,
                                         lanes bound)
{
    return random_lanes_below(random_lanes(p->key, round, half), bound);
}

RANDOM_LANES_FUNCTION void encrypt_rounds(const struct permutation *p, const struct network *n,
                                          struct halves h[REGISTERS])
{
    for (uint32_t round = 0; round < p->round_count; round += 2) {
        for (int i = 0; i < REGISTERS; i++) {
            lanes value = round_values(p, round, h[i].right, n->left_count);
            h[i].left = lanes_reduce(lanes_add(h[i].left, value), n->left_count);
        }
        for (int i = 0; i < REGISTERS; i++) {
            lanes value = round_values(p, round + 1, h[i].left, n->right_count);
            h[i].right = lanes_reduce(lanes_add(h[i].right, value), n->right_count);
        }
    }
}

RANDOM_LANES_FUNCTION void decrypt_rounds(const struct permutation *p, const struct network *n,
                                          struct halves h[REGISTERS])
{
    for (uint32_t round = p->round_count; round > 0; round -= 2) {
        for (int i = 0; i < REGISTERS; i++) {
            lanes value = round_values(p, round - 1, h[i].left, n->right_count);
            h[i].right = lanes_lift(lanes_subtract(h[i].right, value), n->right_count);
        }
        for (int i = 0; i < REGISTERS; i++) {
            lanes value = round_values(p, round - 2, h[i].right, n->left_count);
            h[i].left = lanes_lift(lanes_subtract(h[i].left, value), n->left_count);
        }
    }
}

/* Returns how many it has done: all but the last few. */
RANDOM_LANES_TARGET static size_t map_blocks(const struct permutation *p, uint64_t *values,
                                             size_t count, bool inverse)
{
    struct network network = network_of(p);
    size_t done = 0;
    for (; done + BLOCK <= count; done += BLOCK) {
        struct halves h[REGISTERS];
        uint64_t *block = values + done;
        for (int i = 0; i < REGISTERS; i++)
            h[i] = split(&network, lanes_load(block + i * RANDOM_LANES));
        if (inverse)
            decrypt_rounds(p, &network, h);
        else
            encrypt_rounds(p, &network, h);
        for (int i = 0; i < REGISTERS; i++)
            lanes_store(block + i * RANDOM_LANES, join(&network, h[i]));
    }
    return done;
}

#endif
