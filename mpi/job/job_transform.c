/* The transform of a reader: its trial, its processes, its sessions. See job_internal.h. */
#include "job/job_internal.h"

#include "base/clock.h"
#include "trainers/spawner.h"
#include "transform/trial.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t second_ns = UINT64_C(1000000000);

/* Whether a signal is there: it is taken once the trial's process is gone. */
static bool has_signal(void *comm)
{
    struct pollfd fd = {.fd = ((const struct comm *)comm)->signal_fd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

/* Most signals end this process at once; run 0 may take a moment to tell other runs. */
static void heed(const struct comm *comm)
{
    for (unsigned i = 0; i < 100; i++) {
        comm_heed_signals(comm);
        clock_sleep_ns(second_ns / 100);
    }
}

enum status job_try_transform(const struct job *job, struct board_shape **ret_made,
                              struct error *err)
{
    const struct config *config = &job->config;
    *ret_made = NULL;
    if (!*config->transform_run)
        return STATUS_OK;
    char **environment = spawner_plain_environment(), **through = spawner_through(NULL);
    struct board_shape *made = calloc(1, sizeof *made);
    if (!environment || !through || !made) {
        free(environment);
        free(through);
        free(made);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    }
    const struct trial_options options = {
        .command = {.text = config->transform_run, .environment = environment, .through = through},
        .fields = config->transform_fields,
        .timeout_ns = config->transform_timeout_s * second_ns,
        .seed = config->seed,
        .is_interrupted = has_signal,
        .argument = (void *)(uintptr_t)&job->comm};
    enum status status = trial_run(&options, job->dataset, made, err);
    free(environment);
    free(through);
    if (status == STATUS_INTERRUPTED)
        heed(&job->comm);
    if (status == STATUS_OK)
        *ret_made = made;
    else
        free(made);
    return status;
}

/* What is zero of a sample at which the transform fails: what is zero of one that cannot be read,
 * and what the transform makes. */
static struct mask_rule rule_of(const struct job *job)
{
    struct mask_rule rule = {.log = masks_log(job->masks)};
    const struct dataset *dataset = job->dataset;
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->source == FIELD_ROW || field->source == FIELD_RAGGED)
            rule.fields |= UINT64_C(1) << f;
        if (field->source == FIELD_MADE && field->made == MADE_SOURCE) {
            rule.has_source = 1;
            rule.source = (uint32_t)f;
        }
    }
    for (uint32_t o = 0; o < job->made->output_count; o++)
        if (job->made->outputs[o].same_as == 0)
            rule.fields |= UINT64_C(1) << job->made->outputs[o].field;
    return rule;
}

enum status job_start_transform(struct job *job, struct error *err)
{
    const struct config *config = &job->config;
    const struct placement *placement = &job->placement;
    if (!job->made)
        return STATUS_OK;
    job->environment = spawner_plain_environment();
    job->through = spawner_through(config->bind == BIND_NONE ? NULL : &placement->cpuset);
    if (!job->environment || !job->through)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    snprintf(job->name, sizeof job->name, "reader %d on %s", job->comm.rank, job->comm.node_name);
    const struct transform_options options = {.command = {.text = config->transform_run,
                                                          .environment = job->environment,
                                                          .through = job->through},
                                              .count = config->transform_processes
                                                           ? (uint32_t)config->transform_processes
                                                           : placement->worker_count,
                                              .timeout_ns = config->transform_timeout_s * second_ns,
                                              .who = job->name,
                                              .rule = rule_of(job)};
    return transform_new(&options, job->made, &job->transform, err);
}

enum status job_begin_transform(const struct job *job, const struct ring_layout *layout,
                                struct error *err)
{
    uint32_t count = server_ring_count(job->server);
    if (!job->transform)
        return STATUS_OK;
    const struct ring **rings = calloc(count + 1u, sizeof(struct ring *));
    if (!rings)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rings of a transform");
    for (uint32_t r = 0; r < count; r++)
        rings[r] = server_ring(job->server, r);
    enum status status = transform_begin(job->transform, rings, count, layout, err);
    free(rings);
    return status;
}

bool job_owns_child(const void *job, pid_t pid)
{
    return transform_owns(((const struct job *)job)->transform, pid);
}
