/* Between sessions: who is there, and where all go on. See job.h. Every stage that can fail on one
 * rank ends in comm_agree(), so that all ranks take the same way. */
#include "job_internal.h"

#include "base/clock.h"
#include "base/size.h"
#include "delivery/protocol.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Starts trainers of ours that have failed again, and says so. */
static enum status restart_children(struct job *job, uint32_t *ret_count, struct error *err)
{
    bool restarted = job->children != NULL;
    uint32_t rank = 0, count = 0;
    while (restarted) {
        enum status status = children_restart(job->children, &restarted, &rank, err);
        if (status != STATUS_OK)
            return status;
        if (!restarted)
            break;
        count++;
        server_expect(job->server, rank);
        fprintf(stderr, "penstock-reader: reader %d on %s: starts trainer %u again\n",
                job->comm.rank, job->comm.node_name, rank);
    }
    *ret_count = count;
    return STATUS_OK;
}

/* Whether trainers of ours have failed that cannot be started again. */
static enum status look_after_children(struct job *job, struct error *err)
{
    struct error end;
    uint32_t running = 0, restarted = 0;
    if (!job->children)
        return STATUS_OK;
    enum status ended = children_poll(job->children, job->session_count > 0, &running, &end);
    if (job->config.restarts > 0 && children_failed(job->children)) {
        enum status status = restart_children(job, &restarted, err);
        if (status != STATUS_OK || restarted > 0 || children_failed(job->children))
            return status;
    }
    if (ended != STATUS_OK)
        *err = end;
    return ended;
}

/* One look at sockets and children while trainers connect. */
static enum status look_around(struct job *job, struct error *err)
{
    bool active;
    comm_heed_signals(&job->comm);
    struct error warning;
    enum status status = server_progress(job->server, &active, err);
    if (server_take_warning(job->server, &warning))
        fprintf(stderr, "penstock-reader: warning: reader %d on %s: %s\n", job->comm.rank,
                job->comm.node_name, warning.message);
    if (status == STATUS_REFUSED && job->session_count > 0)
        status = STATUS_OK; /* a stranger was told; those who were there before need not know */
    if (status == STATUS_OK)
        status = look_after_children(job, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "reader %d on %s: ", job->comm.rank, job->comm.node_name);
    return STATUS_OK;
}

static void wait_a_little(struct job *job, uint64_t duration_ns, enum status *status,
                          struct error *err)
{
    uint64_t end = clock_now_ns() + duration_ns;
    do {
        if (*status == STATUS_OK)
            *status = look_around(job, err);
        clock_sleep_ns(2000000);
    } while (clock_now_ns() < end);
}

/* Collective: which trainers are missing, as "3, 5 and 2 more". */
static void name_missing(struct job *job, struct text *out)
{
    enum { MOST_NAMES = 16 };
    uint32_t *there = calloc(job->config.trainers, sizeof *there);
    if (!there)
        MPI_Abort(MPI_COMM_WORLD, 1); /* some KiB, at the end of a run that has failed anyway */
    assert(there);                    /* the analyser does not know that MPI_Abort() stays away */
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++)
        there[server_trainer_rank(job->server, peer)] = 1;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, there, (int)job->config.trainers, MPI_UINT32_T, MPI_SUM,
                   job->comm.world, &request);
    comm_wait(&job->comm, &request);
    uint64_t missing = 0;
    for (uint64_t rank = 0; rank < job->config.trainers; rank++)
        if (there[rank] == 0 && missing++ < MOST_NAMES)
            text_append(out, "%s%" PRIu64, missing > 1 ? ", " : "", rank);
    if (missing > MOST_NAMES)
        text_append(out, " and %" PRIu64 " more", missing - MOST_NAMES);
    free(there);
}

/* Collective. */
static enum status too_late(struct job *job, uint64_t connected, uint64_t timeout_s,
                            struct error *err)
{
    struct text missing = {0};
    name_missing(job, &missing);
    bool first_session = job->session_count == 0;
    enum status status =
        error_set(err, STATUS_TIMEOUT,
                  "%" PRIu64 " of %" PRIu64 " trainer%s connected within %" PRIu64
                  " s (%s), without rank %s: are all of them started%s, with PENSTOCK_RUN_DIR=%s?",
                  connected, job->config.trainers, count_plural(job->config.trainers), timeout_s,
                  first_session ? "delivery.connect_timeout" : "delivery.reconnect_timeout",
                  missing.data ? missing.data : "", first_session ? "" : " again", job->run_dir);
    text_done(&missing);
    return status;
}

/* A supervisor is told, too, in case the readers die before the one that comes fresh is there. */
static void note_cursor(struct job *job, uint32_t rank, uint64_t cursor)
{
    if (job->left_off[rank] >= cursor + 1)
        return;
    job->left_off[rank] = cursor + 1;
    if (job->supervised)
        printf("left %u %llu\n", rank, (unsigned long long)cursor);
}

