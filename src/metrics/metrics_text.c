/* A snapshot as Prometheus reads it: the text format, version 0.0.4. Series of one name stand
 * together, behind one HELP and one TYPE. */
#include "metrics/metrics.h"

#include "delivery/ring/waits.h"

#include <inttypes.h>
#include <string.h>

/* The value of a label, as the format escapes it. */
static void append_label(const char *name, const char *value, struct text *out)
{
    text_append(out, "%s=\"", name);
    for (const char *c = value; *c; c++)
        if (*c == '\n')
            text_append(out, "\\n");
        else
            text_append(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    text_append(out, "\"");
}

static void append_head(const char *name, const char *help, enum metrics_type type,
                        struct text *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    text_append(out, "# HELP penstock_%s %s\n# TYPE penstock_%s %s\n", name, help, name,
                types[type]);
}

/* Labels of every series. A run of --also says its name: node_exporter puts the files of all runs
 * together. */
static void append_whose(const struct metrics_snapshot *snapshot, struct text *out)
{
    text_append(out, "reader=\"%" PRIu32 "\"", snapshot->reader);
    if (*snapshot->run)
        text_append(out, ",run=\"%s\"", snapshot->run);
}

/* Constant metrics, whose labels say everything. */
static void append_infos(const struct metrics_snapshot *snapshot, const char *whose,
                         struct text *out)
{
    append_head("build_info", "always 1; the label is the version", METRICS_GAUGE, out);
    text_append(out, "penstock_build_info{%s,", whose);
    append_label("version", snapshot->version, out);
    text_append(out, "} 1\n");
    append_head("run_info", "always 1; labels say which run this is", METRICS_GAUGE, out);
    text_append(out, "penstock_run_info{%s,", whose);
    append_label("dataset", snapshot->dataset, out);
    text_append(out, ",seed=\"%" PRIu64 "\",order_id=\"%016" PRIx64 "\",", snapshot->seed,
                snapshot->order_id);
    append_label("node", snapshot->node, out);
    text_append(out, "} 1\n");
}

static void append_reader(const struct metrics_snapshot *snapshot, const char *whose,
                          struct text *out)
{
    const char *before = "";
    for (size_t i = 0; i < metrics_row_count; i++) {
        const struct metrics_row *row = &metrics_rows[i];
        if (strcmp(row->name, before) != 0)
            append_head(row->name, row->help, row->type, out);
        before = row->name;
        text_append(out, "penstock_%s{%s%s%s} %s\n", row->name, whose, *row->label ? "," : "",
                    row->label,
                    metrics_number(row->unit, metrics_value(row, &snapshot->values)).text);
    }
}

static void append_histogram(const char *name, const char *labels,
                             const struct metrics_trainer *trainer, const char *sum,
                             struct text *out)
{
    uint64_t count = 0;
    for (int b = 0; b < METRICS_BUCKETS; b++) {
        count += trainer->wait_buckets[b];
        struct metrics_number bound = {"+Inf"};
        if (b < METRICS_BUCKETS - 1)
            bound = metrics_number(METRICS_NS, waits_bounds_ns[b]);
        text_append(out, "penstock_%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", name, labels, bound.text,
                    count);
    }
    text_append(out, "penstock_%s_sum{%s} %s\n", name, labels, sum);
    text_append(out, "penstock_%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

static void append_trainers(const struct metrics_snapshot *snapshot, const char *whose,
                            struct text *out)
{
    for (size_t i = 0; i < metrics_trainer_row_count; i++) {
        const struct metrics_row *row = &metrics_trainer_rows[i];
        append_head(row->name, row->help, row->type, out);
        for (uint32_t t = 0; t < snapshot->trainer_count; t++) {
            const struct metrics_trainer *trainer = &snapshot->trainers[t];
            struct metrics_number value =
                metrics_number(row->unit, metrics_value(row, &trainer->values));
            struct text labels = {0};
            text_append(&labels, "%s,rank=\"%" PRIu32 "\"", whose, trainer->rank);
            if (row->type == METRICS_HISTOGRAM)
                append_histogram(row->name, labels.data, trainer, value.text, out);
            else
                text_append(out, "penstock_%s{%s} %s\n", row->name, labels.data, value.text);
            text_done(&labels);
        }
    }
}

void metrics_text(const struct metrics_snapshot *snapshot, struct text *out)
{
    struct text whose = {0};
    append_whose(snapshot, &whose);
    append_infos(snapshot, whose.data, out);
    append_reader(snapshot, whose.data, out);
    append_trainers(snapshot, whose.data, out);
    text_done(&whose);
}
