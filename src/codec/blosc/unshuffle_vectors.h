/* The loops of unshuffle.h over vectors, compiled once for each instruction set: unshuffle_avx2.c
 * and its like define the vector's functions and UNSHUFFLE_LOOPS, the table's name, and include
 * this. VECTOR_REVERSES: vector_turn() wants its bytes in reverse order.
 *
 * A vector has lanes of 16 bytes. One step interleaves the bytes of the first half of N vectors
 * with the bytes of the second half; after log2(N) steps, every 16 bytes of a lane hold 16 / N
 * elements of N bytes, in order, and only lanes have to change places.
 */
#include "base/number.h"

#ifndef VECTOR_REVERSES
#define VECTOR_REVERSES 0
#endif

enum { MOST_VECTORS = 16 };

/* `count` is 2, 4, 8 or 16, and known to the compiler. */
VECTOR_FUNCTION void interleave(vector *vectors, int count)
{
    vector mixed[MOST_VECTORS];
    for (int step = 1; step < count; step *= 2) {
        for (int i = 0; i < count; i++) {
            vector first = vectors[i / 2], second = vectors[i / 2 + count / 2];
            mixed[i] = i % 2 ? vector_high(first, second) : vector_low(first, second);
        }
        for (int i = 0; i < count; i++)
            vectors[i] = mixed[i];
    }
}

/* Elements of 2, 4 or 8 bytes. The last vectors overlap those before them. */
VECTOR_FUNCTION size_t bytes_of(const uint8_t *const *planes, int type_bytes, size_t count,
                                bool streams, uint8_t *out)
{
    if (count < VECTOR_BYTES)
        return 0;
    streams = streams && (uintptr_t)out % VECTOR_BYTES == 0;
    for (size_t i = 0; i < count; i += VECTOR_BYTES) {
        vector vectors[MOST_VECTORS];
        size_t at = min_u64(i, count - VECTOR_BYTES);
        for (int k = 0; k < type_bytes; k++)
            vectors[k] = vector_load(planes[k] + at);
        interleave(vectors, type_bytes);
        vector_store_lanes(vectors, type_bytes, streams && at == i, out + at * (size_t)type_bytes);
    }
    if (streams)
        vector_fence();
    return count;
}

VECTOR_ENTRY size_t bytes_2(const uint8_t *const *planes, size_t count, bool streams, uint8_t *out)
{
    return bytes_of(planes, 2, count, streams, out);
}

VECTOR_ENTRY size_t bytes_4(const uint8_t *const *planes, size_t count, bool streams, uint8_t *out)
{
    return bytes_of(planes, 4, count, streams, out);
}

VECTOR_ENTRY size_t bytes_8(const uint8_t *const *planes, size_t count, bool streams, uint8_t *out)
{
    return bytes_of(planes, 8, count, streams, out);
}

/* Sixteen bytes of as many elements as a vector has bytes; `planes` are those of these bytes, and
 * the last one again where an element has fewer. */
VECTOR_FUNCTION void tile(const uint8_t *const *planes, size_t plane_count, size_t begin,
                          size_t type_bytes, uint8_t *out)
{
    vector vectors[MOST_VECTORS];
    for (size_t k = 0; k < MOST_VECTORS; k++)
        vectors[k] = vector_load(planes[min_u64(k, plane_count - 1)] + begin);
    interleave(vectors, MOST_VECTORS);
    vector_scatter_lanes(vectors, MOST_VECTORS, type_bytes, out);
}

/* Elements of any size. Of smaller ones than a lane the last elements are left, since a lane is
 * longer than they are. */
VECTOR_ENTRY size_t bytes_any(const uint8_t *const *planes, size_t type_bytes, size_t count,
                              uint8_t *out)
{
    size_t i = 0;
    for (; i + VECTOR_BYTES <= count; i += VECTOR_BYTES) {
        uint8_t *at = out + i * type_bytes;
        if (type_bytes < 16 && (i + VECTOR_BYTES - 1) * type_bytes + 16 > count * type_bytes)
            break;
        if (type_bytes < 16)
            tile(planes, type_bytes, i, type_bytes, at);
        for (size_t k = 0; type_bytes >= 16 && k < type_bytes; k += 16) {
            size_t first = min_u64(k, type_bytes - 16);
            tile(planes + first, 16, i, type_bytes, at + first);
        }
    }
    return i;
}

static size_t bytes(const uint8_t *const *planes, size_t type_bytes, size_t count, bool streams,
                    uint8_t *out)
{
    switch (type_bytes) {
    case 2:
        return bytes_2(planes, count, streams, out);
    case 4:
        return bytes_4(planes, count, streams, out);
    case 8:
        return bytes_8(planes, count, streams, out);
    default:
        return bytes_any(planes, type_bytes, count, out);
    }
}

/* As elements of 8 bytes, whose bits are then turned. */
VECTOR_ENTRY size_t bits(const uint8_t *planes, size_t plane_bytes, size_t count, uint8_t *out)
{
    if (count < VECTOR_BYTES)
        return 0;
    for (size_t i = 0; i < count; i += VECTOR_BYTES) {
        vector vectors[MOST_VECTORS];
        size_t at = min_u64(i, count - VECTOR_BYTES);
        for (size_t k = 0; k < 8; k++)
            vectors[VECTOR_REVERSES ? 7 - k : k] = vector_load(planes + k * plane_bytes + at);
        interleave(vectors, 8);
        for (int k = 0; k < 8; k++)
            vectors[k] = vector_turn(vectors[k]);
        vector_store_lanes(vectors, 8, false, out + at * 8);
    }
    return count;
}

const struct unshuffle_loops UNSHUFFLE_LOOPS = {bytes, bits};
