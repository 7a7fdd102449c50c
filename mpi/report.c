/* The table at the end of a run; see service.h. Times of different nodes are not compared: rank 0's
 * clock gives the durations, sums over readers the rest.
 */
#include "service.h"

#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

enum { STATS_WORDS = sizeof(struct epoch_stats) / sizeof(uint64_t) };

_Static_assert(sizeof(struct epoch_stats) % sizeof(uint64_t) == 0, "summed as uint64_t");

/* What most of the epoch was spent waiting for, in words that say where to look. A reader that
 * waits for the slowest one's rows sees that as waiting for the exchange: only what even the least
 * concerned reader waited there is the network's, so `waits` holds the least over all readers for
 * the exchange, and the most for all else. */
static const char *bound_by(const struct epoch_stats *sum, const struct epoch_stats *waits)
{
    static const enum round_block candidates[] = {BLOCK_ROWS, BLOCK_COPY, BLOCK_EXCHANGE,
                                                  BLOCK_SLOTS, BLOCK_PLAN};
    enum round_block most = BLOCK_ROWS;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (waits->blocked_ns[candidates[i]] > waits->blocked_ns[most])
            most = candidates[i];
    switch (most) {
    case BLOCK_ROWS:
        return sum->read_ns > sum->decode_ns ? "storage" : "decode";
    case BLOCK_COPY:
        return "memory";
    case BLOCK_EXCHANGE:
        return "network";
    case BLOCK_SLOTS:
        return "trainers";
    case BLOCK_PLAN:
        return "planning";
    case BLOCK_NONE:
    case BLOCK_COUNT:
        break;
    }
    return "nothing";
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* One epoch of the report: rank 0's own durations and counts, sums over readers, and what bounded
 * it. */
struct epoch_line {
    uint64_t epoch;
    const struct epoch_stats *mine, *sum;
    const char *bound;
};

static void append_row(const struct job *job, const struct epoch_line *line, struct text *out)
{
    double elapsed = seconds(line->mine->duration_ns);
    double rate = elapsed > 0 ? (double)line->mine->samples / elapsed : 0;
    text_append(
        out, "%5llu %8s %8s %9.2f %11.0f %9.3f %11s %11s  %s\n", (unsigned long long)line->epoch,
        count_format(line->mine->steps).text, count_format(line->mine->samples).text, elapsed, rate,
        rate * (double)job->dataset->sample_bytes / 1e9, size_format(line->sum->stored_bytes).text,
        size_format(line->sum->sent_bytes).text, line->bound);
}

static void append_json(const struct job *job, const struct epoch_line *line, struct text *json)
{
    const struct epoch_stats *sum = line->sum;
    text_append(json,
                "{\"epoch\":%llu,\"steps\":%llu,\"samples\":%llu,\"seconds\":%.6f,"
                "\"sample_bytes\":%zu,\"stored_bytes\":%llu,\"memory_bytes\":%llu,"
                "\"disk_bytes\":%llu,\"decoded_bytes\":%llu,\"chunks\":%llu,"
                "\"sent_bytes\":%llu,\"read_s\":%.6f,\"decode_s\":%.6f,\"copy_s\":%.6f,"
                "\"cpu_s\":%.6f,\"bound_by\":\"%s\"}",
                (unsigned long long)line->epoch, (unsigned long long)line->mine->steps,
                (unsigned long long)line->mine->samples, seconds(line->mine->duration_ns),
                job->dataset->sample_bytes, (unsigned long long)sum->stored_bytes,
                (unsigned long long)sum->memory_bytes, (unsigned long long)sum->disk_bytes,
                (unsigned long long)sum->decoded_bytes, (unsigned long long)sum->chunk_count,
                (unsigned long long)sum->sent_bytes, seconds(sum->read_ns), seconds(sum->decode_ns),
                seconds(sum->copy_ns), seconds(sum->cpu_ns), line->bound);
}

/* The report's epochs over all readers: sums, most and least of each number. */
enum { SUM, MOST, LEAST, KINDS };
struct epoch_totals {
    struct epoch_stats of[KINDS][SERVICE_MAX_EPOCH_STATS];
};

static void append_report(const struct job *job, const struct service_report *report,
                          struct epoch_totals *totals, struct text *out, struct text *json)
{
    text_append(out, "%5s %8s %8s %9s %11s %9s %11s %11s  %s\n", "epoch", "steps", "samples",
                "seconds", "samples/s", "GB/s", "from store", "exchanged", "bounded by");
    text_append(json, "{\"readers\":%d,\"trainers\":%llu,\"epochs\":[", job->comm.size,
                (unsigned long long)job->config.trainers);
    for (uint64_t i = 0; i < report->epoch_count; i++) {
        struct epoch_stats *waits = &totals->of[MOST][i];
        waits->blocked_ns[BLOCK_EXCHANGE] = totals->of[LEAST][i].blocked_ns[BLOCK_EXCHANGE];
        struct epoch_line line = {.epoch = report->first_epoch + i,
                                  .mine = &report->epochs[i],
                                  .sum = &totals->of[SUM][i],
                                  .bound = bound_by(&totals->of[SUM][i], waits)};
        append_row(job, &line, out);
        text_append(json, "%s", i ? "," : "");
        append_json(job, &line, json);
    }
    text_append(json, "]}\n");
}

void service_describe(const struct job *job, const struct service_report *report, struct text *out,
                      struct text *json)
{
    enum { WORDS = SERVICE_MAX_EPOCH_STATS * STATS_WORDS };
    const MPI_Op operations[KINDS] = {MPI_SUM, MPI_MAX, MPI_MIN};
    struct epoch_totals *totals = calloc(1, sizeof *totals);
    if (!totals) {
        MPI_Abort(MPI_COMM_WORLD, 1); /* a few hundred KiB at the very end */
        return;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Request request;
        MPI_Ireduce(report->epochs, totals->of[kind], WORDS, MPI_UINT64_T, operations[kind], 0,
                    job->comm.world, &request);
        comm_wait(&job->comm, &request);
    }
    if (job->comm.rank == 0)
        append_report(job, report, totals, out, json);
    free(totals);
}
