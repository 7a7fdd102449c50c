/* Sources besides YAML text: files, the environment, --set; checks; and printing that reads back
 * the same. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct config defaults(void)
{
    struct config config;
    assert_int_equal(config_init(&config, NULL), STATUS_OK);
    return config;
}

static void set(struct config *config, const char *assignment)
{
    struct error err;
    if (config_set(config, assignment, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

static void expect_refused(const char *assignment, const char *message)
{
    struct config config = defaults();
    struct error err = {0};
    assert_int_equal(config_set(&config, assignment, &err), STATUS_INVALID);
    if (!strstr(err.message, message))
        fail_msg("'%s' gives '%s', not '%s'", assignment, err.message, message);
    config_done(&config);
}

static void assignments(void **state)
{
    (void)state;
    struct config c = defaults();
    set(&c, "order.seed=3");
    set(&c, "dataset.uri=a=b.zarr");
    set(&c, "readers.memory_limit=auto");
    set(&c, "readers.memory_limit=1.5GiB");
    set(&c, "dataset.fields.image=images");
    set(&c, "dataset.fields.text=clip_emb[segment_to_video]");
    set(&c, "dataset.fields.image=pictures");
    assert_int_equal(c.seed, 3);
    assert_string_equal(c.uri, "a=b.zarr");
    assert_int_equal(c.memory_limit_bytes, 3 << 29);
    assert_int_equal(c.field_count, 2);
    assert_string_equal(c.fields[0].array, "pictures");
    assert_string_equal(c.fields[1].array, "clip_emb");
    assert_string_equal(c.fields[1].index, "segment_to_video");
    config_done(&c);
    expect_refused("order.seed", "write section.key=value");
    expect_refused("order.sed=1",
                   "--set order.sed=1: unknown key 'order.sed': did you mean 'order.seed'?");
    expect_refused("order.seed=", "order.seed: '' is not a count");
    expect_refused("dataset.fields.x=a[b", "neither ARRAY nor ARRAY[INDEX]");
    expect_refused("dataset.fields.x=a[]", "index is empty");
    expect_refused("dataset.fields.x=[b]", "array is empty");
    expect_refused("dataset.fields.=a", "no name for a field");
    expect_refused("dataset.fields=a", "dataset.fields is a map");
    expect_refused("dataset.cuts=a", "dataset.cuts is a map");
    expect_refused(
        "dataset.fields.a.slice=3",
        "dataset.fields.a.slice is a map: write it in the YAML file, or one key at a time "
        "as dataset.fields.a.slice.KEY");
    expect_refused("dataset.fields.a.slice.=3", "an axis has a number or a name of 1 to 63 bytes");
    expect_refused("dataset.fields.a.steps=1,1", "step 1 comes after 1");
    expect_refused("dataset.fields.a.crop.at=left",
                   "'left' is not a choice; it takes random or center");
    expect_refused("dataset.fields.a.crop.lat=0", "'0' is not a number of indices above 0");
    expect_refused("dataset.fields.a.crop.lat=1:2", "'1:2' is not a number of indices above 0");
    expect_refused("samples.pad=1", "unknown key 'samples.pad'");
    expect_refused("samples.split_rang=1:2", "did you mean 'samples.split_range'?");
    expect_refused("batch.size=8", "unknown key 'batch.size': batch has: global_size, last");
    expect_refused("dataset.zarr_root_path=8", "dataset has: uri, group, exclude");
}

/* Whoever prints the configuration would tell. */
static void secrets_are_refused_anywhere(void **state)
{
    static const char *const keys[] = {"dataset.uri",
                                       "store.endpoint",
                                       "dataset.fields.a",
                                       "dataset.fields.a.array",
                                       "dataset.fields.a.index",
                                       "dataset.fields.a.mean",
                                       "dataset.fields.a.std",
                                       "dataset.fields.a.stats",
                                       "dataset.fields.a.store",
                                       "dataset.fields.a.scale",
                                       "dataset.fields.a.offset",
                                       "dataset.fields.a.slice.0",
                                       "dataset.fields.a.ragged.columns"};
    static const char *const values[] = {"https://me:hidden@host/stats.zarr:mean",
                                         "https://host/stats.zarr?sig=hidden",
                                         "me:hidden@host:9000"}; /* of an endpoint alone */
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (size_t v = 0; v < (i == 1 ? 3 : 2); v++) {
            struct config c = defaults();
            struct error err = {0};
            char assignment[200];
            snprintf(assignment, sizeof assignment, "%s=%s", keys[i], values[v]);
            if (config_set(&c, assignment, &err) != STATUS_INVALID ||
                strstr(err.message, "hidden") || !strstr(err.message, keys[i]) ||
                !strstr(err.message, "a user, a password or a signature in it"))
                fail_msg("%s: '%s'", assignment, err.message);
            config_done(&c);
        }
}

