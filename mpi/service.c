/* See service.h. */
#include "service.h"

#include "base/clock.h"
#include "base/progress.h"
#include "base/size.h"
#include "job_internal.h"
#include "stall.h"
#include "stop.h"
#include "store/disk_cache.h"
#include "store/store.h"
#include "tally.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ms_ns = 1000000;

struct service {
    struct job *job;
    struct windows *windows;
    struct rounds *rounds;
    struct stop *stop;
    struct stall *stall;
    struct service_summary *summary;
    struct tally *tally;
    uint64_t published; /* the cursor of the first step that is not */
    struct pollfd *fds;
    size_t fd_capacity;
    bool *left; /* [trainer_count], in order of the server's peers */
    uint32_t left_count;
    bool *lost;       /* [trainer_count], likewise */
    uint64_t lost_ns; /* when the last one was that need not come again but to hear of the end */
    MPI_Request all_done; /* a barrier: every rank's trainers have their last batch */
    bool done_posted, ended;
    struct error early; /* ENDED once a trainer left before the end, INTERRUPTED at an early one */
    int signal_number;  /* that came here; 0: none */
    uint64_t signal_ns; /* when it came, or the news of one */
    bool holds, ends_early; /* no further rounds; the end is agreed on, and it is an early one */
    uint64_t least_cursor;  /* at which a trainer of ours said goodbye; INT64_MAX: none did */
    uint32_t children_running;
    bool outside_ready;  /* poll() has seen a socket or a signal */
    uint64_t outside_ns; /* when sockets, signals and children were last looked at */
    uint64_t loop_ns;    /* start of this turn of the loop */
    uint64_t active_ns;  /* when something last moved */
    uint64_t epoch;      /* being delivered */
    uint64_t epoch_start_ns;
    uint64_t epoch_cpu_ns;
    struct rounds_times epoch_times;
    bool said_serving;
    bool finished; /* everything is published, the books are closed */
    struct progress progress;
    bool show_progress;
};

struct epoch_stats *service_epoch(struct service_summary *summary, uint64_t epoch)
{
    uint64_t index = epoch > summary->first_epoch ? epoch - summary->first_epoch : 0;
    if (index >= SERVICE_MAX_EPOCH_STATS)
        index = SERVICE_MAX_EPOCH_STATS - 1;
    if (index >= summary->epoch_count)
        summary->epoch_count = index + 1;
    return &summary->epochs[index];
}

static struct epoch_stats *stats_of(struct service *service, uint64_t epoch)
{
    return service_epoch(service->summary, epoch);
}

/* A line for the log as an epoch ends; the table with all readers' figures comes at the end of the
 * run. */
static void announce_epoch(struct service *service, uint64_t epoch, uint64_t samples)
{
    double elapsed = (double)stats_of(service, epoch)->duration_ns / 1e9;
    if (!service->show_progress || samples == 0) /* of epochs behind which all have left: none */
        return;
    progress_done(&service->progress);
    fprintf(stderr, "epoch %llu delivered: %s sample%s in %.2f s, %.0f samples/s\n",
            (unsigned long long)epoch, count_format(samples).text, count_plural(samples), elapsed,
            elapsed > 0 ? (double)samples / elapsed : 0);
}

/* What the disk cache has to tell, as soon as an epoch has ended. */
static void tell_warnings(const struct job *job)
{
    struct disk_cache *cache = dataset_disk_cache(job->dataset);
    struct error warning;
    while (cache && disk_cache_take_warning(cache, &warning))
        fprintf(stderr, "penstock-reader: warning: reader %d on %s: %s\n", job->comm.rank,
                job->comm.node_name, warning.message);
}

