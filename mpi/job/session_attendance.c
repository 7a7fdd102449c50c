/* Who is there: waits for the trainers of a session. See session_internal.h. */
#include "job/session_internal.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "delivery/ring/end_marker.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t second_ns = 1000000000u;

/* One look at sockets and children while trainers connect. */
static enum status look_around(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    bool active;
    comm_heed_signals(&job->comm);
    struct error warning;
    enum status status = server_progress(job->server, &active, err);
    if (server_take_warning(job->server, &warning))
        fprintf(stderr, "penstock-reader: warning: reader %d on %s: %s\n", job->comm.rank,
                job->comm.node_name, warning.message);
    if (status == STATUS_REFUSED && session->session_count > 0)
        status = STATUS_OK; /* a stranger was told; those who were there before need not know */
    if (status == STATUS_OK)
        status = session_look_after_children(session, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "reader %d on %s: ", job->comm.rank, job->comm.node_name);
    return STATUS_OK;
}

enum status session_keep_trainers(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    enum status status = look_around(session, err);
    if (status == STATUS_OK)
        server_announce(job->server, server_trainer_count(job->server),
                        job->setup.service.world_size);
    return status;
}

static void wait_a_little(struct session *session, uint64_t duration_ns, enum status *status,
                          struct error *err)
{
    const uint64_t often_ns = 2000000;
    uint64_t end = clock_now_ns() + duration_ns;
    do {
        if (*status == STATUS_OK)
            *status = look_around(session, err);
        clock_sleep_ns(max_u64(often_ns, duration_ns / 5));
    } while (clock_now_ns() < end);
}

/* What ranks tell one another, added up. LIVE: of those that are connected, without trainers that
 * left early. */
enum { CONNECTED, LIVE, AT_END, FAILED, LATE, OLD_STATES, OVER, NOTES };

/* Collective: which trainers are missing, as "3, 5 and 2 more". */
static void name_missing(const struct job *job, struct text *out)
{
    enum { MOST_NAMES = 16 };
    uint32_t *there = calloc(job->config.trainers, sizeof *there);
    if (!there)
        MPI_Abort(MPI_COMM_WORLD, 1); /* some KiB, at the end of a run that has failed anyway */
    assert(there);                    /* the analyser does not know that MPI_Abort() stays away */
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++)
        there[server_trainer_rank(job->server, peer)] = 1;
    comm_reduce(&job->comm, there, job->config.trainers, MPI_UINT32_T, MPI_SUM, job->comm.world);
    uint64_t missing = 0;
    for (uint64_t rank = 0; rank < job->setup.service.world_size; rank++)
        if (there[rank] == 0 && missing++ < MOST_NAMES)
            text_append(out, "%s%" PRIu64, missing > 1 ? ", " : "", rank);
    if (missing > MOST_NAMES)
        text_append(out, " and %" PRIu64 " more", missing - MOST_NAMES);
    free(there);
}

/* Collective: the least and the greatest world size of trainers that are there; of none INT64_MAX
 * and 0. */
static void range_world_sizes(const struct session *session, uint64_t *ret_least,
                              uint64_t *ret_most)
{
    const struct job *job = session->job;
    uint64_t here = server_world_size(job->server);
    *ret_least = job_reduce(&job->comm, here > 0 ? here : INT64_MAX, MPI_MIN, job->comm.world);
    *ret_most = job_reduce(&job->comm, here, MPI_MAX, job->comm.world);
}

uint32_t session_world_size(const struct session *session)
{
    uint64_t least, most;
    if (config_least_trainers(&session->job->config) == session->job->config.trainers)
        return session->job->setup.service.world_size;
    range_world_sizes(session, &least, &most);
    return least == most ? (uint32_t)most : 0;
}

/* Collective. Whether all trainers are there: those that left early count, unless their number has
 * changed. */
static bool all_are_there(const struct session *session, const uint64_t notes[])
{
    uint32_t now = session->job->setup.service.world_size, size = session_world_size(session);
    return size == now || notes[CONNECTED] == 0 || notes[LIVE] == 0
               ? notes[CONNECTED] >= now
               : size > 0 && notes[LIVE] >= size;
}

