/* See service.h. */
#include "loop/service_internal.h"

#include "account/meter.h"
#include "account/tracing.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/trace.h"
#include "store/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t ms_ns = 1000000;

/* So long may what a round waits for wait for workers that decode; then this thread does the work.
 * With the sleep before, a copy waits for twice as long at most. */
static const uint64_t patience_ns = 4000000;

/* Signals, sockets and children: system calls each, so only when poll() has seen something, and now
 * and then. */
static bool is_outside_due(const struct service *service)
{
    return service->outside_ready || service->books.now_ns - service->outside_ns >= 20 * ms_ns;
}

static bool look_outside(struct service *service)
{
    if (!is_outside_due(service))
        return false;
    service->outside_ready = false;
    service->outside_ns = service->books.now_ns;
    service_heed_signal(service);
    return service_look_at_trainers(service);
}

static bool tell_epochs(struct service *service)
{
    uint64_t epoch, samples, before = tally_posted(service->tally);
    bool told = tally_progress(service->tally, service->books.published, &epoch, &samples);
    if (told)
        books_announce(&service->books, epoch, samples);
    return told || tally_posted(service->tally) > before;
}

/* One turn of all state machines; true if any moved. */
static bool turn(struct service *service)
{
    const struct job *job = service->job;
    struct error error;
    bool rounds_active = false;
    bool looks = is_outside_due(service), active = look_outside(service);
    if (watchdog_take(job->watchdog, &error) || masks_progress(job->masks, &error) != STATUS_OK)
        stop_event_error(service->stop, &error);
    active |= windows_progress(service->windows);
    enum status status = rounds_progress(service->rounds, &rounds_active, &error);
    if (status != STATUS_OK)
        stop_event_error(service->stop, &error);
    active |= rounds_active;
    active |= service_progress_transform(service, looks);
    active |= pool_help(job->pool, patience_ns) > 0;
    if (rounds_finished(service->rounds) && !service->books.finished)
        books_finish(&service->books);
    active |= service_progress_to_end(service);
    active |= service_end_delivery(service);
    service_look_for_skips(service);
    service_heed_siblings(service);
    active |= tell_epochs(service);
    bool draining =
        service->signal_ns && !service->session->stopped_by; /* the end's cursor is not agreed on */
    if (!draining && service->left_count == service->session->trainer_count &&
        service->children_running == 0 && masks_sent(job->masks) &&
        tally_is_complete(service->tally, service->books.published))
        stop_event_idle(service->stop, &service->early);
    return stop_progress(service->stop) || active;
}

/* After so long another reader waits for its trainers. */
static const uint64_t exchange_patience_ns = 2000000000;

/* Whether something is on its way between readers. */
static bool is_moving(const struct service *service)
{
    return rounds_exchanging(service->rounds);
}

/* How long to sleep when nothing has moved for `idle_ns`. MPI moves only when it is called, so
 * sleeps are short while an exchange is under way: another reader needs well below a millisecond
 * for its part of a round, unless it waits itself, or its link is slow. A 16th of what a round's
 * exchange takes delays it little, and half as long again as it has been idle, too. Where nothing
 * is under way, as long again as it has been idle, within bounds. A worker or a trainer wakes us
 * anyway. */
static uint64_t sleep_ns(const struct service *service, uint64_t idle_ns)
{
    if (service->job->comm.size == 1)
        return pool_has_urgent(service->job->pool) ? patience_ns : 20 * ms_ns;
    if (is_moving(service) && idle_ns < exchange_patience_ns) {
        uint64_t little = max_u64(rounds_posted_ns(service->rounds) / 16, idle_ns / 2);
        return min_u64(max_u64(little, ms_ns / 20), ms_ns);
    }
    uint64_t shortest = ms_ns / 10;
    uint64_t longest = pool_has_urgent(service->job->pool) ? patience_ns : 10 * ms_ns;
    return idle_ns < shortest ? shortest : idle_ns < longest ? idle_ns : longest;
}

/* Whether to look again without a sleep: just after something moved, another reader's answer may
 * come sooner than a sleep would end. Over a network it hardly does: where eight answers in a row
 * did not come, only each 32nd is waited for in this way; in a crowd none. */
