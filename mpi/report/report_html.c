/* The report as a page: report_html(). All text from outside is escaped. */
#include "base/size.h"
#include "job/job_internal.h"
#include "metrics/metrics_file.h"
#include "report/report_chart.h"
#include "report/report_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_READERS_SHOWN = 64, MOST_EPOCHS_SHOWN = 256 };

static const char style[] =
    ":root{color-scheme:light dark;--back:#fcfcfb;--text:#1f1f1d;--faint:#6b6a66;--grid:#e2e1dc;"
    "--blue:#2a78d6;--orange:#e0662c;--yellow:#d69a00;--green:#16a06b;--gray:#a9a8a1;"
    "--violet:#6a55c4;--red:#c4412f}"
    "@media(prefers-color-scheme:dark){:root{--back:#1b1b1a;--text:#ecebe6;--faint:#a3a29b;"
    "--grid:#3a3a37;--blue:#4a97ee;--orange:#ee7f49;--yellow:#e6b233;--green:#2fc38b;"
    "--gray:#6f6e69;--violet:#9a88ee;--red:#e8705f}}"
    "body{background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif;"
    "max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}"
    "h2{font-size:1.1rem;margin:2.2rem 0 .3rem}"
    "p{margin:.3rem 0}.faint{color:var(--faint)}.verdict{font-size:1.1rem;margin:.8rem 0}"
    "svg{width:100%;height:auto;font-size:11px;fill:var(--faint)}"
    ".grid{stroke:var(--grid)}.line{fill:none;stroke-width:1.8}.line.blue{stroke:var(--blue)}"
    ".area.blue,.key.blue{fill:var(--blue);background:var(--blue)}"
    ".area.orange,.key.orange{fill:var(--orange);background:var(--orange)}"
    ".area.yellow,.key.yellow{fill:var(--yellow);background:var(--yellow)}"
    ".area.green,.key.green{fill:var(--green);background:var(--green)}"
    ".area.gray,.key.gray{fill:var(--gray);background:var(--gray)}"
    ".area.violet,.key.violet{fill:var(--violet);background:var(--violet)}"
    ".area.red,.key.red{fill:var(--red);background:var(--red)}"
    ".key{display:inline-block;width:.7em;height:.7em;border-radius:2px;margin:0 .35em 0 .9em}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.86rem;"
    "font-variant-numeric:tabular-nums}"
    "th,td{text-align:right;padding:.25rem .4rem;border-bottom:1px solid var(--grid);"
    "white-space:nowrap}th{white-space:normal;vertical-align:bottom;"
    "font-weight:600;color:var(--faint)}"
    ".left{text-align:left}meter{width:6rem;vertical-align:middle;margin-right:.5em}"
    "pre{font-size:.8rem;overflow-x:auto}summary{cursor:pointer}";

static const char *const cause_styles[CAUSE_COUNT] = {"blue", "orange", "yellow", "green",
                                                      "red",  "gray",   "violet"};

/* Text that has no control characters, in HTML. */
static void append_escaped(struct text *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        switch (text[i]) {
        case '<':
            text_append(out, "&lt;");
            break;
        case '>':
            text_append(out, "&gt;");
            break;
        case '&':
            text_append(out, "&amp;");
            break;
        case '"':
            text_append(out, "&quot;");
            break;
        case '\'':
            text_append(out, "&#39;");
            break;
        default:
            text_append_bytes(out, &text[i], 1);
        }
}

/* Text from outside. */
static void append_foreign(struct text *out, const char *foreign)
{
    struct text shown = {0};
    text_append_shown(&shown, foreign);
    append_escaped(out, shown.data ? shown.data : "", shown.length);
    text_done(&shown);
}

/* Lines, each as shown text. A line with a password is left out. */
static void append_lines(struct text *out, const char *lines)
{
    text_append(out, "<pre>");
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        struct text line = {0};
        text_append_bytes(&line, lines, length);
        text_append(&line, "%s", "");
        if (text_has_password(line.data))
            text_append(out, "# a line with a password is not shown");
        else
            append_foreign(out, line.data);
        text_append(out, "\n");
        text_done(&line);
        lines += length + (lines[length] == '\n');
    }
    text_append(out, "</pre>\n");
}

/* A cell of a table: the number for programs, and the text for people. */
static void append_count(struct text *out, uint64_t count)
{
    text_append(out, "<td><data value=\"%" PRIu64 "\">%s</data></td>", count,
                count_format(count).text);
}

static void append_size(struct text *out, uint64_t bytes)
{
    text_append(out, "<td><data value=\"%" PRIu64 "\">%s</data></td>", bytes,
                size_format(bytes).text);
}

