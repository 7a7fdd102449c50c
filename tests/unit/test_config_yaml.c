/* The YAML reader: what it takes, and that every mistake is named with its line. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status read_text(struct config *config, const char *text, struct error *err)
{
    assert_int_equal(config_init(config, NULL), STATUS_OK);
    return config_read_text(config, text, strlen(text), "run.yaml", "/data/runs", err);
}

static struct config good(const char *text)
{
    struct config config;
    struct error err = {0};
    if (read_text(&config, text, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return config;
}

static void every_section(void **state)
{
    (void)state;
    struct config c = good(
        "dataset:\n"
        "  uri: latents.zarr   # a comment\n"
        "  fields:\n"
        "    latents: {array: base_frames}\n"
        "    text:    {array: clip_emb, index: segment_to_video}\n"
        "    plain: other\n"
        "    near: {stats: s.zarr, store: sst.zarr, scale: s.zarr::near/scale, offset: t/offset}\n"
        "    far: {mean: '/s.zarr::/far/mean', std: 's3://b/s::far/std'}\n"
        "batch:   {global_size: 512, last: pad}\n"
        "order:   {seed: 18446744073709551615, shuffle: false, window_rows: auto, epochs: 3}\n"
        "readers: {threads: auto, bind: core, memory_limit: 32GiB, cache: off}\n"
        "delivery: {trainers: 8, slots: 6, run_dir: auto}\n"
        "exchange: {steps_per_round: 2}\n"
        "errors:  {bad_sample: fail}\n");
    assert_string_equal(c.uri, "/data/runs/latents.zarr");
    assert_int_equal(c.field_count, 5);
    assert_string_equal(c.fields[0].name, "latents");
    assert_string_equal(c.fields[0].array, "base_frames");
    assert_null(c.fields[0].index);
    assert_string_equal(c.fields[1].index, "segment_to_video");
    assert_string_equal(c.fields[2].array, "other");
    assert_string_equal(c.fields[3].stats, "/data/runs/s.zarr"); /* as the uri */
    assert_string_equal(c.fields[3].store, "/data/runs/sst.zarr");
    assert_string_equal(c.fields[3].scale_at, "/data/runs/s.zarr::near/scale");
    assert_string_equal(c.fields[3].offset_at, "t/offset");
    assert_string_equal(c.fields[4].mean, "/s.zarr::/far/mean");
    assert_string_equal(c.fields[4].std, "s3://b/s::far/std");
    assert_int_equal(c.global_batch, 512);
    assert_int_equal(c.last, PLAN_PAD);
    assert_true(c.seed == UINT64_MAX);
    assert_false(c.shuffle);
    assert_int_equal(c.window_rows, 0);
    assert_int_equal(c.epochs, 3);
    assert_int_equal(c.bind, BIND_CORE);
    assert_true(c.memory_limit_bytes == UINT64_C(32) << 30);
    assert_int_equal(c.cache, CACHE_OFF);
    assert_int_equal(c.slots, 6);
    assert_int_equal(c.steps_per_round, 2);
    assert_int_equal(c.connect_timeout_s, 120);
    config_done(&c);
}

static void empty_files_and_sections(void **state)
{
    (void)state;
    const char *const texts[] = {"", "# nothing\n", "---\n", "batch:\norder: {}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config c = good(texts[i]);
        assert_int_equal(c.global_batch, 256);
        assert_int_equal(c.field_count, 0);
        config_done(&c);
    }
}

static void absolute_uris_stay(void **state)
{
    (void)state;
    struct config c = good("dataset: {uri: /abs/x.zarr}");
    assert_string_equal(c.uri, "/abs/x.zarr");
    config_done(&c);
    c = good("dataset: {uri: 's3://bucket/x.zarr'}");
    assert_string_equal(c.uri, "s3://bucket/x.zarr");
    config_done(&c);
}