/* Closes the books of the epoch under way and opens the next one's. */
static void turn_epoch(struct service *service, uint64_t next_epoch)
{
    struct job *job = service->job;
    struct epoch_stats *stats = stats_of(service, service->epoch);
    struct pool_stats pool;
    pool_stats(job->pool, &pool);
    const struct pool_stats *before = &service->summary->counted;
    struct rounds_times times = rounds_times(service->rounds);
    uint64_t cpu_ns = clock_process_cpu_ns();
    stats->duration_ns += service->loop_ns - service->epoch_start_ns;
    stats->rows_read += windows_take_rows_read(service->windows, service->epoch);
    stats->stored_bytes += pool.read.stored_bytes - before->read.stored_bytes;
    stats->memory_bytes += pool.read.memory_bytes - before->read.memory_bytes;
    stats->disk_bytes += pool.read.disk_bytes - before->read.disk_bytes;
    stats->decoded_bytes += pool.read.decoded_bytes - before->read.decoded_bytes;
    stats->chunk_count += pool.read.chunk_count - before->read.chunk_count;
    stats->read_ns += pool.read.read_ns - before->read.read_ns;
    stats->decode_ns += pool.read.decode_ns - before->read.decode_ns;
    stats->copy_ns += pool.copy_ns - before->copy_ns;
    stats->plan_ns += times.plan_ns - service->epoch_times.plan_ns;
    stats->fill_ns += times.fill_ns - service->epoch_times.fill_ns;
    stats->scatter_ns += times.scatter_ns - service->epoch_times.scatter_ns;
    stats->exchange_ns += times.exchange_ns - service->epoch_times.exchange_ns;
    stats->cpu_ns += cpu_ns - service->epoch_cpu_ns;
    stats->sent_bytes +=
        rounds_take_sent_records(service->rounds, service->epoch) * job->dataset->record_bytes;
    tell_warnings(job);
    service->epoch = next_epoch;
    service->epoch_start_ns = service->loop_ns;
    service->epoch_cpu_ns = cpu_ns;
    service->summary->counted = pool;
    service->epoch_times = times;
}

/* Tells a supervisor, which reads our standard output, that the session's first batch is there. */
static void say_serving(struct service *service, uint64_t epoch, uint64_t step)
{
    const struct job *job = service->job;
    const struct ring_service *span = &job->setup.service;
    if (!job->supervised || job->comm.rank != 0 || service->said_serving ||
        (epoch == span->start_epoch && step == span->start_step))
        return;
    service->said_serving = true;
    printf("serving epoch %llu step %llu\n", (unsigned long long)span->start_epoch,
           (unsigned long long)span->start_step);
    fflush(stdout);
}

/* Puts the time since the last turn of the loop on the account of what the oldest round waits for.
 */
static void keep_books(struct service *service)
{
    uint64_t now = clock_now_ns();
    uint64_t epoch = 0, step = 0;
    uint64_t passed_ns = now - service->loop_ns;
    service->loop_ns = now;
    if (service->finished)
        return;
    const struct ring_service *span = &service->job->setup.service;
    enum round_block block = rounds_blocked(service->rounds, &epoch, &step);
    stats_of(service, service->epoch)->blocked_ns[block] += passed_ns;
    say_serving(service, epoch, step);
    while (service->epoch < epoch)
        turn_epoch(service, service->epoch + 1);
    service->published = job_cursor(service->job, epoch, step);
    if (!service->show_progress)
        return;
    uint64_t steps = (epoch - span->start_epoch) * span->steps_per_epoch + step - span->start_step;
    progress_update(&service->progress, steps,
                    steps * service->job->setup.plan.global_batch *
                        service->job->dataset->sample_bytes);
}

/* A trainer has left. After the last step that is what it should do; before, the others go on
 * without it. */
