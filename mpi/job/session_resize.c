/* A run goes on with another number of trainers (delivery.trainers_least): all of them have been
 * started again. See session_internal.h.
 *
 * The order stays, and so do rows in memory and their homes. What follows from the number of
 * trainers is settled anew: their shares of a step, groups, rings, and the locality. Memory is
 * settled for any number from the start (run/setup.h).
 */
#include "job/session_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is known of those before. Before the first session trainers that have come stay, and may
 * have gone on with readers before these; what a supervisor knows counts, unless it is of another
 * number of them. */
static void forget(struct job *job, struct session *session, uint32_t trainers)
{
    bool is_first = session->session_count == 0, is_known;
    is_known = is_first && (session->told_trainers == 0 || session->told_trainers == trainers);
    uint32_t rank, stay = is_first ? trainers : 0, left = is_known ? trainers : 0;
    size_t most = job->config.trainers;
    uint64_t cursor;
    while (server_take_parted(job->server, &rank, &cursor)) {
    }
    memset(session->left_off + left, 0, (most - left) * sizeof *session->left_off);
    memset(session->localities + stay, 0, (most - stay) * sizeof *session->localities);
    if (!is_known)
        session->known_locality = 0;
}

static void resize(struct job *job, struct session *session)
{
    const struct ring_service *service = &job->setup.service;
    session->resized = true;
    server_resize(job->server, &service->mesh);
    forget(job, session, service->world_size);
    session->start_epoch = service->start_epoch;
    session->start_step = service->start_step;
}

void session_resize(struct job *job, struct session *session, uint32_t trainers)
{
    uint32_t before = job->setup.service.world_size;
    if (trainers == 0 || trainers == before)
        return;
    bool fits = run_setup_resize(&job->setup, config_least_trainers(&job->config), trainers);
    assert(fits); /* the server refuses others */
    (void)fits;
    resize(job, session);
    if (job->comm.rank == 0 && !job->also)
        fprintf(stderr, "penstock-reader: %" PRIu32 " trainers instead of %" PRIu32 "\n", trainers,
                before);
    if (job->comm.rank == 0 && job_tells_supervisor(job)) {
        printf("trainers %" PRIu32 "\n", trainers);
        fflush(stdout);
    }
}

enum status session_resize_as_told(struct job *job, struct session *session, struct error *err)
{
    uint32_t least = config_least_trainers(&job->config), told = session->told_trainers;
    if (told == 0)
        return STATUS_OK;
    if (!run_setup_resize(&job->setup, least, told))
        return error_set(err, STATUS_INVALID,
                         "--left: 'trainers %" PRIu32 "': this run has %" PRIu32 " to %" PRIu64
                         ": give delivery.trainers, delivery.trainers_least and delivery.mesh as "
                         "before",
                         told, least, job->config.trainers);
    resize(job, session);
    return STATUS_OK;
}

enum status session_check_resized(const struct session *session, const uint64_t *wishes,
                                  struct error *err)
{
    uint32_t trainers = session->job->setup.service.world_size, with = 0, without = 0;
    if (!session->resized || session->session_count == 0)
        return STATUS_OK;
    for (uint32_t t = 0; t < trainers; t++)
        *(wishes[t] ? &with : &without) = t;
    bool is_mixed = (with > 0 || wishes[0]) && (without > 0 || !wishes[0]);
    if (!is_mixed)
        return STATUS_OK;
    return error_set(err, STATUS_REFUSED,
                     "the number of trainers has changed to %" PRIu32 ", and trainer %" PRIu32
                     " goes on from a state, trainer %" PRIu32
                     " from none: give all of them the state of one checkpoint",
                     trainers, with, without);
}
