/* mix.sources: files and maps, weights as ratios, and what is refused. */
#include "config/config.h"
#include "zarr_fixture.h"

static enum status read_mix(struct config *config, const char *sources, const char *folder,
                            struct error *err)
{
    struct text text = {0};
    assert_int_equal(config_init(config, NULL), STATUS_OK);
    text_append(&text, "mix:\n  sources: [%s]\n", sources);
    enum status status = config_read_text(config, text.data, text.length, "run.yaml", folder, err);
    text_done(&text);
    return status != STATUS_OK ? status : config_check(config, err);
}

/* A source with that weight. */
#define SOURCE(weight) "{config: {dataset: {uri: /a.zarr}}, weight: " weight "}"

static void assert_ratio(const char *sources, uint32_t a, uint32_t b)
{
    struct config config;
    struct error err;
    assert_ok(read_mix(&config, sources, NULL, &err), &err);
    assert_int_equal(config.source_count, 2);
    assert_int_equal(config.sources[0].weight, a);
    assert_int_equal(config.sources[1].weight, b);
    config_done(&config);
}

static void weights_are_a_ratio(void **state)
{
    (void)state;
    assert_ratio(SOURCE("0.5") "," SOURCE("0.5"), 1, 1);
    assert_ratio(SOURCE(".7") "," SOURCE("0.300"), 7, 3);
    assert_ratio(SOURCE("4") "," SOURCE("6"), 2, 3);
    assert_ratio(SOURCE("0.3333333") "," SOURCE("0.6666667"), 3333333, 6666667);
    assert_ratio(SOURCE("0.3333333") "," SOURCE("0.6666660"), 1111111, 2222220); /* a millionth */
    assert_ratio(SOURCE("2000000000") "," SOURCE("2"), 1000000000, 1);
}

static void assert_refused(const char *sources, const char *folder, const char *part)
{
    struct config config;
    struct error err;
    assert_int_not_equal(read_mix(&config, sources, folder, &err), STATUS_OK);
    if (!strstr(err.message, part))
        fail_msg("%s: %s", sources, err.message);
    config_done(&config);
}

static void bad_weights_are_refused(void **state)
{
    (void)state;
    assert_refused(SOURCE("-0.5") "," SOURCE("1.5"), NULL,
                   "run.yaml:2: mix.sources: the weight '-0.5' of '/a.zarr' is negative");
    assert_refused(SOURCE("0") "," SOURCE("1"), NULL, "'0' of '/a.zarr' is no positive");
    assert_refused(SOURCE("0.0") "," SOURCE("1"), NULL, "'0.0' of '/a.zarr' is no positive");
    assert_refused(SOURCE("half") "," SOURCE("1"), NULL, "'half' of '/a.zarr' is no positive");
    assert_refused(SOURCE("nan"), NULL, "'nan' of '/a.zarr' is no positive");
    assert_refused(SOURCE("1e-1"), NULL, "'1e-1' of '/a.zarr' is no positive");
    assert_refused(SOURCE("0.5") "," SOURCE("0.4"), NULL, "the weights sum to 0.9, not to 1");
    assert_refused(SOURCE("0.5") "," SOURCE("1"), NULL, "the weights sum to 1.5, not to 1");
    assert_refused(SOURCE("0.5") "," SOURCE("0.500002"), NULL, "sum to 1.000002, not to 1");
    assert_refused(SOURCE("0.0000000001"), NULL, "9 digits behind the point");
    assert_refused(SOURCE("3000000001") "," SOURCE("1"), NULL, "ratio of the weights is too fine");
}

