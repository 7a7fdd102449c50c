/* Whole numbers: the smaller and the larger of two, arithmetic that saturates (named as in C++26),
 * searches among numbers that rise, and numbers in texts. Pure, safe from any thread. A size_t has
 * 64 bits: sizes in memory are u64, too.
 */
#ifndef PENSTOCK_BASE_NUMBER_H
#define PENSTOCK_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "min_u64() takes sizes, too");

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* a + b, or UINT64_MAX where 64 bits do not hold the sum. */
static inline uint64_t add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* a * b, or UINT64_MAX where 64 bits do not hold the product. */
static inline uint64_t mul_sat(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Where share `i` of [0, count) begins: `shares` of them follow one another, and differ by one at
 * most. `i` may be `shares`: the end. */
static inline uint64_t share_begin(uint64_t count, uint64_t i, uint64_t shares)
{
    return count / shares * i + min_u64(i, count % shares);
}

/* 0 of two zeros. */
static inline uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The last index of [low, high) whose number is `at` or less; `low` if there is none. The numbers
 * do not fall. */
static inline uint64_t find_last_u64(const uint64_t *numbers, uint64_t low, uint64_t high,
                                     uint64_t at)
{
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (numbers[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How many of the first `count` numbers are `at` or less. The numbers do not fall. */
static inline uint64_t count_up_to_u64(const uint64_t *numbers, uint64_t count, uint64_t at)
{
    uint64_t first = 0;
    while (count > 0) {
        uint64_t half = count / 2;
        bool up = numbers[first + half] <= at;
        first += up ? half + 1 : 0;
        count = up ? count - half - 1 : half;
    }
    return first;
}

/* The whole number, of digits alone, that the text is. False: the text is another one, or the
 * number is not in [low, high]. */
bool number_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret_number);

/* Of the first `length` bytes. */
bool number_parse_part(const char *text, size_t length, uint64_t low, uint64_t high,
                       uint64_t *ret_number);

/* The finite number in [low, high] that all of the text is. */
bool number_parse_real(const char *text, double low, double high, double *ret_number);

#endif
