/* Each text is read the same by all versions of json-c. */
#include "zarr/metadata/json.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *read_text(const char *text, size_t size, char *printed, size_t room,
                             size_t *ret_offset)
{
    struct json_object *value = NULL;
    const char *problem = json_read(text, size, 8, &value, ret_offset);
    if (!problem)
        snprintf(printed, room, "%s",
                 json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(value);
    return problem;
}

static void good_texts(void **state)
{
    static const struct {
        const char *text, *printed; /* NULL: as the text */
    } cases[] = {
        {"[\"\xc2\xb0"
         "C\"]",
         NULL},
        {"[\"\xf0\x9f\x98\x80\",\"\xe2\x82\xac\"]", NULL},
        {"{\"\xc3\xa4\":{\"\xc3\xbc\":\"\xc3\xb6\\\"\xc3\x9f\"}}", NULL},
        {"[\"\\ud83d\\ude00\\\\\"]", "[\"\xf0\x9f\x98\x80\\\\\"]"},
        {"[\"\\ud83d\xc3\xa4\"]", "[\"\xef\xbf\xbd\xc3\xa4\"]"},
        {"[\"a\tb\nc\x01\",\"\x7f\"]", "[\"a\\tb\\nc\\u0001\",\"\x7f\"]"},
        {"{\"a\tb\":1}", "{\"a\\tb\":1}"},
        {"[18446744073709551615,-9223372036854775808]", NULL},
        {"[18446744073709551616,1]", "[18446744073709551615,1]"},
        {"{\"a\":-9223372036854775809}", "{\"a\":-9223372036854775808}"},
        {"[ 123456789012345678901234567890 ]", "[18446744073709551615]"},
        {"[1234567890123456789012,-1234567890123456789012]",
         "[18446744073709551615,-9223372036854775808]"},
        {"[0.12345678901234567890,1e-400,12345678901234567890.5,1234567890123456789012e1]", NULL},
        {"[\"1234567890123456789012\",\"[\xc3\xa4,1234567890123456789012\"]", NULL},
        {"[NaN,-Infinity,1.5]", NULL},
        {"\r\n\t {} \n", "{}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char printed[200];
        size_t offset;
        const char *problem =
            read_text(cases[i].text, strlen(cases[i].text), printed, sizeof printed, &offset);
        const char *expected = cases[i].printed ? cases[i].printed : cases[i].text;
        if (problem || strcmp(printed, expected) != 0)
            fail_msg("%s: %s at byte %zu, %s", cases[i].text, problem ? problem : "good", offset,
                     problem ? "" : printed);
    }
}

static void bad_texts(void **state)
{
    static const struct {
        const char *text;
        size_t offset;
        const char *problem; /* NULL: as json-c has it */
    } cases[] = {
        {"", 0, "it ends early"},
        {"[1,", 3, "it ends early"},
        {"[\"\xc3\xa4", 4, "it ends early"},
        {"[1234567890123456789012", 23, "it ends early"},
        {"[\"a\xff\"]", 3, NULL},
        {"{\"\xc3\xa4\xff\":1}", 4, NULL},
        {"[\"\xc3\"]", 3, NULL},
        {"[1,]", 3, NULL},
        {"{'a':1}", 1, NULL},
        {"[/* no */1]", 1, NULL},
        {"[1234567890123456789012/* no */]", 23, NULL},
        {"[\"\xc3\xa4\"/* no */]", 5, NULL},
        {"[1234567890123456789012x]", 23, NULL},
        {"[1234567890123456789012 2]", 24, NULL},
        {"[001234567890123456789012]", 25, NULL},
        {"[[[[[[[[[1]]]]]]]]]", 8, NULL},
        {"{} x", 3, "something follows the document"},
        {"{} \"\xc3\xa4\"", 3, "something follows the document"},
        {"12345678901234567890 x", 21, "something follows the document"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char printed[200];
        size_t offset = 77;
        const char *problem =
            read_text(cases[i].text, strlen(cases[i].text), printed, sizeof printed, &offset);
        if (!problem)
            fail_msg("%s is read as %s", cases[i].text, printed);
        if (offset != cases[i].offset ||
            (cases[i].problem && strcmp(problem, cases[i].problem) != 0))
            fail_msg("%s: %s at byte %zu", cases[i].text, problem, offset);
    }
}

/* A text is not looked at beyond its size. */
static void ends(void **state)
{
    static const char text[] = "{\"\xc3\xa4\\\"\":[1234567890123456789012,\"\xe2\x82\xac\\\\\"]}";
    (void)state;
    for (size_t size = 0; size < sizeof text - 1; size++) {
        char printed[200], *copy = malloc(size + 1);
        size_t offset;
        assert_non_null(copy);
        memcpy(copy, text, size);
        copy = realloc(copy, size > 0 ? size : 1);
        assert_non_null(read_text(copy, size, printed, sizeof printed, &offset));
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
