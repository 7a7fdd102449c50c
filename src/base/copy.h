/* Copies that know more than memcpy() does. Pure; any thread.
 *
 * Of large blocks that nobody reads before the caches have forgotten them: memcpy() of such a block
 * brings each line of the target into the caches, where the line takes the place of something that
 * is used again. Cores that copy at the same time then wait for memory together.
 *
 * Of small blocks that lie anywhere in memory: while one is copied, the CPU may fetch the next.
 * Larger blocks need no such word: the CPU finds out by itself what follows in them.
 */
#ifndef PENSTOCK_BASE_COPY_H
#define PENSTOCK_BASE_COPY_H

#include <stddef.h>

/* Copies as memcpy() does, and past the caches where the processor can. Blocks of less than
 * COPY_STREAM_BYTES are not worth the call, nor are blocks of a ring below COPY_STREAM_RING_BYTES,
 * several times a core's part of the last cache. Whoever is told of the copy by any means that
 * orders memory sees all of its bytes. */
enum { COPY_STREAM_BYTES = 256 << 10, COPY_STREAM_RING_BYTES = 64 << 20 };
void copy_stream(void *restrict to, const void *restrict from, size_t bytes);

/* Sets to zero as memset() does, and past the caches where the processor can: twice as fast where
 * no cache has room for the bytes anyway. Otherwise as copy_stream(). */
void clear_stream(void *to, size_t bytes);

/* Copies as memcpy() does, and tells the CPU meanwhile of `next_bytes` bytes at `next`, which are
 * copied next: as many as are copied now at most. Any address will do. Blocks of about 4 KiB gain
 * most; those below COPY_FETCH_BYTES are not worth the call, and those above COPY_FETCH_MOST_BYTES
 * are copied faster as a whole. */
enum { COPY_FETCH_BYTES = 512, COPY_FETCH_MOST_BYTES = 32 << 10 };

/* For copies of other kinds: tells the CPU of the lines from byte `begin` of `next` to before
 * `end`. Of more than COPY_FETCHED_TOGETHER bytes at once some would only wait for others. */
enum { COPY_FETCHED_TOGETHER = 256 };
void copy_fetch(const void *next, size_t begin, size_t end);

void copy_and_fetch(void *restrict to, const void *restrict from, size_t bytes, const void *next,
                    size_t next_bytes);

#endif
