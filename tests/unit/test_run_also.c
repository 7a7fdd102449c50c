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
                                    .mesh = "dp:2,tp:2",
                                    .mesh_data = "dp",
                                    .epochs = 3,
                                    .reconnect_timeout_s = 5,
                                    .grace_s = 6,
                                    .drain_timeout_s = 7,
                                    .connect_timeout_s = 8,
                                    .slots = 9};
    struct config val;
    struct error err;
    (void)state;
    assert_int_equal(config_init(&val, NULL), STATUS_OK);
    assert_int_equal(config_set(&val, "dataset.uri=/a.zarr", &err), STATUS_OK);
    assert_int_equal(config_set(&val, "dataset.fields.a.only.tp=1", &err), STATUS_OK);
    assert_int_equal(config_set(&val, "delivery.slots=2", &err), STATUS_OK);
    struct also_common common = also_common_of(&training);
    assert_int_equal(config_check_beside(&val, &err), STATUS_OK);
    assert_int_equal(also_adapt(&val, &common, &err), STATUS_OK);
    assert_string_equal(val.mesh, "dp:2,tp:2");
    assert_string_equal(val.mesh_data, "dp");
    assert_int_equal(val.trainers, 4);
    assert_int_equal(val.reconnect_timeout_s, 5);
    assert_int_equal(val.grace_s, 6);
    assert_int_equal(val.drain_timeout_s, 7);
    assert_int_equal(val.connect_timeout_s, 8);
    assert_int_equal(val.epochs, 0);
    assert_int_equal(val.stall_warning_s, 0);
    assert_int_equal(val.slots, 2);
    common.mesh[strcspn(common.mesh, ",")] = '\0'; /* no axis tp, and 2 of 4 ranks */
    assert_int_equal(also_adapt(&val, &common, &err), STATUS_INVALID);
    config_done(&val);
}

/* `file`, `list` and `listen` are only read. */
static void outputs(const char *run, char *file, char *list, char *listen,
                    struct also_outputs *ret_outputs)
{
    const struct config config = {.metrics_file = file,
                                  .bad_list = list,
                                  .bad_sample = BAD_SAMPLE_MASK,
                                  .metrics_listen = listen};
    also_outputs_of(&config, run, 2, ret_outputs);
}

static void expect_clash(const struct also_outputs *mine, const struct also_outputs *other,
                         const char *message)
{
    struct error err;
    assert_int_equal(also_compare_outputs(mine, other, &err), STATUS_INVALID);
    if (!strstr(err.message, message))
        fail_msg("'%s' does not say '%s'", err.message, message);
}

static void each_run_has_its_own_files_and_ports(void **state)
{
    static struct also_outputs train, val, test;
    struct error err;
    (void)state;
    outputs(NULL, "/tmp/a.prom", "bad.jsonl", "127.0.0.1:9400", &train);
    outputs("val", "/tmp/b.prom", "val.jsonl", "127.0.0.1:9402", &val);
    assert_int_equal(also_compare_outputs(&val, &train, &err), STATUS_OK);
    outputs("test", "", "", "", &test);
    assert_int_equal(also_compare_outputs(&test, &test, &err), STATUS_OK);
    outputs("test", "", "", "127.0.0.1:0", &test);
    assert_int_equal(also_compare_outputs(&test, &test, &err), STATUS_OK);
    outputs("test", "/tmp/../tmp/a.prom", "", "", &test);
    expect_clash(&test, &train, "metrics.file '/tmp/a.prom' is that of the run that is trained on");
    outputs("test", "", "./val.jsonl", "", &test);
    expect_clash(&test, &val, "is that of run 'val', too: give each run a file of its own");
    outputs("test", "", "/tmp/a.prom", "", &test);
    expect_clash(&test, &train, "errors.report '/tmp/a.prom' is that of the run that is");
    outputs("test", "", "", "127.0.0.1:9401", &test);
    expect_clash(&test, &train, "metrics.listen '127.0.0.1:9401': readers of the run that is");
    expect_clash(&test, &val, "which has '127.0.0.1:9402', listen at the same ports");
    outputs("test", "", "", "0.0.0.0:9401", &test);
    expect_clash(&test, &train, "metrics.listen '0.0.0.0:9401': readers of the run that is");
    expect_clash(&train, &test, "metrics.listen '127.0.0.1:9400': readers of run 'test'");
    outputs("test", "", "", "127.0.0.2:9401", &test);
    assert_int_equal(also_compare_outputs(&test, &train, &err), STATUS_OK);
    outputs("test", "", "", "[::]:9401", &test);
    expect_clash(&test, &train, "metrics.listen '[::]:9401': readers of the run that is");
    outputs("val", "", "", "[::1]:9401", &val);
    expect_clash(&test, &val, "metrics.listen '[::]:9401': readers of run 'val'");
    outputs("test", "", "", "[::1]:9401", &test);
    assert_int_equal(also_compare_outputs(&test, &train, &err), STATUS_OK);
}

static void a_list_that_is_not_written_is_nobodys(void **state)
{
    static struct also_outputs outputs;
    char path[] = "bad.jsonl", none[] = "";
    const struct config config = {.metrics_file = none, .bad_list = path, .metrics_listen = none};
    struct error err;
    (void)state;
    also_outputs_of(&config, "val", 1, &outputs);
    assert_int_equal(also_compare_outputs(&outputs, &outputs, &err), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_have_names_and_files),
        cmocka_unit_test(the_trainers_are_the_trainings),
        cmocka_unit_test(each_run_has_its_own_files_and_ports),
        cmocka_unit_test(a_list_that_is_not_written_is_nobodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
