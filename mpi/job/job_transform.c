/* The transform of a reader: its trial, its processes, its sessions. See job_internal.h. */
#include "job/job_internal.h"

#include "trainers/spawner.h"
#include "transform/trial.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t second_ns = UINT64_C(1000000000);

enum status job_try_transform(const struct job *job, struct board_shape **ret_made,
                              struct error *err)
{
    const struct config *config = &job->config;
    *ret_made = NULL;
    if (!*config->transform_run)
        return STATUS_OK;
    char **environment = spawner_plain_environment();
    struct board_shape *made = calloc(1, sizeof *made);
    if (!environment || !made) {
        free(environment);
        free(made);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    }
    const struct trial_options options = {
        .command = {.text = config->transform_run, .environment = environment},
        .fields = config->transform_fields,
        .timeout_ns = config->transform_timeout_s * second_ns,
        .seed = config->seed};
    enum status status = trial_run(&options, job->dataset, made, err);
    free(environment);
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
    char **environment = spawner_plain_environment();
    if (!environment)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    snprintf(job->name, sizeof job->name, "reader %d on %s", job->comm.rank, job->comm.node_name);
    const struct transform_options options = {
        .command = {.text = config->transform_run,
                    .environment = environment,
                    .cpus = config->bind == BIND_NONE ? NULL : &placement->cpuset},
        .count = config->transform_processes ? (uint32_t)config->transform_processes
                                             : placement->worker_count,
        .timeout_ns = config->transform_timeout_s * second_ns,
        .who = job->name,
        .rule = rule_of(job)};
    enum status status = transform_new(&options, job->made, &job->transform, err);
    if (status == STATUS_OK)
        job->environment = environment;
    else
        free(environment);
    return status;
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