static void bad_sources_are_refused(void **state)
{
    (void)state;
    assert_refused("", NULL, "mix.sources has no source");
    assert_refused("x", NULL, "mix.sources must be a list of maps");
    assert_refused("{weight: 1}", NULL, "mix.sources must be a list of maps");
    assert_refused("{config: a.yaml, weight: 1}", NULL, "mix.sources must be a list of maps");
    assert_refused("{config: {}, weight: 1, wait: 2}", NULL, "unknown key 'wait'");
    assert_refused("{config: {}, weight: 1, weight: 2}", NULL, "'weight' is given twice");
    assert_refused("{config: {}, weight: 1}", NULL, "mix.sources: '': dataset.uri is not set");
    assert_refused("{config: {dataset: {url: x}}, weight: 1}", NULL,
                   "unknown key 'dataset.url': did you mean 'dataset.uri'");
    assert_refused(
        SOURCE("1") ",{config: {dataset: {uri: /b.zarr, fields: {a: {array: a, only: {dp: "
                    "first}}}}}, weight: 1}",
        NULL, "source '/b.zarr': dataset.fields.a.only.dp: the first source says");
    assert_refused("{config: {mix: {samples: 3}}, weight: 1}", NULL, "a mix within a mix");
    assert_refused("{config: none.yaml, weight: 1}", "/nowhere",
                   "run.yaml:2: open configuration '/nowhere/none.yaml'");
    struct text many = {0};
    for (int i = 0; i < 65; i++)
        text_append(&many, "%s" SOURCE("1"), i ? "," : "");
    assert_refused(many.data, NULL, "mix.sources: more than 64");
    text_done(&many);
}

/* Options that sources have are those of the sources alone. */
static void outer_options_are_refused(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "dataset.uri=/b.zarr", "dataset.group=g",     "dataset.fields.x=x",
        "samples.stride=2",    "order.shuffle=false", "order.window_rows=3",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct config config;
        struct error err;
        assert_ok(read_mix(&config, SOURCE("1"), NULL, &err), &err);
        assert_ok(config_set(&config, settings[i], &err), &err);
        assert_int_equal(config_check(&config, &err), STATUS_INVALID);
        assert_non_null(strstr(err.message, "is set beside mix.sources"));
        config_done(&config);
    }
    struct config config;
    struct error err;
    assert_ok(read_mix(&config, SOURCE("1"), NULL, &err), &err);
    assert_ok(config_set(&config, "dataset.hold_limit=5", &err), &err);
    assert_ok(config_check(&config, &err), &err);
    config_done(&config);
    assert_ok(config_init(&config, &err), &err);
    assert_ok(config_set(&config, "dataset.uri=/b.zarr", &err), &err);
    assert_ok(config_set(&config, "mix.samples=7", &err), &err);
    assert_int_equal(config_check(&config, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "mix.samples is set without mix.sources"));
    config_done(&config);
}

/* Files that name files: each path starts at the folder of the file that has the path. */
static void files_are_read(void **state)
{
    struct fixture *fixture = *state;
    struct config config;
    struct error err;
    char path[128], setting[256];
    fixture_put(fixture, "runs/mix.yaml",
                "mix:\n  samples: 90\n  sources:\n"
                "    - {config: ../data/a.yaml, weight: 3}\n"
                "    - {config: ../data/c.yaml, weight: 2, name: third}\n"
                "    - {config: ../data/b.yaml, weight: 1, name: second}\n"
                "batch: {global_size: 8}\n");
    fixture_put(fixture, "data/a.yaml",
                "dataset: {uri: a.zarr, fields: {x: y}}\nsamples: {stride: 3}\n"
                "order: {seed: 7, window_rows: 5, shuffle: false}\nbatch: {global_size: 99}\n");
    fixture_put(fixture, "data/b.yaml", "dataset: {uri: 'icechunk://b@v 1'}\n");
    fixture_put(fixture, "data/c.yaml", "dataset: {uri: 'reference://c.json'}\n");
    snprintf(path, sizeof path, "%s/runs/mix.yaml", fixture->path);
    assert_int_equal(config_init(&config, NULL), STATUS_OK);
    assert_ok(config_read_file(&config, path, &err), &err);
    assert_ok(config_check(&config, &err), &err);
    assert_int_equal(config.mix_samples, 90);
    assert_int_equal(config.global_batch, 8);
    assert_int_equal(config.seed, 0);
    assert_int_equal(config.source_count, 3);
    assert_string_equal(config.sources[0].name, "../data/a.yaml");
    assert_string_equal(config.sources[2].name, "second");
    const struct config *a = config.sources[0].config;
    snprintf(path, sizeof path, "%s/runs/../data/a.zarr", fixture->path);
    assert_string_equal(a->uri, path);
    assert_int_equal(a->stride, 3);
    assert_int_equal(a->window_rows, 5);
    assert_false(a->shuffle);
    assert_string_equal(a->fields[0].array, "y");
    snprintf(path, sizeof path, "icechunk://%s/runs/../data/b@v 1", fixture->path);
    assert_string_equal(config.sources[2].config->uri, path);
    snprintf(path, sizeof path, "reference://%s/runs/../data/c.json", fixture->path);
    assert_string_equal(config.sources[1].config->uri, path);
    snprintf(setting, sizeof setting, "mix.sources=%s/data/b.yaml:2", fixture->path);
    assert_ok(config_set(&config, setting, &err), &err);
    assert_int_equal(config.source_count, 1);
    assert_int_equal(config.sources[0].weight, 1);
    assert_ok(config_set(&config, "batch.budget_field=x", &err), &err);
    assert_int_equal(config_check(&config, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "belong together"));
    assert_ok(config_set(&config, "batch.budget_items=9", &err), &err);
    assert_ok(config_check(&config, &err), &err);
    assert_int_equal(config_set(&config, "mix.sources=b.yaml", &err), STATUS_INVALID);
    config_done(&config);
}

