/* Unit tests: narrow elements become whole ones, between any two addresses and in place. */
#include "base/narrow.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 700, EDGE = 70, GUARD = 0xa5 };

static const size_t sizes[] = {4, 8};

/* `count` elements that fit the width, and their kept bytes. */
struct subject {
    unsigned char whole[MOST * 8], kept[MOST * 4];
};

static void make(struct subject *subject, size_t count, size_t element_bytes,
                 enum narrow_width width)
{
    size_t kept = narrow_kept(width, element_bytes), first = narrow_first(width, element_bytes);
    memset(subject->whole, 0, sizeof subject->whole);
    for (size_t i = 0; i < count * kept; i++)
        subject->kept[i] = (unsigned char)random_u64(count, element_bytes, i);
    for (size_t i = 0; i < count; i++)
        memcpy(subject->whole + i * element_bytes + first, subject->kept + i * kept, kept);
}

static bool is_width_of(enum narrow_width width, size_t element_bytes)
{
    return width == NARROW_NOT || narrow_kept(width, element_bytes) < element_bytes;
}

static void check_copy(const struct subject *subject, size_t count, size_t element_bytes,
                       enum narrow_width width, size_t shift)
{
    size_t bytes = count * element_bytes, kept = count * narrow_kept(width, element_bytes);
    const unsigned char *kept_bytes = width == NARROW_NOT ? subject->whole : subject->kept;
    unsigned char *from = malloc(kept + shift), *to = malloc(bytes + EDGE + shift);
    assert_non_null(from);
    assert_non_null(to);
    memcpy(from + shift, kept_bytes, kept);
    memset(to, GUARD, bytes + EDGE + shift);
    narrow_copy(to + shift, from + shift, count, element_bytes, width, shift % 2 ? from : NULL,
                shift % 3 * kept);
    assert_memory_equal(to + shift, subject->whole, bytes);
    for (size_t i = 0; i < EDGE + shift; i++)
        assert_int_equal(to[i < shift ? i : bytes + i], GUARD);
    free(to);
    free(from);
}

static void copies_make_whole_elements(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 3, 16, 31, 64, 127, 128, 129, 256, 500, MOST};
    struct subject subject;
    for (size_t s = 0; s < 2; s++)
        for (enum narrow_width width = NARROW_NOT; width <= NARROW_HIGH_4; width++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                for (size_t shift = 0; shift < 9; shift++)
                    if (is_width_of(width, sizes[s])) {
                        make(&subject, counts[c], sizes[s],
                             width == NARROW_NOT ? NARROW_LOW_2 : width);
                        check_copy(&subject, counts[c], sizes[s], width, shift);
                    }
}

static void elements_become_whole_in_place(void **state)
{
    (void)state;
    static const size_t begins[] = {0, 1, 2, 77};
    struct subject subject;
    for (size_t s = 0; s < 2; s++)
        for (enum narrow_width width = NARROW_LOW_2; width <= NARROW_HIGH_4; width++)
            for (size_t b = 0; b < 4 && is_width_of(width, sizes[s]); b++) {
                size_t kept = narrow_kept(width, sizes[s]), begin = begins[b], end = 300;
                unsigned char memory[300 * 8 + EDGE];
                make(&subject, end, sizes[s], width);
                memset(memory, GUARD, sizeof memory);
                memcpy(memory + begin * kept, subject.kept + begin * kept, (end - begin) * kept);
                narrow_widen(memory, begin, end, sizes[s], width);
                assert_memory_equal(memory + begin * sizes[s], subject.whole + begin * sizes[s],
                                    (end - begin) * sizes[s]);
                for (size_t i = 0; i < EDGE; i++)
                    assert_int_equal(memory[end * sizes[s] + i], GUARD);
                for (size_t i = 0; i < begin * kept; i++)
                    assert_int_equal(memory[i], GUARD);
            }
}

int main(void)
{
    if (!narrow_takes(4)) {
        puts("skipped: on a big-endian machine nothing is narrow");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_make_whole_elements),
        cmocka_unit_test(elements_become_whole_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