static void lists_of_uris(void **state)
{
    (void)state;
    struct config c = good("dataset: {uri: [x.zarr, /abs/y.zarr, 'with, comma']}");
    assert_string_equal(c.uri, "/data/runs/x.zarr,/abs/y.zarr,/data/runs/with\\, comma");
    config_done(&c);
    c = good("dataset: {uri: 'x.zarr,/abs/y.zarr', exclude: [a, 'b*']}");
    assert_string_equal(c.uri, "/data/runs/x.zarr,/abs/y.zarr");
    assert_string_equal(c.exclude, "a,b*");
    config_done(&c);
}

static void properties_of_fields(void **state)
{
    (void)state;
    struct config c = good("dataset:\n  sample_axis: time\n  group: data\n  fields:\n"
                           "    t: {cast: bfloat16, scale: 0.1, offset: -5}\n"
                           "    u: {array: x, index: i, sample_axis: 2}\n");
    assert_string_equal(c.sample_axis, "time");
    assert_string_equal(c.group, "data");
    assert_int_equal(c.field_count, 2);
    assert_string_equal(c.fields[0].array, "t");
    assert_null(c.fields[0].index);
    assert_int_equal(c.fields[0].cast, DTYPE_BFLOAT16);
    assert_true(c.fields[0].scale == 0.1 && c.fields[0].offset == -5.0);
    assert_string_equal(c.fields[1].array, "x");
    assert_string_equal(c.fields[1].index, "i");
    assert_string_equal(c.fields[1].sample_axis, "2");
    config_done(&c);
}

/* Maps under a key are keys joined by '_'. */
static void nested_maps(void **state)
{
    (void)state;
    struct config c = good("order: {window: {rows: 7}, seed: 3}\n"
                           "delivery:\n  connect: {timeout: 5}\n  bind: {}\n  drain:\n"
                           "  stall: none\n");
    assert_int_equal(c.window_rows, 7);
    assert_int_equal(c.seed, 3);
    assert_int_equal(c.connect_timeout_s, 5);
    config_done(&c);
}

static void expect_steps(const struct dataset_field_spec *field, const int32_t *steps, size_t count)
{
    assert_int_equal(field->step_count, count);
    assert_memory_equal(field->steps, steps, count * sizeof *steps);
}

/* Steps by epoch, in any order; a later key replaces one, and may leave shorter lists. */
static void phases(void **state)
{
    (void)state;
    struct config c = good("dataset:\n  fields:\n    y: {steps: {5: \"0:4\", 0: \"0:2\", 9: [0]}}\n"
                           "    x: {steps: \"1:3\"}\n");
    struct dataset_field_spec *y = &c.fields[0], *x = &c.fields[1];
    expect_steps(y, (int32_t[]){0, 1, 2, 3}, 4);
    assert_int_equal(y->phase_count, 3);
    const uint64_t epochs[] = {0, 5, 9}, counts[] = {2, 4, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(y->phases[i].epoch, epochs[i]);
        assert_int_equal(y->phases[i].step_count, counts[i]);
    }
    struct error err = {0};
    assert_int_equal(config_set(&c, "dataset.fields.y.steps.5=0:3", &err), STATUS_OK);
    expect_steps(y, (int32_t[]){0, 1, 2}, 3);
    assert_int_equal(config_set(&c, "dataset.fields.x.steps.2=1:6", &err), STATUS_OK);
    assert_int_equal(x->phase_count, 2);
    assert_int_equal(x->phases[0].step_count, 2);
    expect_steps(x, (int32_t[]){1, 2, 3, 4, 5}, 5);
    assert_int_equal(config_set(&c, "dataset.fields.x.steps=0:1", &err), STATUS_OK);
    assert_int_equal(x->phase_count, 0);
    config_done(&c);
}

