/* Bitmaps: bit i is bit i % 64 of word i / 64. Pure; any thread. */
#ifndef PENSTOCK_ANCHORS_BITS_H
#define PENSTOCK_ANCHORS_BITS_H

#include "base/number.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The words of a bitmap. */
static inline uint64_t bits_words(uint64_t bits)
{
    return bits / 64 + (bits % 64 != 0);
}

/* The lowest `count` bits set; count <= 64. */
static inline uint64_t bits_low(uint64_t count)
{
    return count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}

/* The bits of word `word` that lie in [first, end). */
static inline uint64_t bits_within(uint64_t word, uint64_t first, uint64_t end)
{
    uint64_t below = first > word * 64 ? min_u64(first - word * 64, 64) : 0;
    uint64_t above = end > word * 64 ? min_u64(end - word * 64, 64) : 0;
    return bits_low(above) & ~bits_low(below);
}

/* `count` bits from `first` on, 1 to 64, as the lowest ones. */
static inline uint64_t bits_read(const uint64_t *words, uint64_t first, uint64_t count)
{
    uint64_t shift = first % 64, value = words[first / 64] >> shift;
    if (shift + count > 64)
        value |= words[first / 64 + 1] << (64 - shift);
    return value & bits_low(count);
}

/* Carry-save sums; the compiler's builtin is a call on CPUs without the instruction. */
static inline uint64_t bits_count_word(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return word * UINT64_C(0x0101010101010101) >> 56;
}

/* How many of [first, end) are set. */
static inline uint64_t bits_count(const uint64_t *words, uint64_t first, uint64_t end)
{
    uint64_t count = 0;
    if (first >= end)
        return 0;
    for (uint64_t w = first / 64; w <= (end - 1) / 64; w++)
        count += bits_count_word(words[w] & bits_within(w, first, end));
    return count;
}

/* Sets [first, end). */
static inline void bits_set(uint64_t *words, uint64_t first, uint64_t end)
{
    if (first >= end)
        return;
    for (uint64_t w = first / 64; w <= (end - 1) / 64; w++)
        words[w] |= bits_within(w, first, end);
}

/* The position of the set bit that `rank` others are below; the word has more than `rank`. */
static inline uint32_t bits_select_word(uint64_t word, uint64_t rank)
{
    while (rank--)
        word &= word - 1;
    return (uint32_t)__builtin_ctzll(word);
}

#endif
