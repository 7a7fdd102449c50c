/* Sessions: how one begins and ends. See job.h. Every stage that can fail on one rank ends in
 * comm_agree(), so that all ranks take the same way. */
#include "job/job_internal.h"

#include "base/clock.h"
#include "base/size.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_rank(const void *left, const void *right)
{
    uint32_t a = ((const struct job_trainer *)left)->rank;
    uint32_t b = ((const struct job_trainer *)right)->rank;
    return (a > b) - (a < b);
}

/* Trainers that have come to this reader are this reader's: `claims` is 1 for them. */
static void claim_trainers(struct job *job, uint32_t *claims)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++) {
        uint32_t rank = server_trainer_rank(job->server, peer);
        job->trainers[peer] = (struct job_trainer){
            .rank = rank, .peer = peer, .numa = job_ring_memory(job, rank).numa};
        job->reader_of_trainer[rank] = (uint32_t)job->comm.rank;
        claims[rank] = 1;
        if (job->children)
            children_note(job->children, rank, false);
    }
    qsort(job->trainers, job->trainer_count, sizeof *job->trainers, by_rank);
}

/* Collective. INVALID: a trainer has not one reader. */
static enum status share_claims(struct job *job, uint32_t *claims, struct error *err)
{
    size_t total = job->config.trainers;
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, job->reader_of_trainer, (int)total, MPI_UINT32_T, MPI_MAX,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, claims, (int)total, MPI_UINT32_T, MPI_SUM, job->comm.world,
                   &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
    for (uint32_t rank = 0; rank < total; rank++)
        if (claims[rank] != 1)
            return error_set(
                err, STATUS_INVALID, "trainer rank %u connected %u time%s: %s must connect once",
                rank, claims[rank], count_plural(claims[rank]), count_each(total, "rank").text);
    return STATUS_OK;
}

/* Settles on every rank who serves which trainer. */
static enum status map_trainers(struct job *job, struct error *err)
{
    size_t total = job->config.trainers;
    uint32_t count = server_trainer_count(job->server);
    free(job->reader_of_trainer);
    free(job->trainers);
    job->reader_of_trainer = calloc(total, sizeof *job->reader_of_trainer);
    job->trainers = calloc(count ? count : 1, sizeof *job->trainers);
    uint32_t *claims = calloc(total, sizeof *claims);
    enum status status = STATUS_OK;
    if (!job->reader_of_trainer || !job->trainers || !claims)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %zu trainer%s", total,
                           count_plural(total));
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        assert(claims); /* comm_agree() returns OK only where every rank came with it */
        job->trainer_count = count;
        claim_trainers(job, claims);
        status = share_claims(job, claims, err);
    }
    free(claims);
    return status;
}

/* Rank 0 alone gives out rows. What it has given a home has it for the run, as that reader keeps
 * the row. */
static enum status open_assigner(struct job *job, struct error *err)
{
    enum status status = STATUS_OK;
    if (job->assigner) {
        assigner_go_on(job->assigner, job->reader_of_trainer);
    } else if (job->comm.rank == 0) {
        struct assigner_options options;
        run_setup_assigner(&job->setup, job->reader_of_trainer, &options);
        status = assigner_new(&options, &job->assigner, err);
    }
    return comm_agree(&job->comm, status, err);
}

/* Which pages the rings of all readers have: told once. */
static void tell_pages(struct job *job)
{
    uint64_t counts[RING_PAGES_COUNT] = {0};
    for (uint32_t peer = 0; peer < job->trainer_count; peer++)
        counts[server_ring_pages(job->server, peer)]++;
    MPI_Request request;
    MPI_Iallreduce(counts, job->ring_pages, RING_PAGES_COUNT, MPI_UINT64_T, MPI_SUM,
                   job->comm.world, &request);
    comm_wait(&job->comm, &request);
    if (!job->verbose || job->comm.rank != 0 || job->session_count > 0)
        return;
    struct text pages = {0};
    ring_memory_describe(&job->setup.layout, job->ring_pages, &pages);
    fprintf(stderr, "rings      %s\n", pages.data);
    text_done(&pages);
}

/* Collective. A trainer that has died may still count with its reader when the process in its place
 * is with another one: some 10 ms later it does not. All ranks find the same. */
static enum status await_and_map(struct job *job, bool quiet, struct error *err)
{
    enum { TRIES = 100 };
    for (uint32_t tries = 1;; tries++) {
        enum status status = job_await_trainers(job, quiet, err);
        if (status != STATUS_OK || job->over)
            return status;
        status = map_trainers(job, err);
        if (status != STATUS_INVALID || tries == TRIES)
            return status;
    }
}

enum status job_gather(struct job *job, bool quiet, struct error *err)
{
    enum status status = await_and_map(job, quiet, err);
    if (status == STATUS_OK && job->over) {
        job_finish_well(job);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = job_settle_locality(job, err);
    if (status == STATUS_OK)
        status = job_settle_start(job, quiet || job->also, err);
    if (status == STATUS_OK)
        status = open_assigner(job, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_start(job->server, err), err);
    if (status == STATUS_OK)
        tell_pages(job);
    if (status == STATUS_OK && job_tells_supervisor(job) && job->comm.rank == 0) {
        printf("gathered\n");
        fflush(stdout);
    }
    if (status == STATUS_OK && job->comm.rank == 0 && job->session_count > 0 && !job->also)
        fprintf(stderr, "penstock-reader: all trainers are there again after %.2f s\n",
                (double)(clock_now_ns() - job->ended_ns) / 1e9);
    job->session_count++;
    return status;
}

/* For those who come fresh instead of another. */
static void note_cursors(struct job *job)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++) {
        uint64_t epoch, step, cursor = server_trainer_cursor(job->server, peer);
        server_trainer_goodbye(job->server, peer, &epoch, &step);
        if (server_trainer_state(job->server, peer, NULL) == SERVER_PEER_CLOSED)
            cursor = job_cursor(job, epoch, step);
        job_note_cursor(job, server_trainer_rank(job->server, peer), cursor);
    }
    fflush(stdout);
}

/* All trainers of a run of --also have left: those that come again begin anew. */
static void begin_anew(struct job *job)
{
    uint32_t parted;
    uint64_t cursor;
    for (uint32_t rank = 0; rank < job->config.trainers; rank++)
        server_expect(job->server, rank);
    while (server_take_parted(job->server, &parted, &cursor)) {
    }
    memset(job->left_off, 0, job->config.trainers * sizeof *job->left_off);
    job->setup.service.start_epoch = job->setup.service.start_step = 0;
    job->begins_anew = false;
}

enum status job_scatter(struct job *job, struct error *err)
{
    job->ended_ns = clock_now_ns();
    note_cursors(job);
    row_store_forget_uses(job->store);
    server_restart(job->server);
    if (job->begins_anew)
        begin_anew(job);
    uint32_t restarted;
    return comm_agree(&job->comm, job_restart_children(job, &restarted, err), err);
}
