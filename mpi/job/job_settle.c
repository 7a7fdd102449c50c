/* Settles configuration, dataset and sizes on all ranks together, before anything is made. See
 * job_internal.h. Every stage that can fail on one rank ends in comm_agree(), so that all ranks
 * take the same way. */
#include "job/job_internal.h"
#include "job/session.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static enum status configure(struct config *config, const struct job_options *options,
                             struct error *err)
{
    enum status status = STATUS_OK;
    if (options->config_path)
        status = config_read_file(config, options->config_path, err);
    if (status == STATUS_OK)
        status = config_read_environment(config, err);
    for (size_t i = 0; i < options->setting_count && status == STATUS_OK; i++)
        status = config_set(config, options->settings[i], err);
    if (status != STATUS_OK)
        return status;
    return options->also ? config_check_beside(config, err) : config_check(config, err);
}

enum status job_share_config(struct job *job, const struct job_options *options, struct error *err)
{
    enum status status = config_init(&job->config, err);
    if (status == STATUS_OK && job->comm.rank == 0)
        status = configure(&job->config, options, err);
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK)
        return status;
    struct text text = {0};
    if (job->comm.rank == 0)
        config_print(&job->config, &text);
    void *bytes = text.data;
    size_t size = text.length;
    comm_share(&job->comm, &bytes, &size);
    if (job->comm.rank != 0) {
        status = config_read_text(&job->config, bytes, size, "configuration of rank 0", NULL, err);
        free(bytes);
    }
    text_done(&text);
    return comm_agree(&job->comm, status, err);
}

enum status job_watch_store(struct job *job, struct error *err)
{
    enum status status = store_watch_new(&job->watch, err);
    if (status == STATUS_OK)
        status =
            watchdog_new(&job->comm, job->watch, job->config.store_timeout_s, &job->watchdog, err);
    return comm_agree(&job->comm, status, err);
}

enum status job_share_dataset(struct job *job, struct error *err)
{
    enum status status = STATUS_OK;
    void *bytes = NULL;
    size_t size = 0;
    if (job->comm.rank == 0) {
        status = config_open_dataset(&job->config, true, job->watch, &job->dataset, err);
        if (status == STATUS_OK)
            status = dataset_pack(job->dataset, &bytes, &size, err);
    }
    status = comm_agree(&job->comm, comm_name_reader(&job->comm, status, err), err);
    if (status == STATUS_OK) {
        comm_share(&job->comm, &bytes, &size);
        if (job->comm.rank != 0)
            status = dataset_unpack(bytes, size, job->watch, &job->dataset, err);
        status = comm_agree(&job->comm, comm_name_reader(&job->comm, status, err), err);
    }
    free(bytes);
    return status;
}

uint64_t job_reduce(const struct comm *comm, uint64_t value, MPI_Op operation, MPI_Comm where)
{
    comm_reduce(comm, &value, 1, MPI_UINT64_T, operation, where);
    return value;
}

/* Collective: the least memory of any node, and that node's name. */
static void find_least_memory(struct job *job, uint64_t also_bytes)
{
    const struct comm *comm = &job->comm;
    uint64_t mine = memory_available_bytes();
    mine = mine < INT64_MAX ? mine : INT64_MAX; /* nothing says how much there is */
    job->shape.node_available_bytes = job_reduce(comm, mine, MPI_MIN, comm->world);
    bool is_least = mine == job->shape.node_available_bytes;
    uint64_t rank =
        job_reduce(comm, (uint64_t)(is_least ? comm->rank : comm->size), MPI_MIN, comm->world);
    memcpy(job->least_node, comm->node_name, sizeof job->least_node);
    comm_broadcast(comm, job->least_node, sizeof job->least_node, (int)rank, comm->world);
    job->shape.least_node = job->least_node;
    job->shape.also_bytes = also_bytes;
    job->shape.node_available_bytes -= min_u64(also_bytes, job->shape.node_available_bytes);
}

/* Collective; every rank comes to the same. Where readers are started again, what the ones before
 * had, or their trainers' rings, may be about to be freed. */
static enum status settle_sizes(struct job *job, const struct run_state *resume,
                                uint64_t also_bytes, struct error *err)
{
    enum { MOST_TRIES = 50, PAUSE_NS = 200000000 };
    struct run_shape *shape = &job->shape;
    shape->fetch_row_bytes = fetch_stage_row_bytes(job->dataset, &shape->fetch_row_requests);
    for (uint32_t tries = 1;; tries++) {
        find_least_memory(job, also_bytes);
        shape->fetch_bytes = fetch_stage_bytes(job->dataset, run_fetch_memory(&job->config, shape),
                                               &shape->fetch_rows);
        enum status status =
            run_setup_settle(&job->config, job->dataset, shape, resume, &job->setup, err);
        if (status != STATUS_NO_MEMORY || !job->supervised || tries == MOST_TRIES)
            return status;
        comm_heed_signals(&job->comm);
        clock_sleep_ns(PAUSE_NS);
    }
}

/* Collective over all runs: the run that is trained on settles last, and has what the others leave.
 */
static enum status settle_in_turn(struct job *job, const struct run_state *resume,
                                  struct error *err)
{
    uint64_t also_bytes = 0;
    enum status status = STATUS_OK;
    for (int run = job->comm.run_count - 1; run >= 0; run--) {
        uint64_t bytes = 0;
        if (run == job->comm.run) {
            status = settle_sizes(job, resume, also_bytes, err);
            status = comm_agree(&job->comm, status, err);
            bytes = status == STATUS_OK ? run_setup_node_bytes(&job->shape, &job->setup) : 0;
        }
        comm_share_with_runs(&job->comm, run, &bytes, sizeof bytes);
        also_bytes += bytes;
    }
    return status;
}

