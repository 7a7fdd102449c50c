/* See copy.h. */
#include "base/copy.h"

#include "base/memory.h"
#include "base/number.h"

#include <stdint.h>
#include <string.h>

/* Into the core's second cache: a core has more such requests under way than for its first. */
void copy_fetch(const void *next, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at += MEMORY_LINE_BYTES)
        __builtin_prefetch((const unsigned char *)next + at, 0, 2);
}

void copy_and_fetch(void *restrict to, const void *restrict from, size_t bytes, const void *next,
                    size_t next_bytes)
{
    for (size_t done = 0, end; done < bytes; done = end) {
        end = min_u64(done + COPY_FETCHED_TOGETHER, bytes);
        copy_fetch(next, done, min_u64(end, next_bytes));
        memcpy((unsigned char *)to + done, (const unsigned char *)from + done, end - done);
    }
}

#ifdef __x86_64__
#include <immintrin.h>

enum { LINE = 64, VECTOR = 32, VECTORS = 8 };

/* Whole lines, so that none is read from memory to be completed. Such stores are ordered with
 * others by the fence alone. */
__attribute__((target("avx2"))) static size_t stream_lines(unsigned char *to,
                                                           const unsigned char *from, size_t bytes)
{
    size_t done = 0;
    for (; done + VECTORS * VECTOR <= bytes; done += VECTORS * VECTOR) {
        __m256i vectors[VECTORS];
        for (size_t i = 0; i < VECTORS; i++)
            vectors[i] = _mm256_loadu_si256((const void *)(from + done + i * VECTOR));
        for (size_t i = 0; i < VECTORS; i++)
            _mm256_stream_si256((void *)(to + done + i * VECTOR), vectors[i]);
    }
    _mm_sfence();
    return done;
}

void copy_stream(void *restrict to, const void *restrict from, size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE;
    if (bytes < COPY_STREAM_BYTES || !__builtin_cpu_supports("avx2")) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    size_t done = head + stream_lines((unsigned char *)to + head,
                                      (const unsigned char *)from + head, bytes - head);
    memcpy((unsigned char *)to + done, (const unsigned char *)from + done, bytes - done);
}

__attribute__((target("avx2"))) static size_t stream_zeros(unsigned char *to, size_t bytes)
{
    size_t done = 0;
    for (; done + LINE <= bytes; done += LINE)
        for (size_t i = 0; i < LINE; i += VECTOR)
            _mm256_stream_si256((void *)(to + done + i), _mm256_setzero_si256());
    _mm_sfence();
    return done;
}

void clear_stream(void *to, size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE;
    if (bytes < COPY_STREAM_BYTES || !__builtin_cpu_supports("avx2")) {
        memset(to, 0, bytes);
        return;
    }
    memset(to, 0, head);
    size_t done = head + stream_zeros((unsigned char *)to + head, bytes - head);
    memset((unsigned char *)to + done, 0, bytes - done);
}
#else
void clear_stream(void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

void copy_stream(void *restrict to, const void *restrict from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
