/* See narrow.h. Loops for each pair of sizes; gcc makes vector code of them (-O3). */
#include "base/narrow.h"

#include "base/copy.h"
#include "base/number.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define UNALIGNED __attribute__((aligned(1), may_alias))
typedef uint16_t UNALIGNED kept_2;
typedef uint32_t UNALIGNED kept_4;
typedef uint32_t UNALIGNED whole_4;
typedef uint64_t UNALIGNED whole_8;

typedef void widen_loop(void *restrict to, const void *restrict from, size_t count, unsigned shift);
struct loops {
    widen_loop *to_4, *to_8_from_2, *to_8_from_4;
};

#define WIDEN(name, target, whole, kept)                                                \
    target static void name(void *restrict to, const void *restrict from, size_t count, \
                            unsigned shift)                                             \
    {                                                                                   \
        whole *out = to;                                                                \
        const kept *in = from;                                                          \
        for (size_t i = 0; i < count; i++)                                              \
            out[i] = (whole)in[i] << shift;                                             \
    }
#define LOOPS(variant, target)                                                          \
    WIDEN(to_4_##variant, target, whole_4, kept_2)                                      \
    WIDEN(to_8_from_2_##variant, target, whole_8, kept_2)                               \
    WIDEN(to_8_from_4_##variant, target, whole_8, kept_4)                               \
    static const struct loops variant##_loops = {to_4_##variant, to_8_from_2_##variant, \
                                                 to_8_from_4_##variant};

LOOPS(portable, )
#ifdef __x86_64__
LOOPS(avx2, __attribute__((target("avx2"))))
static const struct loops *best_loops(void)
{
    return __builtin_cpu_supports("avx2") ? &avx2_loops : &portable_loops;
}
#else
static const struct loops *best_loops(void)
{
    return &portable_loops;
}
#endif

static widen_loop *loop_of(size_t element_bytes, enum narrow_width width)
{
    const struct loops *loops = best_loops();
    assert(narrow_kept(width, element_bytes) < element_bytes);
    if (element_bytes == 4)
        return loops->to_4;
    return narrow_kept(width, element_bytes) == 2 ? loops->to_8_from_2 : loops->to_8_from_4;
}

void narrow_copy(void *restrict to, const void *restrict from, size_t count, size_t element_bytes,
                 enum narrow_width width, const void *next, size_t next_bytes)
{
    if (width == NARROW_NOT && next_bytes == 0) {
        memcpy(to, from, count * element_bytes);
        return;
    }
    if (width == NARROW_NOT) {
        copy_and_fetch(to, from, count * element_bytes, next, next_bytes);
        return;
    }
    widen_loop *widen = loop_of(element_bytes, width);
    size_t kept = narrow_kept(width, element_bytes), together = COPY_FETCHED_TOGETHER / kept;
    unsigned shift = 8 * (unsigned)narrow_first(width, element_bytes);
    for (size_t done = 0, end; done < count; done = end) {
        end = min_u64(done + together, count);
        copy_fetch(next, done * kept, min_u64(end * kept, next_bytes));
        widen((unsigned char *)to + done * element_bytes, (const unsigned char *)from + done * kept,
              end - done, shift);
    }
}

/* From the last one on: no element is written before what lies there was read. */
void narrow_widen(void *elements, size_t begin, size_t end, size_t element_bytes,
                  enum narrow_width width)
{
    unsigned char *at = elements;
    size_t kept = narrow_kept(width, element_bytes), first = narrow_first(width, element_bytes);
    for (size_t i = end; i-- > begin;) {
        unsigned char element[8] = {0};
        memcpy(element + first, at + i * kept, kept);
        memcpy(at + i * element_bytes, element, element_bytes);
    }
}
