/* See consume.h. */
#include "delivery/trainer/consume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

/* Redraws a line on a terminal a few times a second, prints one every ten seconds elsewhere. */
struct line {
    bool wanted, terminal, shown;
    double last;
};

static void show(struct line *line, const struct penstock_info *info,
                 const struct penstock_batch *batch, const struct report *report, double now)
{
    if (!line->wanted || now - line->last < (line->terminal ? 0.2 : 10))
        return;
    line->last = now;
    line->shown = true;
    double seconds = now - report->start;
    char rates[96] = "";
    if (report_rate_is_known(seconds))
        snprintf(rates, sizeof rates, ", %.0f samples/s, %.1f MB/s",
                 (double)report->samples / seconds, (double)report->bytes / seconds / 1e6);
    fprintf(stderr,
            "%sepoch %" PRIu64 "/%" PRIu64 " step %" PRIu64 "/%" PRIu64 "%s, %.1f%% waiting%s",
            line->terminal ? "\r" : "", batch->epoch + 1, info->epochs, batch->step + 1,
            info->steps_per_epoch, rates, 100 * report->wait_seconds / seconds,
            line->terminal ? "\033[K" : "\n");
    fflush(stderr);
}

static void hide(const struct line *line)
{
    if (line->shown && line->terminal)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static void pretend_to_compute(double ms)
{
    uint64_t ns = (uint64_t)(ms * 1e6);
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) < 0)
        continue;
}

static void touch(const struct penstock_info *info, const struct penstock_batch *batch)
{
    static volatile unsigned char sink;
    for (uint32_t f = 0; f < info->field_count; f++) {
        const volatile unsigned char *data = batch->data[f];
        uint64_t bytes =
            penstock_sample_bytes(info, batch, f) * penstock_item_count(info, batch, f);
        for (uint64_t offset = 0; offset < bytes; offset += PAGE_BYTES)
            sink = data[offset];
    }
    (void)sink;
}

static uint64_t batch_bytes(const struct penstock_info *info, const struct penstock_batch *batch)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < info->field_count; f++)
        bytes += penstock_sample_bytes(info, batch, f) * penstock_item_count(info, batch, f);
    return bytes;
}

/* What is leased, in order of steps. */
struct leases {
    struct penstock_batch batches[CONSUME_MOST_LEASES];
    uint32_t count;
    uint32_t given; /* back, so far */
};

/* Any, but the oldest when it is in the way of others: when as many have been taken since as a ring
 * has slots. */
static uint32_t choose(const struct leases *leases, const struct penstock_info *info)
{
    const struct penstock_batch *oldest = &leases->batches[0];
    const struct penstock_batch *newest = &leases->batches[leases->count - 1];
    uint64_t span =
        (newest->epoch - oldest->epoch) * info->steps_per_epoch + newest->step - oldest->step + 1;
    return span >= info->slot_count ? 0 : leases->given % 5 * 7 % leases->count;
}

static enum penstock_status give_back(struct leases *leases, struct penstock *connection,
                                      const struct consume_options *options)
{
    const struct penstock_info *info = penstock_describe(connection);
    uint32_t at = choose(leases, info);
    struct penstock_batch batch = leases->batches[at];
    leases->given++;
    memmove(&leases->batches[at], &leases->batches[at + 1], (--leases->count - at) * sizeof batch);
    if (options->digest && !digest_batch(options->digest, info, &batch))
        return PENSTOCK_IO;
    return penstock_release(connection, &batch);
}

/* Gives back what is too much: all of it before the end is asked for. */
static enum penstock_status make_room(struct leases *leases, struct penstock *connection,
                                      const struct consume_options *options)
{
    const struct penstock_info *info = penstock_describe(connection);
    const struct penstock_batch *newest = &leases->batches[leases->count - 1];
    bool last = newest->epoch + 1 == info->epochs && newest->step + 1 == info->steps_per_epoch;
    enum penstock_status status = PENSTOCK_OK;
    while (status == PENSTOCK_OK && leases->count > 0 && (last || leases->count >= options->leases))
        status = give_back(leases, connection, options);
    return status;
}

enum penstock_status consume(struct penstock *connection, const struct consume_options *options,
                             struct report *report)
{
    const struct penstock_info *info = penstock_describe(connection);
    struct line line = {.wanted = options->progress, .terminal = isatty(STDERR_FILENO)};
    enum penstock_status status = PENSTOCK_OK, rest = PENSTOCK_OK;
    struct leases leases = {0};
    while (options->steps == 0 || report->batches < options->steps) {
        struct penstock_batch batch;
        double before = report_now();
        status = penstock_next(connection, &batch, -1);
        double after = report_now();
        report->wait_seconds += after - before;
        if (status != PENSTOCK_OK)
            break;
        if (options->touch)
            touch(info, &batch);
        if (options->compute_ms > 0)
            pretend_to_compute(options->compute_ms);
        report_batch(report, &batch, batch_bytes(info, &batch), after, report_now());
        show(&line, info, &batch, report, report_now());
        leases.batches[leases.count++] = batch;
        status = make_room(&leases, connection, options);
        if (status != PENSTOCK_OK)
            break;
    }
    while (rest == PENSTOCK_OK && leases.count > 0)
        rest = give_back(&leases, connection, options);
    if (status == PENSTOCK_OK || status == PENSTOCK_ENDED)
        status = rest == PENSTOCK_OK ? status : rest;
    report->end = report_now();
    hide(&line);
    return status;
}