static void environment_over_file(void **state)
{
    (void)state;
    struct config c = defaults();
    const char *text = "order: {seed: 1, epochs: 7}";
    assert_int_equal(config_read_text(&c, text, strlen(text), "x", NULL, NULL), STATUS_OK);
    setenv("PENSTOCK_ORDER_SEED", "5", 1);
    setenv("PENSTOCK_BATCH_GLOBAL_SIZE", "64", 1);
    setenv("PENSTOCK_ORDER_EPOCHS", "", 1);
    setenv("PENSTOCK_SAMPLES_SPLIT_PARTS", "a:.5,b:.5", 1);
    assert_int_equal(config_read_environment(&c, NULL), STATUS_OK);
    assert_int_equal(c.seed, 5);
    assert_int_equal(c.global_batch, 64);
    assert_int_equal(c.epochs, 7);
    assert_int_equal(c.split_parts.count, 2);
    unsetenv("PENSTOCK_SAMPLES_SPLIT_PARTS");
    setenv("PENSTOCK_ORDER_SEED", "five", 1);
    struct error err;
    assert_int_equal(config_read_environment(&c, &err), STATUS_INVALID);
    assert_non_null(
        strstr(err.message, "environment variable PENSTOCK_ORDER_SEED: order.seed: 'five'"));
    unsetenv("PENSTOCK_ORDER_SEED");
    unsetenv("PENSTOCK_BATCH_GLOBAL_SIZE");
    unsetenv("PENSTOCK_ORDER_EPOCHS");
    config_done(&c);
}

static void unknown_variables(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"PENSTOCK_ORDER_SED", "environment variable PENSTOCK_ORDER_SED: unknown key 'order.sed': "
                               "did you mean 'order.seed'?"},
        {"PENSTOCK_BATCH_SIZE", "unknown key 'batch.size': batch has: global_size, last"},
        {"PENSTOCK_DATASET_FIELDS", "dataset.fields is a map"},
        {"PENSTOCK_READERS_", "unknown key 'readers.'"},
        {"PENSTOCK_METRICS_PORT", "unknown key 'metrics.port'"},
        {"PENSTOCK_METRICS_PORT_TCP", "unknown key 'metrics.port_tcp'"},
        {"PENSTOCK_METRICS_SERVICE", "unknown key 'metrics.service'"},
    };
    static const char *const others[] = {"PENSTOCK_RUN_DIR", "PENSTOCK_READER",
                                         "PENSTOCK_LIBRARY", "PENSTOCK_",
                                         "PENSTOCK_ORDER",   "PENSTOCK_ORDERLY_THING"};
    struct config c = defaults();
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct error err = {0};
        setenv(refused[i][0], "3", 1);
        assert_int_equal(config_read_environment(&c, &err), STATUS_INVALID);
        if (!strstr(err.message, refused[i][1]))
            fail_msg("%s gives '%s'", refused[i][0], err.message);
        setenv(refused[i][0], "", 1);
        assert_int_equal(config_read_environment(&c, NULL), STATUS_OK);
        unsetenv(refused[i][0]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        setenv(others[i], "3", 1);
        assert_int_equal(config_read_environment(&c, NULL), STATUS_OK);
        unsetenv(others[i]);
    }
    config_done(&c);
}

