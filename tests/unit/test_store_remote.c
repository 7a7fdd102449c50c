/* Stores behind a network: bounds that no whole job shows, of what is encoded, of what is requested
 * a second time, and of what is missing. */
#include "remote_server.h"

static void test_what_is_encoded_stays_within_its_room(void **state)
{
    unsigned char buffer[1001] = {[1000] = 7};
    struct store *store = open_store(NULL);
    struct store_range range = {5 * MIB, 1000, buffer};
    struct error err;
    size_t size;
    (void)state;
    assert_int_equal(store_get(store, "bomb", buffer, 1000, &size, &err), STATUS_CORRUPT);
    assert_int_equal(store_get_ranges(store, "bomb", &range, 1, NULL, &err), STATUS_OK);
    range.offset = (uint64_t)64 * MIB - 999; /* one byte beyond it */
    assert_int_equal(store_get_ranges(store, "bomb", &range, 1, NULL, &err), STATUS_CORRUPT);
    assert_int_equal(store_get(store, "broken", buffer, 1000, &size, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "Content-Encoding 'gzip'"));
    assert_int_equal(buffer[1000], 7);
    store_free(store);
}

/* A range far within a value is not worth all that lies before it. */
static void test_no_more_is_passed_over_than_is_said(void **state)
{
    unsigned char buffer[1000];
    struct store *store = open_store(NULL);
    struct store_range near = {3 * MIB, 1000, buffer}, far = {900ull * MIB, 1000, buffer};
    struct error err;
    uint64_t total;
    (void)state;
    assert_int_equal(store_get_ranges(store, "large", &near, 1, NULL, &err), STATUS_OK);
    uint64_t before = server.sent;
    assert_int_equal(store_get_ranges(store, "large", &far, 1, NULL, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "the server has no ranges"));
    assert_int_equal(store_get_suffix(store, "large", buffer, 1000, &total, &err),
                     STATUS_UNSUPPORTED);
    assert_in_range(server.sent - before, 0, 100 * MIB); /* of three gigabytes */
    store_free(store);
}

static void test_the_end_of_what_comes_whole(void **state)
{
    static const char digits[] = "0123456789abcdefghijk";
    struct store *store = open_store(NULL);
    struct error err;
    struct store_info info;
    (void)state;
    for (size_t size = 1; size <= 21; size++) {
        char buffer[32] = "";
        uint64_t total;
        assert_int_equal(store_get_suffix(store, "digits", buffer, size, &total, &err), STATUS_OK);
        assert_string_equal(buffer, digits + 21 - size);
        assert_int_equal(total, 21);
    }
    char buffer[32];
    uint64_t total;
    assert_int_equal(store_get_suffix(store, "digits", buffer, 22, &total, &err), STATUS_CORRUPT);
    assert_int_equal(store_stat(store, "digits", &info, &err), STATUS_OK);
    assert_int_equal(info.bytes, 21);
    store_free(store);
}

static bool begins_with_0(const void *bytes, size_t size)
{
    return size > 0 && *(const unsigned char *)bytes == 0;
}

