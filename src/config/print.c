/* See config.h: a configuration as YAML, and the table of options as help. */
#include "config/config.h"

#include "config/options.h"
#include "config/ragged_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void print_quoted(const char *string, struct text *out)
{
    text_append(out, "\"");
    for (const char *c = string; *c; c++) {
        if (*c == '"' || *c == '\\')
            text_append(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f)
            text_append(out, "\\x%02x", (unsigned)*c);
        else
            text_append(out, "%c", *c);
    }
    text_append(out, "\"");
}

static void print_real(const char *key, double number, struct text *out)
{
    text_append(out, ", %s: ", key);
    config_print_real(number, out);
}

/* NULL: nothing. */
static void print_text(const char *key, const char *value, struct text *out)
{
    if (!value)
        return;
    text_append(out, ", %s: ", key);
    print_quoted(value, out);
}

static void print_steps(const struct dataset_field_spec *field, struct text *out)
{
    if (field->step_count > 0)
        text_append(out, field->phase_count > 0 ? ", steps: {" : ", steps: ");
    if (field->step_count > 0 && field->phase_count == 0)
        config_print_steps(field->steps, field->step_count, out);
    for (size_t i = 0; i < field->phase_count; i++) {
        text_append(out, "%s%" PRIu64 ": ", i > 0 ? ", " : "", field->phases[i].epoch);
        config_print_steps(field->steps, field->phases[i].step_count, out);
    }
    text_append(out, field->phase_count > 0 ? "}" : "");
}

static void print_slices(const struct dataset_field_spec *field, struct text *out)
{
    for (size_t i = 0; i < field->slice_count; i++) {
        text_append(out, i == 0 ? ", slice: {" : ", ");
        print_quoted(field->slices[i].axis, out);
        text_append(out, ": ");
        print_quoted(field->slices[i].indices, out);
    }
    text_append(out, field->slice_count > 0 ? "}" : "");
}

static void print_crops(const struct dataset_field_spec *field, struct text *out)
{
    for (size_t i = 0; i < field->crop_count; i++) {
        text_append(out, i == 0 ? ", crop: {" : ", ");
        print_quoted(field->crops[i].axis, out);
        text_append(out, ": %llu", (unsigned long long)field->crops[i].length);
    }
    bool open = field->crop_count > 0;
    if (field->crop_at != CROP_NONE)
        text_append(out, "%sat: %s", open ? ", " : ", crop: {",
                    field->crop_at == CROP_RANDOM ? "random" : "center");
    open = open || field->crop_at != CROP_NONE;
    if (field->crop_group > 0)
        text_append(out, "%sgroup: %" PRIu32, open ? ", " : ", crop: {", field->crop_group);
    text_append(out, open || field->crop_group > 0 ? "}" : "");
}

static const char *const match_names[] = {DATASET_MATCH_NAMES};

static void print_fields(const struct config *config, struct text *out)
{
    if (config->field_count > 0)
        text_append(out, "  fields:\n");
    for (size_t i = 0; i < config->field_count; i++) {
        const struct dataset_field_spec *field = &config->fields[i];
        text_append(out, "    ");
        print_quoted(field->name, out);
        text_append(out, ": {array: ");
        print_quoted(field->array, out);
        print_text("store", field->store, out);
        print_text("index", field->index, out);
        print_text("align", field->align, out);
        if (field->match != MATCH_EXACT)
            text_append(out, ", method: %s", match_names[field->match]);
        if (field->cast != DTYPE_NONE)
            text_append(out, ", cast: %s", dtype_name(field->cast));
        if (field->scale < 0.0 || field->scale > 0.0)
            print_real("scale", field->scale, out);
        if (field->offset < 0.0 || field->offset > 0.0)
            print_real("offset", field->offset, out);
        print_text("scale", field->scale_at, out);
        print_text("offset", field->offset_at, out);
        print_text("sample_axis", field->sample_axis, out);
        if (field->cf)
            text_append(out, ", cf: true");
        print_text("mean", field->mean, out);
        print_text("std", field->std, out);
        print_text("stats", field->stats, out);
        if (field->stats_form == STATS_MIN_MAX)
            text_append(out, ", normalise: min/max");
        print_steps(field, out);
        print_slices(field, out);
        print_crops(field, out);
        if (field->segments)
            text_append(out, ", segments: true");
        config_print_ragged(field, out);
        config_print_shares(config, field->name, out);
        text_append(out, "}\n");
    }
}

