/* The table at the end of a run; see service.h. Times of different nodes are not compared: rank 0's
 * clock gives the durations, sums over readers the rest.
 */
#include "service.h"

#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

enum { STATS_WORDS = sizeof(struct epoch_stats) / sizeof(uint64_t) };

_Static_assert(sizeof(struct epoch_stats) % sizeof(uint64_t) == 0, "summed as uint64_t");

/* What most of the epoch was spent waiting for, in words that say where to look. */
static const char *bound_by(const struct epoch_stats *sum)
{
    static const enum round_block candidates[] = {BLOCK_ROWS, BLOCK_COPY, BLOCK_EXCHANGE,
                                                  BLOCK_SLOTS, BLOCK_PLAN};
    enum round_block most = BLOCK_ROWS;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (sum->blocked_ns[candidates[i]] > sum->blocked_ns[most])
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

static void describe_epoch(const struct job *job, uint64_t epoch, const struct epoch_stats *sum,
                           uint64_t duration_ns, uint64_t steps, uint64_t samples, struct text *out)
{
    double elapsed = seconds(duration_ns);
    double rate = elapsed > 0 ? (double)samples / elapsed : 0;
    text_append(out, "%5llu %8s %8s %9.2f %11.0f %9.3f %11s %11s  %s\n", (unsigned long long)epoch,
                count_format(steps).text, count_format(samples).text, elapsed, rate,
                rate * (double)job->dataset->sample_bytes / 1e9,
                size_format(sum->stored_bytes).text, size_format(sum->sent_bytes).text,
                bound_by(sum));
}

static void epoch_json(const struct job *job, uint64_t epoch, const struct epoch_stats *sum,
                       uint64_t duration_ns, uint64_t steps, uint64_t samples, bool first,
                       struct text *json)
{
    text_append(json,
                "%s{\"epoch\":%llu,\"steps\":%llu,\"samples\":%llu,\"seconds\":%.6f,"
                "\"sample_bytes\":%zu,\"stored_bytes\":%llu,\"decoded_bytes\":%llu,\"chunks\":%llu,"
                "\"sent_bytes\":%llu,\"read_s\":%.6f,\"decode_s\":%.6f,\"copy_s\":%.6f,"
                "\"cpu_s\":%.6f,\"bound_by\":\"%s\"}",
                first ? "" : ",", (unsigned long long)epoch, (unsigned long long)steps,
                (unsigned long long)samples, seconds(duration_ns), job->dataset->sample_bytes,
                (unsigned long long)sum->stored_bytes, (unsigned long long)sum->decoded_bytes,
                (unsigned long long)sum->chunk_count, (unsigned long long)sum->sent_bytes,
                seconds(sum->read_ns), seconds(sum->decode_ns), seconds(sum->copy_ns),
                seconds(sum->cpu_ns), bound_by(sum));
}

void service_describe(const struct job *job, const struct service_report *report, struct text *out,
                      struct text *json)
{
    int words = SERVICE_MAX_EPOCH_STATS * STATS_WORDS;
    uint64_t *sums = calloc((size_t)words, sizeof *sums);
    MPI_Request request;
    MPI_Ireduce(report->epochs, sums, words, MPI_UINT64_T, MPI_SUM, 0, job->comm.world, &request);
    comm_wait(&job->comm, &request);
    if (job->comm.rank == 0) {
        const struct epoch_stats *sum = (const struct epoch_stats *)sums;
        text_append(out, "%5s %8s %8s %9s %11s %9s %11s %11s  %s\n", "epoch", "steps", "samples",
                    "seconds", "samples/s", "GB/s", "from store", "exchanged", "bounded by");
        if (json)
            text_append(json, "{\"readers\":%d,\"trainers\":%llu,\"epochs\":[", job->comm.size,
                        (unsigned long long)job->config.trainers);
        for (uint64_t i = 0; i < report->epoch_count; i++) {
            const struct epoch_stats *mine = &report->epochs[i];
            uint64_t epoch = report->first_epoch + i;
            describe_epoch(job, epoch, &sum[i], mine->duration_ns, mine->steps, mine->samples, out);
            if (json)
                epoch_json(job, epoch, &sum[i], mine->duration_ns, mine->steps, mine->samples,
                           i == 0, json);
        }
        if (json)
            text_append(json, "]}\n");
    }
    free(sums);
}
