/* Skipped steps: finds the steps that no trainer of the run wants any more, and leaves them out.
 * See service_internal.h. */
#include "loop/service_internal.h"

#include "base/number.h"
#include "job/session_internal.h"

/* Counts what trainers skip, as they say so. */
static void take_skips(struct service *service)
{
    uint64_t from, to;
    for (uint32_t peer = 0; peer < service->session->trainer_count; peer++)
        if (server_take_skip(service->job->server, peer, &from, &to))
            tally_skip(service->tally, peer, from, to, service->books.published);
}

/* The least cursor that a trainer of this reader may want. One that is gone wants nothing. One that
 * skips to the end of all epochs is taken to want the last step: with it a run ends. */
static uint64_t least_wanted(const struct service *service)
{
    const struct job *job = service->job;
    uint64_t least = STOP_WANTS_NOTHING;
    for (uint32_t peer = 0; peer < service->session->trainer_count; peer++) {
        uint64_t wanted = server_trainer_wanted(job->server, peer);
        if (!service->left[peer] && wanted < least)
            least = wanted;
    }
    uint64_t last = job_cursor(job, job->setup.service.epochs, 0) - 1;
    return least == STOP_WANTS_NOTHING ? least : min_u64(least, last);
}

/* On rank 0. A step that every reader has a round open for comes anyway; a step that one reader has
 * none for cannot come before that reader's trainers have room for all steps before, and they may
 * lease a batch that keeps them from it. */
static void skip_unwanted(struct service *service)
{
    const struct session *session = service->session;
    bool far;
    uint64_t wanted = stop_wanted(service->stop, &far);
    uint64_t start = job_cursor(service->job, session->start_epoch, session->start_step);
    if (far && wanted > start && wanted != STOP_WANTS_NOTHING)
        stop_skip(service->stop, wanted);
}

void service_look_for_skips(struct service *service)
{
    uint64_t epoch, step, least = least_wanted(service);
    take_skips(service);
    rounds_reached(service->rounds, &epoch, &step);
    bool far = least > 0 && least >= job_cursor(service->job, epoch, step);
    stop_event_skip(service->stop, least, far);
    if (service->job->comm.rank == 0)
        skip_unwanted(service);
}

/* Readers go on delivering while they hear of the decision: what all of them have published
 * meanwhile does not come again. It would fill slots behind a leased batch for nothing. */
static uint64_t go_on_at(const struct session *session, uint64_t wanted, uint64_t published)
{
    const struct job *job = session->job;
    published = job_reduce(&job->comm, published, MPI_MIN, job->comm.world);
    uint64_t last = job_cursor(job, job->setup.service.epochs, 0) - 1;
    return min_u64(max_u64(wanted, published), last);
}

void service_skip(struct session *session, uint64_t wanted, uint64_t published)
{
    const struct job *job = session->job;
    uint64_t steps = job->setup.service.steps_per_epoch;
    uint64_t cursor = go_on_at(session, wanted, published);
    session->start_epoch = cursor / steps;
    session->start_step = cursor % steps;
    server_skip(job->server, cursor);
    row_store_forget_uses(job->store);
    session_assign_anew(session);
}