static bool soon(struct service *service)
{
    const uint64_t answer_ns = 20000;
    bool is_young = service->job->comm.crowd == 1 && is_moving(service) &&
                    service->books.now_ns - service->active_ns < answer_ns;
    bool waits = is_young && (service->late_answers < 8 || service->late_answers % 32 == 0);
    if (is_young != waits || service->awaits_answer > waits)
        service->late_answers++;
    service->awaits_answer = waits;
    return waits;
}

static void sleep_until_woken(struct service *service, uint64_t duration_ns)
{
    const struct job *job = service->job;
    service->fds[0] = (struct pollfd){.fd = waker_fd(&service->session->waker), .events = POLLIN};
    service->fds[1] = (struct pollfd){.fd = job->comm.signal_fd, .events = POLLIN};
    size_t sockets, known = 2 + server_pollfds(job->server, service->fds + 2,
                                               service->fd_capacity - 2, &sockets);
    size_t count = known;
    if (job->transform)
        count +=
            transform_pollfds(job->transform, service->fds + known, service->fd_capacity - known);
    struct timespec timeout = {.tv_sec = (time_t)(duration_ns / 1000000000u),
                               .tv_nsec = (long)(duration_ns % 1000000000u)};
    uint64_t start_ns = trace_on() ? clock_now_ns() : 0;
    int seen = ppoll(service->fds, count, &timeout, NULL);
    if (start_ns)
        trace_note(TRACE_WAIT, start_ns, clock_now_ns(), 0);
    if (seen <= 0)
        return;
    for (size_t i = 1; i < 2 + sockets; i++)
        service->outside_ready |= service->fds[i].revents != 0;
    for (size_t i = known + 1; i < count; i++) /* its first one tells of batches */
        service->outside_ready |= service->fds[i].revents != 0;
}

/* True: look again at once. */
static bool turn_or_arm(struct service *service)
{
    bool mpi_moved =
        rounds_look(service->rounds); /* not before a sleep, since nobody else moves it */
    bool moved = turn(service) || mpi_moved;
    if (moved)
        service->active_ns = service->books.now_ns;
    if (mpi_moved && service->awaits_answer)
        service->late_answers = 0;
    if (moved || soon(service)) {
        books_keep(&service->books);
        return true;
    }
    waker_arm(&service->session->waker);
    server_arm(service->job->server, rounds_awaited_slot(service->rounds));
    bool active = turn(service);
    books_keep(&service->books);
    if (active)
        service->active_ns = service->books.now_ns;
    service->armed = true;
    return active;
}

static void turn_or_sleep(struct service *service)
{
    uint64_t start_ns = clock_now_ns();
    bool again = turn_or_arm(service);
    books_count_turn(&service->books, service->books.now_ns - start_ns);
    if (!again)
        sleep_until_woken(service, sleep_ns(service, service->books.now_ns - service->active_ns));
    if (!service->armed)
        return;
    server_disarm(service->job->server);
    waker_disarm(&service->session->waker);
    service->armed = false;
}

static enum status service_init(struct service *service, struct session *session,
                                struct service_summary *summary, struct error *err)
{
    service->job = session->job;
    service->session = session;
    service->fd_capacity = 8 + 4 * ((size_t)session->trainer_count + 64) +
                           (session->job->transform ? TRANSFORM_MOST_PROCESSES + 1 : 0);
    service->fds = calloc(service->fd_capacity, sizeof *service->fds);
    service->left = calloc(session->trainer_count + 1, sizeof *service->left);
    service->lost = calloc(session->trainer_count + 1, sizeof *service->lost);
    service->all_done = MPI_REQUEST_NULL;
    service->least_cursor = INT64_MAX;
    if (!service->fds || !service->left || !service->lost)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the service");
    enum status status = windows_new(session, &service->windows, err);
    if (status == STATUS_OK)
        status = rounds_new(session, service->windows, &service->rounds, err);
    if (status == STATUS_OK)
        status = tally_new(session, summary, &service->tally, err);
    if (status == STATUS_OK)
        status = stop_new(&session->job->comm, &service->stop, err);
    if (status == STATUS_OK)
        status = stall_new(session, &service->stall, err);
    return status;
}

