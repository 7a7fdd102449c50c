/* Where a session starts, from what trainers ask for. See session_internal.h. */
#include "job/session_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What trainers ask for. */
struct wishes {
    uint64_t count;
    uint64_t *wish; /* [count] 0: fresh, else 2 * (cursor + 1), and 1 more for a state */
};

static bool is_state(uint64_t wish)
{
    return wish & 1;
}

static uint64_t cursor_in(uint64_t wish)
{
    return wish / 2 - 1;
}

/* All states are of one step, or else those who have them are named. */
static enum status check_states(const struct job *job, const struct wishes *wishes,
                                struct error *err)
{
    enum { MOST_NAMES = 8 };
    uint64_t first = 0, named = 1, steps = job->setup.service.steps_per_epoch;
    struct text names = {0};
    while (first < wishes->count && !is_state(wishes->wish[first]))
        first++;
    for (uint64_t t = first; t < wishes->count; t++) {
        uint64_t cursor = cursor_in(wishes->wish[t]);
        bool differs = is_state(wishes->wish[t]) && cursor != cursor_in(wishes->wish[first]);
        if (differs && named++ < MOST_NAMES)
            text_append(&names, ", trainer %" PRIu64 " epoch %" PRIu64 " step %" PRIu64, t,
                        cursor / steps, cursor % steps);
    }
    enum status status = STATUS_OK;
    if (named > 1)
        status = error_set(
            err, STATUS_REFUSED,
            "trainers have states of different steps: trainer %" PRIu64 " epoch %" PRIu64
            " step %" PRIu64 "%s%s: give all of them the state of one checkpoint",
            first, cursor_in(wishes->wish[first]) / steps, cursor_in(wishes->wish[first]) % steps,
            names.data ? names.data : "", named > MOST_NAMES ? " and more" : "");
    text_done(&names);
    return status;
}

/* Where a trainer's first batch is, if it is known without the others': true. */
static bool own_cursor(const struct session *session, const struct wishes *wishes, uint64_t rank,
                       uint64_t *ret_cursor)
{
    uint64_t wish = wishes->wish[rank], left_off = session->left_off[rank];
    if (!wish && !left_off)
        return false;
    bool has_state = wish % 2 == 1;
    *ret_cursor = wish ? cursor_in(wish) : left_off - 1;
    /* What one that is not gone says of itself is never less than what was seen of it; what it has
     * read of one before it may be. */
    if (wish && !has_state && left_off && left_off - 1 > *ret_cursor)
        *ret_cursor = left_off - 1;
    return true;
}

/* Whether a trainer is there that was there before, and is not gone. */
static bool any_goes_on(const struct job *job, const struct wishes *wishes)
{
    uint64_t end = job_cursor(job, job->setup.service.epochs, 0);
    for (uint64_t t = 0; t < wishes->count; t++)
        if (wishes->wish[t] && cursor_in(wishes->wish[t]) != end)
            return true;
    return false;
}

/* All trainers of a run of --also were started again: where each of them was is of no use, for they
 * go on together. */
static void begin_together(struct session *session, const struct wishes *wishes)
{
    if (!session->job->also || any_goes_on(session->job, wishes))
        return;
    memset(session->left_off, 0, wishes->count * sizeof *session->left_off);
    session->start_epoch = session->start_step = 0;
}

static uint64_t least_cursor(const struct session *session, const struct wishes *wishes)
{
    uint64_t least = UINT64_MAX, cursor;
    for (uint64_t t = 0; t < wishes->count; t++)
        if (own_cursor(session, wishes, t, &cursor) && cursor < least)
            least = cursor;
    return least < UINT64_MAX ? least
                              : job_cursor(session->job, session->start_epoch, session->start_step);
}

/* Collective: every rank learns what all trainers ask for. */
static void share_wishes(struct session *session, const struct wishes *wishes)
{
    const struct job *job = session->job;
    for (uint32_t peer = 0; peer < session->trainer_count; peer++) {
        uint64_t cursor;
        enum protocol_wish wish = server_trainer_wish(job->server, peer, &cursor);
        if (wish != WISH_FRESH)
            wishes->wish[server_trainer_rank(job->server, peer)] =
                2 * (cursor + 1) + (wish == WISH_STATE);
    }
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, wishes->wish, (int)wishes->count, MPI_UINT64_T, MPI_SUM,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, session->left_off, (int)wishes->count, MPI_UINT64_T, MPI_MAX,
                   job->comm.world, &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
}

/* What a supervisor has heard before may be of another session, which trainers have gone back
 * behind since: it knows better before any of them hears of its cursor. */
static void tell_first_cursors(const struct session *session, const struct wishes *wishes)
{
    uint64_t cursor;
    for (uint32_t peer = 0; job_tells_supervisor(session->job) && peer < session->trainer_count;
         peer++) {
        uint32_t rank = server_trainer_rank(session->job->server, peer);
        if (own_cursor(session, wishes, rank, &cursor))
            printf("left %u %llu\n", rank, (unsigned long long)cursor);
    }
    fflush(stdout);
}

enum status session_settle_start(struct session *session, bool quiet, struct error *err)
{
    const struct job *job = session->job;
    const struct ring_service *service = &job->setup.service;
    struct wishes wishes = {.count = service->world_size};
    wishes.wish = calloc(wishes.count, sizeof *wishes.wish);
    enum status status = STATUS_OK;
    if (!wishes.wish)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for trainers' cursors");
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK) {
        free(wishes.wish);
        return status;
    }
    assert(wishes.wish); /* comm_agree() returns OK only where every rank came with it */
    share_wishes(session, &wishes);
    begin_together(session, &wishes);
    status = check_states(job, &wishes, err);
    if (status == STATUS_OK)
        status = session_check_resized(session, wishes.wish, err);
    uint64_t before = job_cursor(job, session->start_epoch, session->start_step);
    uint64_t start = status == STATUS_OK ? least_cursor(session, &wishes) : before, cursor;
    server_set_start(job->server, start);
    session->start_epoch = start / service->steps_per_epoch;
    session->start_step = start % service->steps_per_epoch;
    for (uint32_t peer = 0; peer < session->trainer_count; peer++)
        if (own_cursor(session, &wishes, server_trainer_rank(job->server, peer), &cursor))
            server_set_first(job->server, peer, cursor);
    if (status == STATUS_OK)
        tell_first_cursors(session, &wishes);
    if (job->comm.rank == 0 && !quiet && (start != before || session->session_count > 0))
        fprintf(stderr, "trainers go on from epoch %" PRIu64 " step %" PRIu64 "\n",
                session->start_epoch, session->start_step);
    memset(session->left_off, 0, wishes.count * sizeof *session->left_off);
    free(wishes.wish);
    return status;
}