/* Collective. */
static enum status too_late(const struct session *session, uint64_t connected, uint64_t timeout_s,
                            struct error *err)
{
    const struct job *job = session->job;
    struct text missing = {0};
    uint64_t least = INT64_MAX, most, trainers = job->setup.service.world_size;
    range_world_sizes(session, &least, &most);
    if (least < most)
        return error_set(err, STATUS_TIMEOUT,
                         "trainers of world sizes %" PRIu64 " and %" PRIu64
                         " have come, and of neither all: start them with one WORLD_SIZE",
                         least, most);
    name_missing(job, &missing);
    bool first_session = session->session_count == 0;
    enum status status = error_set(
        err, STATUS_TIMEOUT,
        "%" PRIu64 " of %" PRIu64 " trainer%s connected within %" PRIu64
        " s (%s), without rank %s: are all of them started%s, on nodes that have a reader, with "
        "PENSTOCK_RUN_DIR=%s?",
        connected, trainers, count_plural(trainers), timeout_s,
        first_session ? "delivery.connect_timeout" : "delivery.reconnect_timeout",
        missing.data ? missing.data : "", first_session ? "" : " again", job->run_dir);
    text_done(&missing);
    return status;
}

void session_note_cursor(struct session *session, uint32_t rank, uint64_t cursor)
{
    if (session->left_off[rank] >= cursor + 1)
        return;
    session->left_off[rank] = cursor + 1;
    if (job_tells_supervisor(session->job))
        printf("left %u %llu\n", rank, (unsigned long long)cursor);
}

void session_note_progress(struct session *session)
{
    const struct job *job = session->job;
    uint32_t rank;
    uint64_t cursor;
    while (server_take_parted(job->server, &rank, &cursor))
        session_note_cursor(session, rank, cursor);
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++)
        if (server_trainer_wish(job->server, peer, &cursor) == WISH_CONTINUE)
            session_note_cursor(session, server_trainer_rank(job->server, peer),
                                server_trainer_cursor(job->server, peer));
    fflush(stdout);
}

static uint64_t end_cursor(const struct job *job)
{
    return job_cursor(job, job->setup.service.epochs, 0);
}

void session_note_end(struct session *session)
{
    for (uint32_t peer = 0; peer < session->trainer_count; peer++)
        session_note_cursor(session, server_trainer_rank(session->job->server, peer),
                            end_cursor(session->job));
    fflush(stdout);
}

void job_finish_well(const struct job *job)
{
    struct error end;
    error_set(&end, STATUS_ENDED, "all epochs are consumed");
    if (job->supervised && job->comm.run_count == 1) /* else readers may serve another session */
        end_marker_make(getenv("PENSTOCK_CURSORS"));
    server_finish(job->server, &end);
}

/* Trainers here that have their last batch, and lost their reader before they heard of the end; or
 * that died after it. */
static uint64_t count_at_end(const struct session *session)
{
    const struct job *job = session->job;
    uint64_t count = 0, cursor;
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++) {
        enum protocol_wish wish = server_trainer_wish(job->server, peer, &cursor);
        uint64_t left = session->left_off[server_trainer_rank(job->server, peer)];
        count += (wish == WISH_CONTINUE && cursor == end_cursor(job)) ||
                 (wish != WISH_STATE && left == end_cursor(job) + 1);
    }
    return count;
}

/* Whether, as the readers before these told, all trainers had their last batch. */
static bool all_had_all(const struct session *session)
{
    for (uint64_t rank = 0; rank < session->job->setup.service.world_size; rank++)
        if (session->left_off[rank] != end_cursor(session->job) + 1)
            return false;
    return true;
}