/* Two sources, a with the weight `weight` unless it is "", and b; and a schedule. */
static enum status read_schedule(struct config *config, const char *weight, const char *schedule,
                                 struct error *err)
{
    struct text text = {0};
    assert_int_equal(config_init(config, NULL), STATUS_OK);
    text_append(&text,
                "mix:\n  sources:\n    - {name: a, config: {dataset: {uri: /a.zarr}}%s%s}\n"
                "    - {name: b, config: {dataset: {uri: /b.zarr}}%s%s}\n  schedule:\n%s",
                *weight ? ", weight: " : "", weight, *weight ? ", weight: " : "",
                *weight ? "1" : "", schedule);
    enum status status = config_read_text(config, text.data, text.length, "run.yaml", NULL, err);
    text_done(&text);
    return status != STATUS_OK ? status : config_check(config, err);
}

static void schedules_are_read(void **state)
{
    (void)state;
    struct config config, again;
    struct config_weights weights[CONFIG_MAX_WEIGHTS];
    struct text printed = {0};
    struct error err;
    uint32_t count = 0;
    assert_ok(read_schedule(&config, "2",
                            "    - {step: 7, weights: {b: 5}}\n"
                            "    - {step: 70, weights: {b: 0.25, a: .75}, ramp: linear}\n",
                            &err),
              &err);
    config_print(&config, &printed);
    assert_int_equal(config_init(&again, NULL), STATUS_OK);
    assert_ok(config_read_text(&again, printed.data, printed.length, "x", "/", &err), &err);
    assert_ok(config_mix_weights(&again, weights, &count, &err), &err);
    assert_int_equal(count, 3);
    assert_true(weights[0].step == 0 && weights[0].of[0] == 2 && weights[0].of[1] == 1);
    assert_true(weights[1].step == 7 && weights[1].of[0] == 0 && weights[1].of[1] == 1);
    assert_true(weights[2].step == 70 && weights[2].of[0] == 3 && weights[2].of[1] == 1);
    assert_true(!weights[1].ramp && weights[2].ramp);
    const char *set = "mix.schedule=[{step: 0, weights: {b: 1}}]"; /* instead of sources' weights */
    assert_ok(config_set(&config, set, &err), &err);
    assert_ok(config_mix_weights(&config, weights, &count, &err), &err);
    assert_true(count == 1 && weights[0].of[0] == 0 && weights[0].of[1] == 1);
    config_done(&config);
    config_done(&again);
    text_done(&printed);
}

