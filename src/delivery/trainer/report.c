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

/* A name as a JSON string. */
static void write_name(const char *name, FILE *file)
{
    fputc('"', file);
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == '"' || *name == '\\')
            fprintf(file, "\\u%04x", (unsigned)*name);
        else
            fputc(*name, file);
    fputc('"', file);
}

/* An index, or null for UINT64_MAX. */
static void write_second(uint64_t second, FILE *file)
{
    if (second == UINT64_MAX)
        fputs("null", file);
    else
        fprintf(file, "%" PRIu64, second);
}

static void write_field(const struct penstock_field *field, FILE *file)
{
    fputs("{\"name\":", file);
    write_name(field->name, file);
    fputs(",\"shape\":[", file);
    for (int32_t axis = 0; axis < field->rank; axis++)
        fprintf(file, "%s%" PRIu64, axis > 0 ? "," : "", field->shape[axis]);
    fputs("],\"cuts\":[", file);
    for (uint32_t k = 0; k < field->cut_count; k++) {
        const struct penstock_cut *cut = &field->cuts[k];
        fprintf(file,
                "%s{\"axis\":%" PRIu32 ",\"whole\":%" PRIu64 ",\"begin\":%" PRIu64 ",\"second\":",
                k > 0 ? "," : "", cut->axis, cut->whole, cut->begin);
        write_second(cut->second, file);
        fputs("}", file);
    }
    fputs("]}", file);
}

/* Where the trainer is in the mesh, and what it has of which fields. */
static void write_share(const struct penstock_info *info, FILE *file)
{
    fprintf(file, ",\"group\":%" PRIu32 ",\"group_count\":%" PRIu32 ",\"coordinates\":{",
            info->group, info->group_count);
    for (uint32_t a = 0; a < info->axis_count; a++) {
        fputs(a > 0 ? "," : "", file);
        write_name(info->axes[a].name, file);
        fprintf(file, ":%" PRIu32, info->axes[a].coordinate);
    }
    fputs("},\"fields\":[", file);
    for (uint32_t f = 0; f < info->field_count; f++) {
        fputs(f > 0 ? "," : "", file);
        write_field(&info->fields[f], file);
    }
    fputs("]", file);
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
    fputs("]", file);
    write_share(info, file);
    fputs("}\n", file);
}

void report_done(struct report *report)
{
    free(report->epochs);
    report->epochs = NULL;
    report->epoch_count = 0;
}