/* The verdict of metrics_judge() over the whole run. */
static void append_verdict(const struct job *job, const struct all_epochs *all, struct text *out)
{
    uint64_t count = all->reader_count;
    size_t bytes = metrics_snapshot_bytes(1);
    struct metrics_snapshot *before = calloc(1, bytes);
    char *after = calloc(count, bytes);
    struct metrics_pair *pairs = calloc(count, sizeof *pairs);
    for (uint64_t r = 0; before && after && pairs && r < count; r++) {
        struct metrics_snapshot *snapshot = (struct metrics_snapshot *)(after + r * bytes);
        snapshot->now_ms = all->timeline.end_ns / 1000000;
        snapshot->state = METRICS_SERVING;
        snapshot->values = all->readers[r].values;
        snapshot->trainer_count = 1;
        snapshot->trainers[0] = all->readers[r].waited_most;
        pairs[r] = (struct metrics_pair){.before = before, .after = snapshot};
    }
    if (before && after && pairs && all->timeline.end_ns >= 1000000) {
        uint32_t nodes = (uint32_t)size_divide_up(count, (uint64_t)job->comm.node_size);
        struct metrics_verdict verdict = metrics_judge(pairs, count, nodes * job->core_count);
        text_append(out, "<p class=\"verdict\" id=\"verdict\">Over the whole run, ");
        append_escaped(out, verdict.text, strlen(verdict.text));
        text_append(out, ".</p>\n");
    }
    free(before);
    free(after);
    free(pairs);
}

