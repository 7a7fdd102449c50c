/* See job.h. Every stage that can fail on one rank ends in comm_agree(), so that all ranks take the
 * same way. */
#include "job/session_internal.h"

#include "base/number.h"
#include "job/held.h"
#include "job/left.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_CAPACITY = 256 };

/* The memory for stored rows, if any are to be kept. */
static enum status keep_stored(struct job *job, struct error *err)
{
    const struct budget *budget = &job->setup.budget;
    if (budget->stored_bytes == 0)
        return STATUS_OK;
    enum status status =
        stored_rows_new(job->pool, budget->stored_bytes, job->setup.stored_row_bytes,
                        budget->keep_rows, &job->stored, err);
    row_store_use_stored(job->store, job->stored);
    return status;
}

/* Row buffers, and with ragged fields their pages. */
static enum status make_row_store(struct job *job, uint64_t rows, struct error *err)
{
    const struct row_paging paging = {.dataset = job->dataset,
                                      .count_of = dataset_row_pages,
                                      .page_bytes = job->dataset->page_bytes,
                                      .page_count = job->setup.budget.pages};
    enum status status =
        row_store_new(job->pool, job->dataset->row_bytes, (uint32_t)rows, &job->store, err);
    if (status == STATUS_OK && paging.page_count > 0)
        status = row_store_add_pages(job->store, &paging, err);
    return status;
}

static enum status take_memory(struct job *job, struct session *session, struct error *err)
{
    uint64_t rows = job->setup.budget.buffer_rows;
    session->waker.fd = -1;
    dataset_keep_inflated(job->dataset, job->setup.budget.inflated_bytes);
    enum status status = waker_init(&session->waker, err);
    if (status == STATUS_OK)
        status = pool_new(&job->placement, job->dataset, QUEUE_CAPACITY, &session->waker,
                          &job->pool, err);
    if (status == STATUS_OK && rows > INT32_MAX)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "%" PRIu64
                           " row buffers are too many for one reader: lower readers.memory_limit",
                           rows);
    if (status == STATUS_OK)
        status = make_row_store(job, rows, err);
    if (status == STATUS_OK && job->setup.fetch_bytes > 0)
        status = fetch_stage_new(job->dataset, job->setup.fetch_bytes, (uint32_t)rows,
                                 &session->waker, &job->fetches, err);
    if (status == STATUS_OK)
        row_store_use_stage(job->store, job->fetches);
    if (status == STATUS_OK)
        status = keep_stored(job, err);
    if (status == STATUS_OK)
        watchdog_serve(job->watchdog, &session->waker);
    return comm_agree(&job->comm, status, err);
}

/* What this reader's trainers and children are up to while arrays are loaded; the first error
 * stays. */
struct attention {
    struct session *session;
    enum status status;
    struct error error;
};

static void pay_attention(void *argument)
{
    struct attention *attention = argument;
    if (attention->status == STATUS_OK)
        attention->status = session_keep_trainers(attention->session, &attention->error);
}

/* Loads held arrays with all cores that this process may use, and in memory that is not in use
 * before trainers are there: rings, exchange and fetches. */
static enum status load_held(struct job *job, struct session *session,
                             const struct job_options *options, struct error *err)
{
    enum { LEAST_THREADS = 4, MOST_THREADS = 32 }; /* a thread may wait for a file system */
    const struct budget *budget = &job->setup.budget;
    struct attention attention = {.session = session};
    const struct held_options held = {
        .thread_count = max_u32(LEAST_THREADS, min_u32(job->core_count, MOST_THREADS)),
        .memory_bytes = budget->rings_bytes + budget->exchange_bytes + budget->fetch_bytes,
        .shows_progress = !options->quiet && job->comm.rank == 0,
        .waiting = pay_attention,
        .argument = &attention};
    enum status status = held_share(&job->comm, job->dataset, &held, &job->held, err);
    if (status == STATUS_OK && attention.status != STATUS_OK)
        *err = attention.error;
    return status != STATUS_OK ? status : comm_agree(&job->comm, attention.status, err);
}

/* What decides which collective calls are made must be the same on all ranks, however they were
 * started. */
static enum status compare_options(const struct job *job, const struct job_options *options,
                                   struct error *err)
{
    const char mine[3] = {options->quiet, options->command != NULL, options->resume != NULL};
    char first[3];
    memcpy(first, mine, sizeof first);
    comm_broadcast(&job->comm, first, sizeof first, 0, job->comm.world);
    enum status status = STATUS_OK;
    if (memcmp(first, mine, sizeof first) != 0)
        status = error_set(err, STATUS_INVALID,
                           "reader %d was started with other options than reader 0: --quiet, "
                           "--resume and the trainer command must be the same for all",
                           job->comm.rank);
    return comm_agree(&job->comm, status, err);
}

enum status job_agree_runs(struct job *job, enum status status, struct error *err)
{
    if (status != STATUS_OK && job->also && !job->blamed)
        error_prefix(err, status, "run '%s': ", job->also);
    status = comm_agree_runs(&job->comm, status, err);
    job->blamed = status != STATUS_OK;
    return status;
}

