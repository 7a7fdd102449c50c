/* service_describe(): the table at the end of a run, its JSON and its page. Of different
 * readers' clocks only times since a session's start are compared (books_durations()); all other
 * figures are sums over readers. */
#include "account/meter.h"
#include "base/size.h"
#include "report/report_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATS_WORDS = sizeof(struct epoch_stats) / sizeof(uint64_t) };

_Static_assert(sizeof(struct epoch_stats) % sizeof(uint64_t) == 0, "summed as uint64_t");
_Static_assert(sizeof(struct report_reader) % sizeof(uint64_t) == 0, "sent as uint64_t");

/* What most of the epoch was spent waiting for, in words that say where to look. A reader that
 * waits for the slowest one's rows sees that as waiting for the exchange: only what even the least
 * concerned reader waited there is the network's, so `waits` holds the least over all readers for
 * the exchange, and the most for all else. */
static const char *bound_by(const struct epoch_stats *sum, const struct epoch_stats *waits)
{
    static const enum round_block candidates[] = {BLOCK_ROWS,      BLOCK_COPY,  BLOCK_EXCHANGE,
                                                  BLOCK_TRANSFORM, BLOCK_SLOTS, BLOCK_PLAN};
    enum round_block most = BLOCK_ROWS;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (waits->blocked_ns[candidates[i]] > waits->blocked_ns[most])
            most = candidates[i];
    switch (most) {
    case BLOCK_ROWS:
        return sum->work.read.read_ns > sum->work.read.decode_ns ? "storage" : "decode";
    case BLOCK_COPY:
        return "memory";
    case BLOCK_EXCHANGE:
        return "network";
    case BLOCK_TRANSFORM:
        return "transform";
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

static void append_row(const struct job *job, const struct epoch_line *line, struct text *out)
{
    double elapsed = seconds(line->duration_ns);
    double rate = (double)line->sum.samples / elapsed;
    char samples[32] = "-", bytes[32] = "-";
    if (rate_is_known(elapsed)) {
        snprintf(samples, sizeof samples, "%.0f", rate);
        uint64_t each = dataset_sample_bytes_in(job_whole(job), line->epoch);
        snprintf(bytes, sizeof bytes, "%.3f", rate * (double)each / 1e9);
    }
    text_append(out, "%5llu %8s %8s %9.2f %11s %9s %11s %11s  %s\n",
                (unsigned long long)line->epoch, count_format(line->sum.steps).text,
                count_format(line->sum.samples).text, elapsed, samples, bytes,
                size_format(line->sum.work.read.stored_bytes).text,
                size_format(line->sum.sent_bytes).text, line->bound);
}

/* What is counted alike for all readers together and for each of them, in the JSON's order. */
#define AT(member) offsetof(struct epoch_stats, member)
static const struct {
    const char *key;
    size_t offset;
    enum metrics_unit unit;
} counters[] = {
    {"rows_read", AT(rows_read), METRICS_COUNT},
    {"stored_bytes", AT(work.read.stored_bytes), METRICS_BYTES},
    {"memory_bytes", AT(work.read.memory_bytes), METRICS_BYTES},
    {"disk_bytes", AT(work.read.disk_bytes), METRICS_BYTES},
    {"decoded_bytes", AT(work.read.decoded_bytes), METRICS_BYTES},
    {"chunks", AT(work.read.chunk_count), METRICS_COUNT},
    {"sent_bytes", AT(sent_bytes), METRICS_BYTES},
    {"moved_samples", AT(moved_samples), METRICS_COUNT},
    {"further_passes", AT(further_passes), METRICS_COUNT},
    {"read_s", AT(work.read.read_ns), METRICS_NS},
    {"decode_s", AT(work.read.decode_ns), METRICS_NS},
    {"copy_s", AT(work.copy_ns), METRICS_NS},
    {"plan_s", AT(plan_ns), METRICS_NS},
    {"fill_s", AT(fill_ns), METRICS_NS},
    {"scatter_s", AT(scatter_ns), METRICS_NS},
    {"exchange_s", AT(exchange_ns), METRICS_NS},
    {"cpu_s", AT(cpu_ns), METRICS_NS},
    {"stalls", AT(stall_count), METRICS_COUNT},
};

static void append_counters(const struct epoch_stats *stats, struct text *json)
{
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        uint64_t value = *(const uint64_t *)((const char *)stats + counters[i].offset);
        text_append(json, "%s\"%s\":", i ? "," : "", counters[i].key);
        if (counters[i].unit == METRICS_NS)
            text_append(json, "%.6f", seconds(value));
        else
            text_append(json, "%" PRIu64, value);
    }
    text_append(json, ",\"turns\":[");
    for (int bin = 0; bin < BOOKS_TURN_BINS; bin++)
        text_append(json, "%s%" PRIu64, bin ? "," : "", stats->turns[bin]);
    text_append(json, "]");
}

uint64_t report_foreseen_bytes(const struct job *job, const struct epoch_stats *sum)
{
    uint64_t record_bytes = job->setup.record_bytes + job->setup.demand.ragged.mean_trailer_bytes;
    return sum->foreseen_samples * record_bytes;
}

static void append_json(const struct job *job, const struct epoch_line *line, struct text *json)
{
    text_append(json,
                "{\"epoch\":%llu,\"steps\":%llu,\"samples\":%llu,\"seconds\":%.6f,"
                "\"sample_bytes\":%zu,",
                (unsigned long long)line->epoch, (unsigned long long)line->sum.steps,
                (unsigned long long)line->sum.samples, seconds(line->duration_ns),
                job_whole(job)->sample_bytes);
    uint64_t moved = line->sum.moved_samples, samples = line->sum.samples;
    append_counters(&line->sum, json);
    text_append(json, ",\"local_samples\":%llu",
                (unsigned long long)(samples > moved ? samples - moved : 0));
    text_append(json, ",\"foreseen_sent_bytes\":%llu,\"bound_by\":\"%s\"}",
                (unsigned long long)report_foreseen_bytes(job, &line->sum), line->bound);
}

static const struct epoch_stats *epoch_of(const struct all_epochs *all, uint64_t reader,
                                          uint64_t epoch)
{
    return &all->epochs[reader * all->epoch_count + epoch];
}

/* One epoch over all readers: sums, and what it waited for as bound_by() wants it. */
static void add_up(const struct all_epochs *all, uint64_t epoch, struct epoch_stats *ret_sum,
                   struct epoch_stats *ret_waits)
{
    struct epoch_stats sum = {0}, waits = *epoch_of(all, 0, epoch);
    uint64_t steps = 0; /* of the reader whose trainers came furthest */
    for (uint64_t r = 0; r < all->reader_count; r++) {
        const struct epoch_stats *stats = epoch_of(all, r, epoch);
        steps = stats->steps > steps ? stats->steps : steps;
        counters_add(&sum, stats, sizeof sum);
        for (size_t i = 0; i < BLOCK_COUNT; i++) {
            bool least = i == BLOCK_EXCHANGE;
            if ((stats->blocked_ns[i] < waits.blocked_ns[i]) == least)
                waits.blocked_ns[i] = stats->blocked_ns[i];
        }
    }
    sum.steps = steps;
    *ret_sum = sum;
    *ret_waits = waits;
}

struct epoch_line report_epoch(const struct service_summary *summary, const struct all_epochs *all,
                               uint64_t i)
{
    struct epoch_stats waits;
    struct epoch_line line = {.epoch = summary->first_epoch + i,
                              .duration_ns = all->durations_ns[i]};
    add_up(all, i, &line.sum, &waits);
    line.bound = bound_by(&line.sum, &waits);
    return line;
}

/* Lines as strings: words and numbers of our own. */
static void append_lines(const char *lines, struct text *json)
{
    text_append(json, "[");
    for (bool first = true; *lines; first = false) {
        int length = (int)strcspn(lines, "\n");
        text_append(json, "%s\"%.*s\"", first ? "" : ",", length, lines);
        lines += length + (lines[length] == '\n');
    }
    text_append(json, "]");
}

static void append_reader(const struct job *job, const struct all_epochs *all, uint64_t reader,
                          uint64_t first_epoch, struct text *json)
{
    text_append(json, "{\"rank\":%" PRIu64 ",\"node\":", reader);
    text_append_json(json, job->seats[reader].node);
    text_append(json, ",\"seats\":");
    append_lines(job->seats[reader].seats, json);
    text_append(json, ",\"epochs\":[");
    for (uint64_t i = 0; i < all->epoch_count; i++) {
        text_append(json, "%s{\"epoch\":%" PRIu64 ",", i ? "," : "", first_epoch + i);
        append_counters(epoch_of(all, reader, i), json);
        text_append(json, "}");
    }
    text_append(json, "],\"metrics\":");
    metrics_json(&all->readers[reader].values, json);
    text_append(json, "}");
}

static void append_masked(const struct job *job, struct text *out)
{
    uint64_t samples = masks_samples(job->masks);
    const char *list = job->config.bad_list;
    if (samples > 0)
        text_append(out, "%s sample%s could not be read and %s masked%s%s\n",
                    count_format(samples).text, count_plural(samples),
                    samples == 1 ? "was" : "were",
                    !*list                         ? ""
                    : masks_are_listed(job->masks) ? ": see "
                                                   : "; not all of them are listed in ",
                    list);
}

static void append_filled(const struct job *job, const struct all_epochs *all, struct text *out,
                          struct text *json)
{
    const char *comma = "";
    text_append(json, ",\"filled_chunks\":{");
    for (size_t i = 0; i < job->dataset->field_count; i++) {
        uint64_t count = all->filled[i];
        if (count == 0)
            continue;
        text_append(json, "%s", comma);
        text_append_json(json, job->dataset->fields[i].name);
        text_append(json, ":%" PRIu64, count);
        comma = ",";
        text_append(out, "%s chunk%s of field '%s' %s not there, and read as the fill value\n",
                    count_format(count).text, count_plural(count), job->dataset->fields[i].name,
                    count == 1 ? "was" : "were");
    }
    text_append(json, "}");
}

static void append_report(const struct session *session, const struct service_summary *summary,
                          const struct all_epochs *all, struct text *out, struct text *json)
{
    const struct job *job = session->job;
    text_append(out, "%5s %8s %8s %9s %11s %9s %11s %11s  %s\n", "epoch", "steps", "samples",
                "seconds", "samples/s", "GB/s", "from store", "exchanged", "bounded by");
    text_append(json,
                "{\"order_id\":\"%016" PRIx64
                "\",\"trainers\":%llu,\"sessions\":%llu,\"window_rows\":%llu,\"memory\":",
                job->setup.service.order.id, (unsigned long long)job->config.trainers,
                (unsigned long long)summary->session_count,
                (unsigned long long)job->setup.plan.window_rows);
    run_setup_memory_json(&job->setup, json);
    text_append(json,
                ",\"masked_samples\":%" PRIu64 ",\"ring_bytes\":%" PRIu64
                ",\"ring_pages\":{\"hugetlb\":%" PRIu64 ",\"transparent\":%" PRIu64
                ",\"plain\":%" PRIu64 "},\"epochs\":[",
                masks_samples(job->masks), job->setup.layout.total_bytes,
                session->ring_pages[RING_PAGES_HUGETLB],
                session->ring_pages[RING_PAGES_TRANSPARENT], session->ring_pages[RING_PAGES_PLAIN]);
    for (uint64_t i = 0; i < all->epoch_count; i++) {
        struct epoch_line line = report_epoch(summary, all, i);
        append_row(job, &line, out);
        text_append(json, "%s", i ? "," : "");
        append_json(job, &line, json);
    }
    append_masked(job, out);
    text_append(json, "]");
    append_filled(job, all, out, json);
    text_append(json, ",");
    text_append(json, "\"readers\":[");
    for (uint64_t r = 0; r < all->reader_count; r++) {
        text_append(json, "%s", r ? "," : "");
        append_reader(job, all, r, summary->first_epoch, json);
    }
    text_append(json, "]}\n");
}

/* Epochs of which any reader has steps to tell. */
static uint64_t count_epochs(const struct comm *comm, const struct service_summary *summary)
{
    uint64_t count = summary->epoch_count;
    while (count > 0 && summary->epochs[count - 1].steps == 0 &&
           summary->epochs[count - 1].work.read.stored_bytes == 0)
        count--;
    comm_reduce(comm, &count, 1, MPI_UINT64_T, MPI_MAX, comm->world);
    return count;
}

/* Adds up the readers' series, on rank 0. Each reader's clock starts with its first session. */
static void gather_timeline(const struct comm *comm, const struct series *series,
                            struct timeline *ret_timeline)
{
    const uint64_t least_bin_ns = 250000000;
    uint64_t end_ns = series_duration_ns(series);
    comm_reduce(comm, &end_ns, 1, MPI_UINT64_T, MPI_MAX, comm->world);
    uint64_t bins = size_divide_up(end_ns, least_bin_ns);
    ret_timeline->end_ns = end_ns;
    ret_timeline->bins = bins < TIMELINE_BINS ? (uint32_t)bins : TIMELINE_BINS;
    for (uint32_t i = 0; i <= ret_timeline->bins; i++)
        for (int m = 0; m < SERIES_MEMBERS; m++)
            ret_timeline->points[i][m] = series_value(series, (enum series_member)m,
                                                      bins ? end_ns * i / ret_timeline->bins : 0);
    bool root = comm->rank == 0;
    MPI_Request request;
    MPI_Ireduce(root ? MPI_IN_PLACE : ret_timeline->points, ret_timeline->points,
                (int)(ret_timeline->bins + 1) * SERIES_MEMBERS, MPI_DOUBLE, MPI_SUM, 0, comm->world,
                &request);
    comm_wait(comm, &request);
}

/* On rank 0 what all readers have; on the others nothing that counts. */
static void gather(const struct job *job, const struct service_summary *summary,
                   struct all_epochs *ret_all)
{
    const struct comm *comm = &job->comm;
    uint64_t readers = comm->rank == 0 ? (uint64_t)comm->size : 0;
    struct all_epochs *all = ret_all;
    all->reader_count = readers;
    all->epoch_count = count_epochs(comm, summary);
    all->epochs = calloc(readers * all->epoch_count + 1, sizeof *all->epochs);
    all->durations_ns = calloc(all->epoch_count + 1, sizeof *all->durations_ns);
    all->readers = calloc(readers + 1, sizeof *all->readers);
    if (!all->epochs || !all->durations_ns || !all->readers)
        MPI_Abort(MPI_COMM_WORLD, 1); /* some KiB for each reader at the very end */
    MPI_Request request;
    int words = (int)(all->epoch_count * STATS_WORDS);
    MPI_Igather(summary->epochs, words, MPI_UINT64_T, all->epochs, words, MPI_UINT64_T, 0,
                comm->world, &request);
    comm_wait(comm, &request);
    books_durations(all->epochs, readers, all->epoch_count, all->durations_ns);
    struct report_reader mine = {.values = *meter_values(job->meter),
                                 .waited_most = meter_longest_wait(job->meter)};
    words = sizeof mine / sizeof(uint64_t);
    MPI_Igather(&mine, words, MPI_UINT64_T, all->readers, words, MPI_UINT64_T, 0, comm->world,
                &request);
    comm_wait(comm, &request);
    for (size_t i = 0; i < job->dataset->field_count; i++)
        all->filled[i] = dataset_filled_chunks(job->dataset, i);
    MPI_Ireduce(comm->rank == 0 ? MPI_IN_PLACE : all->filled, all->filled, DATASET_MAX_FIELDS,
                MPI_UINT64_T, MPI_SUM, 0, comm->world, &request);
    comm_wait(comm, &request);
    gather_timeline(comm, meter_series(job->meter), &all->timeline);
}

void service_describe(const struct session *session, const struct service_summary *summary,
                      struct text *out, struct text *json, struct text *page)
{
    const struct job *job = session->job;
    struct all_epochs all = {0};
    gather(job, summary, &all);
    if (job->comm.rank == 0) {
        append_report(session, summary, &all, out, json);
        if (page)
            report_html(job, summary, &all, page);
    }
    free(all.epochs);
    free(all.durations_ns);
    free(all.readers);
}
