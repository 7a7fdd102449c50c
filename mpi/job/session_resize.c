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

/* What is known of ranks from `first` on. Before the first session all that stay count: they may
 * have gone on with readers before these. */
static void forget(struct job *job, struct session *session, uint32_t first)
{
    size_t count = job->config.trainers - first;
    uint32_t rank;
    uint64_t cursor;
    while (server_take_parted(job->server, &rank, &cursor)) {
    }
    memset(session->left_off + first, 0, count * sizeof *session->left_off);
    memset(session->localities + first, 0, count * sizeof *session->localities);
}

void session_resize(struct job *job, struct session *session, uint32_t trainers)
{
    const struct ring_service *service = &job->setup.service;
    uint32_t before = service->world_size;
    if (trainers == 0 || trainers == before)
        return;
    session->resized = true;
    bool fits = run_setup_resize(&job->setup, config_least_trainers(&job->config), trainers);
    assert(fits); /* the server refuses others */
    (void)fits;
    server_resize(job->server, &service->mesh);
    forget(job, session, session->session_count > 0 ? 0 : trainers);
    if (session->session_count > 0) {
        session->known_locality = 0;
        session->start_epoch = service->start_epoch;
        session->start_step = service->start_step;
    }
    if (job->comm.rank == 0 && !job->also)
        fprintf(stderr, "penstock-reader: %" PRIu32 " trainers instead of %" PRIu32 "\n", trainers,
                before);
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
