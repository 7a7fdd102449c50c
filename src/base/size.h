/* Byte sizes and counts as people write and read them. Pure, safe from any thread. */
#ifndef PENSTOCK_BASE_SIZE_H
#define PENSTOCK_BASE_SIZE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses "4096", "64KiB", "1.5 GiB", "32GB" (binary and decimal units, case-insensitive).
 * INVALID: not a number, a negative one, an unknown unit, or more than 2^63 bytes. */
MUST_USE enum status size_parse(const char *text, uint64_t *ret_bytes, struct error *err);

/* A size for people, "160.0 KiB", "2.50 GiB", "17 B".
 * Returned by value so that several can stand in one printf. */
struct size_text {
    char text[48];
};
struct size_text size_format(uint64_t bytes);

/* Whether a rate of this long means anything: of less than 50 ms it is that of a clock's ticks and
 * of caches, and is not printed. */
bool rate_is_known(double seconds);

/* ", 2.50 GiB/s", and ", 1,234 samples/s" of the unit "samples"; "" where the rate is not known. */
struct size_text rate_format(uint64_t bytes, double seconds);
struct size_text rate_format_count(uint64_t count, const char *unit, double seconds);

/* A count with thousands separators: "1,234,567". */
struct size_text count_format(uint64_t count);

/* The ending of a counted noun: "%u thread%s". */
static inline const char *count_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Names one or several: "the reader", "each of the 4 readers".
 * `noun` has 7 bytes at most. */
struct size_text count_each(uint64_t count, const char *noun);

/* a*b into *ret; false and *ret untouched when 64 bits do not hold it. */
static inline _Bool size_multiply(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return 0;
    *ret = product;
    return 1;
}

static inline uint64_t size_divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline uint64_t size_round_up(uint64_t value, uint64_t multiple)
{
    return size_divide_up(value, multiple) * multiple;
}

#endif