/* As pods have them beside services named penstock-metrics and penstock-store-s3. */
static void variables_of_kubernetes(void **state)
{
    (void)state;
    static const char *const services[][2] = {
        {"PENSTOCK_METRICS_SERVICE_HOST", "10.96.0.17"},
        {"PENSTOCK_METRICS_SERVICE_PORT", "9400"},
        {"PENSTOCK_METRICS_SERVICE_PORT_HTTP_2", "9400"},
        {"PENSTOCK_METRICS_PORT", "tcp://10.96.0.17:9400"},
        {"PENSTOCK_METRICS_PORT_9400_TCP", "tcp://10.96.0.17:9400"},
        {"PENSTOCK_METRICS_PORT_9400_TCP_PROTO", "tcp"},
        {"PENSTOCK_METRICS_PORT_53_UDP_ADDR", "10.96.0.17"},
        {"PENSTOCK_METRICS_PORT_9_SCTP_PORT", "9"},
        {"PENSTOCK_STORE_S3_SERVICE_HOST", "fd00::2"},
        {"PENSTOCK_STORE_S3_PORT", "udp://[fd00::2]:9"},
    };
    struct config c = defaults();
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++) {
        setenv(services[i][0], services[i][1], 1);
        assert_int_equal(config_read_environment(&c, NULL), STATUS_OK);
        unsetenv(services[i][0]);
    }
    config_done(&c);
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/penstock-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char text[] = "dataset: {uri: x.zarr}\norder: {sed: 2}\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    struct config c = defaults();
    struct error err;
    assert_int_equal(config_read_file(&c, path, &err), STATUS_INVALID);
    assert_memory_equal(err.message, path, strlen(path));
    assert_non_null(strstr(err.message, ":2: unknown key"));
    assert_string_equal(c.uri, "/tmp/x.zarr");
    unlink(path);
    assert_int_equal(config_read_file(&c, path, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(config_read_file(&c, "/tmp", &err), STATUS_IO);
    config_done(&c);
}

/* Splits that contradict themselves. */
static void splits(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"samples.episodes_ends=a", "samples.episodes_id=b", "dataset.uri=x",
         "more than one of samples.episodes_ends, samples.episodes_id and samples.episodes_jumps"},
        {"delivery.transform_processes=2", "dataset.uri=x", "dataset.uri=x",
         "delivery.transform has no `run`: give the command of the program"},
        {"samples.split_parts=a:.5", "dataset.uri=x", "dataset.uri=x",
         "samples.split_part is the name of one of samples.split_parts: set both, or none"},
        {"samples.split_parts=a:.5", "samples.split_part=b", "dataset.uri=x",
         "samples.split_part 'b' is none of samples.split_parts \"a:.5\""},
        {"samples.split_parts=a:.5", "samples.split_part=a", "samples.split_range=1:2",
         "samples.split_range and samples.split_parts are both set"},
        {"samples.split_gap=3", "dataset.uri=x", "dataset.uri=x",
         "samples.split_gap is set without samples.split_range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c = defaults();
        struct error err = {0};
        set(&c, "dataset.uri=x");
        for (size_t s = 0; s < 3; s++)
            set(&c, cases[i][s]);
        assert_int_equal(config_check(&c, &err), STATUS_INVALID);
        if (!strstr(err.message, cases[i][3]))
            fail_msg("'%s' and '%s' give '%s'", cases[i][0], cases[i][1], err.message);
        config_done(&c);
    }
}

static void checks(void **state)
{
    (void)state;
    struct config c = defaults();
    struct error err;
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "dataset.uri"));
    set(&c, "dataset.uri=x");
    assert_int_equal(config_check(&c, &err), STATUS_OK);
    set(&c, "readers.cache_dir=nvme/cache");
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "readers.cache_dir 'nvme/cache' is relative"));
    set(&c, "readers.cache_dir=/nvme/cache");
    assert_int_equal(config_check(&c, &err), STATUS_OK);
    set(&c, "delivery.trainers=3");
    assert_int_equal(config_check(&c, &err), STATUS_OK);
    set(&c, "delivery.trainers=300");
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    assert_non_null(
        strstr(err.message, "batch.global_size 256 is less than delivery.trainers 300"));
    config_done(&c);
}