static void note_left(struct service *service, uint32_t peer, uint64_t cursor)
{
    const struct job *job = service->job;
    const struct ring_service *run = &job->setup.service;
    uint64_t epoch = cursor / run->steps_per_epoch, step = cursor % run->steps_per_epoch;
    service->left[peer] = true;
    service->left_count++;
    if (cursor < service->least_cursor)
        service->least_cursor = cursor;
    if (epoch >= run->epochs || service->early.status != STATUS_OK)
        return;
    error_set(&service->early, STATUS_ENDED,
              "trainer %u closed its connection early, before epoch %llu step %llu (of %llu "
              "epoch%s of %llu step%s)",
              server_trainer_rank(job->server, peer), (unsigned long long)epoch,
              (unsigned long long)step, (unsigned long long)run->epochs, count_plural(run->epochs),
              (unsigned long long)run->steps_per_epoch, count_plural(run->steps_per_epoch));
    if (!service->signal_ns)
        stop_event_early(service->stop, &service->early);
}

static void handle_goodbye(struct service *service, uint32_t peer)
{
    uint64_t epoch, step;
    server_trainer_goodbye(service->job->server, peer, &epoch, &step);
    note_left(service, peer, job_cursor(service->job, epoch, step));
}

/* A trainer is gone that was still needed: the session ends, and with it the run unless the trainer
 * can be waited for. Once trainers know of the end, there is nothing to go on with. After a signal,
 * which is likely to have come to the trainer, too, others go on to the end without it. */
static void tell_loss(struct service *service, const struct error *loss)
{
    if (service->signal_ns && loss->status == STATUS_LOST)
        stop_event_warning(service->stop, loss);
    else if (job_may_restart(service->job) && !service->ended && !service->signal_ns)
        stop_event_restart(service->stop, loss);
    else
        stop_event_error(service->stop, loss);
}

/* Whether a trainer that dies now has had everything, and another may come instead, which has
 * to find somebody that tells it so. */
static bool outlives_trainers(const struct service *service)
{
    return service->ended && !service->ends_early && service->job->reconnect_s > 0 &&
           !service->job->children;
}

/* A trainer broke the protocol, or its socket closed without a goodbye. If it is our child, how it
 * ended says more than the latter: waits briefly for that. */
static void handle_loss(struct service *service, uint32_t peer, const struct error *loss)
{
    if (outlives_trainers(service)) {
        service->lost_ns = service->loop_ns;
        return;
    }
    const uint64_t deadline = clock_now_ns() + 100 * ms_ns;
    struct job *job = service->job;
    struct error error;
    enum status status = STATUS_OK;
    bool failed = server_trainer_failed(job->server, peer);
    bool told = loss->status != STATUS_LOST || failed;
    if (job->children && failed)
        children_note(job->children, server_trainer_rank(job->server, peer), true);
    while (!told && job->children && status == STATUS_OK && clock_now_ns() < deadline) {
        status = children_poll(job->children, true, &service->children_running, &error);
        clock_sleep_ns(ms_ns);
    }
    tell_loss(service, status == STATUS_OK ? loss : &error);
    if (service->signal_ns && loss->status == STATUS_LOST)
        note_left(service, peer, server_trainer_cursor(job->server, peer));
}

static bool serve_sockets(struct service *service)
{
    struct job *job = service->job;
    struct error error;
    bool active = false;
    enum status refused = server_progress(job->server, &active, &error);
    (void)refused; /* the late trainer was told; those that are served need not know */
    if (server_take_warning(job->server, &error))
        stop_event_warning(service->stop, &error);
    for (uint32_t peer = 0; peer < job->trainer_count; peer++) {
        if (service->left[peer])
            continue;
        enum server_peer state = server_trainer_state(job->server, peer, &error);
        if (state == SERVER_PEER_CLOSED)
            handle_goodbye(service, peer);
        else if (state == SERVER_PEER_LOST && !service->lost[peer]) {
            service->lost[peer] = true;
            handle_loss(service, peer, &error);
        } else if (state == SERVER_PEER_LOST && outlives_trainers(service) &&
                   service->loop_ns - service->lost_ns > job->reconnect_s * 1000 * ms_ns) {
            service->left[peer] = true;
            service->left_count++;
            stop_event_warning(service->stop, &error);
        }
        active |= state != SERVER_PEER_CONNECTED;
    }
    if (server_trainer_returns(job->server)) {
        error_set(&error, STATUS_LOST, "a trainer that had left is back");
        stop_event_restart(service->stop, &error);
    }
    return active;
}