/* What a sample is; in the words of docs/use/datasets.md. */
static void samples(void **state)
{
    (void)state;
    struct config c = good(
        "dataset:\n  fields:\n    img: {steps: \"-1:1\"}\n    far: {steps: [0, 6, 12]}\n"
        "    one: {steps: 3, segments: true}\n    x:\n      slice:\n"
        "        channel: [t2m, 'a,b', 3]\n        lat: \"10:20\"\n        level: -1\n"
        "samples:\n  episodes: {ends: meta/ends}\n  stride: 2\n  pad: {before: 1, after: 7}\n"
        "  fill: zero\n  split: {part: val, by: sample, parts: {train: .9, val: 0.1}, seed: 5}\n"
        "  missing: bad\n  where: ok\n  continuous: true\n  segments: docs\n");
    expect_steps(&c.fields[0], (int32_t[]){-1, 0}, 2);
    expect_steps(&c.fields[1], (int32_t[]){0, 6, 12}, 3);
    expect_steps(&c.fields[2], (int32_t[]){3}, 1);
    assert_true(c.fields[2].segments && !c.fields[1].segments);
    assert_int_equal(c.fields[3].slice_count, 3);
    assert_string_equal(c.fields[3].slices[0].axis, "channel");
    assert_string_equal(c.fields[3].slices[0].indices, "[t2m,a\\,b,3]");
    assert_string_equal(c.fields[3].slices[1].indices, "10:20");
    assert_string_equal(c.fields[3].slices[2].indices, "-1");
    struct dataset_options options = config_dataset_options(&c, NULL);
    const struct dataset_samples_spec *spec = &options.samples;
    assert_string_equal(spec->episodes_ends, "meta/ends");
    assert_string_equal(spec->missing, "bad");
    assert_string_equal(spec->where, "ok");
    assert_string_equal(spec->segments, "docs");
    assert_string_equal(spec->split_by, "sample");
    assert_string_equal(spec->split_part, "val");
    assert_int_equal(spec->split_part_count, 2);
    assert_string_equal(spec->split_parts[1].name, "val");
    assert_true(spec->split_parts[0].fraction == .9 && spec->split_parts[1].fraction == .1);
    assert_true(spec->stride == 2 && spec->pad_before == 1 && spec->pad_after == 7);
    assert_true(spec->fill == SAMPLES_FILL_ZERO && spec->continuous && spec->split_seed == 5);
    config_done(&c);
    c = good("samples: {episodes: {jumps: time}}\n");
    assert_string_equal(config_dataset_options(&c, NULL).samples.episodes_jumps, "time");
    config_done(&c);
    c = good("samples: {episodes: none, split: {range: \"10:\", gap: 3}, row_chunks: 4}\n");
    options = config_dataset_options(&c, NULL);
    spec = &options.samples;
    assert_true(spec->split_begin == 10 && spec->split_end == UINT64_MAX && spec->split_gap == 3);
    assert_true(spec->row_chunks == 4 && !*spec->episodes_ends && !spec->split_range);
    config_done(&c);
}