static void service_done(struct service *service)
{
    rounds_free(service->rounds);
    windows_free(service->windows);
    tally_free(service->tally);
    stop_free(service->stop);
    stall_free(service->stall);
    free(service->lost);
    free(service->left);
    free(service->fds);
}

static enum status serve(struct service *service, bool *ret_again, struct error *err)
{
    struct error late;
    const struct job *job = service->job;
    while (!stop_outcome(service->stop)) {
        turn_or_sleep(service);
        meter_keep(job->meter, &service->books, service->tally);
        tracing_keep(job->tracing, service->books.now_ns, job->run_dir);
    }
    service->session->requests.are_looked_at = false;
    const struct error *outcome = stop_outcome(service->stop);
    bool skips = stop_skips(service->stop, &service->skip_to);
    service->session->begins_anew =
        job->also && outcome->status == STATUS_OK && !stop_restarts(service->stop) && !skips;
    bool again = skips || service->session->begins_anew || stop_restarts(service->stop);
    if (stop_restarts(service->stop) && service->signal_number)
        job->comm.on_signal(job->comm.on_signal_argument, service->signal_number);
    bool endless = job->config.epochs == 0; /* it ends when all trainers have left */
    if (again || outcome->status == STATUS_ENDED || endless)
        books_break_off(&service->books);
    if (stop_restarts(service->stop) && job->comm.rank == 0 && !job->also)
        fprintf(stderr, "penstock-reader: %s; waiting until this trainer is there again\n",
                outcome->message);
    if (!again && outcome->status != STATUS_OK) {
        siblings_tell_end(job->siblings, outcome);
        *err = *outcome;
        server_finish(job->server, outcome);
    }
    service_drain(service, again);
    if (outcome->status == STATUS_INTERRUPTED)
        service_settle_stop_cursor(service);
    if (!again && !service->books.finished &&
        ((outcome->status == STATUS_OK && !endless) || service->ends_early))
        books_finish(&service->books); /* a reader without trainers may hear of the end early */
    enum status masked = masks_finish(job->masks, &late);
    if (masked != STATUS_OK && (again || outcome->status == STATUS_OK)) {
        *err = late; /* there were too many, found with the last rows */
        return masked;
    }
    service->skips = skips;
    *ret_again = again && !skips;
    return again ? STATUS_OK : (enum status)outcome->status;
}

/* What a stretch of a session takes over from the one before. */
struct stretch {
    bool skips;        /* steps were skipped, and another stretch follows */
    int signal_number; /* that came to this rank, and was not heeded; 0: none */
};

/* Serves until the session's end, or until steps are skipped. */
static enum status run_stretch(struct session *session, bool quiet, struct service_summary *summary,
                               struct stretch *stretch, bool *ret_again, struct error *err)
{
    const struct job *job = session->job;
    struct service service = {0};
    enum status status = service_init(&service, session, summary, err);
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        stop_begin(service.stop);
        tally_begin(service.tally, stretch->skips);
        meter_begin(job->meter);
        books_open(&service.books, session, service.windows, service.rounds, summary, quiet);
        service.active_ns = service.books.now_ns;
        service.children_running = job->children ? session->trainer_count : 0;
        if (stretch->signal_number)
            service_take_signal(&service, stretch->signal_number);
        session->requests = (struct requests){.are_looked_at = true};
        store_forbid_waiting(true); /* trainers and other readers would wait, too */
        status = serve(&service, ret_again, err);
        store_forbid_waiting(false);
        meter_end(job->meter, &service.books, service.tally);
        books_close(&service.books);
        if (session->begins_anew)
            books_forget_recent(summary);
    }
    service_done(&service);
    *stretch = (struct stretch){service.skips, service.signal_number};
    if (status == STATUS_OK && service.skips)
        status = comm_agree(&job->comm, service_cancel_transform(job, err), err);
    if (status == STATUS_OK && service.skips)
        service_skip(session, service.skip_to, service.books.published);
    return status;
}

enum status service_run(struct session *session, bool quiet, struct service_summary *summary,
                        bool *ret_again, struct error *err)
{
    struct stretch stretch = {0};
    enum status status;
    do
        status = run_stretch(session, quiet, summary, &stretch, ret_again, err);
    while (status == STATUS_OK && stretch.skips);
    return status;
}