/* Says who is waited for, when it takes long. */
static void watch_trainers(struct service *service)
{
    struct error warning;
    uint64_t epoch, step;
    bool first = false;
    bool waiting =
        service->finished || rounds_blocked(service->rounds, &epoch, &step) == BLOCK_SLOTS;
    if (!stall_look(service->stall, service->loop_ns, waiting, &warning, &first))
        return;
    stats_of(service, service->epoch - service->finished)->stall_count += first;
    stop_event_warning(service->stop, &warning);
}

/* The first signal asks for an orderly end, any later one that is not just its echo (a terminal's
 * comes from the launcher, too) for an immediate one, as does a supervisor's SIGTERM, by which its
 * launcher ends what a dead reader has left. */
static void heed_signal(struct service *service)
{
    const struct comm *comm = &service->job->comm;
    const uint64_t echo_ns = 100 * ms_ns;
    int number = comm_take_signal(comm);
    if (number == 0 || (service->signal_number && service->loop_ns - service->signal_ns < echo_ns))
        return;
    if (service->signal_number || (service->job->supervised && number == SIGTERM))
        comm->on_signal(comm->on_signal_argument, number);
    service->signal_number = number;
    service->signal_ns = service->loop_ns;
    stop_event_drain(service->stop, number);
}

/* How long an orderly end may take. Only SIGUSR2 is not followed by a launcher's SIGKILL. */
static uint64_t patience_ns(const struct service *service, int number)
{
    return number == SIGUSR2 ? service->job->config.drain_timeout_s * 1000 * ms_ns : 500 * ms_ns;
}

/* Moves an orderly end on: all readers go on to the same step. Where that takes too long, or where
 * rank 0 does not answer, the end is an immediate one. */
static bool progress_to_end(struct service *service)
{
    const struct comm *comm = &service->job->comm;
    uint64_t count = 0;
    int number = stop_drains(service->stop) ? stop_drains(service->stop) : service->signal_number;
    if (number == 0)
        return false;
    if (service->signal_ns == 0)
        service->signal_ns = service->loop_ns;
    if (service->loop_ns - service->signal_ns > patience_ns(service, number))
        comm->on_signal(comm->on_signal_argument, number);
    if (stop_drains(service->stop) == 0 || service->job->stopped_by)
        return false;
    if (!service->holds)
        stop_offer_end(service->stop, rounds_hold(service->rounds));
    service->holds = true;
    if (!stop_agreed_end(service->stop, &count))
        return false;
    rounds_end_at(service->rounds, count);
    service->job->stopped_by = number;
    uint64_t epoch, step;
    rounds_end(service->rounds, &epoch, &step);
    service->ends_early = epoch < service->job->setup.service.epochs;
    if (service->ends_early)
        error_set(&service->early, STATUS_INTERRUPTED,
                  "stopped by SIG%s, in good order, before epoch %llu step %llu",
                  sigabbrev_np(number), (unsigned long long)epoch, (unsigned long long)step);
    return true;
}

/* Signals, sockets and children: system calls each, so only when poll() has seen something, and now
 * and then. */
static bool look_outside(struct service *service)
{
    struct job *job = service->job;
    struct error error;
    if (!service->outside_ready && service->loop_ns - service->outside_ns < 20 * ms_ns)
        return false;
    service->outside_ready = false;
    service->outside_ns = service->loop_ns;
    heed_signal(service);
    bool active = serve_sockets(service);
    if (job->children &&
        children_poll(job->children, true, &service->children_running, &error) != STATUS_OK)
        tell_loss(service, &error);
    watch_trainers(service);
    if (service->left_count == job->trainer_count)
        stop_event_left(service->stop);
    stop_watch_early(service->stop, job->config.early_leave == EARLY_LEAVE_FAIL);
    return active;
}

