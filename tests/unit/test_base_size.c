/* Sizes as people write and read them; Philox against its published vector. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static uint64_t parsed(const char *text)
{
    uint64_t bytes = 0;
    struct error err;
    assert_int_equal(size_parse(text, &bytes, &err), STATUS_OK);
    return bytes;
}

static void sizes_are_read(void **state)
{
    (void)state;
    assert_int_equal(parsed("4096"), 4096);
    assert_int_equal(parsed("64KiB"), 65536);
    assert_int_equal(parsed("1.5 GiB"), 1610612736);
    assert_int_equal(parsed("32gb"), 32000000000);
    assert_int_equal(parsed("2T"), 2199023255552);
    assert_int_equal(parsed("0"), 0);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "lots", "-1", "5 parsecs", "nan", "inf", "1e30", "GiB"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t bytes = 7;
        struct error err;
        assert_int_equal(size_parse(texts[i], &bytes, &err), STATUS_INVALID);
        assert_int_equal(bytes, 7);
        assert_non_null(strstr(err.message, texts[i]));
    }
}

static void sizes_are_written(void **state)
{
    (void)state;
    assert_string_equal(size_format(17).text, "17 B");
    assert_string_equal(size_format(163840).text, "160.0 KiB");
    assert_string_equal(size_format(UINT64_C(2684354560)).text, "2.50 GiB");
    for (uint64_t bytes = 7; bytes < UINT64_C(1) << 57; bytes *= 31) { /* what is written is read */
        double read = (double)parsed(size_format(bytes).text);
        assert_true(read > 0.99 * (double)bytes && read < 1.01 * (double)bytes);
    }
    assert_string_equal(count_format(0).text, "0");
    assert_string_equal(count_format(1234567).text, "1,234,567");
    assert_string_equal(count_format(UINT64_MAX).text, "18,446,744,073,709,551,615");
    assert_string_equal(count_plural(0), "s");
    assert_string_equal(count_plural(1), "");
    assert_string_equal(count_each(1, "reader").text, "the reader");
    assert_string_equal(count_each(4, "reader").text, "each of the 4 readers");
    assert_string_equal(count_each(UINT64_MAX, "trainer").text,
                        "each of the 18,446,744,073,709,551,615 trainers");
}

static void arithmetic_holds_at_the_edge(void **state)
{
    (void)state;
    uint64_t product = 1;
    assert_false(size_multiply(UINT64_MAX, 2, &product));
    assert_int_equal(product, 1);
    assert_true(size_multiply(UINT32_MAX, UINT32_MAX, &product));
    assert_int_equal(size_divide_up(10, 5), 2);
    assert_int_equal(size_divide_up(11, 5), 3);
    assert_int_equal(size_divide_up(UINT64_MAX, 2), UINT64_C(1) << 63);
    assert_int_equal(size_round_up(65, 64), 128);
}

static void rates_need_time(void **state)
{
    (void)state;
    assert_string_equal(rate_format(3 << 20, 2).text, ", 1.50 MiB/s");
    assert_string_equal(rate_format_count(8, "samples", 0.05).text, ", 160 samples/s");
    assert_string_equal(rate_format_count(UINT64_C(1) << 55, "a long unit", 0.05).text,
                        ", 720,575,940,379,279,360 a long uni/s");
    assert_string_equal(rate_format_count(8, "samples", 2.2e-6).text, "");
    assert_string_equal(rate_format(1 << 20, 0).text, "");
}

/* From the known-answer file of Random123: key and counter all ones. */
static void philox_is_the_published_one(void **state)
{
    (void)state;
    assert_int_equal(random_u64(UINT64_MAX, UINT64_MAX, UINT64_MAX), UINT64_C(0x41c83b0e408f276d));
    assert_int_equal(random_u64(0, 0, 0), UINT64_C(0xe169c58d6627e8d5));
    assert_true(random_below(UINT64_MAX, 10) == 9 && random_below(0, 10) == 0);
}

static void memory_is_mapped_and_kept(void **state)
{
    (void)state;
    void *memory;
    struct error err;
    assert_int_equal(memory_map(3 * MEMORY_PAGE_BYTES, "test", &memory, &err), STATUS_OK);
    ((unsigned char *)memory)[5000] = 9;
    memory_touch(memory, 3 * MEMORY_PAGE_BYTES);
    assert_int_equal(((unsigned char *)memory)[5000], 9);
    memory_unmap(memory, 3 * MEMORY_PAGE_BYTES);
    assert_int_equal(memory_map((size_t)1 << 62, "test", &memory, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "4.00 EiB for the test"));
    assert_in_range(memory_available_bytes(), 1 << 20, (uint64_t)1 << 50);
}

/* Of the memory that is there, a process with 'ulimit -v' may take little. */
static void limits_of_the_process_count(void **state)
{
    (void)state;
    enum { ROOM_BYTES = 256 << 20 };
    static const struct {
        int resource;
        const char *named;
    } kinds[] = {{RLIMIT_AS, "'ulimit -v' of"}, {RLIMIT_DATA, "'ulimit -d' of"}};
    unsigned long long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%llu", &pages), 1);
    fclose(statm);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        void *memory;
        struct error err;
        struct rlimit before, limited;
        assert_int_equal(getrlimit(kinds[i].resource, &before), 0);
        limited = before;
        limited.rlim_cur = pages * MEMORY_PAGE_BYTES + ROOM_BYTES;
        assert_int_equal(setrlimit(kinds[i].resource, &limited), 0);
        uint64_t left = memory_available_bytes();
        enum status status = memory_map(limited.rlim_cur + 1, "test", &memory, &err);
        setrlimit(kinds[i].resource, &before);
        assert_in_range(left, 1, limited.rlim_cur);
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_non_null(strstr(err.message, kinds[i].named));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(sizes_are_written),
        cmocka_unit_test(rates_need_time),
        cmocka_unit_test(arithmetic_holds_at_the_edge),
        cmocka_unit_test(philox_is_the_published_one),
        cmocka_unit_test(memory_is_mapped_and_kept),
        cmocka_unit_test(limits_of_the_process_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