/* By dates; and the same again from what is printed. */
static void dates(void **state)
{
    struct text printed = {0};
    (void)state;
    struct config c =
        good("samples:\n  split: {part: b, parts: {a: \":2015-12-31T18:00\", 'b:c': 2016-01, b: "
             "\"time=2017:\"}, gap: 2}\n  missing: [2015-01, \"a,b=2:3\"]\n  where: "
             "2015-02-03:2016, t=5\n");
    for (int again = 0; again < 2; again++) {
        struct dataset_options options = config_dataset_options(&c, NULL);
        const struct dataset_samples_spec *spec = &options.samples;
        assert_string_equal(spec->missing, "2015-01,a\\,b=2:3");
        assert_string_equal(spec->where, "2015-02-03:2016, t=5");
        assert_int_equal(spec->split_part_count, 3);
        assert_string_equal(spec->split_parts[0].range, ":2015-12-31T18:00");
        assert_string_equal(spec->split_parts[1].name, "b:c");
        assert_string_equal(spec->split_parts[1].range, "2016-01");
        assert_string_equal(spec->split_parts[2].range, "time=2017:");
        config_print(&c, &printed);
        config_done(&c);
        c = good(printed.data);
        text_done(&printed);
    }
    config_done(&c);
    c = good(
        "dataset: {fields: {s: {array: a/b, store: s3://b/s, align: time, method: previous}}}\n"
        "samples: {split: {range: \"2015-01:2016-12-31T18\"}}\n");
    config_print(&c, &printed);
    config_done(&c);
    c = good(printed.data);
    assert_string_equal(config_dataset_options(&c, NULL).samples.split_range,
                        "2015-01:2016-12-31T18");
    assert_int_equal(c.split_range.end, 0);
    assert_string_equal(c.fields[0].align, "time");
    assert_string_equal(c.fields[0].store, "s3://b/s");
    assert_int_equal(c.fields[0].match, MATCH_PREVIOUS);
    text_done(&printed);
    config_done(&c);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"order:\n  seed: 1\n  sed: 3\n",
         "run.yaml:3: unknown key 'order.sed': did you mean 'order.seed'?"},
        {"\nordr: {seed: 3}\n", "run.yaml:2: unknown key 'ordr': did you mean 'order'?"},
        {"batch:\n  seed: 3\n", "run.yaml:2: unknown key 'batch.seed': did you mean 'order.seed'?"},
        {"bathc: 3\n", "run.yaml:1: unknown key 'bathc': did you mean 'batch'?"},
        {"zzzzzzzzzzzz: 3\n",
         "run.yaml:1: unknown key 'zzzzzzzzzzzz': penstock-reader --help lists all keys"},
        {"dataset:\n  feilds: {a: b}\n",
         "run.yaml:2: unknown key 'dataset.feilds': did you mean 'dataset.fields'?"},
        {"order:\n  seed: 1\n  seed: 2\n", "run.yaml:3: 'order.seed' is given twice"},
        {"order: {seed: 1}\nbatch: {}\norder: {epochs: 2}\n", "run.yaml:3: 'order' is given twice"},
        {"dataset:\n  fields: {a: x}\n  fields: {b: x}\n",
         "run.yaml:3: 'dataset.fields' is given twice"},
        {"dataset:\n  fields:\n    a: x\n    a: y\n", "run.yaml:4: 'a' is given twice"},
        {"&a order: {seed: 1}\n*a : {seed: 2}\n", "run.yaml:1: 'order' is given twice"},
        {"order: {&a seed: 1, *a : 2}\n", "run.yaml:1: 'order.seed' is given twice"},
        {"dataset: {fields: {&a x: y, *a : z}}\n", "run.yaml:1: 'x' is given twice"},
        {"dataset: {fields: {x: {slice: {&a b: 1, *a : 2}}}}\n", "'b' is given twice"},
        {"order:\n  seed: soon\n",
         "run.yaml:2: order.seed: 'soon' is not a count; it takes 0 to 18446744073709551615"},
        {"order: {seed: -1}", "run.yaml:1: order.seed: '-1' is not a count"},
        {"order: {seed: 18446744073709551616}", "is not a count"},
        {"order: {seed: 1.5}", "is not a count"},
        {"order: {seed: auto}", "is not a count"},
        {"order:\n  epochs: 4294967296\n",
         "run.yaml:2: order.epochs: '4294967296' is out of range; it takes 0 to 4294967295"},
        {"order: {window_rows: 0}", "out of range; it takes 1 to 9223372036854775807, or auto"},
        {"order: {shuffle: yes}",
         "order.shuffle: 'yes' is not a truth value; it takes true or false"},
        {"batch: {last: keep}",
         "batch.last: 'keep' is not a choice; it takes drop, pad or partial"},
        {"readers: {memory_limit: 3 apples}", "readers.memory_limit: '3 apples' is not a size"},
        {"exchange: {buffer_limit: 1KiB}", "out of range; it takes 4.00 KiB to"},
        {"order:\n  seed: [1, 2]\n", "run.yaml:2: order.seed must be a single value"},
        {"order: 3\n", "run.yaml:1: order must be a map of keys to values"},
        {"- order\n", "run.yaml:1: the file must be a map of keys to values"},
        {"? [a, b]\n: 3\n", "run.yaml:1: a key must be plain text"},
        {"dataset:\n  fields: x\n", "run.yaml:2: dataset.fields must be a map"},
        {"dataset:\n  fields:\n    a: {index: [i]}\n",
         "run.yaml:3: dataset.fields.a.index must be a single value"},
        {"dataset:\n  fields:\n    a: {zzzzzzz: 3}\n",
         "run.yaml:3: unknown key 'dataset.fields.a.zzzzzzz': a field has array, index, cast"},
        {"dataset:\n  fields:\n    a: {cast: complex64}\n",
         "run.yaml:3: dataset.fields.a.cast: 'complex64': items can become float16, bfloat16"},
        {"dataset:\n  fields:\n    a: {cast: half}\n", "'half': items can become float16"},
        {"dataset:\n  fields:\n    a: {scale: 0}\n",
         "dataset.fields.a.scale: '0' is not a finite number other than 0"},
        {"dataset:\n  fields:\n    a: {scale: 1e999}\n", "is not a finite number"},
        {"dataset:\n  fields:\n    a: {offset: -1e999}\n", "is not a finite number"},
        {"dataset:\n  fields:\n    a: {sample_axis: ''}\n", "the value is empty"},
        {"dataset:\n  uri: [a, [b]]\n", "run.yaml:2: dataset.uri: an item of the list is no text"},
        {"dataset:\n  uri: {a: b}\n", "dataset.uri must be a single value or a list"},
        {"dataset:\n  fields:\n    a: {array: x, indx: i}\n",
         "run.yaml:3: unknown key 'dataset.fields.a.indx': did you mean 'index'?"},
        {"dataset:\n  fields:\n    a: {array: x, array: y}\n",
         "run.yaml:3: 'array' is given twice"},
        {"dataset:\n  fields:\n    a: {array: [x]}\n",
         "run.yaml:3: dataset.fields.a.array must be a single value"},
        {"dataset:\n  fields:\n    a: [x]\n", "run.yaml:3: dataset.fields.a must be"},
        {"dataset:\n  fields:\n    a: ''\n", "the name of its array is empty"},
        {"dataset:\n  fields:\n    '': x\n", "is no name for a field"},
        {"order: {seed: 1\nbatch: 2", "not YAML"},
        {"order:\n\tseed: 1\n", "run.yaml:2: not YAML"},
        {"order: {seed: 1}\n---\norder: {seed: 2}\n", "run.yaml:3: a second YAML document"},
        {"order: {seed: *nowhere}\n", "not YAML"},
        {"order:\n  window: {rows: 7}\n  window_rows: 8\n",
         "run.yaml:3: 'order.window_rows' is given twice"},
        {"order:\n  window: {rows: 7}\n  window: {rows: 7}\n",
         "run.yaml:3: 'order.window' is given twice"},
        {"order:\n  window:\n    row: 7\n",
         "run.yaml:3: unknown key 'order.window_row': did you mean 'order.window_rows'?"},
        {"order:\n  windw: {rows: 7}\n",
         "run.yaml:2: unknown key 'order.windw_rows': did you mean 'order.window_rows'?"},
        {"order: {window: 3}\n", "order.window must be a map of keys to values, or none"},
        {"order: {seed: {a: 3}}\n", "order.seed must be a single value"},
        {"order: {zzzzzzzz: &a {zzzzz: *a}}\n", "or more than 32 levels: use fewer aliases"},
        {"order: {zzzzzzzz: {zzzzz: {}}}\n", "unknown key 'order.zzzzzzzz_zzzzz'"},
        {"order: {zzzzzzzz: {}}\n", "unknown key 'order.zzzzzzzz'"},
        {"samples: {pad: {befor: 1}}\n", "did you mean 'samples.pad_before'?"},
        {"samples: {episodes: ends}\n",
         "samples.episodes must be a map of keys to values, or none"},
        {"samples:\n  split:\n    parts: {train: 0.9, val: 0.2}\n",
         "run.yaml:3: samples.split_parts: the shares sum up to more than 1 at part 'val'"},
        {"samples: {split: {parts: {train: -0.9}}}\n",
         "part 'train' has a share of -0.9: a share is above 0"},
        {"samples: {split: {parts: {train: [1]}}}\n", "must be a map of names to shares"},
        {"samples: {split: {parts: train}}\n", "'train' is not a name and a share: write \"train:"},
        {"samples: {split_parts: 'a:.1,a:.2'}\n", "part 'a' is there twice"},
        {"samples: {split: {range: 2015-01:2016-13}}\n",
         "run.yaml:1: samples.split_range: '2015-01:2016-13' is not a range of dates such as"},
        {"samples: {split: {parts: {a: 2015-13}}}\n",
         "part 'a' has '2015-13', which is not a range"},
        {"samples: {split: {parts: {a: .5, b: 2015-12}}}\n",
         "part 'a' is a share and part 'b' a range"},
        {"samples: {split: {range: 5}}\n",
         "samples.split_range: '5' is not a range: write \"a:b\""},
        {"samples: {split: {range: \"-1:5\"}}\n", "'-1:5' is not a range"},
        {"samples: {split: {range: \"5:5\"}}\n", "'5:5' is a range without any frame"},
        {"dataset:\n  fields:\n    a: {steps: [0, 2, 1]}\n",
         "run.yaml:3: dataset.fields.a.steps: step 1 comes after 2: steps are in rising order"},
        {"dataset: {fields: {a: {steps: [0, 0]}}}\n", "step 0 comes after 0"},
        {"dataset: {fields: {a: {steps: \"3:3\"}}}\n", "'3:3' is a range without any step"},
        {"dataset: {fields: {a: {steps: \"0:x\"}}}\n",
         "dataset.fields.a.steps: '0:x' is not a list of steps: write \"-1:15\""},
        {"dataset: {fields: {a: {steps: [0, 1.5]}}}\n", "'[0,1.5]' is not a list of steps"},
        {"dataset: {fields: {a: {steps: []}}}\n", "'[]' is not a list of steps"},
        {"dataset: {fields: {a: {steps: \"0:70000\"}}}\n", "more than 65536 steps"},
        {"dataset: {fields: {a: {steps: [9999999999]}}}\n", "step 9999999999 is out of range"},
        {"dataset: {fields: {a: {steps: {b: c}}}}\n",
         "dataset.fields.a.steps.b: 'b' is not a number of an epoch: write steps: {0: "},
        {"dataset: {fields: {a: {steps: {0: '0:2', 4: '1:4'}}}}\n",
         "dataset.fields.a.steps.4: \"0:2\" and \"1:4\": of two lists the longer one begins with"},
        {"dataset: {fields: {a: {steps: {0: '0:2', 4: {b: c}}}}}\n",
         "dataset.fields.a.steps.4 must be a single value or a list"},
        {"dataset: {fields: {a: {segments: 1}}}\n", "'1' is not a truth value"},
        {"dataset: {fields: {a: {slice: 3}}}\n", "dataset.fields.a.slice must be a map"},
        {"dataset: {fields: {a: {slice: {b: {c: d}}}}}\n",
         "dataset.fields.a.slice.b must be a single value or a list"},
        {"dataset: {fields: {a: {slice: {b: 1, b: 2}}}}\n", "'b' is given twice"},
        {"dataset: {fields: {a: {ragged: o}}}\n", "dataset.fields.a.ragged must be a map"},
        {"dataset: {fields: {a: {ragged: {offset: o}}}}\n", "'offset' is no key of ragged"},
        {"dataset: {fields: {a: {ragged: {index: []}}}}\n", "the list is empty"},
        {"dataset: {fields: {a: {deliver: coo}}}\n", "'coo' is not a choice; it takes csr, dense"},
        {"dataset: {fields: {a: {deliver: [csr]}}}\n", "must be a single value"},
        {"dataset: {fields: {a: {deliver: {pads: 3}}}}\n", "'pads' is no key of deliver"},
        {"dataset: {fields: {a: {deliver: {pad: 0}}}}\n",
         "'0' is not a number of items from 1 to 2147483647"},
        {"dataset: {fields: {a: {deliver: {pad: 2147483648}}}}\n",
         "'2147483648' is not a number of items from 1 to 2147483647"},
        {"dataset: {fields: {a: {deliver: {dense: [3, x]}}}}\n", "'[3,x]' is not a shape"},
        {"dataset: {fields: {a: {deliver: {dense: [1,1,1,1,1,1,1,1,1]}}}}\n", "is not a shape"},
        {"dataset: {fields: {a: {deliver: {dense: [3], combine: mean}}}}\n",
         "'mean' is not a choice; it takes sum, last or max"},
        {"dataset: {fields: {a: {deliver: {pad: 3, truncate: 1}}}}\n", "'1' is not a truth value"},
        {"dataset: {fields: {a: {slices: {b: 1}}}}\n",
         "unknown key 'dataset.fields.a.slices': did you mean 'slice'?"},
        {"order: {\"se\\0ed\": 1}\n", "a key must be plain text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config config;
        struct error err = {0};
        assert_int_equal(read_text(&config, cases[i].text, &err), STATUS_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("'%s' gives '%s', not '%s'", cases[i].text, err.message, cases[i].message);
        config_done(&config);
    }
}