void config_print_some(const struct config *config, bool (*wanted)(const struct option *option),
                       struct text *out)
{
    const char *section = "";
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        size_t length = option_section_length(option->key);
        if (wanted && !wanted(option))
            continue;
        if (strncmp(option->key, section, length + 1) != 0) /* of a section follow one another */
            text_append(out, "%.*s:\n", (int)length, option->key);
        section = option->key;
        text_append(out, "  %s: ", option->key + length + 1);
        option_print(config, option, out);
        text_append(out, "\n");
        if (strcmp(option->key, "dataset.uri") == 0) {
            print_fields(config, out);
            config_print_cuts(config, out);
        }
        if (strcmp(option->key, "mix.samples") == 0)
            mix_print(config, out);
    }
}

void config_print(const struct config *config, struct text *out)
{
    config_print_some(config, NULL, out);
}

void config_help(struct text *out)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        text_append(out, "  %-26s %s [%s]\n", option->key, option->help, option->preset);
    }
    text_append(out, "  %-26s %s\n", "dataset.fields.NAME",
                "ARRAY, or ARRAY[INDEX] for element INDEX[i] of ARRAY [every array with the sample "
                "count]");
    text_append(
        out, "  %-26s %s\n", "dataset.fields.NAME.PROPERTY",
        "PROPERTY of a field: array, store, index, align, method (exact, nearest or previous), "
        "sample_axis, cast (float16, bfloat16, float32 or "
        "float64), scale, offset, cf, mean, std, stats, normalise (mean/std or min/max), steps "
        "(a:b or a list), steps.EPOCH (the same from that epoch on), slice.AXIS (a:b, a list, "
        "@FILE, an index or a "
        "name), crop.AXIS, crop.at (random or center), crop.group, segments; of ragged fields "
        "ragged.offsets, ragged.index, ragged.columns, ragged.values, deliver (csr or dense), "
        "deliver.pad, deliver.truncate, deliver.dense, deliver.combine (sum, last or max); "
        "cut.AXIS (the name of a cut), only.AXIS (coordinates along an axis of delivery.mesh)");
    text_append(
        out, "  %-26s %s\n", "dataset.cuts.NAME.PROPERTY",
        "PROPERTY of a cut: over (the axes of delivery.mesh whose trainers get a part each), "
        "order (contiguous or zigzag), split (chunk, even or a list of sizes)");
}

void config_help_markdown(struct text *out)
{
    text_append(out, "| option | default | values | changes the order | meaning |\n"
                     "|---|---|---|---|---|\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        text_append(out, "| `%s` | %s%s%s | ", option->key, *option->preset ? "`" : "",
                    *option->preset ? option->preset : "none", *option->preset ? "`" : "");
        option_describe_values(option, out);
        text_append(out, " | %s | %s |\n", option->order == CHANGES_ORDER ? "yes" : "no",
                    option->help);
    }
    text_append(
        out,
        "| `dataset.fields` | every array whose sample axis has the sample count | a map from "
        "names to `A` or `{array: A, store: U, index: I, align: T, method: M, cast: "
        "D, scale: S, offset: O, sample_axis: X, "
        "cf: true, mean: M, std: D, stats: store, normalise: mean/std or min/max, steps: \"a:b\", "
        "a list, or {EPOCH: \"a:b\" or a list}, slice: {AXIS: \"a:b\", a list, "
        "\"@FILE\", an index or a name}, crop: {AXIS: n, at: random or center, group: n}, "
        "segments: true, "
        "ragged: {offsets: A, index: list, columns: list, values: A}, deliver: csr, dense, "
        "{pad: n or bound, truncate: true}, {pad_to_multiple_of: n} or {dense: list, combine: sum, "
        "last or max}, "
        "cut: {AXIS: CUT}, only: {AXIS: list}}`, "
        "all properties optional | yes | fields of a sample: see datasets.md, and ragged.md; cut "
        "and only, which change nothing in the order: see groups.md |\n");
    text_append(out, "| `dataset.cuts` | none | a map from names to `{over: A, order: zigzag, "
                     "split: chunk, even or list}`, order and split optional | no | how an axis "
                     "of fields is divided among trainers: see groups.md |\n");
    text_append(
        out,
        "| `mix.sources` | none | a list of `{config: C, weight: w, name: N}`, the name optional; "
        "with --set and in the environment `FILE:WEIGHT,...` | yes | the datasets of a mix: see "
        "datasets.md |\n");
}