/* Trainers that have gone on since the session's end, for those who come fresh should these die. */
static void note_progress(struct job *job)
{
    uint32_t rank;
    uint64_t cursor;
    while (server_take_parted(job->server, &rank, &cursor))
        note_cursor(job, rank, cursor);
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++)
        if (server_trainer_wish(job->server, peer, &cursor) == WISH_CONTINUE)
            note_cursor(job, server_trainer_rank(job->server, peer),
                        server_trainer_cursor(job->server, peer));
    fflush(stdout);
}

static uint64_t end_cursor(const struct job *job)
{
    return job_cursor(job, job->setup.service.epochs, 0);
}

void job_note_end(struct job *job)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++)
        note_cursor(job, server_trainer_rank(job->server, peer), end_cursor(job));
    fflush(stdout);
}

/* Trainers here that have their last batch, and lost their reader before they heard of the end; or
 * that died after it. */
static uint64_t count_at_end(const struct job *job)
{
    uint64_t count = 0, cursor;
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++) {
        enum protocol_wish wish = server_trainer_wish(job->server, peer, &cursor);
        uint64_t left = job->left_off[server_trainer_rank(job->server, peer)];
        count += (wish == WISH_CONTINUE && cursor == end_cursor(job)) ||
                 (wish != WISH_STATE && left == end_cursor(job) + 1);
    }
    return count;
}

/* Whether, as the readers before these told, all trainers had their last batch. */
static bool all_had_all(const struct job *job)
{
    for (uint64_t rank = 0; rank < job->config.trainers; rank++)
        if (job->left_off[rank] != end_cursor(job) + 1)
            return false;
    return true;
}

/* On rank 0, once in a run. */
static void warn_of_states(struct job *job, uint64_t old_states)
{
    struct text warning = {0};
    if (old_states == 0 || job->told_of_states)
        return;
    job->told_of_states = true;
    if (job->comm.rank != 0)
        return;
    run_state_describe_gaps(&job->setup.service, &warning);
    fprintf(stderr, "penstock-reader: warning: %s\n", warning.data);
    text_done(&warning);
}

/* Waits until all trainers of the run have said hello to some reader. Ranks compare notes every few
 * milliseconds. */
static enum status await_trainers(struct job *job, bool quiet, struct error *err)
{
    enum { CONNECTED, AT_END, FAILED, LATE, OLD_STATES, NOTES };
    const uint64_t second_ns = 1000000000u, linger_s = 5;
    uint64_t timeout_s = job->session_count ? job->reconnect_s : job->config.connect_timeout_s;
    if (all_had_all(job) && timeout_s > linger_s)
        timeout_s = linger_s; /* for those that still want to hear of the end */
    uint64_t start = clock_now_ns(), told = start;
    enum status status = STATUS_OK;
    for (;;) {
        wait_a_little(job, 10000000, &status, err);
        note_progress(job);
        uint64_t waited = clock_now_ns() - start;
        uint64_t notes[NOTES] = {
            [CONNECTED] = server_trainer_count(job->server),
            [AT_END] = count_at_end(job),
            [FAILED] = status != STATUS_OK,
            [LATE] = waited > timeout_s * second_ns,
            [OLD_STATES] = job->old_states,
        };
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, notes, NOTES, MPI_UINT64_T, MPI_SUM, job->comm.world,
                       &request);
        comm_wait(&job->comm, &request);
        warn_of_states(job, notes[OLD_STATES]);
        if (notes[FAILED])
            return comm_agree(&job->comm, status, err);
        if (notes[CONNECTED] >= job->config.trainers)
            return STATUS_OK;
        job->over = notes[LATE] && notes[CONNECTED] == notes[AT_END] &&
                    (notes[CONNECTED] > 0 || all_had_all(job));
        if (job->over)
            return STATUS_OK;
        if (notes[LATE])
            return too_late(job, notes[CONNECTED], timeout_s, err);
        server_announce(job->server, (uint32_t)notes[CONNECTED], (uint32_t)job->config.trainers);
        if (job->comm.rank == 0 && !quiet && clock_now_ns() - told > 5 * second_ns) {
            told = clock_now_ns();
            fprintf(stderr, "waiting for trainers: %" PRIu64 " of %" PRIu64 " connected\n",
                    notes[CONNECTED], job->config.trainers);
        }
    }
}

