/* Unit tests: copies of large blocks, and of scattered ones; zeros. */
#include "base/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { ROOM = COPY_STREAM_BYTES + 4096, EDGE = 256 };

static void stream(void *to, const void *from, size_t bytes)
{
    copy_stream(to, from, bytes);
}

/* What is copied next may be longer, shorter, nothing, or not there. */
static void fetch_longer(void *to, const void *from, size_t bytes)
{
    copy_and_fetch(to, from, bytes, from, 2 * bytes);
}

static void fetch_shorter(void *to, const void *from, size_t bytes)
{
    copy_and_fetch(to, from, bytes, from, bytes / 3);
}

static void fetch_nothing(void *to, const void *from, size_t bytes)
{
    copy_and_fetch(to, from, bytes, NULL, bytes);
}

typedef void copy_function(void *to, const void *from, size_t bytes);

/* Copies between any two alignments, and touches nothing beside. */
static void copy_and_compare(copy_function *copy, size_t to_offset, size_t from_offset,
                             size_t bytes)
{
    unsigned char *from = malloc(ROOM + 2 * EDGE), *to = malloc(ROOM + 2 * EDGE);
    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < ROOM + 2 * EDGE; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 24);
    memset(to, 0xa5, ROOM + 2 * EDGE);
    copy(to + to_offset, from + from_offset, bytes);
    assert_memory_equal(to + to_offset, from + from_offset, bytes);
    for (size_t i = 0; i < to_offset; i++)
        assert_int_equal(to[i], 0xa5);
    for (size_t i = to_offset + bytes; i < ROOM + 2 * EDGE; i++)
        assert_int_equal(to[i], 0xa5);
    free(from);
    free(to);
}

static void copies_every_byte(void **state)
{
    (void)state;
    static copy_function *const functions[] = {stream, fetch_longer, fetch_shorter, fetch_nothing};
    static const size_t sizes[] = {0,
                                   1,
                                   1024,
                                   4095,
                                   COPY_STREAM_BYTES - 1,
                                   COPY_STREAM_BYTES,
                                   COPY_STREAM_BYTES + 255,
                                   COPY_STREAM_BYTES + 1311};
    static const size_t offsets[] = {0, 1, 31, 63, 64, 200};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t t = 0; t < sizeof offsets / sizeof offsets[0]; t++)
            for (size_t f = 0; f < sizeof offsets / sizeof offsets[0]; f++)
                for (size_t c = 0; c < sizeof functions / sizeof functions[0]; c++)
                    copy_and_compare(functions[c], offsets[t], offsets[f], sizes[s]);
}

static void clears_every_byte_and_no_other(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, COPY_STREAM_BYTES - 1, COPY_STREAM_BYTES + 1311};
    static const size_t offsets[] = {0, 1, 31, 63, 64, 200};
    unsigned char *to = malloc(ROOM + 2 * EDGE);
    assert_non_null(to);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t o = 0; o < sizeof offsets / sizeof offsets[0]; o++) {
            memset(to, 0xa5, ROOM + 2 * EDGE);
            clear_stream(to + offsets[o], sizes[s]);
            for (size_t i = 0; i < ROOM + 2 * EDGE; i++)
                assert_int_equal(to[i], i - offsets[o] < sizes[s] ? 0 : 0xa5);
        }
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clears_every_byte_and_no_other),
        cmocka_unit_test(copies_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
