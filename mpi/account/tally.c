/* See tally.h. */
#include "account/tally.h"

#include "job/job_internal.h"

#include <stdlib.h>

struct tally {
    const struct job *job;
    struct session *session;
    struct service_summary *summary;
    uint64_t steps;   /* of an epoch */
    uint64_t reached; /* the cursor of the trainer here that has come furthest */
    uint64_t least;   /* and of the one that has come least far, of those that are there */
    uint64_t first;   /* epoch of the session */
    uint64_t posted;  /* epochs, from that one on */
    bool under_way;   /* the last of them */
    uint64_t samples; /* of that one: sent, and then rank 0's sum */
    MPI_Request request;
};

enum status tally_new(struct session *session, struct service_summary *summary,
                      struct tally **ret_tally, struct error *err)
{
    struct tally *tally = calloc(1, sizeof *tally);
    if (!tally)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tally");
    *tally = (struct tally){.job = session->job,
                            .session = session,
                            .summary = summary,
                            .steps = session->job->setup.service.steps_per_epoch,
                            .first = session->start_epoch,
                            .request = MPI_REQUEST_NULL};
    *ret_tally = tally;
    return STATUS_OK;
}

void tally_free(struct tally *tally)
{
    free(tally);
}

/* The cursor behind the last batch that a trainer was given. What it says itself is not believed
 * beyond what there is. */
static uint64_t given_cursor(const struct tally *tally, uint32_t peer, uint64_t published)
{
    const struct server *server = tally->job->server;
    uint64_t epoch, step, cursor = server_trainer_cursor(server, peer);
    if (server_trainer_state(server, peer, NULL) == SERVER_PEER_CONNECTED)
        cursor = server_trainer_seen(server, peer);
    if (server_trainer_state(server, peer, NULL) == SERVER_PEER_CLOSED) {
        server_trainer_goodbye(server, peer, &epoch, &step);
        cursor = job_cursor(tally->job, epoch, step);
    }
    return cursor < published ? cursor : published;
}

/* A process that goes on at an older checkpoint is given batches again. */
void tally_begin(struct tally *tally, bool skipped)
{
    const struct job *job = tally->job;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, tally->session->given, (int)job->config.trainers, MPI_UINT64_T,
                   MPI_MAX, job->comm.world, &request);
    comm_wait(&job->comm, &request);
    for (uint32_t peer = 0; peer < tally->session->trainer_count; peer++) {
        uint64_t *given = &tally->session->given[server_trainer_rank(job->server, peer)];
        uint64_t cursor = given_cursor(tally, peer, INT64_MAX);
        if (!skipped &&
            (tally->session->session_count == 1 || tally->session->resized || cursor < *given))
            *given = cursor;
        if (*given > tally->reached)
            tally->reached = *given;
    }
}

/* Samples of a group's local batch of a step, without those that pad the step. */
static uint64_t local_batch_samples(const struct plan *plan, uint64_t step, uint32_t group)
{
    struct plan_local_batch local = plan_local_batch_at(plan, step, group);
    uint64_t left = local.first < plan->sample_count ? plan->sample_count - local.first : 0;
    return local.count < left ? local.count : left;
}

/* With cuts, tables of an epoch may be gone when its samples are counted. Steps count as equal, and
 * so do a step's local batches: whole epochs are counted exactly, and in a mix whole passes. */
static uint64_t samples_before(const struct plan *plan, uint64_t epoch, uint64_t step,
                               uint32_t group)
{
    uint64_t samples =
        plan->mix
            ? plan_mix_cut_before(plan, epoch * plan->steps_per_epoch + step)
            : (uint64_t)((unsigned __int128)plan->sample_count * step / plan->steps_per_epoch);
    return (samples + plan->trainer_count - 1 - group) / plan->trainer_count;
}

/* Samples of its local batches of steps [first, end) of an epoch: all but the epoch's last step are
 * alike. */
static uint64_t samples_between(const struct plan *plan, uint64_t epoch, uint64_t first,
                                uint64_t end, uint32_t group)
{
    if (plan->cuts.items > 0)
        return samples_before(plan, epoch, end, group) - samples_before(plan, epoch, first, group);
    return (end - first - 1) * local_batch_samples(plan, first, group) +
           local_batch_samples(plan, end - 1, group);
}

/* Up to where a count goes in one go: `cursor`, or the end of the epoch that `from` is in. */
static uint64_t within_epoch(const struct tally *tally, uint64_t from, uint64_t cursor)
{
    uint64_t end = (from / tally->steps + 1) * tally->steps;
    return cursor < end ? cursor : end;
}

