/* See forecast.h. */
#include "run/forecast.h"

#include "base/number.h"

#include <stdlib.h>

enum { MOST_ROWS = 1000000 };

/* The run itself, or a smaller one in proportion. */
struct model {
    struct run_setup setup;
    double scale; /* rows of the run for each row here */
    uint32_t *reader_of_trainer;
    struct assigner *assigner;
    uint16_t *owners; /* [window_rows] */
};

static enum status scale_down(struct model *model, struct error *err)
{
    struct run_setup *setup = &model->setup;
    const struct plan plan = setup->plan;
    uint64_t most = max_u64(MOST_ROWS, plan.window_rows);
    model->scale = 1;
    if (plan.row_count <= most)
        return STATUS_OK;
    model->scale = (double)plan.row_count / (double)most;
    const struct plan_options options = {.sample_count = most * plan.row_length,
                                         .row_length = plan.row_length,
                                         .window_rows = plan.window_rows,
                                         .seed = plan.seed,
                                         .shuffle = plan.shuffle,
                                         .global_batch = plan.global_batch,
                                         .last = PLAN_PARTIAL,
                                         .trainer_count = plan.trainer_count};
    setup->budget.keep_rows = (uint64_t)((double)setup->budget.keep_rows / model->scale);
    if (model->setup.budget.keep_rows * setup->demand.reader_count >= most)
        setup->budget.keep_rows++; /* what fits fits */
    return plan_init(&setup->plan, &options, err);
}

static enum status model_init(struct model *model, struct error *err)
{
    enum status status = scale_down(model, err);
    if (status != STATUS_OK)
        return status;
    const struct plan *plan = &model->setup.plan;
    uint32_t readers = model->setup.demand.reader_count;
    model->reader_of_trainer = calloc(plan->trainer_count, sizeof *model->reader_of_trainer);
    model->owners = calloc(plan->window_rows, sizeof *model->owners);
    if (!model->reader_of_trainer || !model->owners)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a forecast");
    for (uint32_t r = 0; r < readers; r++)
        for (uint64_t t = (uint64_t)r * plan->trainer_count / readers;
             t < (r + UINT64_C(1)) * plan->trainer_count / readers; t++)
            model->reader_of_trainer[t] = r;
    struct assigner_options options;
    run_setup_assigner(&model->setup, model->reader_of_trainer, &options);
    return assigner_new(&options, &model->assigner, err);
}

static void model_done(struct model *model)
{
    assigner_free(model->assigner);
    free(model->owners);
    free(model->reader_of_trainer);
}

static void give_out_epoch(struct model *model, uint64_t number,
                           struct run_forecast_epoch *ret_epoch)
{
    struct assigner_stats before, after;
    struct plan_epoch epoch;
    struct plan_window window;
    assigner_stats(model->assigner, &before);
    plan_epoch_init(&epoch, &model->setup.plan, number);
    for (uint64_t j = 0; j < model->setup.plan.window_count; j++) {
        plan_window_at(&window, &epoch, j);
        assigner_window(model->assigner, &epoch, &window, model->owners);
    }
    assigner_stats(model->assigner, &after);
    uint64_t rows = after.rows - before.rows;
    uint64_t kept = after.kept_rows - before.kept_rows;
    uint64_t unread = after.unread_rows - before.unread_rows;
    *ret_epoch = (struct run_forecast_epoch){
        .rows_kept = (double)kept * model->scale,
        .rows_read = (double)(rows - kept - unread) * model->scale,
        .samples_exchanged = (after.exchanged_samples - before.exchanged_samples) * model->scale,
    };
}

enum status run_forecast(const struct run_setup *setup, struct run_forecast *ret_forecast,
                         struct error *err)
{
    struct model model = {.setup = *setup};
    struct run_forecast forecast = {0};
    enum status status = model_init(&model, err);
    if (status == STATUS_OK) {
        uint64_t epochs = setup->service.epochs;
        forecast.epoch_count =
            epochs < RUN_FORECAST_EPOCHS ? (uint32_t)epochs : RUN_FORECAST_EPOCHS;
        for (uint32_t e = 0; e < forecast.epoch_count; e++)
            give_out_epoch(&model, e, &forecast.epochs[e]);
        *ret_forecast = forecast;
    }
    model_done(&model);
    return status;
}
