/* Prints what a run will do, at its start. See job_internal.h. */
#include "job/job_internal.h"

#include "base/size.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_seats(const struct job *job, bool spawns, struct job_seats *ret_seats)
{
    struct text seats = {0}, warning = {0};
    topology_describe(&job->placement, &seats);
    if (job->comm.nics[0])
        text_append(&seats, "   NICs %s\n", job->comm.nics);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (job->core_count < cpus)
        text_append(&seats,
                    "   note: this reader may use %u of %ld cpus; mpirun --bind-to none lifts the "
                    "launcher's binding\n",
                    job->core_count, cpus);
    if (job->placement.seat_count && !(spawns && job->config.bind_trainers))
        text_append(&seats,
                    "   note: trainers are not bound to these cpus; taskset -c binds them\n");
    if (job->placement.reader == 0)
        topology_describe_crowd(&job->placement, &warning);
    *ret_seats = (struct job_seats){0};
    snprintf(ret_seats->node, sizeof ret_seats->node, "%s", job->comm.node_name);
    snprintf(ret_seats->seats, sizeof ret_seats->seats, "%s", seats.data ? seats.data : "");
    snprintf(ret_seats->warning, sizeof ret_seats->warning, "%s", warning.data ? warning.data : "");
    text_done(&seats);
    text_done(&warning);
}

/* How many of the seats [0, count) have the same text at `offset` as those of `index`; 0 if an
 * earlier one than `index` has, for then it was counted there. */
static int count_alike(const struct job_seats *all, int count, int index, size_t offset)
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
static void name_readers(const struct job_seats *all, int count, int first, int alike,
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

/* One table for all readers that sit alike. */
static void describe_seats(const struct job_seats *all, int count, struct text *out)
{
    for (int i = 0; i < count; i++) {
        int alike = count_alike(all, count, i, offsetof(struct job_seats, seats));
        if (alike == 0)
            continue;
        name_readers(all, count, i, alike, out);
        text_append(out, "%s", all[i].seats);
    }
}

/* One line for all nodes that are crowded alike. */
static void describe_crowds(const struct job_seats *all, int count, struct text *out)
{
    for (int i = 0; i < count; i++) {
        int alike = count_alike(all, count, i, offsetof(struct job_seats, warning));
        if (alike == 0 || !all[i].warning[0])
            continue;
        text_append(out, "warning: node %s", all[i].node);
        if (alike > 1)
            text_append(out, ", and %d more alike", alike - 1);
        text_append(out, ": %s\n", all[i].warning);
    }
}

enum status job_collect_seats(struct job *job, bool spawns, struct error *err)
{
    bool root = job->comm.rank == 0;
    struct job_seats mine;
    write_seats(job, spawns, &mine);
    job->seats = root ? calloc((size_t)job->comm.size, sizeof *job->seats) : NULL;
    enum status status = STATUS_OK;
    if (root && !job->seats)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the seats of all readers");
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK)
        return status;
    MPI_Request request;
    MPI_Igather(&mine, sizeof mine, MPI_BYTE, job->seats, sizeof mine, MPI_BYTE, 0, job->comm.world,
                &request);
    comm_wait(&job->comm, &request);
    return STATUS_OK;
}

void job_name_dataset(const struct config *config, struct text *out)
{
    text_append(out, "%s", config->source_count > 0 ? "mix of " : config->uri);
    for (uint32_t d = 0; d < config->source_count; d++)
        text_append(out, "%s%s", d > 0 ? ", " : "", config->sources[d].name);
}

static void describe_dataset(const struct job *job, struct text *out)
{
    text_append(out, "dataset    ");
    job_name_dataset(&job->config, out);
    text_append(
        out, ": %s sample%s of %s, rows of %s\n", count_format(job_whole(job)->sample_count).text,
        count_plural(job_whole(job)->sample_count), size_format(job_whole(job)->sample_bytes).text,
        count_format(job_whole(job)->row_length).text);
}

static void describe_plan(const struct job *job, struct text *out)
{
    const struct run_setup *setup = &job->setup;
    const struct ring_service *service = &setup->service;
    text_append(out, "plan       ");
    run_describe_epochs(&job->config, out);
    text_append(
        out, " of %s step%s of %s sample%s, ", count_format(setup->plan.steps_per_epoch).text,
        count_plural(setup->plan.steps_per_epoch), count_format(setup->plan.global_batch).text,
        count_plural(setup->plan.global_batch));
    run_setup_describe_windows(setup, out);
    text_append(out, ", order id %016" PRIx64 ", placement %s", service->order.id,
                service->order.locality ? "local" : "fixed");
    if (service->start_epoch || service->start_step)
        text_append(out, "; goes on at epoch %" PRIu64 " step %" PRIu64, service->start_epoch,
                    service->start_step);
    text_append(out, "\n");
}

static void describe_memory(const struct run_setup *setup, bool verbose, struct text *out)
{
    text_append(out, "memory     %s of at most %s in each reader; ",
                size_format(setup->budget.total_bytes).text,
                size_format(setup->demand.limit_bytes).text);
    run_setup_describe_cache(setup, out);
    text_append(out, "\n");
    if (verbose)
        run_setup_describe_memory(setup, out);
}

/* Readers of one node follow one another in most launchers' order: a name is not said twice. */
static void name_nodes(const struct job *job, struct text *out)
{
    enum { MOST_NAMES = 8 };
    const struct job_seats *all = job->seats;
    int named = 0, more = 0;
    for (int i = 0; i < job->comm.size; i++) {
        if (count_alike(all, job->comm.size, i, offsetof(struct job_seats, node)) == 0)
            continue;
        if (named < MOST_NAMES)
            text_append(out, "%s%s", named++ ? ", " : "", all[i].node);
        else
            more++;
    }
    if (more)
        text_append(out, " and %d more", more);
}

static void describe_readers(const struct job *job, struct text *out)
{
    const struct run_shape *shape = &job->shape;
    text_append(out, "readers    %u on ", shape->reader_count);
    name_nodes(job, out);
    text_append(out, ": %u thread%s", shape->worker_count, count_plural(shape->worker_count));
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (job->core_count < cpus)
        text_append(out, " on %u of %ld cpus", job->core_count, cpus);
    text_append(out, " and %s%u trainer%s each; run_dir %s\n",
                job->config.trainers_per_reader > 0 ? "up to " : "", shape->trainers_served,
                count_plural(shape->trainers_served), job->run_dir);
}

void job_announce(const struct job *job, bool verbose)
{
    struct text out = {0};
    if (job->also)
        text_append(&out, "also       run '%s': penstock.connect(\"%s\"); on the same cores\n",
                    job->also, job->also);
    describe_dataset(job, &out);
    describe_plan(job, &out);
    describe_memory(&job->setup, verbose, &out);
    describe_readers(job, &out);
    if (verbose)
        describe_seats(job->seats, job->comm.size, &out);
    describe_crowds(job->seats, job->comm.size, &out);
    run_setup_warn_scarce(&job->config, &job->setup, &out);
    run_setup_warn_limit(&job->config, &job->shape, &job->setup, &out);
    dataset_describe_doubts(job_whole(job), &out);
    fputs(out.data, stderr);
    text_done(&out);
}
