/* Decides how a session ends: at its last step, or, after a signal, at a step that all readers
 * agree on. See service_internal.h. */
#include "loop/service_internal.h"

#include "job/session_internal.h"

#include <signal.h>
#include <string.h>

static const uint64_t ms_ns = 1000000;

void service_heed_signal(struct service *service)
{
    const struct comm *comm = &service->job->comm;
    const uint64_t echo_ns = 100 * ms_ns;
    int number = comm_take_signal(comm);
    if (number == 0 ||
        (service->signal_number && service->books.now_ns - service->signal_ns < echo_ns))
        return;
    if (service->signal_number || (service->job->supervised && number == SIGTERM))
        comm->on_signal(comm->on_signal_argument, number);
    service_take_signal(service, number);
}

void service_take_signal(struct service *service, int number)
{
    service->signal_number = number;
    service->signal_ns = service->books.now_ns;
    stop_event_drain(service->stop, number);
}

void service_heed_siblings(struct service *service)
{
    struct siblings *siblings = service->job->siblings;
    const struct siblings_news *news = siblings_hear(siblings);
    bool in_order = news->outcome.status == STATUS_OK || news->outcome.status == STATUS_ENDED;
    if (stop_drains(service->stop))
        siblings_tell_signal(siblings, stop_drains(service->stop));
    if (news->signal_number && !service->signal_number)
        service_take_signal(service, news->signal_number);
    if (news->over && !in_order)
        stop_end(service->stop, &news->outcome);
}

/* How long an orderly end may take. Only SIGUSR2 is not followed by a launcher's SIGKILL. */
static uint64_t patience_ns(const struct service *service, int number)
{
    if (number == SIGUSR2)
        return service->job->config.drain_timeout_s * 1000 * ms_ns;
    return (service->job->comm.is_hasty ? 100 : 500) * ms_ns;
}

bool service_progress_to_end(struct service *service)
{
    const struct comm *comm = &service->job->comm;
    uint64_t count = 0;
    int number = stop_drains(service->stop) ? stop_drains(service->stop) : service->signal_number;
    if (number == 0)
        return false;
    if (service->signal_ns == 0)
        service->signal_ns = service->books.now_ns;
    if (service->books.now_ns - service->signal_ns > patience_ns(service, number))
        comm->on_signal(comm->on_signal_argument, number);
    if (stop_drains(service->stop) == 0 || service->session->stopped_by)
        return false;
    if (!service->holds_rounds)
        stop_offer_end(service->stop, rounds_hold(service->rounds));
    service->holds_rounds = true;
    if (!stop_agreed_end(service->stop, &count))
        return false;
    rounds_end_at(service->rounds, count);
    service->session->stopped_by = number;
    uint64_t epoch, step;
    rounds_end(service->rounds, &epoch, &step);
    service->ends_early = epoch < service->job->setup.service.epochs;
    if (service->ends_early)
        error_set(&service->early, STATUS_INTERRUPTED,
                  "%s by SIG%s, in good order, before epoch %llu step %llu",
                  number == SIGUSR2 ? "asked to end" : "stopped", sigabbrev_np(number),
                  (unsigned long long)epoch, (unsigned long long)step);
    return true;
}

static bool trainers_done(const struct service *service)
{
    const struct job *job = service->job;
    for (uint32_t peer = 0; peer < service->session->trainer_count; peer++)
        if (!service->left[peer] && !server_trainer_done(job->server, peer))
            return false;
    return true;
}

bool service_end_delivery(struct service *service)
{
    bool complete = false;
    if (!service->books.finished || service->ended)
        return false;
    if (!service->ends_early && !service->done_posted && trainers_done(service)) {
        session_note_end(service->session); /* before anybody can hear of the end */
        MPI_Ibarrier(service->job->comm.world, &service->all_done);
        service->done_posted = true;
    }
    if (service->done_posted)
        complete = comm_test(&service->job->comm, &service->all_done);
    if (!complete && !service->ends_early)
        return false;
    if (complete) {
        job_finish_well(service->job);
    } else {
        struct error end;
        error_set(&end, STATUS_ENDED, "%s", service->early.message);
        server_finish(service->job->server, &end);
    }
    service->ended = true;
    return true;
}

void service_drain(struct service *service, bool again)
{
    if (again)
        pool_settle(service->job->pool);
    else
        session_drain_workers(service->session);
    tally_count(service->tally, service->books.published);
    uint64_t posted[4] = {windows_posted(service->windows), rounds_begun(service->rounds),
                          tally_posted(service->tally), rounds_agreed(service->rounds)};
    stop_agree_highest(service->stop, posted, 4);
    for (unsigned idle = 0;; comm_back_off(&idle)) {
        comm_heed_signals(&service->job->comm);
        /* Each may wait for the other: rounds need windows, windows need the slots that rounds
         * retire. */
        bool windows_done = windows_drain(service->windows, posted[0]);
        bool rounds_done = rounds_drain(service->rounds, posted[1], posted[3]);
        if (windows_done && rounds_done)
            break;
    }
    uint64_t epoch, samples;
    bool tells = !again || service->session->begins_anew;
    while (tally_drain(service->tally, posted[2], &epoch, &samples))
        if (tells)
            books_announce(&service->books, epoch, samples);
    if (!service->done_posted)
        MPI_Ibarrier(service->job->comm.world, &service->all_done);
    comm_wait(&service->job->comm, &service->all_done);
}

/* MPICH 4.0 compares unsigned integers as if they were signed: what no reader has must not be
 * UINT64_MAX. */
void service_settle_stop_cursor(struct service *service)
{
    const struct comm *comm = &service->job->comm;
    service->session->stop_cursor = job_reduce(comm, service->least_cursor, MPI_MIN, comm->world);
}
