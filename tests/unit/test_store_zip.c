/* Zip archives behind a network: what their uris say, and where entries begin as far as the
 * directory alone tells. */
#include "store/zip/zip_directory.h"
#include "store/zip/zip_uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_uris(void **state)
{
    (void)state;
    assert_true(zip_uri_is_archive("s3://bucket/a.zip"));
    assert_true(zip_uri_is_archive("https://host:80/a/b.zarr.ZIP"));
    assert_false(zip_uri_is_archive("s3://a.zip"));
    assert_false(zip_uri_is_archive("s3://bucket/a.zip/"));
    assert_false(zip_uri_is_archive("s3://bucket/.zip"));
    assert_false(zip_uri_is_archive("s3://bucket/a.zip/b"));
    assert_string_equal(zip_uri_inside("zip+s3://bucket/a"), "s3://bucket/a");
    assert_string_equal(zip_uri_inside("zip+file:/a"), "file:/a");
    assert_null(zip_uri_inside("zip+"));
    assert_null(zip_uri_inside("zip+a/b"));
    assert_null(zip_uri_inside("zip://a"));
}

static void test_uris_are_split(void **state)
{
    static const struct {
        const char *uri, *base, *key;
    } cases[] = {{"s3://bucket/a%20b.zip", "s3://bucket", "a%20b.zip"},
                 {"https://host/x/a%20b%2.zip", "https://host/x", "a b%2.zip"},
                 {"hf://datasets/o/n@main/a.zip", "hf://datasets/o/n@main", "a.zip"},
                 {"s3://bucket", NULL, NULL},
                 {"s3://bucket/a/", NULL, NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *base = NULL, *key = NULL;
        struct error err;
        enum status status = zip_uri_split(cases[i].uri, &base, &key, &err);
        assert_int_equal(status, cases[i].base ? STATUS_OK : STATUS_INVALID);
        if (cases[i].base) {
            assert_string_equal(base, cases[i].base);
            assert_string_equal(key, cases[i].key);
        }
        free(base);
        free(key);
    }
}

/* Where entries begin
 * ---------------------------------------------------------------------------------------------- */

enum { BEGIN = 1000, NAME_BYTES = 3, STORED_BYTES = 50, ENTRIES = 2 };

static void write_number(unsigned char *at, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* An entry of a directory; the bytes it takes. */
static size_t write_entry(unsigned char *at, uint64_t header, unsigned flags, const void *extra,
                          size_t extra_bytes)
{
    memset(at, 0, 46);
    memcpy(at, "PK\1\2", 4);
    write_number(at + 8, 2, flags);
    write_number(at + 20, 4, STORED_BYTES);
    write_number(at + 24, 4, STORED_BYTES);
    write_number(at + 28, 2, NAME_BYTES);
    write_number(at + 30, 2, extra_bytes);
    write_number(at + 42, 4, header);
    memcpy(at + 46, header == BEGIN ? "a/b" : "c/d", NAME_BYTES);
    memcpy(at + 46 + NAME_BYTES, extra, extra_bytes);
    return 46 + NAME_BYTES + extra_bytes;
}

/* What is told of the first of two entries, `gap` bytes before the second; beyond its header. */
static uint64_t told(uint64_t gap, unsigned flags, const void *extra, size_t extra_bytes)
{
    unsigned char bytes[512];
    struct zip_entry entries[ENTRIES + 1];
    uint64_t headers[ENTRIES + 1], shift = 7, directory = BEGIN + gap + 500;
    size_t used = write_entry(bytes, BEGIN, flags, extra, extra_bytes), count;
    struct error err;
    used += write_entry(bytes + used, BEGIN + gap, flags, "", 0);
    const struct zip_extent extent = {directory + shift, used, ENTRIES, shift};
    assert_int_equal(zip_read_directory(bytes, &extent, entries, &count, &err), STATUS_OK);
    assert_int_equal(count, ENTRIES);
    zip_settle_entries(bytes, &extent, entries, count, headers);
    return entries[0].data_offset ? entries[0].data_offset - entries[0].header_offset : 0;
}

static void test_where_entries_begin(void **state)
{
    static const unsigned char times[] = {'U', 'T', 5, 0, 3, 1, 2, 3, 4};
    static const unsigned char owner[] = {'u', 'x', 4, 0, 1, 2, 3, 4};
    const uint64_t header = 30 + NAME_BYTES;
    const unsigned descriptor = 8;
    (void)state;
    assert_int_equal(told(header + STORED_BYTES, 0, "", 0), header);
    assert_int_equal(told(header + STORED_BYTES + 20, 0, "", 0), header + 20); /* zip64's sizes */
    assert_int_equal(told(header + 13 + STORED_BYTES, 0, times, sizeof times), header + 13);
    assert_int_equal(told(header + 8 + STORED_BYTES, 0, owner, sizeof owner), header + 8);
    assert_int_equal(told(header + STORED_BYTES + 16, descriptor, "", 0), header);
    assert_int_equal(told(header + 20 + STORED_BYTES + 24, descriptor, "", 0), header + 20);
    /* Anything else may be an extra field, or a hole. */
    assert_int_equal(told(header + STORED_BYTES + 1, 0, "", 0), 0);
    assert_int_equal(told(header + STORED_BYTES + 16, 0, "", 0), 0);
    assert_int_equal(told(header + STORED_BYTES, descriptor, "", 0), 0);
    assert_int_equal(told(header + STORED_BYTES - 1, 0, "", 0), 0);
    assert_int_equal(told(1, 0, "", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_uris_are_split),
        cmocka_unit_test(test_where_entries_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