static void append_head(const struct job *job, const struct service_summary *summary,
                        const struct all_epochs *all, struct text *out)
{
    struct text dataset = {0};
    job_name_dataset(&job->config, &dataset);
    text_append(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Penstock: ");
    append_foreign(out, dataset.data);
    text_append(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
    append_foreign(out, dataset.data);
    text_done(&dataset);
    uint64_t samples = 0;
    for (uint64_t r = 0; r < all->reader_count; r++)
        samples += all->readers[r].values.samples;
    double seconds = (double)all->timeline.end_ns / 1e9;
    text_append(out,
                "</h1>\n<p class=\"faint\">Penstock " PENSTOCK_VERSION_TEXT
                ", order <span id=\"order\">%016" PRIx64 "</span>: %" PRIu64 " reader%s, %" PRIu64
                " trainer%s, %" PRIu64 " session%s</p>\n"
                "<p><data id=\"samples\" value=\"%" PRIu64 "\">%s</data> samples of %s in %.1f s"
                "%s</p>\n",
                job->setup.service.order.id, all->reader_count, count_plural(all->reader_count),
                (uint64_t)job->config.trainers, count_plural(job->config.trainers),
                summary->session_count, count_plural(summary->session_count), samples,
                count_format(samples).text, size_format(job_whole(job)->sample_bytes).text, seconds,
                rate_format_count(samples, "samples", seconds).text);
    uint64_t masked = masks_samples(job->masks);
    if (masked > 0)
        text_append(out, "<p>%s sample%s could not be read and %s masked.</p>\n",
                    count_format(masked).text, count_plural(masked), masked == 1 ? "was" : "were");
}

static double growth(const struct timeline *timeline, uint32_t bin, int member)
{
    double more = timeline->points[bin + 1][member] - timeline->points[bin][member];
    return more > 0 ? more : 0;
}

static double most_of(const double *values, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* One line over time, with the area below. */
static void append_over_time(const struct timeline *timeline, struct chart chart,
                             const double *values, uint32_t count, struct text *out)
{
    static const double zero[TIMELINE_BINS + 1];
    chart.most = most_of(values, count);
    chart.seconds = (double)timeline->end_ns / 1e9;
    chart_begin(&chart, out);
    text_append(out, "<g opacity=\".15\">");
    chart_area(&chart, zero, values, count, "blue", out);
    text_append(out, "</g>");
    chart_line(&chart, values, count, "blue", out);
    chart_end(out);
}

static void append_throughput(const struct timeline *timeline, struct text *out)
{
    double rates[TIMELINE_BINS];
    double seconds = (double)timeline->end_ns / 1e9 / timeline->bins;
    for (uint32_t i = 0; i < timeline->bins; i++)
        rates[i] = rate_is_known(seconds) ? growth(timeline, i, SERIES_SAMPLES) / seconds : 0;
    text_append(out, "<h2>Samples a second</h2>\n"
                     "<p class=\"faint\">That all trainers together were given and have released, "
                     "from the first session on.</p>\n");
    append_over_time(timeline,
                     (struct chart){.id = "throughput", .label = "Samples a second over time"},
                     rates, timeline->bins, out);
}

/* Shares of the readers' time, one on top of the other. */
static void append_blocked(const struct all_epochs *all, struct text *out)
{
    const struct timeline *timeline = &all->timeline;
    double ns = (double)timeline->end_ns / timeline->bins * (double)all->reader_count;
    double low[TIMELINE_BINS] = {0}, high[TIMELINE_BINS] = {0};
    text_append(out, "<h2>What the next round waited for</h2>\n"
                     "<p class=\"faint\">Share of the time, mean of all readers. Trainers: slots "
                     "were full, as they should be. Network: also the wait for the slowest "
                     "reader's rows.</p>\n<p>");
    for (int c = 0; c < CAUSE_COUNT; c++)
        text_append(out, "<span class=\"key %s\"></span>%s", cause_styles[c],
                    metrics_cause_name((enum metrics_cause)c));
    text_append(out, "</p>\n");
    struct chart chart = {.id = "blocked",
                          .label = "What the next round waited for, in percent of the time",
                          .unit = CHART_PERCENT,
                          .most = 100,
                          .seconds = (double)timeline->end_ns / 1e9};
    chart_begin(&chart, out);
    for (int c = 0; c < CAUSE_COUNT; c++) {
        for (uint32_t i = 0; i < timeline->bins; i++)
            high[i] = low[i] + 100 * growth(timeline, i, SERIES_BLOCKED + c) / ns;
        chart_area(&chart, low, high, timeline->bins, cause_styles[c], out);
        memcpy(low, high, sizeof low);
    }
    chart_end(out);
}

static uint64_t shown_epochs(const struct all_epochs *all)
{
    return all->epoch_count < MOST_EPOCHS_SHOWN ? all->epoch_count : MOST_EPOCHS_SHOWN;
}

static void append_cache(const struct job *job, const struct service_summary *summary,
                         const struct all_epochs *all, struct text *out)
{
    struct chart chart = {.id = "rows",
                          .label = "Rows read for each epoch",
                          .first = summary->first_epoch,
                          .bars = shown_epochs(all)};
    double rows[MOST_EPOCHS_SHOWN];
    for (uint64_t i = 0; i < chart.bars; i++)
        rows[i] = (double)report_epoch(summary, all, i).sum.rows_read;
    chart.most = most_of(rows, (uint32_t)chart.bars);
    text_append(out,
                "<h2>Cache</h2>\n<p class=\"faint\">Rows read for each epoch, of %s in the "
                "dataset. What an epoch does not read is in memory already.</p>\n",
                count_format(job->dataset->row_count).text);
    chart_begin(&chart, out);
    for (uint64_t i = 0; i < chart.bars; i++)
        chart_bar(&chart, i, 0, 1, rows[i], "blue", out);
    chart_end(out);
    const struct timeline *timeline = &all->timeline;
    double kept[TIMELINE_BINS + 1];
    for (uint32_t i = 0; i <= timeline->bins; i++)
        kept[i] = timeline->points[i][SERIES_CACHED_ROWS];
    text_append(out, "<p class=\"faint\">Rows that the readers keep in memory, over time.</p>\n");
    append_over_time(timeline, (struct chart){.id = "kept", .label = "Rows kept over time"}, kept,
                     timeline->bins + 1, out);
}

static void append_exchange(const struct job *job, const struct service_summary *summary,
                            const struct all_epochs *all, struct text *out)
{
    struct chart chart = {.id = "exchange",
                          .label = "Bytes sent between readers, and foreseen",
                          .unit = CHART_BYTES,
                          .first = summary->first_epoch,
                          .bars = shown_epochs(all)};
    double sent[MOST_EPOCHS_SHOWN], foreseen[MOST_EPOCHS_SHOWN];
    for (uint64_t i = 0; i < chart.bars; i++) {
        struct epoch_line line = report_epoch(summary, all, i);
        sent[i] = (double)line.sum.sent_bytes;
        foreseen[i] = (double)report_foreseen_bytes(job, &line.sum);
        chart.most = most_of((double[]){chart.most, sent[i], foreseen[i]}, 3);
    }
    if (chart.most <= 0)
        return; /* one reader, or nothing to send */
    text_append(out, "<h2>Exchange between readers</h2>\n"
                     "<p><span class=\"key green\"></span>sent<span class=\"key gray\"></span>"
                     "foreseen by the plan</p>\n");
    chart_begin(&chart, out);
    for (uint64_t i = 0; i < chart.bars; i++) {
        chart_bar(&chart, i, 0, 2, sent[i], "green", out);
        chart_bar(&chart, i, 1, 2, foreseen[i], "gray", out);
    }
    chart_end(out);
}

static void append_epochs(const struct job *job, const struct service_summary *summary,
                          const struct all_epochs *all, struct text *out)
{
    text_append(
        out,
        "<h2>Epochs</h2>\n<p class=\"faint\">Store, kept rows, disk cache: where stored bytes were "
        "read from.</p>\n<div class=\"wide\"><table id=\"epochs\">\n<tr><th>epoch</th>"
        "<th>steps</th><th>samples</th><th>seconds</th><th>samples/s</th><th>rows "
        "read</th><th>store</th>"
        "<th>kept rows</th><th>disk cache</th><th>sent</th><th>foreseen</th>"
        "<th class=\"left\">bounded by</th></tr>\n");
    for (uint64_t i = 0; i < all->epoch_count; i++) {
        struct epoch_line line = report_epoch(summary, all, i);
        double seconds = (double)line.duration_ns / 1e9;
        text_append(out, "<tr>");
        append_count(out, line.epoch);
        append_count(out, line.sum.steps);
        append_count(out, line.sum.samples);
        text_append(out, "<td><data value=\"%.6f\">%.2f</data></td>", seconds, seconds);
        if (rate_is_known(seconds))
            append_count(out, (uint64_t)((double)line.sum.samples / seconds + 0.5));
        else
            text_append(out, "<td></td>");
        append_count(out, line.sum.rows_read);
        append_size(out, line.sum.work.read.stored_bytes);
        append_size(out, line.sum.work.read.memory_bytes);
        append_size(out, line.sum.work.read.disk_bytes);
        append_size(out, line.sum.sent_bytes);
        append_size(out, report_foreseen_bytes(job, &line.sum));
        text_append(out, "<td class=\"left\">%s</td></tr>\n", line.bound);
    }
    text_append(out, "</table></div>\n");
}

/* The share of its workers' time in which a reader worked. */
static double busy_percent(const struct metrics_values *values, const struct timeline *timeline)
{
    double work = (double)(values->read_ns + values->decode_ns + values->copy_ns + values->plan_ns);
    double time = (double)timeline->end_ns * (double)values->workers;
    double share = time > 0 ? work / time : 0;
    return share < 1 ? 100 * share : 100;
}

static void append_readers(const struct job *job, const struct all_epochs *all, struct text *out)
{
    text_append(
        out,
        "<h2>Readers</h2>\n<p class=\"faint\">Busy: the share of the workers' time "
        "that was reading, decoding, copying or planning.</p>\n"
        "<div class=\"wide\"><table id=\"readers\">\n<tr><th>rank</th>"
        "<th class=\"left\">node</th><th>workers</th><th class=\"left\">busy</th><th>samples</th>"
        "<th>rows read</th><th>store</th><th>sent</th><th>rows kept</th><th>cpu</th></tr>\n");
    uint64_t shown =
        all->reader_count < MOST_READERS_SHOWN ? all->reader_count : (uint64_t)MOST_READERS_SHOWN;
    for (uint64_t r = 0; r < shown; r++) {
        const struct metrics_values *values = &all->readers[r].values;
        double busy = busy_percent(values, &all->timeline);
        text_append(out, "<tr>");
        append_count(out, r);
        text_append(out, "<td class=\"left\">");
        append_foreign(out, job->seats[r].node);
        text_append(out, "</td>");
        append_count(out, values->workers);
        text_append(out, "<td class=\"left\"><meter max=\"100\" value=\"%.1f\"></meter>%.0f%%</td>",
                    busy, busy);
        append_count(out, values->samples);
        append_count(out, values->rows_read);
        append_size(out, values->stored_bytes);
        append_size(out, values->sent_bytes);
        append_count(out, values->cached_rows);
        text_append(out, "<td>%.1f s</td></tr>\n", (double)values->cpu_ns / 1e9);
    }
    text_append(out, "</table></div>\n");
    if (shown < all->reader_count)
        text_append(out,
                    "<p class=\"faint\">The first %" PRIu64 " of %" PRIu64
                    " readers. The report as JSON has all.</p>\n",
                    shown, all->reader_count);
}

static void append_settings(const struct job *job, struct text *out)
{
    struct text memory = {0}, config = {0};
    run_setup_describe_memory(&job->setup, &memory);
    config_print(&job->config, &config);
    text_append(out, "<h2>Memory of a reader</h2>\n"
                     "<p class=\"faint\">As settled before the start.</p>\n");
    append_lines(out, memory.data);
    text_append(out, "<h2>Configuration</h2>\n<details><summary>All options</summary>\n");
    append_lines(out, config.data);
    text_append(out, "</details>\n");
    text_done(&memory);
    text_done(&config);
}

void report_html(const struct job *job, const struct service_summary *summary,
                 const struct all_epochs *all, struct text *out)
{
    append_head(job, summary, all, out);
    append_verdict(job, all, out);
    if (all->timeline.bins > 0) {
        append_throughput(&all->timeline, out);
        append_blocked(all, out);
        append_cache(job, summary, all, out);
    }
    append_exchange(job, summary, all, out);
    append_epochs(job, summary, all, out);
    append_readers(job, all, out);
    append_settings(job, out);
    text_append(out, "</body>\n</html>\n");
}