/* Everything is published: the trainers consume what they have. */
static void finish_delivery(struct service *service)
{
    uint64_t epoch, step;
    rounds_end(service->rounds, &epoch, &step);
    service->finished = true;
    while (service->epoch < epoch)
        turn_epoch(service, service->epoch + 1);
    if (step > 0)
        turn_epoch(service, epoch + 1);
    service->published = job_cursor(service->job, epoch, step);
}

static bool trainers_done(const struct service *service)
{
    const struct job *job = service->job;
    for (uint32_t peer = 0; peer < job->trainer_count; peer++)
        if (!service->left[peer] && !server_trainer_done(job->server, peer))
            return false;
    return true;
}

/* Trainers hear of the end when all of the run have their last batch, and not before: until then
 * one that is lost and comes again needs the others. Then they say goodbye and, if they are ours,
 * exit. An early end is told at once: nobody comes again. */
static bool end_delivery(struct service *service)
{
    int complete = 0;
    if (!service->finished || service->ended)
        return false;
    if (!service->ends_early && !service->done_posted && trainers_done(service)) {
        job_note_end(service->job); /* before anybody can hear of the end */
        MPI_Ibarrier(service->job->comm.world, &service->all_done);
        service->done_posted = true;
    }
    if (service->done_posted)
        MPI_Test(&service->all_done, &complete, MPI_STATUS_IGNORE);
    if (!complete && !service->ends_early)
        return false;
    struct error end;
    error_set(&end, STATUS_ENDED, "%s",
              service->ends_early ? service->early.message : "all epochs are consumed");
    server_finish(service->job->server, &end);
    service->ended = true;
    return true;
}

static bool tell_epochs(struct service *service)
{
    uint64_t epoch, samples, before = tally_posted(service->tally);
    bool told = tally_progress(service->tally, service->published, &epoch, &samples);
    if (told)
        announce_epoch(service, epoch, samples);
    return told || tally_posted(service->tally) > before;
}

/* One turn of all state machines; true if any moved. */
static bool turn(struct service *service)
{
    struct job *job = service->job;
    struct error error;
    bool rounds_active = false;
    bool active = look_outside(service);
    if (watchdog_take(job->watchdog, &error) || masks_progress(job->masks, &error) != STATUS_OK)
        stop_event_error(service->stop, &error);
    active |= windows_progress(service->windows);
    enum status status = rounds_progress(service->rounds, &rounds_active, &error);
    if (status != STATUS_OK)
        stop_event_error(service->stop, &error);
    active |= rounds_active;
    if (rounds_finished(service->rounds) && !service->finished)
        finish_delivery(service);
    active |= progress_to_end(service);
    active |= end_delivery(service);
    active |= tell_epochs(service);
    bool draining = service->signal_ns && !job->stopped_by; /* the end's cursor is not agreed on */
    if (!draining && service->left_count == job->trainer_count && service->children_running == 0 &&
        masks_sent(job->masks) && tally_is_told(service->tally, service->published))
        stop_event_idle(service->stop, &service->early);
    return stop_progress(service->stop) || active;
}

/* How long to sleep when nothing has moved for `idle_ns`. MPI moves only when it is called, so
 * sleeps are short while an exchange is under way: another reader needs well below a millisecond
 * for its part of a round, unless it waits itself. After that, and where nothing is under way, as
 * long again as it has been idle, within bounds. A worker or a trainer wakes us anyway. */
static uint64_t sleep_ns(const struct service *service, uint64_t idle_ns)
{
    if (service->job->comm.size == 1)
        return 20 * ms_ns;
    if (rounds_exchanging(service->rounds))
        return idle_ns < ms_ns ? ms_ns / 20 : ms_ns;
    uint64_t shortest = ms_ns / 10, longest = 10 * ms_ns;
    return idle_ns < shortest ? shortest : idle_ns < longest ? idle_ns : longest;
}