static void long_keys_are_cut_not_overrun(void **state)
{
    (void)state;
    char text[5000];
    struct config config;
    struct error err;
    memset(text, 'k', sizeof text);
    memcpy(text, "order: {", 8);
    strcpy(text + sizeof text - 5, ": 1}");
    assert_int_equal(read_text(&config, text, &err), STATUS_INVALID);
    config_done(&config);
    strcpy(text, "dataset: {fields: {");
    memset(text + 19, 'n', 4000);
    strcpy(text + 4019, ": {array: x, b: c}}}");
    assert_int_equal(read_text(&config, text, &err), STATUS_INVALID);
    config_done(&config);
}

static void too_many_fields(void **state)
{
    (void)state;
    struct text text = {0};
    text_append(&text, "dataset:\n  fields:\n");
    for (int i = 0; i <= DATASET_MAX_FIELDS; i++)
        text_append(&text, "    f%d: x\n", i);
    struct config config;
    struct error err;
    assert_int_equal(read_text(&config, text.data, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "run.yaml:67: dataset.fields: more than 64 fields"));
    config_done(&config);
    text_done(&text);
}

/* "f%d" with the number in its place. */
static void append_each(struct text *text, const char *each, int k)
{
    const char *number = strstr(each, "%d");
    if (number)
        text_append(text, "%.*s%d%s", (int)(number - each), each, k, number + 2);
    else
        text_append(text, "%s", each);
}

