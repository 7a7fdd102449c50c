/* The tables at the start of a run: see job_internal.h. */
#include "job_internal.h"

#include "base/size.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEAT_BYTES = 4096, WARNING_BYTES = 256 };

/* What each rank tells rank 0 about itself, to be printed. */
struct seat_report {
    char node[COMM_NODE_NAME_BYTES];
    char seats[SEAT_BYTES];
    char warning[WARNING_BYTES]; /* of the first of the readers that share cores; "": none */
};

static void write_report(const struct job *job, bool spawns, struct seat_report *report)
{
    struct text seats = {0}, warning = {0};
    topology_describe(&job->placement, &seats);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (job->core_count < cpus)
        text_append(&seats,
                    "   note: it may use %u of %ld cpus; mpirun --bind-to none lifts what a "
                    "launcher binds\n",
                    job->core_count, cpus);
    if (job->placement.seat_count && !(spawns && job->config.bind_trainers))
        text_append(&seats, "   note: trainers are not bound to these cpus; taskset -c does it\n");
    if (job->placement.reader == 0)
        topology_describe_crowd(&job->placement, &warning);
    *report = (struct seat_report){0};
    snprintf(report->node, sizeof report->node, "%s", job->comm.node_name);
    snprintf(report->seats, sizeof report->seats, "%s", seats.data ? seats.data : "");
    snprintf(report->warning, sizeof report->warning, "%s", warning.data ? warning.data : "");
    text_done(&seats);
    text_done(&warning);
}

/* How many of the reports [0, count) have the same text at `offset` as report `index`; 0 if an
 * earlier one than `index` has, for then it was counted there. */
static int count_alike(const struct seat_report *all, int count, int index, size_t offset)
{
    const char *text = (const char *)&all[index] + offset;
    int alike = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp((const char *)&all[i] + offset, text) != 0)
            continue;
        if (i < index)
            return 0;
        alike++;
    }
    return alike;
}

/* "reader 0 on node1, 1 on node2, ..., and 12 more alike": those that sit as reader `first` does.
 */
static void name_readers(const struct seat_report *all, int count, int first, int alike,
                         struct text *out)
{
    enum { MOST_NAMES = 8 };
    int named = 0;
    for (int i = first; i < count && named < MOST_NAMES; i++)
        if (strcmp(all[i].seats, all[first].seats) == 0)
            text_append(out, "%s%d on %s", named++ ? ", " : "reader ", i, all[i].node);
    if (alike > named)
        text_append(out, ", and %d more alike", alike - named);
    text_append(out, "\n");
}

/* One table for all readers that sit alike, one line for all nodes that are crowded alike. */
static void describe_reports(const struct seat_report *all, int count, struct text *out)
{
    for (int i = 0; i < count; i++) {
        int alike = count_alike(all, count, i, offsetof(struct seat_report, seats));
        if (alike == 0)
            continue;
        name_readers(all, count, i, alike, out);
        text_append(out, "%s", all[i].seats);
    }
    for (int i = 0; i < count; i++) {
        int alike = count_alike(all, count, i, offsetof(struct seat_report, warning));
        if (alike == 0 || !all[i].warning[0])
            continue;
        text_append(out, "warning: node %s", all[i].node);
        if (alike > 1)
            text_append(out, ", and %d more alike", alike - 1);
        text_append(out, ": %s\n", all[i].warning);
    }
}

/* Collects every rank's seats on rank 0 and prints what the run will do. */
void job_announce(const struct job *job, bool spawns)
{
    struct seat_report mine;
    write_report(job, spawns, &mine);
    struct seat_report *all =
        job->comm.rank == 0 ? malloc((size_t)job->comm.size * sizeof *all) : NULL;
    MPI_Request request;
    MPI_Igather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, job->comm.world,
                &request);
    comm_wait(&job->comm, &request);
    if (!all)
        return;
    const struct run_setup *setup = &job->setup;
    struct text out = {0};
    text_append(&out, "dataset    %s: %s samples of %s, rows of %s\n", job->config.uri,
                count_format(job->dataset->sample_count).text,
                size_format(job->dataset->sample_bytes).text,
                count_format(job->dataset->row_length).text);
    text_append(
        &out, "plan       %s epochs of %s steps of %s samples, windows of %s rows\n",
        count_format(setup->service.epochs).text, count_format(setup->plan.steps_per_epoch).text,
        count_format(setup->plan.global_batch).text, count_format(setup->plan.window_rows).text);
    if (setup->service.start_epoch || setup->service.start_step)
        text_append(&out, "resume     at epoch %" PRIu64 " step %" PRIu64 "\n",
                    setup->service.start_epoch, setup->service.start_step);
    text_append(&out, "memory of each reader\n");
    run_setup_describe_memory(setup, &out);
    describe_reports(all, job->comm.size, &out);
    text_append(&out, "run_dir    %s\n", job->run_dir);
    fputs(out.data, stderr);
    text_done(&out);
    free(all);
}