/* Printed, read back and printed again: the same text, with nothing left at its default. */
static void prints_what_it_reads(void **state)
{
    (void)state;
    struct config c = defaults(), again = defaults();
    static const char *const assignments[] = {
        "dataset.uri=/a b/\"quoted\"\\ \x01\xc3\xa9: #x",
        "dataset.hold_limit=7",
        "batch.global_size=48",
        "batch.last=partial",
        "order.seed=18446744073709551615",
        "order.shuffle=false",
        "order.window_rows=9",
        "order.epochs=2",
        "readers.threads=3",
        "readers.bind=none",
        "readers.memory_limit=9007199254740993",
        "readers.cache=stored",
        "readers.cache_dir=/nvme/cache",
        "readers.cache_dir_bytes=9007199254740993",
        "delivery.trainers=16",
        "delivery.slots=5",
        "delivery.run_dir=/run/x",
        "delivery.connect_timeout=9",
        "exchange.steps_per_round=2",
        "exchange.buffer_limit=8192",
        "errors.bad_sample=fail",
        "dataset.fields.a: b=x",
        "dataset.fields.t=x/y[z]",
        "dataset.fields.t.cast=float16",
        "dataset.fields.t.scale=0.1",
        "dataset.fields.t.offset=-273.15",
        "dataset.fields.t.sample_axis=2",
        "dataset.group=g/h",
        "dataset.exclude=a,b*",
        "dataset.sample_axis=time",
        "dataset.fields.t.steps=-3:4",
        "dataset.fields.t.segments=true",
        "dataset.fields.t.crop.lat=4",
        "dataset.fields.t.crop.1=7",
        "dataset.fields.t.crop.1=8",
        "dataset.fields.t.crop.at=random",
        "dataset.fields.t.crop.group=3",
        "dataset.fields.t.mean=stats/mean",
        "dataset.fields.t.std=stats/std",
        "dataset.fields.t.cf=true",
        "dataset.fields.t.slice.lat=10:20",
        "dataset.fields.t.slice.a \"channel\".x=[t2m,u\\,v]",
        "dataset.fields.a: b.steps=0,6,12",
        "samples.episodes_ends=meta/ends",
        "samples.episodes_id=id",
        "samples.continuous=true",
        "samples.stride=3",
        "samples.pad_before=1",
        "samples.pad_after=2",
        "samples.fill=zero",
        "samples.missing=m",
        "samples.where=w",
        "samples.split_part=val",
        "samples.split_by=sample",
        "samples.split_parts=train:.9,v\\,al:0.05",
        "samples.split_seed=18446744073709551615",
        "samples.split_range=5:77",
        "samples.split_gap=2",
        "samples.segments=docs",
        "samples.row_chunks=4",
    };
    for (size_t i = 0; i < sizeof assignments / sizeof assignments[0]; i++)
        set(&c, assignments[i]);
    struct text first = {0}, second = {0};
    struct error err = {0};
    config_print(&c, &first);
    if (config_read_text(&again, first.data, first.length, "printed", NULL, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    config_print(&again, &second);
    assert_string_equal(first.data, second.data);
    assert_string_equal(again.uri, c.uri);
    assert_int_equal(again.field_count, 2);
    assert_string_equal(again.fields[0].name, "a: b");
    assert_string_equal(again.fields[1].index, "z");
    assert_int_equal(again.fields[1].cast, DTYPE_FLOAT16);
    assert_true(again.fields[1].scale == 0.1 && again.fields[1].offset == -273.15);
    assert_string_equal(again.fields[1].sample_axis, "2");
    assert_string_equal(again.group, "g/h");
    assert_string_equal(again.exclude, "a,b*");
    assert_string_equal(again.sample_axis, "time");
    assert_true(again.memory_limit_bytes == UINT64_C(9007199254740993));
    assert_true(again.seed == UINT64_MAX);
    assert_int_equal(again.fields[1].step_count, 7);
    assert_int_equal(again.fields[1].steps[0], -3);
    assert_true(again.fields[1].segments && again.fields[1].cf);
    assert_string_equal(again.fields[1].mean, "stats/mean");
    assert_string_equal(again.fields[1].std, "stats/std");
    assert_true(again.fields[1].crop_count == 2 && again.fields[1].crop_at == CROP_RANDOM &&
                again.fields[1].crop_group == 3);
    assert_string_equal(again.fields[1].crops[1].axis, "1");
    assert_int_equal(again.fields[1].crops[1].length, 8);
    assert_string_equal(again.fields[1].slices[0].indices, "10:20");
    assert_string_equal(again.fields[1].slices[1].axis, "a \"channel\".x");
    assert_string_equal(again.fields[1].slices[1].indices, "[t2m,u\\,v]");
    assert_int_equal(again.fields[0].step_count, 3);
    assert_true(again.stride == 3 && again.pad_before == 1 && again.pad_after == 2);
    assert_true(again.split_range.begin == 5 && again.split_range.end == 77);
    assert_string_equal(again.split_parts.parts[1].name, "v,al");
    assert_true(again.split_parts.parts[1].fraction == 0.05);
    text_done(&first);
    text_done(&second);
    config_done(&again);
    config_done(&c);
}

static void defaults_print_and_read(void **state)
{
    (void)state;
    struct config c = defaults(), again = defaults();
    struct text out = {0};
    config_print(&c, &out);
    assert_int_equal(config_read_text(&again, out.data, out.length, "printed", "/else", NULL),
                     STATUS_OK);
    assert_string_equal(again.uri, "");
    assert_int_equal(again.threads, 0);
    text_done(&out);
    config_done(&again);
    config_done(&c);
}

static void help_names_every_option(void **state)
{
    (void)state;
    struct text help = {0}, markdown = {0};
    config_help(&help);
    config_help_markdown(&markdown);
#define NAMED(key, member, type, preset, low, high, order, words) \
    assert_non_null(strstr(help.data, key));                      \
    assert_non_null(strstr(markdown.data, "`" key "`"));
    CONFIG_TABLE(NAMED)
    assert_non_null(strstr(markdown.data, "drop, pad or partial"));
    assert_non_null(strstr(markdown.data, "18446744073709551615 | yes | seed of"));
    assert_non_null(strstr(markdown.data, "8.00 EiB | no | joined"));
    text_done(&help);
    text_done(&markdown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments),
        cmocka_unit_test(secrets_are_refused_anywhere),
        cmocka_unit_test(environment_over_file),
        cmocka_unit_test(unknown_variables),
        cmocka_unit_test(variables_of_kubernetes),
        cmocka_unit_test(files),
        cmocka_unit_test(checks),
        cmocka_unit_test(splits),
        cmocka_unit_test(prints_what_it_reads),
        cmocka_unit_test(defaults_print_and_read),
        cmocka_unit_test(help_names_every_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
