/* For tests: samples of random lengths, and cuts of them. */
#ifndef PENSTOCK_TESTS_MADE_UP_LENGTHS_H
#define PENSTOCK_TESTS_MADE_UP_LENGTHS_H

#include "base/number.h"
#include "base/random.h"
#include "plan/order/cuts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_SAMPLES = 700, MOST_LENGTH = 600, BUCKETS = 40 };

/* Samples by length, in buckets of random bounds. */
struct lengths {
    uint64_t count, longest;
    uint32_t of[MOST_SAMPLES];
    uint32_t bucket_count;
    uint64_t bounds[BUCKETS];
};

static inline uint32_t bucket_at(const struct lengths *lengths, uint64_t length)
{
    uint32_t k = 0;
    while (lengths->bounds[k] < length)
        k++;
    return k;
}

static inline uint32_t bucket_of(const void *of, size_t field, uint64_t frame)
{
    const struct lengths *lengths = of;
    assert_int_equal(field, 5);
    return bucket_at(lengths, lengths->of[frame]);
}

static inline uint64_t bound_of(const void *of, size_t field, uint32_t bucket)
{
    (void)field;
    return ((const struct lengths *)of)->bounds[bucket];
}

static inline uint64_t samples_of(const void *of, size_t field, uint32_t bucket)
{
    const struct lengths *lengths = of;
    uint64_t count = 0;
    for (uint64_t i = 0; i < lengths->count; i++)
        count += bucket_of(of, field, i) == bucket;
    return count;
}

/* A number from `least` to `most`, another one with each call. */
static inline uint64_t draw(uint64_t *seed, uint64_t least, uint64_t most)
{
    return least + random_below(random_u64(77, 0, (*seed)++), most - least + 1);
}

static inline void draw_lengths(uint64_t *seed, struct lengths *lengths)
{
    uint64_t kind = draw(seed, 0, 4), most = draw(seed, 1, MOST_LENGTH), bound = 0;
    lengths->count = draw(seed, 0, 9) == 0 ? 1 : draw(seed, 2, MOST_SAMPLES);
    lengths->longest = 0;
    for (uint64_t i = 0; i < lengths->count; i++) {
        uint64_t length = kind == 0   ? most /* all equal */
                          : kind == 1 ? draw(seed, 0, 3)
                          : kind == 2 ? draw(seed, 0, most) * draw(seed, 0, 1)
                          : kind == 3 ? most >> draw(seed, 0, 9)
                                      : draw(seed, 0, most);
        if (kind != 0 && i == lengths->count / 2 && draw(seed, 0, 1))
            length = MOST_LENGTH; /* one giant */
        lengths->of[i] = (uint32_t)length;
        lengths->longest = max_u64(lengths->longest, length);
    }
    lengths->bucket_count = 0;
    uint64_t widest = draw(seed, 1, MOST_LENGTH / (BUCKETS / 2));
    do {
        bound += draw(seed, lengths->bucket_count > 0, widest);
        if (lengths->bucket_count == BUCKETS - 1)
            bound = max_u64(bound, lengths->longest);
        lengths->bounds[lengths->bucket_count++] = bound;
    } while (bound < lengths->longest);
}

static inline struct plan_cuts cuts_of(uint64_t *seed, const struct lengths *lengths)
{
    uint64_t items = draw(seed, max_u64(lengths->longest, 1), 8 * max_u64(lengths->longest, 1));
    return (struct plan_cuts){.items = items,
                              .bucket_count = lengths->bucket_count,
                              .of = lengths,
                              .field = 5,
                              .bucket = bucket_of,
                              .bound = bound_of,
                              .samples = samples_of,
                              .longest = lengths->longest};
}

static inline uint64_t bound_in(const struct plan_cuts *cuts, uint64_t frame)
{
    const struct lengths *lengths = cuts->of;
    uint64_t bound = lengths->bounds[bucket_at(lengths, lengths->of[frame])];
    return max_u64(min_u64(bound, cuts->items), 1);
}

#endif