/* A group's samples count once: with its first trainer. */
static void count_samples(struct tally *tally, uint32_t rank, uint64_t cursor)
{
    const struct mesh *mesh = &tally->job->setup.service.mesh;
    uint64_t *given = &tally->session->given[rank];
    if (!mesh_leads(mesh, rank)) {
        *given = *given < cursor ? cursor : *given;
        return;
    }
    while (*given < cursor) {
        uint64_t count = within_epoch(tally, *given, cursor) - *given;
        uint64_t first = *given % tally->steps;
        uint64_t epoch = *given / tally->steps;
        uint64_t samples = samples_between(&tally->job->setup.plan, epoch, first, first + count,
                                           mesh_group_of(mesh, rank));
        books_epoch(tally->summary, epoch)->samples += samples;
        books_recent(tally->summary, epoch)->samples += samples;
        *given += count;
    }
}

static void count_steps(struct tally *tally, uint64_t cursor)
{
    while (tally->reached < cursor) {
        uint64_t end = within_epoch(tally, tally->reached, cursor);
        books_epoch(tally->summary, tally->reached / tally->steps)->steps += end - tally->reached;
        tally->reached = end;
    }
}

void tally_count(struct tally *tally, uint64_t published)
{
    const struct job *job = tally->job;
    tally->least = UINT64_MAX;
    for (uint32_t peer = 0; peer < tally->session->trainer_count; peer++) {
        uint64_t cursor = given_cursor(tally, peer, published);
        count_samples(tally, server_trainer_rank(job->server, peer), cursor);
        count_steps(tally, cursor);
        if (server_trainer_state(job->server, peer, NULL) == SERVER_PEER_CONNECTED &&
            cursor < tally->least)
            tally->least = cursor;
    }
}

void tally_skip(struct tally *tally, uint32_t peer, uint64_t from, uint64_t to, uint64_t published)
{
    uint32_t rank = server_trainer_rank(tally->job->server, peer);
    uint64_t *given = &tally->session->given[rank];
    uint64_t taken = from < published ? from : published;
    count_samples(tally, rank, taken);
    count_steps(tally, taken);
    *given = *given < to ? to : *given;
    tally->reached = tally->reached < to ? to : tally->reached;
}

static void post(struct tally *tally)
{
    const struct job *job = tally->job;
    struct recent_epoch *recent = books_recent(tally->summary, tally->first + tally->posted);
    tally->samples = recent->samples;
    recent->samples = 0;
    tally->posted++;
    tally->under_way = true;
    const void *from = job->comm.rank == 0 ? MPI_IN_PLACE : &tally->samples;
    MPI_Ireduce(from, &tally->samples, 1, MPI_UINT64_T, MPI_SUM, 0, job->comm.tally,
                &tally->request);
}

/* Whether rank 0 has the sum that is under way. */
static bool take(struct tally *tally, uint64_t *ret_epoch, uint64_t *ret_samples)
{
    if (!tally->under_way || !comm_test(&tally->job->comm, &tally->request))
        return false;
    tally->under_way = false;
    *ret_epoch = tally->first + tally->posted - 1;
    *ret_samples = tally->samples;
    return tally->job->comm.rank == 0;
}

/* Whether the reductions of all epochs that end at a cursor or before have been started. */
static bool is_told(const struct tally *tally, uint64_t cursor)
{
    return (tally->first + tally->posted + 1) * tally->steps > cursor;
}

bool tally_progress(struct tally *tally, uint64_t published, uint64_t *ret_epoch,
                    uint64_t *ret_samples)
{
    bool told = take(tally, ret_epoch, ret_samples);
    if (tally->under_way || is_told(tally, published))
        return told;
    tally_count(tally, published);
    if (tally->least >= (tally->first + tally->posted + 1) * tally->steps)
        post(tally);
    return told;
}

uint64_t tally_posted(const struct tally *tally)
{
    return tally->posted;
}

bool tally_is_complete(struct tally *tally, uint64_t published)
{
    tally_count(tally, published);
    return is_told(tally, tally->reached);
}

bool tally_drain(struct tally *tally, uint64_t count, uint64_t *ret_epoch, uint64_t *ret_samples)
{
    for (unsigned idle = 0; tally->under_way || tally->posted < count; comm_back_off(&idle)) {
        comm_heed_signals(&tally->job->comm);
        if (!tally->under_way)
            post(tally);
        if (take(tally, ret_epoch, ret_samples))
            return true;
    }
    return false;
}