static int by_rank(const void *left, const void *right)
{
    uint32_t a = ((const struct job_trainer *)left)->rank;
    uint32_t b = ((const struct job_trainer *)right)->rank;
    return (a > b) - (a < b);
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
    if (status != STATUS_OK) {
        free(claims);
        return status;
    }
    assert(claims); /* comm_agree() returns OK only where every rank came with it */
    job->trainer_count = count;
    for (uint32_t peer = 0; peer < count; peer++) {
        uint32_t rank = server_trainer_rank(job->server, peer);
        job->trainers[peer] = (struct job_trainer){
            .rank = rank, .peer = peer, .numa = job_ring_memory(job, rank).numa};
        job->reader_of_trainer[rank] = (uint32_t)job->comm.rank;
        claims[rank] = 1;
        if (job->children)
            children_note(job->children, rank, false);
    }
    qsort(job->trainers, count, sizeof *job->trainers, by_rank);
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, job->reader_of_trainer, (int)total, MPI_UINT32_T, MPI_MAX,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, claims, (int)total, MPI_UINT32_T, MPI_SUM, job->comm.world,
                   &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
    for (uint32_t rank = 0; rank < total && status == STATUS_OK; rank++)
        if (claims[rank] != 1)
            status = error_set(
                err, STATUS_INVALID, "trainer rank %u connected %u time%s: %s must connect once",
                rank, claims[rank], count_plural(claims[rank]), count_each(total, "rank").text);
    free(claims);
    return status;
}

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
static bool own_cursor(const struct job *job, const struct wishes *wishes, uint64_t rank,
                       uint64_t *ret_cursor)
{
    uint64_t wish = wishes->wish[rank], left_off = job->left_off[rank];
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

static uint64_t least_cursor(const struct job *job, const struct wishes *wishes)
{
    const struct ring_service *service = &job->setup.service;
    uint64_t least = UINT64_MAX, cursor;
    for (uint64_t t = 0; t < wishes->count; t++)
        if (own_cursor(job, wishes, t, &cursor) && cursor < least)
            least = cursor;
    return least < UINT64_MAX ? least : job_cursor(job, service->start_epoch, service->start_step);
}

/* Collective: every rank learns what all trainers ask for. */
static void share_wishes(struct job *job, const struct wishes *wishes)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++) {
        uint64_t cursor;
        enum protocol_wish wish = server_trainer_wish(job->server, peer, &cursor);
        if (wish != WISH_FRESH)
            wishes->wish[server_trainer_rank(job->server, peer)] =
                2 * (cursor + 1) + (wish == WISH_STATE);
    }
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, wishes->wish, (int)wishes->count, MPI_UINT64_T, MPI_SUM,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, job->left_off, (int)wishes->count, MPI_UINT64_T, MPI_MAX,
                   job->comm.world, &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
}

/* What a supervisor has heard before may be of another session, which trainers have gone back
 * behind since: it knows better before any of them hears of its cursor. */
static void tell_first_cursors(const struct job *job, const struct wishes *wishes)
{
    uint64_t cursor;
    for (uint32_t peer = 0; job->supervised && peer < job->trainer_count; peer++) {
        uint32_t rank = server_trainer_rank(job->server, peer);
        if (own_cursor(job, wishes, rank, &cursor))
            printf("left %u %llu\n", rank, (unsigned long long)cursor);
    }
    fflush(stdout);
}

/* Settles where the session starts, and where each trainer does. */
static enum status settle_start(struct job *job, bool quiet, struct error *err)
{
    struct ring_service *service = &job->setup.service;
    struct wishes wishes = {.count = job->config.trainers};
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
    share_wishes(job, &wishes);
    status = check_states(job, &wishes, err);
    uint64_t before = job_cursor(job, service->start_epoch, service->start_step);
    uint64_t start = status == STATUS_OK ? least_cursor(job, &wishes) : before, cursor;
    server_set_start(job->server, start);
    service->start_epoch = start / service->steps_per_epoch;
    service->start_step = start % service->steps_per_epoch;
    for (uint32_t peer = 0; peer < job->trainer_count; peer++)
        if (own_cursor(job, &wishes, server_trainer_rank(job->server, peer), &cursor))
            server_set_first(job->server, peer, cursor);
    if (status == STATUS_OK)
        tell_first_cursors(job, &wishes);
    if (job->comm.rank == 0 && !quiet && (start != before || job->session_count > 0))
        fprintf(stderr, "trainers go on from epoch %" PRIu64 " step %" PRIu64 "\n",
                service->start_epoch, service->start_step);
    memset(job->left_off, 0, wishes.count * sizeof *job->left_off);
    free(wishes.wish);
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

enum status job_gather(struct job *job, bool quiet, struct error *err)
{
    enum status status = await_trainers(job, quiet, err);
    if (status == STATUS_OK && job->over) {
        struct error end;
        error_set(&end, STATUS_ENDED, "all epochs are consumed");
        server_finish(job->server, &end);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = map_trainers(job, err);
    if (status == STATUS_OK)
        status = settle_start(job, quiet, err);
    if (status == STATUS_OK)
        status = open_assigner(job, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_start(job->server, err), err);
    if (status == STATUS_OK)
        tell_pages(job);
    if (status == STATUS_OK && job->supervised && job->comm.rank == 0) {
        printf("gathered\n");
        fflush(stdout);
    }
    if (status == STATUS_OK && job->comm.rank == 0 && job->session_count > 0)
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
        note_cursor(job, server_trainer_rank(job->server, peer), cursor);
    }
    fflush(stdout);
}

enum status job_scatter(struct job *job, struct error *err)
{
    job->ended_ns = clock_now_ns();
    note_cursors(job);
    row_store_forget_uses(job->store);
    server_restart(job->server);
    uint32_t restarted;
    return comm_agree(&job->comm, restart_children(job, &restarted, err), err);
}

bool job_may_restart(const struct job *job)
{
    return job->reconnect_s > 0 && (!job->children || children_may_restart(job->children));
}