/* Whether the next thing is likely to come sooner than a sleep would end: another reader's answer,
 * just after something moved. */
static bool soon(const struct service *service)
{
    const uint64_t answer_ns = 20000;
    return rounds_exchanging(service->rounds) && service->loop_ns - service->active_ns < answer_ns;
}

static void sleep_until_woken(struct service *service, uint64_t duration_ns)
{
    struct job *job = service->job;
    service->fds[0] = (struct pollfd){.fd = waker_fd(&job->waker), .events = POLLIN};
    service->fds[1] = (struct pollfd){.fd = job->comm.signal_fd, .events = POLLIN};
    size_t count = 2 + server_pollfds(job->server, service->fds + 2, service->fd_capacity - 2);
    struct timespec timeout = {.tv_sec = (time_t)(duration_ns / 1000000000u),
                               .tv_nsec = (long)(duration_ns % 1000000000u)};
    if (ppoll(service->fds, count, &timeout, NULL) <= 0)
        return;
    for (size_t i = 1; i < count; i++)
        service->outside_ready |= service->fds[i].revents != 0;
}

static void turn_or_sleep(struct service *service)
{
    bool moved = turn(service);
    if (moved)
        service->active_ns = service->loop_ns;
    if (moved || soon(service)) {
        keep_books(service);
        return;
    }
    waker_arm(&service->job->waker);
    server_arm(service->job->server);
    bool active = turn(service);
    keep_books(service);
    if (active)
        service->active_ns = service->loop_ns;
    else
        sleep_until_woken(service, sleep_ns(service, service->loop_ns - service->active_ns));
    server_disarm(service->job->server);
    waker_disarm(&service->job->waker);
}

/* Leaves no collective half done: see stop.h. Rows on their way are waited for only where no
 * session follows, which would take them. */
static void drain(struct service *service, bool again)
{
    if (again)
        pool_settle(service->job->pool);
    else
        job_drain_workers(service->job);
    tally_count(service->tally, service->published);
    uint64_t posted[3] = {windows_posted(service->windows), rounds_begun(service->rounds),
                          tally_posted(service->tally)};
    stop_agree_highest(service->stop, posted, 3);
    for (unsigned idle = 0;; comm_back_off(&idle)) {
        comm_heed_signals(&service->job->comm);
        /* Each may wait for the other: rounds need windows, windows need the slots that rounds
         * retire. */
        bool windows_done = windows_drain(service->windows, posted[0]);
        bool rounds_done = rounds_drain(service->rounds, posted[1]);
        if (windows_done && rounds_done)
            break;
    }
    uint64_t epoch, samples;
    while (tally_drain(service->tally, posted[2], &epoch, &samples))
        if (!again)
            announce_epoch(service, epoch, samples);
    if (!service->done_posted)
        MPI_Ibarrier(service->job->comm.world, &service->all_done);
    comm_wait(&service->job->comm, &service->all_done);
}