static void bad_schedules_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"1", "    - 7\n", "run.yaml:6: mix.schedule: an item is no map"},
        {"1", "    - {weights: {a: 1}}\n", "an entry lacks step or weights"},
        {"1", "    - {step: 1}\n", "an entry lacks step or weights"},
        {"1", "    - {step: 1, weights: {a: 1}, lamp: 1}\n", "'lamp' is no key of an entry"},
        {"1", "    - {step: 1, weights: 7}\n", "'weights' is no key of an entry, or has the wrong"},
        {"1", "    - {step: 1, weights: {a: [1]}}\n", "weights must be a map of sources' names"},
        {"1", "    - {step: 1, weights: {a: 1, a: 2}}\n", "'a' is given twice"},
        {"1", "    - {step: -1, weights: {a: 1}}\n", "step '-1': it is a whole number"},
        {"1", "    - {step: 1e3, weights: {a: 1}}\n", "step '1e3': it is a whole number"},
        {"1", "    - {step: 999999999999999, weights: {a: 1}}\n", "0 to 2^48"},
        {"1", "    - {step: 1, weights: {a: 1}, ramp: cubic}\n",
         "ramp 'cubic': linear is possible"},
        {"1", "    - {step: 0, weights: {a: 1}, ramp: linear}\n",
         "the entry for step 0 has a ramp"},
        {"1", "    - {step: 1, weights: {c: 1}}\n", "no source is named 'c': there is 'a', 'b'"},
        {"1", "    - {step: 1, weights: {a: -1}}\n", "step 1: the weight '-1' of 'a' is negative"},
        {"1", "    - {step: 1, weights: {a: x}}\n", "step 1: the weight 'x' of 'a' is no decimal"},
        {"1", "    - {step: 1, weights: {a: 0}}\n", "step 1: all weights are 0"},
        {"1", "    - {step: 1, weights: {}}\n", "step 1: all weights are 0"},
        {"1", "    - {step: 1, weights: {a: 0.5, b: 0.4}}\n", "step 1: the weights sum to 0.9"},
        {"1", "    - {step: 2, weights: {a: 1}}\n    - {step: 2, weights: {b: 1}}\n",
         "step 2 comes behind step 2: put entries in rising order"},
        {"", "    - {step: 2, weights: {a: 1}}\n",
         "begins at step 2: give an entry for step 0, or"},
        {"", "    []\n", "'a' has no weight: give each source one, or mix.schedule weights"},
        {"1", "    x\n", "mix.schedule: it is no list"},
        {"1", "    {step: 1}\n", "mix.schedule must be a single value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config config;
        struct error err;
        assert_int_equal(read_schedule(&config, cases[i][0], cases[i][1], &err), STATUS_INVALID);
        if (!strstr(err.message, cases[i][2]))
            fail_msg("%s: %s", cases[i][1], err.message);
        config_done(&config);
    }
    assert_refused(SOURCE("1") ",{config: {dataset: {uri: /b.zarr}}}", NULL,
                   "'/b.zarr' has no weight, and others have");
    struct config config;
    struct error err;
    assert_ok(read_mix(&config, SOURCE("1") "," SOURCE("1"), NULL, &err), &err);
    assert_ok(config_set(&config, "mix.schedule=[{step: 1, weights: {/a.zarr: 1}}]", &err), &err);
    assert_int_equal(config_check(&config, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "two sources are named '/a.zarr'"));
    config_done(&config);
}

/* So do readers get theirs from rank 0, which alone reads files. */
static void what_is_printed_is_read_back(void **state)
{
    (void)state;
    struct config config, again;
    struct text first = {0}, second = {0};
    struct error err;
    assert_ok(
        read_mix(&config,
                 "{config: {dataset: {uri: '/a b\"', fields: {x: {array: y, steps: '0:3'}}}, "
                 "samples: {pad: {after: 2}, split: {part: t, parts: {t: .5, v: .5}}}, order: "
                 "{shuffle: false}}, weight: 0.25, name: \"it's \\\"a\\\"\"}," SOURCE(".75"),
                 NULL, &err),
        &err);
    config_print(&config, &first);
    assert_int_equal(config_init(&again, NULL), STATUS_OK);
    assert_ok(config_read_text(&again, first.data, first.length, "printed", "/", &err), &err);
    config_print(&again, &second);
    assert_string_equal(first.data, second.data);
    assert_int_equal(again.sources[1].weight, 3);
    assert_string_equal(again.sources[0].name, "it's \"a\"");
    assert_int_equal(again.sources[0].config->fields[0].step_count, 3);
    config_done(&config);
    config_done(&again);
    text_done(&first);
    text_done(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_a_ratio),
        cmocka_unit_test(bad_weights_are_refused),
        cmocka_unit_test(bad_sources_are_refused),
        cmocka_unit_test(outer_options_are_refused),
        cmocka_unit_test_setup_teardown(files_are_read, fixture_setup, fixture_teardown),
        cmocka_unit_test(what_is_printed_is_read_back),
        cmocka_unit_test(schedules_are_read),
        cmocka_unit_test(bad_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
