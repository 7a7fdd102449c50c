/* Addresses as people write them. */
#include "base/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void addresses_are_read_and_shown(void **state)
{
    (void)state;
    static const char *const same[] = {"127.0.0.1:9400", "0.0.0.0:0", "[::1]:65535",
                                       "[fe80::1]:80"};
    struct address address;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_int_equal(address_parse(same[i], &address, NULL), STATUS_OK);
        assert_string_equal(address_print(&address).text, same[i]);
    }
    assert_int_equal(address_parse("localhost:1", &address, NULL), STATUS_OK);
    assert_string_equal(address_print(&address).text, "127.0.0.1:1");
    address_set_port(&address, 9401);
    assert_int_equal(address_port(&address), 9401);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        ":",
                                        "9400",
                                        ":9400",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "a:1",
                                        "[::1]",
                                        "::1:9400",
                                        "[::1:9400",
                                        "1.2.3.4:65536",
                                        "1.2.3.4:-1",
                                        "1.2.3.4: 1",
                                        "1.2.3:80",
                                        "1.2.3.4:000001",
                                        "[1.2.3.4]:1",
                                        "example.org:80",
                                        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa]:1"};
    struct address address;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error error;
        if (address_parse(wrong[i], &address, &error) != STATUS_INVALID)
            fail_msg("'%s' is taken for an address", wrong[i]);
        assert_non_null(strstr(error.message, "HOST:PORT"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_shown),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
