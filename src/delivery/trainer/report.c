/* See report.h. */
#include "delivery/trainer/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

double report_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void report_init(struct report *report)
{
    double now = report_now();
    *report = (struct report){.start = now, .end = now};
}

/* The record of the batch's epoch: the last one, or a new one behind it. */
static struct report_epoch *epoch_of(struct report *report, uint64_t epoch)
{
    size_t count = report->epoch_count;
    if (count > 0 && report->epochs[count - 1].epoch == epoch)
        return &report->epochs[count - 1];
    struct report_epoch *epochs = realloc(report->epochs, (count + 1) * sizeof *epochs);
    if (!epochs)
        return NULL;
    double start = count > 0 ? epochs[count - 1].end : report->start;
    epochs[count] = (struct report_epoch){.epoch = epoch, .start = start, .end = start};
    report->epochs = epochs;
    report->epoch_count = count + 1;
    return &epochs[count];
}

void report_batch(struct report *report, const struct penstock_batch *batch, uint64_t bytes,
                  double came, double done)
{
    if (report->batches == 0)
        report->first_seconds = came - report->start;
    report->batches++;
    report->samples += batch->sample_count;
    report->bytes += bytes;
    struct report_epoch *epoch = epoch_of(report, batch->epoch);
    if (epoch) {
        epoch->samples += batch->sample_count;
        epoch->end = done;
    }
}

bool report_rate_is_known(double seconds)
{
    return seconds >= 0.05;
}

/* A rate as JSON has it: null if the time is too short to tell. */
static const char *rate(double amount, double seconds, int digits, char text[32])
{
    if (!report_rate_is_known(seconds))
        return "null";
    snprintf(text, 32, "%.*f", digits, amount / seconds);
    return text;
}

void report_write(const struct report *report, const struct penstock_info *info,
                  enum penstock_status status, FILE *file)
{
    double seconds = report->end - report->start;
    char samples[32], bytes[32];
    fprintf(
        file,
        "{\"rank\":%" PRIu32 ",\"world_size\":%" PRIu32 ",\"status\":\"%s\",\"batches\":%" PRIu64
        ",\"samples\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"seconds\":%.6f,\"samples_per_s\":%s"
        ",\"bytes_per_s\":%s,\"wait_seconds\":%.6f,\"wait_share\":%.6f"
        ",\"first_batch_ms\":%.3f,\"epochs\":[",
        info->rank, info->world_size, penstock_status_text(status), report->batches,
        report->samples, report->bytes, seconds, rate((double)report->samples, seconds, 3, samples),
        rate((double)report->bytes, seconds, 0, bytes), report->wait_seconds,
        seconds > 0 ? report->wait_seconds / seconds : 0, report->first_seconds * 1000);
    for (size_t i = 0; i < report->epoch_count; i++) {
        const struct report_epoch *epoch = &report->epochs[i];
        fprintf(file, "%s{\"epoch\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"seconds\":%.6f}",
                i ? "," : "", epoch->epoch, epoch->samples, epoch->end - epoch->start);
    }
    fputs("]}\n", file);
}

void report_done(struct report *report)
{
    free(report->epochs);
    report->epochs = NULL;
    report->epoch_count = 0;
}
