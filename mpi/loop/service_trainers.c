/* A session's trainers: finds trainers that leave, are lost, or keep others waiting. See
 * service_internal.h. */
#include "loop/service_internal.h"

#include "base/clock.h"
#include "base/size.h"
#include "job/session_internal.h"

static const uint64_t ms_ns = 1000000;

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
    if (epoch >= run->epochs || job->config.epochs == 0 || service->early.status != STATUS_OK)
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

/* A trainer broke the protocol, or its socket closed without a goodbye. If the trainer is our
 * child, how the child ended says more than a closed socket: waits briefly for its end. */
static void handle_loss(struct service *service, uint32_t peer, const struct error *loss)
{
    if (outlives_trainers(service)) {
        service->lost_ns = service->books.now_ns;
        return;
    }
    const uint64_t deadline = clock_now_ns() + 100 * ms_ns;
    const struct job *job = service->job;
    if (job->also && job->reconnect_s == 0 && loss->status == STATUS_LOST) {
        /* The run that is trained on knows better what becomes of a trainer that is gone. */
        note_left(service, peer, server_trainer_cursor(job->server, peer));
        return;
    }
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
    const struct job *job = service->job;
    struct error error;
    bool active = false;
    enum status refused = server_progress(job->server, &active, &error);
    (void)refused; /* the late trainer was told; those that are served need not know */
    if (server_take_warning(job->server, &error))
        stop_event_warning(service->stop, &error);
    for (uint32_t peer = 0; peer < service->session->trainer_count; peer++) {
        if (service->left[peer])
            continue;
        enum server_peer state = server_trainer_state(job->server, peer, &error);
        if (state == SERVER_PEER_CLOSED)
            handle_goodbye(service, peer);
        else if (state == SERVER_PEER_LOST && !service->lost[peer]) {
            service->lost[peer] = true;
            handle_loss(service, peer, &error);
        } else if (state == SERVER_PEER_LOST && outlives_trainers(service) &&
                   service->books.now_ns - service->lost_ns > job->reconnect_s * 1000 * ms_ns) {
            service->left[peer] = true;
            service->left_count++;
            stop_event_warning(service->stop, &error);
        }
        active |= state != SERVER_PEER_CONNECTED;
    }
    /* One that had left a run of --also waits until all have. */
    if (!job->also && server_trainer_returns(job->server)) {
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
        service->books.finished || rounds_blocked(service->rounds, &epoch, &step) == BLOCK_SLOTS;
    if (!stall_look(service->stall, service->books.now_ns, waiting, &warning, &first))
        return;
    if (first)
        books_count_stall(&service->books);
    stop_event_warning(service->stop, &warning);
}

bool service_look_at_trainers(struct service *service)
{
    const struct job *job = service->job;
    struct error error;
    bool active = serve_sockets(service);
    if (job->children &&
        children_poll(job->children, true, &service->children_running, &error) != STATUS_OK)
        tell_loss(service, &error);
    watch_trainers(service);
    if (service->left_count == service->session->trainer_count)
        stop_event_left(service->stop);
    stop_watch_early(service->stop, job->config.early_leave == EARLY_LEAVE_FAIL);
    return active;
}
