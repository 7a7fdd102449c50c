/* See top_screen.h. */
#include "cli/top/top_screen.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDE = 110,     /* from this width on there are more columns */
    PACE_STEPS = 5, /* fewer say little about a rate */
    PACE_MS = 30000
};

void top_pace_take(struct top_pace *pace, const struct metrics_snapshot *now)
{
    uint64_t ms = now->now_ms, steps = now->values.steps_published;
    if (pace->older.ms == 0 || ms < pace->newer.ms || steps < pace->newer.steps)
        *pace = (struct top_pace){.older = {ms, steps}, .newer = {ms, steps}};
    else if (ms - pace->newer.ms >= PACE_MS && steps - pace->newer.steps >= PACE_STEPS) {
        pace->older = pace->newer;
        pace->newer.ms = ms;
        pace->newer.steps = steps;
    }
    uint64_t published = steps - pace->older.steps, passed_ms = ms - pace->older.ms;
    pace->steps_per_s =
        published >= PACE_STEPS && passed_ms > 0 ? 1000 * (double)published / (double)passed_ms : 0;
}

/* What all readers are at. All have the same epochs, and publish the same steps, give or take a
 * few. */
struct progress_of_run {
    uint64_t epoch, epochs, step, steps;
    double samples_per_s;
};

static struct progress_of_run find_progress(const struct top_view *view)
{
    struct progress_of_run at = {.epoch = UINT64_MAX};
    for (size_t r = 0; r < view->count; r++) {
        const struct metrics_values *values = &view->pairs[r].after->values;
        if (values->epoch < at.epoch || (values->epoch == at.epoch && values->step < at.step)) {
            at.epoch = values->epoch;
            at.step = values->step;
        }
        at.epochs = values->epochs;
        at.steps = values->steps_per_epoch;
        at.samples_per_s += METRICS_RATE(&view->pairs[r], samples);
    }
    return at;
}