/* All that readers agree on before anything is made. */
static enum status settle_all(struct job *job, struct session *session,
                              const struct job_options *options, struct error *err)
{
    enum status status = compare_options(job, options, err);
    if (status == STATUS_OK)
        status = job_share_config(job, options, err);
    status = job_share_delivery(job, status, err);
    if (status == STATUS_OK && job->comm.run_count > 1 && !job->also && job->config.restarts > 0)
        status =
            error_set(err, STATUS_INVALID,
                      "delivery.restarts does not go with --also: a trainer that is started "
                      "again alone waits in connect(\"NAME\") for the others, and they for it; "
                      "penstock-run --restarts starts all again");
    status = job_agree_runs(job, job_compare_outputs(job, status, err), err);
    if (status == STATUS_OK)
        status = job_watch_store(job, err);
    if (status == STATUS_OK)
        status = job_share_dataset(job, err);
    if (status == STATUS_OK)
        status = job_check_inventory(job, options->quiet, err);
    if (status == STATUS_OK)
        status = masks_new(&job->comm, &job->config, job->dataset, &job->masks, err);
    if (status == STATUS_OK)
        status = job_settle_placement(job, err);
    status = job_agree_runs(job, status, err);
    if (status == STATUS_OK)
        status = job_settle(job, session, options, err);
    status = job_agree_runs(job, status, err);
    if (status == STATUS_OK)
        status = job_agree_runs(job, job_name_run_dir(job, err), err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, job_collect_seats(job, options->command != NULL, err), err);
    return status;
}

/* One run after another. */
static void announce(struct job *job, const struct job_options *options)
{
    char said = 0;
    for (int run = 0; run < job->comm.run_count; run++) {
        if (run == job->comm.run && !options->quiet && job->comm.rank == 0)
            job_announce(job, options->verbose);
        comm_share_with_runs(&job->comm, run, &said, 1);
    }
}

/* Where trainers had stopped. Before trainers can come: they wait for the next readers if a
 * launcher dies while it passes the list on. */
static enum status hear_of_trainers(struct session *session, const struct job_options *options,
                                    struct error *err)
{
    const struct job *job = session->job;
    enum status status = STATUS_OK;
    session->start_epoch = job->setup.service.start_epoch;
    session->start_step = job->setup.service.start_step;
    session->left_off = calloc(job->config.trainers, sizeof *session->left_off);
    session->given = calloc(job->config.trainers, sizeof *session->given);
    session->localities = calloc(job->config.trainers, sizeof *session->localities);
    if (!session->left_off || !session->given || !session->localities)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for trainers");
    status = comm_agree(&job->comm, status, err);
    return status != STATUS_OK
               ? status
               : left_share(&job->comm, options->left_path, job->config.trainers,
                            job_cursor(job, job->setup.service.epochs, 0), session->left_off,
                            &session->known_locality, &session->told_trainers, err);
}

/* Runs of --also first: where trainers find the run that they train on, they find all. */
static enum status open_servers(struct job *job, struct session *session,
                                const struct job_options *options, struct error *err)
{
    enum status status = job->also ? job_open_server(job, session, options, err) : STATUS_OK;
    status = job_agree_runs(job, status, err);
    if (status == STATUS_OK && !job->also)
        status = job_open_server(job, session, options, err);
    return job_agree_runs(job, status, err);
}

enum status job_make_ready(struct job *job, struct session *session,
                           const struct job_options *options, enum status status, struct error *err)
{
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK && options->command)
        status = job_spawn_trainers(job, options, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, job_start_transform(job, err), err);
    if (status == STATUS_OK)
        status = take_memory(job, session, err);
    if (status == STATUS_OK)
        status = load_held(job, session, options, err);
    return job_agree_runs(job, status, err);
}

enum status job_start(struct job *job, struct session *session, const struct job_options *options,
                      struct error *err)
{
    job->also = options->also;
    job->supervised = options->supervised;
    job->verbose = options->verbose;
    enum status status = settle_all(job, session, options, err);
    if (status == STATUS_OK) {
        announce(job, options);
        status = job_agree_runs(job, hear_of_trainers(session, options, err), err);
    }
    if (status == STATUS_OK)
        status = open_servers(job, session, options, err);
    return status;
}

static void free_what_workers_use(struct job *job, struct waker *waker)
{
    pool_free(job->pool);
    fetch_stage_free(job->fetches);
    row_store_free(job->store);
    stored_rows_free(job->stored);
    if (job->pool)
        waker_done(waker);
    if (job->dataset)
        held_free(job->held, job->dataset);
    dataset_free(job->dataset);
    dataset_free(job->whole);
    need_classes_done(&job->partitions);
    masks_free(job->masks);
    store_watch_free(job->watch);
}

void session_drain_workers(struct session *session)
{
    const struct job *job = session->job;
    enum { PATIENCE_MS = 5000 };
    if (!job->pool || session->stuck)
        return;
    bool idle = pool_drain(job->pool, PATIENCE_MS);
    session->stuck = !fetch_stage_stop(job->fetches, PATIENCE_MS) || !idle;
}

void job_end(struct session *session, const struct error *outcome)
{
    const struct job *job = session->job;
    const uint64_t connecting_ms = 1000; /* who has had no batch yet has nothing to save */
    if (job->server && outcome->status != STATUS_OK)
        server_finish(job->server, outcome);
    job_stop_children(job, session->session_count > 0 ? job->config.grace_s * 1000 : connecting_ms);
    children_free(job->children);
    transform_free(job->transform);
    session_drain_workers(session);
    watchdog_free(job->watchdog);
}

void job_done(struct job *job, struct session *session)
{
    if (!session->stuck)
        free_what_workers_use(job, &session->waker);
    server_free(job->server);
    session_free_assigners(session);
    if (!session->stuck) {
        plan_sources_tables_free(&job->setup.plan);
        plan_mix_free(job->setup.plan.mix);
    }
    session_free_map(session);
    free(session->left_off);
    free(session->given);
    free(session->localities);
    free(job->seats);
    free(job->made);
    free(job->environment);
    free(job->through);
    config_done(&job->config);
    /* A signal may still come: nothing is left to stop. */
    *job = (struct job){.comm = job->comm};
    *session = (struct session){.job = job, .stuck = session->stuck};
}
