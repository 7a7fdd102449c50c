/* See plan_run.h. */
#include "cli/plan/plan_run.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/order/mix.h"
#include "read/fetch_stage.h"
#include "read/stored_rows.h"
#include "run/also.h"
#include "run/forecast.h"
#include "transform/trial.h"

#include <stdlib.h>

/* The placement of a node's first reader, with its threads and trainers, on this machine. */
static enum status assume_placement(struct plan_run *run, const struct plan_where *where,
                                    struct error *err)
{
    struct topology *topology;
    const struct config *config = &run->config;
    enum status status = topology_load(NULL, NULL, &topology, err);
    if (status != STATUS_OK)
        return status;
    uint32_t trainers = (uint32_t)size_divide_up(config->trainers, where->nodes);
    uint64_t threads = where->threads ? where->threads : config->threads;
    status = topology_placement(topology, 0, run->shape.readers_on_node, trainers,
                                (uint32_t)threads, config->bind, &run->placement, err);
    topology_free(topology);
    return status;
}

static enum status try_transform(struct plan_run *run, struct error *err)
{
    const struct config *config = &run->config;
    const struct trial_options options = {.command = {.text = config->transform_run},
                                          .fields = config->transform_fields,
                                          .timeout_ns =
                                              config->transform_timeout_s * UINT64_C(1000000000),
                                          .seed = config->seed};
    if (!*config->transform_run || run->made)
        return STATUS_OK;
    struct board_shape *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    enum status status = trial_run(&options, run->dataset, made, err);
    if (status == STATUS_OK)
        run->made = made;
    else
        free(made);
    return status;
}

enum status plan_run_settle(struct plan_run *run, const struct plan_where *where,
                            uint64_t also_bytes, struct error *err)
{
    const struct config *config = &run->config;
    /* The plan may be for another machine than this. */
    uint64_t available = UINT64_MAX;
    if (config->memory_limit_bytes == 0) {
        available = memory_available_bytes();
        available -= min_u64(also_bytes, available);
    }
    struct run_shape *shape = &run->shape;
    *shape = (struct run_shape){
        .reader_count = (uint32_t)where->readers,
        .readers_on_node = (uint32_t)size_divide_up(where->readers, where->nodes),
        .trainers_served = run_trainers_served(config, where->readers),
        .node_available_bytes = available,
        .also_bytes = also_bytes,
        .auto_divisor = run->name ? ALSO_DIVISOR : 0,
    };
    shape->fetch_bytes =
        fetch_stage_bytes(run->dataset, run_fetch_memory(config, shape), &shape->fetch_rows);
    shape->fetch_row_bytes = fetch_stage_row_bytes(run->dataset, &shape->fetch_row_requests);
    enum status status = assume_placement(run, where, err);
    if (status == STATUS_OK)
        status = try_transform(run, err);
    shape->transform = run->made;
    shape->worker_count = run->placement.worker_count;
    if (status == STATUS_OK)
        status = stored_rows_estimate(run->dataset, config_may_keep_stored(config),
                                      &shape->stored_row_bytes, &shape->stored_row_cost, err);
    if (status == STATUS_OK)
        status = run_setup_settle(config, run->dataset, shape, NULL, &run->setup, err);
    if (status == STATUS_OK)
        run->node_bytes = run_setup_node_bytes(shape, &run->setup);
    return status;
}

enum status plan_run_forecast(const struct plan_run *run, struct plan_forecasts *ret_forecasts,
                              struct error *err)
{
    struct run_setup other = run->setup;
    other.plan.locality =
        other.plan.locality ? 0 : run_locality(&run->shape, run->setup.plan.trainer_count);
    enum status status = run_forecast(&run->setup, &ret_forecasts->own, err);
    return status != STATUS_OK ? status : run_forecast(&other, &ret_forecasts->other, err);
}

void plan_run_done(struct plan_run *run)
{
    plan_mix_free(run->setup.plan.mix);
    dataset_free(run->dataset);
    free(run->made);
    config_done(&run->config);
}