static const char *duration(double seconds, char out[32])
{
    uint64_t s = seconds < 1e8 ? (uint64_t)(seconds + 0.5) : 99999999;
    if (s < 60)
        snprintf(out, 32, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(out, 32, "%" PRIu64 " min %02" PRIu64 " s", s / 60, s % 60);
    else
        snprintf(out, 32, "%" PRIu64 " h %02" PRIu64 " min", s / 3600, s / 60 % 60);
    return out;
}

/* "epoch 1 of 3, step 120 of 400 (30%), 2,340 samples/s, 12 s left of the epoch" */
static void append_progress(const struct top_view *view, struct text *out)
{
    struct progress_of_run at = find_progress(view);
    char left[32];
    if (at.epochs > 0 && at.epoch >= at.epochs) {
        text_append(out, "all %s epoch%s published", count_format(at.epochs).text,
                    count_plural(at.epochs));
        return;
    }
    text_append(out, "epoch %" PRIu64, at.epoch);
    if (at.epochs > 0)
        text_append(out, " of %" PRIu64, at.epochs);
    text_append(out, ", step %s of %s (%.0f%%), %s samples/s", count_format(at.step).text,
                count_format(at.steps).text,
                100 * (double)at.step / (double)(at.steps ? at.steps : 1),
                count_format((uint64_t)at.samples_per_s).text);
    if (view->steps_per_s > 0)
        text_append(out, ", %s left of the epoch",
                    duration((double)(at.steps - at.step) / view->steps_per_s, left));
}

/* Lines of the screen, cut where it ends. Escapes take no room. */
struct screen {
    struct text *out;
    int width, height, lines;
    bool color;
};

static void put_line(struct screen *screen, const char *escape, const struct text *line)
{
    if (screen->lines == screen->height)
        return;
    screen->lines++;
    bool colored = screen->color && *escape;
    text_append(screen->out, "%s%.*s%s\n", colored ? escape : "", screen->width,
                line->data ? line->data : "", colored ? "\033[0m" : "");
}

static void put_done(struct screen *screen, const char *escape, struct text *line)
{
    put_line(screen, escape, line);
    text_done(line);
}

static const char *verdict_escape(const struct metrics_verdict *verdict)
{
    return verdict->wait_share >= 0.1    ? "\033[1;31m"
           : verdict->wait_share >= 0.01 ? "\033[1;33m"
                                         : "\033[1;32m";
}

/* The advice gets a line of its own where both do not fit. */
static void put_verdict(struct screen *screen, const struct metrics_verdict *verdict)
{
    struct text line = {0};
    const char *advice = strstr(verdict->text, "; ");
    if (advice && strlen(verdict->text) > (size_t)screen->width) {
        text_append(&line, "%.*s;", (int)(advice - verdict->text), verdict->text);
        put_done(screen, verdict_escape(verdict), &line);
        text_append(&line, "%s", advice + 2);
    } else {
        text_append(&line, "%s", verdict->text);
    }
    put_done(screen, verdict_escape(verdict), &line);
}

/* What a reader's rounds waited for most. */
static enum metrics_cause most_blocked(const struct metrics_pair *pair, double *ret_share)
{
    enum metrics_cause most = CAUSE_COUNT;
    *ret_share = 0;
    for (int c = 0; c < CAUSE_COUNT; c++) {
        double share = metrics_blocked_share(pair, (enum metrics_cause)c);
        if (share > *ret_share) {
            *ret_share = share;
            most = (enum metrics_cause)c;
        }
    }
    return most;
}

/* Rows kept, of all; the share of rows in memory anywhere cannot be told from one reader. */
static double kept_share(const struct metrics_values *values)
{
    return values->dataset_rows ? (double)values->cached_rows / (double)values->dataset_rows : 0;
}

static struct size_text rate_text(double bytes)
{
    return size_format((uint64_t)bytes);
}

static void put_reader(struct screen *screen, const struct metrics_pair *pair)
{
    struct text line = {0};
    const struct metrics_values *values = &pair->after->values;
    double share;
    enum metrics_cause cause = most_blocked(pair, &share);
    text_append(&line, "%6" PRIu32 "  %-10.10s %10s %10s %10s %5.0f%% %4.0f%%", pair->after->reader,
                pair->after->node, count_format((uint64_t)METRICS_RATE(pair, samples)).text,
                rate_text(METRICS_RATE(pair, stored_bytes)).text,
                rate_text(METRICS_RATE(pair, decoded_bytes)).text, 100 * kept_share(values),
                100 * metrics_busy_share(pair));
    if (screen->width >= WIDE)
        text_append(&line, " %10s %10s %10s %7.1f %8s",
                    rate_text(METRICS_RATE(pair, memory_bytes)).text,
                    rate_text(METRICS_RATE(pair, disk_bytes)).text,
                    rate_text(METRICS_RATE(pair, sent_bytes)).text,
                    METRICS_RATE(pair, cpu_ns) / 1e9, count_format(values->store_retries).text);
    if (pair->after->state != METRICS_SERVING)
        text_append(&line, "  gathering");
    else
        text_append(&line, "  %s %.0f%%", metrics_cause_name(cause), 100 * share);
    put_done(screen, "", &line);
}

static void put_readers(struct screen *screen, const struct top_view *view)
{
    struct text head = {0};
    text_append(&head, "%6s  %-10s %10s %10s %10s %6s %5s", "reader", "node", "samples/s",
                "store/s", "decoded/s", "kept", "busy");
    if (screen->width >= WIDE)
        text_append(&head, " %10s %10s %10s %7s %8s", "memory/s", "disk/s", "sent/s", "cores",
                    "retries");
    text_append(&head, "  waits for");
    put_done(screen, "\033[4m", &head);
    /* Half of what is left is the trainers', where that many lines are needed. */
    size_t room = (size_t)(screen->height - screen->lines) / 2;
    size_t shown = view->count > room + 1 ? room : view->count;
    for (size_t r = 0; r < shown; r++)
        put_reader(screen, &view->pairs[r]);
    if (shown < view->count) {
        struct text rest = {0};
        text_append(&rest, "and %s more: --once shows all", count_format(view->count - shown).text);
        put_done(screen, "", &rest);
    }
}

/* A trainer and where its figures are. */
struct trainer_at {
    const struct metrics_pair *pair;
    uint32_t index;
    double wait_share;
};

static int by_wait(const void *left, const void *right)
{
    const struct trainer_at *a = left, *b = right;
    if (a->wait_share != b->wait_share)
        return a->wait_share < b->wait_share ? 1 : -1;
    uint32_t rank_a = a->pair->after->trainers[a->index].rank;
    uint32_t rank_b = b->pair->after->trainers[b->index].rank;
    return (rank_a > rank_b) - (rank_a < rank_b);
}

static void put_trainer(struct screen *screen, const struct trainer_at *at)
{
    struct text line = {0};
    const struct metrics_trainer *trainer = &at->pair->after->trainers[at->index];
    const struct metrics_trainer_values *values = &trainer->values;
    double batches = 0;
    for (uint32_t i = 0; i < at->pair->before->trainer_count; i++)
        if (at->pair->before->trainers[i].rank == trainer->rank)
            batches = metrics_rate(at->pair, at->pair->before->trainers[i].values.batches,
                                   values->batches);
    uint64_t age_ms = at->pair->after->now_ms - values->released_ms;
    char age[32] = "never";
    if (values->released_ms > 0 && values->released_ms < at->pair->after->now_ms)
        duration((double)age_ms / 1000, age);
    else if (values->released_ms > 0)
        duration(0, age);
    text_append(&line,
                "%7" PRIu32 "  %6" PRIu32 " %10.1f %6.0f%% %5" PRIu64 " %6" PRIu64 " %5" PRIu64
                " %14s  %s",
                trainer->rank, at->pair->after->reader, batches, 100 * at->wait_share,
                values->ready, values->held, values->slots, age,
                !trainer->connected ? "gone"
                : values->waiting   ? "waits"
                                    : "works");
    put_done(screen, at->wait_share >= 0.1 ? "\033[31m" : "", &line);
}

static void put_trainers(struct screen *screen, const struct top_view *view)
{
    struct text head = {0};
    uint32_t count = 0;
    for (size_t r = 0; r < view->count; r++)
        count += view->pairs[r].after->trainer_count;
    if (count == 0)
        return;
    struct trainer_at *all = calloc(count, sizeof *all);
    if (!all)
        return;
    uint32_t n = 0;
    for (size_t r = 0; r < view->count; r++)
        for (uint32_t t = 0; t < view->pairs[r].after->trainer_count; t++)
            all[n++] =
                (struct trainer_at){&view->pairs[r], t, metrics_wait_share(&view->pairs[r], t)};
    qsort(all, n, sizeof *all, by_wait);
    text_append(&head, "%7s  %6s %10s %7s %5s %6s %5s %14s  %s", "trainer", "reader", "batches/s",
                "waits", "ready", "leased", "slots", "last release", "now");
    put_done(screen, "\033[4m", &head);
    int room = screen->height - screen->lines;
    uint32_t shown = room > 0 && n > (uint32_t)room ? (uint32_t)room - 1 : n;
    for (uint32_t i = 0; i < shown; i++)
        put_trainer(screen, &all[i]);
    if (shown < n) {
        struct text rest = {0};
        text_append(&rest, "and %s more that wait less", count_format(n - shown).text);
        put_done(screen, "", &rest);
    }
    free(all);
}

static void put_missing(struct screen *screen, const struct top_view *view, uint64_t missing)
{
    struct text line = {0};
    text_append(&line, "%s more on other nodes: %s", count_format(missing).text,
                view->asks_others ? "no answer yet"
                                  : "run penstock top on the node of reader 0, which shows all");
    put_done(screen, "", &line);
}

void top_screen(const struct top_view *view, struct text *out)
{
    struct screen screen = {
        .out = out, .width = view->width, .height = view->height, .color = view->color};
    const struct metrics_snapshot *first = view->pairs[0].after;
    struct text line = {0}, empty = {0};
    text_append(&line, "%s  seed %" PRIu64 "  %s", first->dataset, first->seed, view->run_dir);
    put_done(&screen, "", &line);
    append_progress(view, &line);
    put_done(&screen, "", &line);
    put_verdict(&screen, view->verdict);
    put_line(&screen, "", &empty);
    put_readers(&screen, view);
    if (view->count < first->reader_count)
        put_missing(&screen, view, first->reader_count - view->count);
    put_line(&screen, "", &empty);
    put_trainers(&screen, view);
}

void top_line(const struct top_view *view, struct text *out)
{
    append_progress(view, out);
    text_append(out, "; %s\n", view->verdict->text);
}

static void append_rates(const struct metrics_pair *pair, struct text *out)
{
    text_append(out, "{\"reader\":%" PRIu32 ",\"seconds\":%.3f", pair->after->reader,
                metrics_seconds(pair));
    text_append(out, ",\"samples\":%.3f,\"store_bytes\":%.0f,\"decoded_bytes\":%.0f",
                METRICS_RATE(pair, samples), METRICS_RATE(pair, stored_bytes),
                METRICS_RATE(pair, decoded_bytes));
    text_append(out, ",\"sent_bytes\":%.0f,\"busy\":%.4f,\"blocked\":{",
                METRICS_RATE(pair, sent_bytes), metrics_busy_share(pair));
    for (int c = 0; c < CAUSE_COUNT; c++)
        text_append(out, "%s\"%s\":%.4f", c ? "," : "", metrics_cause_name((enum metrics_cause)c),
                    metrics_blocked_share(pair, (enum metrics_cause)c));
    text_append(out, "},\"waits\":{");
    for (uint32_t t = 0; t < pair->after->trainer_count; t++)
        text_append(out, "%s\"%" PRIu32 "\":%.4f", t ? "," : "", pair->after->trainers[t].rank,
                    metrics_wait_share(pair, t));
    text_append(out, "}}");
}

void top_json(const struct top_view *view, struct text *out)
{
    const struct metrics_verdict *verdict = view->verdict;
    text_append(out, "{\"verdict\":{\"text\":");
    text_append_json(out, verdict->text);
    text_append(out,
                ",\"wait\":%.4f,\"rank\":%" PRIu32 ",\"cause\":\"%s\",\"more_threads\":%" PRIu32
                "},\"rates\":[",
                verdict->wait_share, verdict->rank, metrics_cause_name(verdict->cause),
                verdict->more_threads);
    for (size_t r = 0; r < view->count; r++) {
        text_append(out, "%s", r ? "," : "");
        append_rates(&view->pairs[r], out);
    }
    text_append(out, "],\"readers\":[");
    for (size_t r = 0; r < view->count; r++) {
        text_append(out, "%s", r ? "," : "");
        metrics_snapshot_json(view->pairs[r].after, out);
    }
    text_append(out, "]}\n");
}