/* What is large is refused at once: quadratic time would be minutes here. */
static void large_documents(void **state)
{
    (void)state;
    static const struct {
        const char *before, *each, *after, *message;
    } cases[] = {
        {"", "*a,", "*a]\n", "run.yaml: with its aliases written out"},
        {"]\norder: {", "*a : 1,", "}\n", "with its aliases written out"},
        {"]\n  fields: {", "f%d: x,", "}\n", "dataset.fields: more than 64 fields"},
        {"]\n  fields: {x: {slice: {", "f%d: 1,", "}}}\n", "dataset.fields.x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text text = {0};
        struct config config;
        struct error err;
        text_append(&text, "dataset:\n  exclude: [&a \"");
        for (int k = 0; k < 200000; k++)
            text_append(&text, "x");
        text_append(&text, "\"%s", i == 0 ? "," : cases[i].before);
        for (int k = 0; k < 60000; k++)
            append_each(&text, cases[i].each, k);
        text_append(&text, "%s", cases[i].after);
        assert_int_equal(read_text(&config, text.data, &err), STATUS_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu gives '%s'", i, err.message);
        config_done(&config);
        text_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_section),
        cmocka_unit_test(empty_files_and_sections),
        cmocka_unit_test(absolute_uris_stay),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(lists_of_uris),
        cmocka_unit_test(properties_of_fields),
        cmocka_unit_test(phases),
        cmocka_unit_test(samples),
        cmocka_unit_test(dates),
        cmocka_unit_test(nested_maps),
        cmocka_unit_test(too_many_fields),
        cmocka_unit_test(large_documents),
        cmocka_unit_test(long_keys_are_cut_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