/* With partitions: this reader has its part of the dataset from now on. */
static enum status narrow(struct job *job, struct error *err)
{
    struct run_setup *setup = &job->setup;
    struct dataset *narrowed;
    struct shares shares;
    uint32_t readers = (uint32_t)job->comm.size;
    if (setup->partition_count == 1)
        return STATUS_OK;
    enum status status = need_classes_init(&job->partitions, &setup->shares, readers, NULL, err);
    if (status == STATUS_OK)
        status = run_setup_narrow(setup, job->dataset, readers, (uint32_t)job->comm.rank,
                                  job->watch, &narrowed, &shares, &job->partition, err);
    if (status != STATUS_OK)
        return status;
    job->whole = job->dataset;
    job->dataset = narrowed;
    setup->shares = shares;
    return STATUS_OK;
}

/* `resume`: a file, or the state itself. */
static enum status read_resume(const char *resume, struct run_state *ret_state, struct error *err)
{
    return resume[strspn(resume, " \n")] == '{'
               ? run_state_parse(resume, strlen(resume), ret_state, err)
               : run_state_read_file(resume, ret_state, err);
}

enum status job_share_delivery(struct job *job, enum status status, struct error *err)
{
    struct also_common common = also_common_of(&job->config);
    comm_share_with_runs(&job->comm, 0, &common, sizeof common);
    return status == STATUS_OK && job->also ? also_adapt(&job->config, &common, err) : status;
}

enum status job_compare_outputs(const struct job *job, enum status status, struct error *err)
{
    const struct comm *comm = &job->comm;
    struct also_outputs mine = {0}, other;
    if (comm->run_count == 1)
        return status;
    int on_node = (int)job_reduce(comm, (uint64_t)comm->node_size, MPI_MAX, comm->world);
    if (status == STATUS_OK)
        also_outputs_of(&job->config, job->also, on_node, &mine);
    for (int run = comm->run_count - 1; run >= 0; run--) {
        other = mine;
        comm_share_with_runs(comm, run, &other, sizeof other);
        if (run == comm->run)
            mine = other;
        else if (run < comm->run && status == STATUS_OK)
            status = also_compare_outputs(&mine, &other, err);
    }
    return status;
}

/* What rank 0 finds out before sizes can be settled. */
static enum status look_ahead(struct job *job, const struct job_options *options,
                              struct run_state *ret_state, uint64_t ret_stored[2],
                              struct error *err)
{
    enum status status = STATUS_OK;
    if (job->comm.rank == 0)
        status = comm_name_reader(&job->comm, job_try_transform(job, &job->made, err), err);
    if (status == STATUS_OK && options->resume && job->comm.rank == 0)
        status = read_resume(options->resume, ret_state, err);
    if (status == STATUS_OK && job->comm.rank == 0)
        status = comm_name_reader(&job->comm,
                                  stored_rows_estimate(job->dataset,
                                                       config_may_keep_stored(&job->config),
                                                       &ret_stored[0], &ret_stored[1], err),
                                  err);
    status = comm_agree(&job->comm, status, err);
    return job_agree_runs(job, status, err);
}

enum status job_settle(struct job *job, struct session *session, const struct job_options *options,
                       struct error *err)
{
    struct {
        struct run_state state;
        uint64_t stored_row[2]; /* bytes, cost */
    } first = {0};              /* what rank 0 has found out */
    enum status status = look_ahead(job, options, &first.state, first.stored_row, err);
    if (status != STATUS_OK)
        return status;
    const struct comm *comm = &job->comm;
    comm_broadcast(comm, &first, sizeof first, 0, comm->world);
    void *made = job->made;
    size_t made_bytes = made ? sizeof *job->made : 0;
    comm_share(comm, &made, &made_bytes);
    if (made_bytes == 0 && comm->rank != 0)
        free(made);
    job->made = made_bytes > 0 ? made : NULL;
    job->shape = (struct run_shape){
        .reader_count = (uint32_t)comm->size,
        .readers_on_node =
            (uint32_t)job_reduce(comm, (uint64_t)comm->node_size, MPI_MAX, comm->world),
        .trainers_served = run_trainers_served(&job->config, (uint64_t)comm->size),
        .worker_count =
            (uint32_t)job_reduce(comm, job->placement.worker_count, MPI_MAX, comm->world),
        .transform = job->made,
        .auto_divisor = job->also ? ALSO_DIVISOR : 0,
        .stored_row_bytes = first.stored_row[0],
        .stored_row_cost = first.stored_row[1]};
    status = settle_in_turn(job, options->resume ? &first.state : NULL, err);
    struct plan *plan = &job->setup.plan;
    if (status == STATUS_OK)
        status = comm_agree(comm, comm_name_reader(comm, narrow(job, err), err), err);
    if (status == STATUS_OK)
        dataset_bound_seconds(job->dataset, job->setup.second_bytes);
    if (status == STATUS_OK)
        status = plan_sources_tables_new(plan, job->setup.budget.source_windows, err);
    session->old_states = job->comm.rank == 0 && options->resume && first.state.version == 1;
    return comm_agree(comm, status, err);
}