static bool begins_like_gzip(const void *bytes, size_t size)
{
    return size > 1 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

/* A value that is packed once is taken as it is stored, one that is packed twice is decoded. */
static void test_an_encoding_may_name_how_a_value_is_packed(void **state)
{
    struct store *store = open_store(NULL);
    size_t capacity = (size_t)64 * MIB, size;
    unsigned char *buffer = malloc(capacity);
    struct error err;
    (void)state;
    for (int fits = 0; fits < 2; fits++) { /* what is decoded, or only what is stored */
        assert_int_equal(store_get_packed(store, "bomb", begins_like_gzip, NULL, buffer,
                                          fits ? capacity : MIB, &size, &err),
                         STATUS_OK);
        assert_int_equal(size, server.encoded_bytes);
        assert_memory_equal(buffer, server.encoded, size);
    }
    assert_int_equal(
        store_get_packed(store, "bomb", begins_with_0, NULL, buffer, capacity, &size, &err),
        STATUS_OK);
    assert_int_equal(size, capacity);
    assert_int_equal(
        store_get_packed(store, "broken", begins_with_0, NULL, buffer, 1000, &size, &err),
        STATUS_OK);
    assert_int_equal(size, 1000);
    free(buffer);
    store_free(store);
}

/* What is labelled so is taken as it is. */
static void test_what_is_no_encoding_is_passed_over(void **state)
{
    struct store *store = open_store(NULL);
    struct error err;
    char buffer[16] = "";
    struct store_range range = {3, 2, buffer};
    size_t size;
    (void)state;
    if (store_get(store, "labelled", buffer, 10, &size, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_string_equal(buffer, "0123456789");
    assert_int_equal(store_get_ranges(store, "labelled", &range, 1, NULL, &err), STATUS_OK);
    assert_memory_equal(buffer, "34", 2);
    store_free(store);
}

/* The length that the server says is not that of what would be decoded. */
static void test_no_end_is_counted_in_encoded_bytes(void **state)
{
    struct store *store = open_store(NULL);
    struct store_info info;
    struct error err;
    char buffer[16];
    uint64_t total;
    (void)state;
    assert_int_equal(store_get_suffix(store, "no-end", buffer, 10, &total, &err),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Content-Encoding"));
    assert_int_equal(store_stat(store, "no-end", &info, &err), STATUS_OK);
    assert_int_equal(info.bytes, server.encoded_bytes);
    store_free(store);
}

/* How many requests a late answer comes to, after 300 that are not. */
static unsigned ask_late(int64_t bytes)
{
    _Atomic int64_t room = bytes;
    struct store *store = open_store(&room);
    unsigned char buffer[1000];
    size_t size;
    struct error err;
    for (unsigned j = 0; j < 300; j++)
        assert_int_equal(store_get(store, "value", buffer, 1000, &size, &err), STATUS_OK);
    server.late = 0;
    assert_int_equal(store_get(store, "late", buffer, 1000, &size, &err), STATUS_OK);
    unsigned requests = server.late;
    store_free(store);
    assert_int_equal(room, bytes);
    return requests;
}

static void test_second_requests_stay_within_their_room(void **state)
{
    static const struct {
        int64_t room;
        unsigned requests;
    } cases[] = {{999, 1}, {1000, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned requests = ask_late(cases[i].room);
        /* On a busy machine other answers were late, too, and have used up the second requests. */
        for (int tries = 1; tries < 10 && requests < cases[i].requests; tries++)
            requests = ask_late(cases[i].room);
        assert_int_equal(requests, cases[i].requests);
    }
}

/* A chunk that is missing is no reason to connect anew, with whatever page a server says so. */
static void test_what_is_missing_keeps_the_connection(void **state)
{
    static const struct {
        const char *key;
        bool keeps;
    } cases[] = {{"missing-whole/0", true},        {"missing-whole/100", true},
                 {"missing-whole/1023", true},     {"missing-whole/1024", true},
                 {"missing-whole/60000", true},    {"missing-whole/1000000", false},
                 {"missing-pieces/100", true},     {"missing-pieces/60000", true},
                 {"missing-pieces/1000000", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = open_with(0, 0);
        struct error err;
        char buffer[1000];
        size_t size;
        unsigned before = server.connections;
        for (int j = 0; j < 10; j++)
            assert_int_equal(store_get(store, cases[i].key, buffer, sizeof buffer, &size, &err),
                             STATUS_NOT_FOUND);
        assert_int_equal(server.connections - before, cases[i].keeps ? 1 : 10);
        store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_encoded_stays_within_its_room),
        cmocka_unit_test(test_no_more_is_passed_over_than_is_said),
        cmocka_unit_test(test_the_end_of_what_comes_whole),
        cmocka_unit_test(test_an_encoding_may_name_how_a_value_is_packed),
        cmocka_unit_test(test_what_is_no_encoding_is_passed_over),
        cmocka_unit_test(test_no_end_is_counted_in_encoded_bytes),
        cmocka_unit_test(test_second_requests_stay_within_their_room),
        cmocka_unit_test(test_what_is_missing_keeps_the_connection),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
