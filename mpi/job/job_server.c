/* Where trainers connect: the run directory and the server. See job_internal.h. */
#include "job/session_internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/rundir.h"
#include "run/hand_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status job_name_run_dir(struct job *job, struct error *err)
{
    const char *given = getenv("PENSTOCK_RUN_DIR");
    int length;
    if (strcmp(job->config.run_dir, "auto") != 0)
        length = rundir_name(job->config.run_dir, NULL, job->run_dir, sizeof job->run_dir);
    else if (given && *given)
        length = rundir_name(given, NULL, job->run_dir, sizeof job->run_dir);
    else
        length =
            snprintf(job->run_dir, sizeof job->run_dir, "%s/penstock-%u-%d-%04x", rundir_parent(),
                     (unsigned)getuid(), (int)getpid(), (unsigned)(clock_now_ns() & 0xffff));
    comm_broadcast(&job->comm, job->run_dir, sizeof job->run_dir, 0, job->comm.world);
    comm_share_with_runs(&job->comm, 0, job->run_dir, sizeof job->run_dir);
    if (job->also) {
        char beside[JOB_RUN_DIR_BYTES];
        memcpy(beside, job->run_dir, sizeof beside);
        length = rundir_name(beside, job->also, job->run_dir, sizeof job->run_dir);
    }
    enum status status = STATUS_OK;
    if (job->comm.rank == 0 && length >= (int)sizeof job->run_dir)
        status =
            error_set(err, STATUS_INVALID,
                      "the run directory's name has %d characters ('%.40s...'); it may have %zu: "
                      "give a shorter delivery.run_dir or PENSTOCK_RUN_DIR",
                      length, job->run_dir, sizeof job->run_dir - 1);
    return comm_agree(&job->comm, status, err);
}

/* What a trainer says to go on from, see server.h. One that has all batches has nothing to go on
 * with, but may have come back to hear of the end. */
static enum status read_state(void *argument, uint32_t rank, const char *json, bool goes_on,
                              uint64_t *ret_cursor, struct error *err)
{
    struct session *session = argument;
    const struct ring_service *service = &session->job->setup.service;
    struct run_state state, checked;
    enum status status = run_state_parse(json, strlen(json), &state, err);
    if (status != STATUS_OK)
        return status;
    checked = state;
    if (goes_on && state.epoch == service->epochs && state.step == 0)
        checked.epoch = 0;
    status = run_state_check(&checked, service, err);
    if (status != STATUS_OK)
        return status;
    if (goes_on)
        status = session_note_locality(session, rank, state.order.locality, err);
    if (status != STATUS_OK)
        return status;
    session->old_states += state.version == 1;
    *ret_cursor = job_cursor(session->job, state.epoch, state.step);
    return STATUS_OK;
}

/* A reader of the job before may still be dying. */
static enum status make_server(struct job *job, const struct server_options *options,
                               bool supervised, struct error *err)
{
    const uint64_t patience_ns = 10000000000u, deadline = clock_now_ns() + patience_ns;
    for (;;) {
        enum status status = server_new(options, &job->server, err);
        if (status != STATUS_REFUSED || !supervised || clock_now_ns() >= deadline)
            return status;
        comm_heed_signals(&job->comm);
        clock_sleep_ns(50000000);
    }
}

/* By workers on the NUMA node where its trainer sits. Where none is there, or comes in time, others
 * do it, so the kernel is told, too. */
static int fill_ring(void *argument, uint32_t rank, void *memory, size_t bytes)
{
    const struct job *job = argument;
    struct placement_memory near = job_ring_memory(job, rank);
    struct pool_memory ring = {memory, bytes, near.numa};
    if (job->config.bind != BIND_NONE)
        (void)!memory_prefer_node(memory, bytes, near.numa_os_index);
    return pool_populate(job->pool, &ring, 1, NULL, NULL);
}

enum status job_open_server(struct job *job, struct session *session,
                            const struct job_options *job_options, struct error *err)
{
    int handout = -1;
    job->reconnect_s = job->config.reconnect_timeout_s;
    if (job->reconnect_s == 0 && job_options->command && job->config.restarts > 0)
        job->reconnect_s = job->config.connect_timeout_s;
    /* What a child leaves behind may take its grace before another is started instead. */
    if (job_options->command && job->config.restarts > 0)
        job->reconnect_s += job->config.grace_s + CHILDREN_LAST_S;
    struct server_options options = {.run_dir = job->run_dir,
                                     .reader = (uint32_t)job->comm.rank,
                                     .mark = getenv("PENSTOCK_STARTED_BY"),
                                     .max_trainers = job->shape.trainers_served,
                                     .least_trainers = config_least_trainers(&job->config),
                                     .layout = &job->setup.layout,
                                     .service = &job->setup.service,
                                     .reconnect_ms = job->reconnect_s * 1000,
                                     .reserve_slots =
                                         run_reserve_slots(&job->config, job->setup.shape),
                                     .sessions_follow = job->also != NULL,
                                     .read_state = read_state,
                                     .state_argument = session,
                                     .describe = shares_describe,
                                     .describe_argument = &job->setup.shares,
                                     .fill = fill_ring,
                                     .fill_argument = job,
                                     .handout = &handout};
    enum status status = hand_out(job_whole(job), &handout, err);
    if (status == STATUS_OK)
        status = make_server(job, &options, job_options->supervised, err);
    fd_close(&handout);
    if (status == STATUS_OK)
        status = session_resize_as_told(job, session, err);
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_listen(job->server, err), err);
    job->listening = status == STATUS_OK;
    return status;
}