/* On rank 0, once in a run. */
static void warn_of_states(struct session *session, uint64_t old_states)
{
    struct text warning = {0};
    if (old_states == 0 || session->told_of_states)
        return;
    session->told_of_states = true;
    if (session->job->comm.rank != 0)
        return;
    run_state_describe_gaps(&session->job->setup.service, &warning);
    fprintf(stderr, "penstock-reader: warning: %s\n", warning.data);
    text_done(&warning);
}

static void compare_notes(const struct session *session, bool failed, bool late, bool over,
                          uint64_t ret_notes[NOTES])
{
    const struct job *job = session->job;
    ret_notes[CONNECTED] = server_trainer_count(job->server);
    ret_notes[LIVE] = server_connected_count(job->server);
    ret_notes[AT_END] = count_at_end(session);
    ret_notes[FAILED] = failed;
    ret_notes[LATE] = late;
    ret_notes[OLD_STATES] = session->old_states;
    ret_notes[OVER] = over;
    comm_reduce(&job->comm, ret_notes, NOTES, MPI_UINT64_T, MPI_SUM, job->comm.world);
}

/* What rank 0 heard of other runs: true if this one is over. */
static bool hear_siblings(const struct job *job, enum status *status, struct error *err)
{
    const struct siblings_news *news = siblings_hear(job->siblings);
    bool in_order = news->outcome.status == STATUS_OK || news->outcome.status == STATUS_ENDED;
    if (*status == STATUS_OK && news->over && !in_order) {
        *err = news->outcome;
        *status = (enum status)err->status;
    }
    return job->also && (news->over || news->signal_number);
}

/* A run of --also waits for as long as the other one lasts: less and less often, so that the wait
 * costs next to nothing. */
static uint64_t pause_ns(const struct job *job, uint64_t start_ns)
{
    const uint64_t shortest = 10000000, longest = 100000000;
    uint64_t waited = clock_now_ns() - start_ns;
    return job->also && waited > second_ns ? longest : shortest;
}

/* On rank 0, every few seconds. */
static void say_waiting(const struct job *job, uint64_t connected, uint64_t *told_ns)
{
    if (job->comm.rank != 0 || job->also || clock_now_ns() - *told_ns <= 5 * second_ns)
        return;
    *told_ns = clock_now_ns();
    fprintf(stderr, "waiting for trainers: %" PRIu64 " of %" PRIu32 " connected\n", connected,
            job->setup.service.world_size);
}

/* Ranks compare notes every few milliseconds. */
enum status session_await_trainers(struct session *session, bool quiet, struct error *err)
{
    const struct job *job = session->job;
    const uint64_t linger_s = 5;
    uint64_t timeout_s = session->session_count ? job->reconnect_s : job->config.connect_timeout_s;
    if (job->supervised && job->comm.run_count > 1) /* trainers may be busy with another run */
        timeout_s = max_u64(timeout_s, job->reconnect_s);
    if (all_had_all(session) && timeout_s > linger_s)
        timeout_s = linger_s; /* for those that still want to hear of the end */
    uint64_t start = clock_now_ns(), told = start, notes[NOTES];
    enum status status = STATUS_OK;
    for (;;) {
        wait_a_little(session, pause_ns(job, start), &status, err);
        session_note_progress(session);
        bool over = hear_siblings(job, &status, err);
        bool late = !job->also && clock_now_ns() - start > timeout_s * second_ns;
        compare_notes(session, status != STATUS_OK, late, over, notes);
        warn_of_states(session, notes[OLD_STATES]);
        if (notes[FAILED])
            return comm_agree(&job->comm, status, err);
        if (all_are_there(session, notes))
            return STATUS_OK;
        session->over = notes[OVER] > 0 || (notes[LATE] && notes[CONNECTED] == notes[AT_END] &&
                                            (notes[CONNECTED] > 0 || all_had_all(session)));
        if (session->over)
            return STATUS_OK;
        if (notes[LATE])
            return too_late(session, notes[CONNECTED], timeout_s, err);
        server_announce(job->server, (uint32_t)notes[CONNECTED], job->setup.service.world_size);
        if (!quiet)
            say_waiting(job, notes[CONNECTED], &told);
    }
}
