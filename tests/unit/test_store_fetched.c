/* What was fetched before a read: found by store, key and range, each once, with its error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/kind/store_internal.h"

#include <string.h>

static const struct store here, there;

static struct fetch fetch_of(const char *key, enum fetch_kind kind, uint64_t offset, char *bytes)
{
    size_t size = strlen(bytes);
    return (struct fetch){.kind = kind,
                          .key = key,
                          .offset = offset,
                          .size = size,
                          .buffer = bytes,
                          .got = size,
                          .own.store = &here};
}

static bool get(struct fetched *fetched, const struct store *store, const char *key,
                size_t capacity, const char *expected)
{
    char buffer[16];
    size_t size = 0;
    enum status status = STATUS_INVALID;
    if (!fetched_get(fetched, store, key, buffer, capacity, &size, &status, NULL))
        return false;
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(buffer, expected, size);
    return true;
}

static bool get_range(struct fetched *fetched, const char *key, uint64_t offset, size_t size,
                      const char *expected)
{
    char buffer[16];
    enum status status = STATUS_INVALID;
    const struct store_range range = {offset, size, buffer};
    if (!fetched_get_range(fetched, &here, key, &range, &status, NULL))
        return false;
    assert_int_equal(status, STATUS_OK);
    assert_memory_equal(buffer, expected, size);
    return true;
}

static void values_are_found_by_store_and_key_once(void **state)
{
    (void)state;
    char one[] = "one", two[] = "two";
    struct fetch fetches[] = {fetch_of("a", FETCH_WHOLE, 0, one),
                              fetch_of("b", FETCH_WHOLE, 0, two)};
    struct fetched fetched = {.fetches = fetches, .count = 2};
    assert_false(get(NULL, &here, "a", 16, ""));
    assert_false(get(&fetched, &there, "a", 16, ""));
    assert_false(get(&fetched, &here, "c", 16, ""));
    assert_true(get(&fetched, &here, "b", 16, "two"));
    assert_true(get(&fetched, &here, "a", 16, "one"));
    assert_false(get(&fetched, &here, "a", 16, ""));
}

static void a_value_that_is_too_long_is_asked_for_anew(void **state)
{
    (void)state;
    char value[] = "long";
    struct fetch fetch = fetch_of("a", FETCH_WHOLE, 0, value);
    struct fetched fetched = {.fetches = &fetch, .count = 1};
    assert_false(get(&fetched, &here, "a", 3, ""));
    assert_false(get(&fetched, &here, "a", 16, "")); /* it was taken all the same */
}

static void ranges_are_found_by_offset_and_size(void **state)
{
    (void)state;
    char one[] = "one", three[] = "three";
    struct fetch fetches[] = {fetch_of("a", FETCH_RANGE, 10, one),
                              fetch_of("a", FETCH_RANGE, 20, three)};
    struct fetched fetched = {.fetches = fetches, .count = 2};
    assert_false(get(&fetched, &here, "a", 16, "")); /* a range is no value */
    assert_false(get_range(&fetched, "a", 10, 2, ""));
    assert_false(get_range(&fetched, "a", 11, 3, ""));
    assert_true(get_range(&fetched, "a", 20, 5, "three"));
    assert_true(get_range(&fetched, "a", 10, 3, "one"));
    assert_false(get_range(&fetched, "a", 10, 3, ""));
}

static void an_error_is_told_once(void **state)
{
    (void)state;
    char buffer[4] = "";
    size_t size;
    enum status status = STATUS_OK;
    struct error err;
    struct fetch fetch = fetch_of("a", FETCH_WHOLE, 0, buffer);
    struct fetched fetched = {.fetches = &fetch, .count = 1};
    fetch.status = error_set(&fetch.error, STATUS_IO, "lost");
    assert_true(fetched_get(&fetched, &here, "a", buffer, 4, &size, &status, &err));
    assert_int_equal(status, STATUS_IO);
    assert_string_equal(err.message, "lost");
    assert_false(fetched_get(&fetched, &here, "a", buffer, 4, &size, &status, &err));
}

static void bytes_are_lent_where_they_lie(void **state)
{
    (void)state;
    char one[] = "one", three[] = "three", long_value[] = "long";
    struct fetch fetches[] = {fetch_of("a", FETCH_WHOLE, 0, one),
                              fetch_of("a", FETCH_RANGE, 20, three),
                              fetch_of("b", FETCH_WHOLE, 0, long_value)};
    struct fetched fetched = {.fetches = fetches, .count = 3};
    const struct store_range range = {20, 5, NULL}, other = {21, 5, NULL};
    const void *bytes = NULL;
    size_t size = 0;
    assert_false(fetched_lend(NULL, &here, "a", NULL, 16, &bytes, &size));
    assert_false(fetched_lend(&fetched, &here, "a", &other, 16, &bytes, &size));
    assert_true(fetched_lend(&fetched, &here, "a", &range, 16, &bytes, &size));
    assert_ptr_equal(bytes, three);
    assert_int_equal(size, 5);
    assert_true(fetched_lend(&fetched, &here, "a", NULL, 16, &bytes, &size));
    assert_ptr_equal(bytes, one);
    assert_int_equal(size, 3);
    assert_false(fetched_lend(&fetched, &here, "a", NULL, 16, &bytes, &size));
    assert_false(fetched_lend(&fetched, &here, "b", NULL, 3, &bytes, &size));
    assert_true(get(&fetched, &here, "b", 16, "long")); /* what is not lent is not taken */
}

static void an_error_is_left_to_the_read(void **state)
{
    (void)state;
    char buffer[4] = "";
    size_t size;
    enum status status = STATUS_OK;
    const void *bytes;
    struct error err;
    struct fetch fetch = fetch_of("a", FETCH_WHOLE, 0, buffer);
    struct fetched fetched = {.fetches = &fetch, .count = 1};
    fetch.status = error_set(&fetch.error, STATUS_IO, "lost");
    assert_false(fetched_lend(&fetched, &here, "a", NULL, 4, &bytes, &size));
    assert_true(fetched_get(&fetched, &here, "a", buffer, 4, &size, &status, &err));
    assert_int_equal(status, STATUS_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_store_and_key_once),
        cmocka_unit_test(a_value_that_is_too_long_is_asked_for_anew),
        cmocka_unit_test(ranges_are_found_by_offset_and_size),
        cmocka_unit_test(an_error_is_told_once),
        cmocka_unit_test(bytes_are_lent_where_they_lie),
        cmocka_unit_test(an_error_is_left_to_the_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
