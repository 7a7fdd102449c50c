/* See metrics.h. The tables as rows, numbers, JSON and Markdown. */
#include "metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#define ROW_OF(values, name, member, type, unit, label, help, source) \
    {name, label, help, METRICS_##type, METRICS_##unit, offsetof(struct values, member)},
#define READER_ROW(...)  ROW_OF(metrics_values, __VA_ARGS__)
#define TRAINER_ROW(...) ROW_OF(metrics_trainer_values, __VA_ARGS__)

const struct metrics_row metrics_rows[] = {METRICS_TABLE(READER_ROW)};
const size_t metrics_row_count = sizeof metrics_rows / sizeof metrics_rows[0];

const struct metrics_row metrics_trainer_rows[] = {METRICS_TRAINER_TABLE(TRAINER_ROW)};
const size_t metrics_trainer_row_count =
    sizeof metrics_trainer_rows / sizeof metrics_trainer_rows[0];

/* Exact: a double would lose nanoseconds after some months. */
struct metrics_number metrics_number(enum metrics_unit unit, uint64_t value)
{
    struct metrics_number number;
    uint64_t second = unit == METRICS_NS ? 1000000000 : unit == METRICS_MS ? 1000 : 1;
    int digits = unit == METRICS_NS ? 9 : 3;
    int length = snprintf(number.text, sizeof number.text, "%" PRIu64, value / second);
    if (value % second == 0)
        return number;
    length += snprintf(number.text + length, sizeof number.text - (size_t)length, ".%0*" PRIu64,
                       digits, value % second);
    while (number.text[length - 1] == '0')
        number.text[--length] = '\0';
    return number;
}

/* "name" or "name{on=\"storage\"}", in quotes of JSON. */
static void append_key(const struct metrics_row *row, struct text *out)
{
    struct text key = {0};
    text_append(&key, *row->label ? "%s{%s}" : "%s%s", row->name, row->label);
    text_append_json(out, key.data);
    text_done(&key);
}

static void append_values(const struct metrics_row *rows, size_t count, const void *values,
                          struct text *out)
{
    for (size_t i = 0; i < count; i++) {
        text_append(out, "%s", i ? "," : "");
        append_key(&rows[i], out);
        text_append(out, ":%s", metrics_number(rows[i].unit, metrics_value(&rows[i], values)).text);
    }
}

void metrics_json(const struct metrics_values *values, struct text *out)
{
    text_append(out, "{");
    append_values(metrics_rows, metrics_row_count, values, out);
    text_append(out, "}");
}

static void append_trainer(const struct metrics_trainer *trainer, struct text *out)
{
    text_append(out, "{\"rank\":%" PRIu32 ",\"connected\":%s,\"metrics\":{", trainer->rank,
                trainer->connected ? "true" : "false");
    append_values(metrics_trainer_rows, metrics_trainer_row_count, &trainer->values, out);
    text_append(out, "}}");
}

void metrics_snapshot_json(const struct metrics_snapshot *snapshot, struct text *out)
{
    text_append(out,
                "{\"reader\":%" PRIu32 ",\"pid\":%" PRIu64 ",\"time\":%s,\"serving\":%s,\"node\":",
                snapshot->reader, snapshot->pid, metrics_number(METRICS_MS, snapshot->now_ms).text,
                snapshot->state == METRICS_SERVING ? "true" : "false");
    text_append_json(out, snapshot->node);
    text_append(out, ",\"dataset\":");
    text_append_json(out, snapshot->dataset);
    text_append(out, ",\"listen\":");
    text_append_json(out, snapshot->listen);
    text_append(out, ",\"metrics\":");
    metrics_json(&snapshot->values, out);
    text_append(out, ",\"trainers\":[");
    for (uint32_t i = 0; i < snapshot->trainer_count; i++) {
        text_append(out, "%s", i ? "," : "");
        append_trainer(&snapshot->trainers[i], out);
    }
    text_append(out, "]}");
}

static void append_markdown(const struct metrics_row *rows, size_t count, struct text *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    text_append(out, "| name | type | what |\n|---|---|---|\n");
    for (size_t i = 0; i < count; i++)
        text_append(out, "| `penstock_%s%s%s%s` | %s | %s |\n", rows[i].name,
                    *rows[i].label ? "{" : "", rows[i].label, *rows[i].label ? "}" : "",
                    types[rows[i].type], rows[i].help);
}

void metrics_markdown(struct text *out)
{
    text_append(
        out, "## Of a reader\n\nEach series has the label `reader`, the reader's rank. Series of a "
             "run of `--also` have the label `run`, too: the run's name.\n\n");
    append_markdown(metrics_rows, metrics_row_count, out);
    text_append(out,
                "\n## Of a trainer\n\nThe reader that serves the trainer has these. Labels are "
                "`reader` and `rank`, the trainer's.\n\n");
    append_markdown(metrics_trainer_rows, metrics_trainer_row_count, out);
}
