/* Ragged fields in the configuration: all of their keys, from YAML and from --set, and back. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config read_yaml(const char *text)
{
    struct config config;
    struct error err = {0};
    assert_int_equal(config_init(&config, &err), STATUS_OK);
    if (config_read_text(&config, text, strlen(text), "run.yaml", NULL, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return config;
}

static const char *const all_forms =
    "dataset:\n  fields:\n"
    "    events:\n"
    "      ragged: {offsets: e/offsets, index: [e/bin, 'e/y, z'], values: e/count}\n"
    "      deliver: {dense: [20, 360], combine: max}\n"
    "      cast: uint8\n"
    "      steps: '0:10'\n"
    "    tokens: {ragged: {offsets: o, values: t}, deliver: {pad: 512, truncate: true}}\n"
    "    points: {ragged: {offsets: o, columns: [xyz, i]}, deliver: csr}\n"
    "    X: {array: X, deliver: dense}\n"
    "    one: {ragged: {offsets: o, columns: xyz}}\n";

static void check_all(const struct config *c)
{
    const struct dataset_field_spec *f = c->fields;
    assert_int_equal(c->field_count, 5);
    assert_string_equal(f[0].ragged.offsets, "e/offsets");
    assert_string_equal(f[0].ragged.index, "e/bin,e/y\\, z");
    assert_string_equal(f[0].ragged.values, "e/count");
    assert_null(f[0].ragged.columns);
    assert_int_equal(f[0].deliver.form, RAGGED_DENSE);
    assert_int_equal(f[0].deliver.combine, RAGGED_MAX);
    assert_int_equal(f[0].deliver.dense_rank, 2);
    assert_int_equal(f[0].deliver.dense_shape[1], 360);
    assert_int_equal(f[0].cast, DTYPE_UINT8);
    assert_int_equal(f[1].deliver.form, RAGGED_PAD);
    assert_int_equal(f[1].deliver.pad_items, 512);
    assert_true(f[1].deliver.truncates);
    assert_string_equal(f[2].ragged.columns, "xyz,i");
    assert_int_equal(f[2].deliver.form, RAGGED_CSR);
    assert_true(f[2].deliver.is_given);
    assert_int_equal(f[3].deliver.form, RAGGED_DENSE);
    assert_int_equal(f[3].deliver.dense_rank, 0);
    assert_string_equal(f[4].ragged.columns, "xyz");
    assert_false(f[4].deliver.is_given);
}

static void all_keys(void **state)
{
    (void)state;
    struct config c = read_yaml(all_forms);
    check_all(&c);
    config_done(&c);
}

static void printed_and_read_again(void **state)
{
    (void)state;
    struct config c = read_yaml(all_forms);
    struct text first = {0}, second = {0};
    config_print(&c, &first);
    struct config again = read_yaml(first.data);
    check_all(&again);
    config_print(&again, &second);
    assert_string_equal(first.data, second.data);
    text_done(&first);
    text_done(&second);
    config_done(&c);
    config_done(&again);
}

static void set_one_by_one(void **state)
{
    (void)state;
    static const char *const assignments[] = {
        "dataset.fields.events.ragged.offsets=e/offsets",
        "dataset.fields.events.ragged.index=[e/bin,e/y\\, z]",
        "dataset.fields.events.ragged.values=e/count",
        "dataset.fields.events.deliver.dense=[1]",
        "dataset.fields.events.deliver.dense=20,360",
        "dataset.fields.events.deliver.combine=max",
        "dataset.fields.events.cast=uint8",
        "dataset.fields.tokens.deliver.pad=512",
        "dataset.fields.tokens.deliver.truncate=true",
        "dataset.fields.points.deliver=dense",
        "dataset.fields.points.deliver=csr",
        "dataset.fields.points.ragged.columns=[ xyz , i ]",
        "dataset.fields.X.deliver=dense",
        "dataset.fields.one.ragged.columns=xyz",
    };
    struct config c;
    struct error err = {0};
    assert_int_equal(config_init(&c, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof assignments / sizeof assignments[0]; i++)
        if (config_set(&c, assignments[i], &err) != STATUS_OK)
            fail_msg("%s", err.message);
    check_all(&c);
    config_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys),
        cmocka_unit_test(printed_and_read_again),
        cmocka_unit_test(set_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
