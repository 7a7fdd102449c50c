/* What --also says, and what a run of --also takes over from the training. */
#include "run/also.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void refuse(struct also_list *list, const char *text, const char *message)
{
    struct error err;
    int count = list->count;
    assert_int_equal(also_add(list, text, &err), STATUS_INVALID);
    if (!strstr(err.message, message))
        fail_msg("'%s' does not say '%s'", err.message, message);
    assert_int_equal(list->count, count);
}

static void runs_have_names_and_files(void **state)
{
    struct also_list list = {0};
    struct error err;
    (void)state;
    assert_int_equal(also_add(&list, "val=a=b.yaml", &err), STATUS_OK);
    assert_string_equal(list.runs[0].name, "val");
    assert_string_equal(list.runs[0].config_path, "a=b.yaml");
    assert_string_equal(list.runs[0].text, "val=a=b.yaml");
    refuse(&list, "val.yaml", "give a name and a file, as in --also val=val.yaml");
    refuse(&list, "=val.yaml", "give a name and a file");
    refuse(&list, "test=", "give a name and a file");
    refuse(&list, "a/b=val.yaml", "a name has at most 31 letters, digits, - and _");
    refuse(&list, "a23456789012345678901234567890123=val.yaml", "at most 31");
    refuse(&list, "val=other.yaml", "the name is given twice");
    static const char *const more[] = {"1=x", "2=x", "3=x", "4=x", "5=x", "6=x"};
    for (int i = 0; i < ALSO_MOST - 1; i++)
        assert_int_equal(also_add(&list, more[i], &err), STATUS_OK);
    refuse(&list, "last=x", "more than 7 --also runs");
}

static void the_trainers_are_the_trainings(void **state)
{
    const struct config training = {.trainers = 4,
                                    .epochs = 3,
                                    .reconnect_timeout_s = 5,
                                    .grace_s = 6,
                                    .drain_timeout_s = 7,
                                    .connect_timeout_s = 8,
                                    .slots = 9};
    struct config val = {.trainers = 1, .epochs = 2, .stall_warning_s = 60, .slots = 2};
    (void)state;
    struct also_common common = also_common_of(&training);
    also_adapt(&val, &common);
    assert_int_equal(val.trainers, 4);
    assert_int_equal(val.reconnect_timeout_s, 5);
    assert_int_equal(val.grace_s, 6);
    assert_int_equal(val.drain_timeout_s, 7);
    assert_int_equal(val.connect_timeout_s, 8);
    assert_int_equal(val.epochs, 0);
    assert_int_equal(val.stall_warning_s, 0);
    assert_int_equal(val.slots, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_have_names_and_files),
        cmocka_unit_test(the_trainers_are_the_trainings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