static enum status service_init(struct service *service, struct job *job, struct error *err)
{
    service->job = job;
    service->fd_capacity = 8 + 4 * ((size_t)job->trainer_count + 64);
    service->fds = calloc(service->fd_capacity, sizeof *service->fds);
    service->left = calloc(job->trainer_count + 1, sizeof *service->left);
    service->lost = calloc(job->trainer_count + 1, sizeof *service->lost);
    service->all_done = MPI_REQUEST_NULL;
    service->least_cursor = INT64_MAX;
    if (!service->fds || !service->left || !service->lost)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the service");
    enum status status = windows_new(job, &service->windows, err);
    if (status == STATUS_OK)
        status = rounds_new(job, service->windows, &service->rounds, err);
    if (status == STATUS_OK)
        status = tally_new(job, service->summary, &service->tally, err);
    if (status == STATUS_OK)
        status = stop_new(&job->comm, &service->stop, err);
    if (status == STATUS_OK)
        status = stall_new(job, &service->stall, err);
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

static void start_books(struct service *service, bool quiet)
{
    const struct ring_service *span = &service->job->setup.service;
    service->loop_ns = service->active_ns = service->epoch_start_ns = clock_now_ns();
    service->epoch_cpu_ns = clock_process_cpu_ns();
    service->epoch = span->start_epoch;
    service->published = job_cursor(service->job, span->start_epoch, span->start_step);
    if (service->summary->session_count++ == 0)
        service->summary->first_epoch = span->start_epoch;
    service->children_running = service->job->children ? service->job->trainer_count : 0;
    service->show_progress = service->job->comm.rank == 0 && !quiet;
    progress_init(&service->progress, "delivering", "steps",
                  (span->epochs - span->start_epoch) * span->steps_per_epoch - span->start_step);
}

/* The session is over before its time: what it did is counted, rows for later epochs included. */
static void break_off(struct service *service)
{
    if (service->finished)
        return;
    keep_books(service);
    turn_epoch(service, service->epoch);
    for (uint64_t i = 1; i <= service->job->setup.budget.planned_windows; i++) {
        uint64_t rows = windows_take_rows_read(service->windows, service->epoch + i);
        if (rows > 0)
            stats_of(service, service->epoch + i)->rows_read += rows;
    }
}

/* Where a trainer has stopped that comes first, which is where all have unless one left early.
 * MPICH 4.0 compares unsigned integers as if they were signed: what no reader has must not be
 * UINT64_MAX. */
static void settle_stop_cursor(struct service *service)
{
    MPI_Request request;
    uint64_t cursor = service->least_cursor;
    MPI_Iallreduce(MPI_IN_PLACE, &cursor, 1, MPI_UINT64_T, MPI_MIN, service->job->comm.world,
                   &request);
    comm_wait(&service->job->comm, &request);
    service->job->stop_cursor = cursor;
}

static enum status serve(struct service *service, bool *ret_again, struct error *err)
{
    struct error late;
    while (!stop_outcome(service->stop))
        turn_or_sleep(service);
    const struct error *outcome = stop_outcome(service->stop);
    bool again = stop_restarts(service->stop);
    if (again && service->signal_number)
        service->job->comm.on_signal(service->job->comm.on_signal_argument, service->signal_number);
    if (again || outcome->status == STATUS_ENDED)
        break_off(service);
    if (again && service->job->comm.rank == 0)
        fprintf(stderr, "penstock-reader: %s; waiting until it is there again\n", outcome->message);
    if (!again && outcome->status != STATUS_OK) {
        *err = *outcome;
        server_finish(service->job->server, outcome);
    }
    drain(service, again);
    if (outcome->status == STATUS_INTERRUPTED)
        settle_stop_cursor(service);
    if ((outcome->status == STATUS_OK || service->ends_early) && !service->finished)
        finish_delivery(
            service); /* a reader without trainers may hear of the end before it gets there */
    enum status masked = masks_finish(service->job->masks, &late);
    if (masked != STATUS_OK && (again || outcome->status == STATUS_OK)) {
        *err = late; /* there were too many, found with the last rows */
        return masked;
    }
    *ret_again = again;
    return again ? STATUS_OK : (enum status)outcome->status;
}

enum status service_run(struct job *job, bool quiet, struct service_summary *summary,
                        bool *ret_again, struct error *err)
{
    struct service service = {.summary = summary};
    enum status status = service_init(&service, job, err);
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        stop_begin(service.stop);
        tally_begin(service.tally);
        start_books(&service, quiet);
        store_forbid_waiting(true); /* trainers and other readers would wait, too */
        status = serve(&service, ret_again, err);
        store_forbid_waiting(false);
        progress_done(&service.progress);
    }
    service_done(&service);
    return status;
}
