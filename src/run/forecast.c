/* See forecast.h. */
#include "run/forecast.h"

#include "base/divide.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/locality.h"
#include "plan/tables.h"

#include <stdlib.h>

enum { MOST_ROWS = 1000000, MOST_POSITIONS = 400000, LEAST_STEPS = 4 };

/* The run itself, or a smaller one in proportion. */
struct model {
    struct run_setup setup;
    double scale;        /* rows of the run for each row here */
    double sample_scale; /* and samples */
    uint32_t *reader_of_trainer;
    struct assigner *assigner;
    uint16_t *owners;        /* [row_count] by row position, of the epoch being given out */
    struct matcher *matcher; /* NULL: order.placement is fixed */
    uint32_t *destinations;  /* [records of a step] */
    uint16_t *sources;       /* [records of a step] readers of their rows */
};

static enum status scale_down(struct model *model, struct error *err)
{
    struct run_setup *setup = &model->setup;
    const struct plan plan = setup->plan;
    uint64_t most = max_u64(MOST_ROWS, plan.window_rows);
    model->scale = model->sample_scale = 1;
    if (plan.row_count <= most)
        return STATUS_OK;
    model->scale = (double)plan.row_count / (double)most;
    uint64_t samples =
        plan.anchors ? size_divide_up(plan.sample_count, plan.row_count) : plan.row_length;
    const struct plan_options options = {.sample_count = most * samples,
                                         .row_length = samples,
                                         .window_rows = plan.window_rows,
                                         .seed = plan.seed,
                                         .shuffle = plan.shuffle,
                                         .global_batch = plan.global_batch,
                                         .last = PLAN_PARTIAL,
                                         .trainer_count = plan.trainer_count,
                                         .locality = plan.locality};
    model->sample_scale = (double)plan.sample_count / (double)options.sample_count;
    setup->budget.keep_rows = (uint64_t)((double)setup->budget.keep_rows / model->scale);
    if (model->setup.budget.keep_rows * setup->demand.reader_count >= most)
        setup->budget.keep_rows++; /* what fits fits */
    setup->budget.replica_rows =
        setup->budget.replica_rows == plan.all_rows
            ? most
            : (uint64_t)((double)setup->budget.replica_rows / model->scale);
    return plan_init(&setup->plan, &options, err);
}

static enum status model_init(struct model *model, struct error *err)
{
    enum status status = scale_down(model, err);
    if (status == STATUS_OK)
        status = plan_tables_new(&model->setup.plan, 1, err);
    if (status != STATUS_OK)
        return status;
    const struct plan *plan = &model->setup.plan;
    uint32_t readers = model->setup.demand.reader_count;
    model->reader_of_trainer = calloc(plan->trainer_count, sizeof *model->reader_of_trainer);
    model->owners = calloc(plan->row_count, sizeof *model->owners);
    model->destinations = calloc(plan->global_batch, sizeof *model->destinations);
    model->sources = calloc(plan->global_batch, sizeof *model->sources);
    if (plan->locality)
        model->matcher = matcher_new(plan);
    if (!model->reader_of_trainer || !model->owners || !model->destinations || !model->sources ||
        (plan->locality && !model->matcher))
        return error_set(err, STATUS_NO_MEMORY, "no memory for a forecast");
    for (uint32_t r = 0; r < readers; r++)
        for (uint64_t t = (uint64_t)r * plan->trainer_count / readers;
             t < (r + UINT64_C(1)) * plan->trainer_count / readers; t++)
            model->reader_of_trainer[t] = r;
    struct assigner_options options;
    run_setup_assigner(&model->setup, model->reader_of_trainer, &options);
    return assigner_new(&options, &model->assigner, err);
}

static void assume(struct model *model, const struct run_rates *rates)
{
    const struct budget_demand *demand = &model->setup.demand;
    if (rates->link == 0)
        return;
    struct ways_rates known = {.row_ns = 1, .byte_ns = 1e9 / (double)rates->link};
    if (rates->decode > 0)
        known.row_ns = 1e9 * (double)demand->row_bytes / (double)rates->decode;
    for (uint32_t r = 0; r < demand->reader_count; r++)
        assigner_note_rates(model->assigner, r, &known);
    double row_bytes = (double)rates->stored_row_bytes;
    if (rates->store > 0)
        assigner_note_store(model->assigner,
                            &(struct ways_store){.row_ns = 1e9 * row_bytes / (double)rates->store,
                                                 .row_bytes = row_bytes});
}

static void model_done(struct model *model)
{
    plan_tables_free(model->setup.plan.tables);
    assigner_free(model->assigner);
    matcher_free(model->matcher);
    free(model->sources);
    free(model->destinations);
    free(model->owners);
    free(model->reader_of_trainer);
}

/* How many samples of a step are read by another reader than their trainer's. */
static uint64_t count_moved(const struct model *model, const struct plan_epoch *epoch,
                            uint64_t step)
{
    const struct plan *plan = &epoch->plan;
    struct locality_near near = locality_near(plan);
    uint64_t first = step * plan->global_batch, count = plan_step_samples(plan, step), moved = 0;
    struct plan_window window = {0};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t position = plan_unpad(epoch, first + i);
        if (position - window.first_position >= window.sample_count)
            plan_window_at(&window, epoch, plan_window_of(epoch, position));
        uint64_t row_position =
            window.first_row_position + plan_location_at(&window, position).window_row;
        model->sources[i] = model->owners[row_position];
        model->destinations[i] = locality_trainer(near, plan_row_at(epoch, row_position));
    }
    matcher_match(model->matcher, epoch->epoch, step, model->destinations);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t destination = first + model->destinations[i];
        uint32_t reader = model->reader_of_trainer[plan_recipient_of(plan, destination).trainer];
        moved += reader != (model->sources[i] & ASSIGN_READER_MASK);
    }
    return moved;
}

/* The share of an epoch's samples that travel with order.placement local, from some of its steps.
 */
static double moved_share(const struct model *model, const struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    uint64_t steps = max_u64(MOST_POSITIONS / plan->global_batch, LEAST_STEPS);
    uint64_t stride = size_divide_up(plan->steps_per_epoch, steps), moved = 0, seen = 0;
    for (uint64_t step = 0; step < plan->steps_per_epoch; step += stride) {
        moved += count_moved(model, epoch, step);
        seen += plan_step_samples(plan, step);
    }
    return seen > 0 ? (double)moved / (double)seen : 0;
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
        assigner_window(model->assigner, &epoch, &window,
                        model->owners + window.first_row_position);
    }
    assigner_stats(model->assigner, &after);
    uint64_t kept = after.kept_rows - before.kept_rows;
    double samples = after.samples - before.samples;
    double exchanged = after.exchanged_samples - before.exchanged_samples;
    double tapes = (double)(after.tapes - before.tapes);
    if (model->matcher)
        exchanged = samples * moved_share(model, &epoch);
    *ret_epoch = (struct run_forecast_epoch){
        .rows_kept = (double)kept * model->scale,
        .rows_read = (double)(after.read_rows - before.read_rows) * model->scale,
        .rows_each = (double)(after.each_rows - before.each_rows) * model->scale,
        .exchanged_bytes = exchanged * model->sample_scale * (double)model->setup.record_bytes +
                           tapes * model->scale * (double)model->setup.stored_row_bytes,
    };
    for (int p = 0; p < WAYS_PLANS; p++)
        ret_epoch->way_s[p] = (after.way_ns[p] - before.way_ns[p]) * model->scale / 1e9;
}

enum status run_forecast(const struct run_setup *setup, const struct run_rates *rates,
                         struct run_forecast *ret_forecast, struct error *err)
{
    struct model model = {.setup = *setup};
    model.setup.plan.tables = NULL;
    struct run_forecast forecast = {0};
    enum status status = model_init(&model, err);
    if (status == STATUS_OK) {
        uint64_t epochs = setup->service.epochs;
        assume(&model, rates);
        forecast.epoch_count =
            epochs < RUN_FORECAST_EPOCHS ? (uint32_t)epochs : RUN_FORECAST_EPOCHS;
        for (uint32_t e = 0; e < forecast.epoch_count; e++)
            give_out_epoch(&model, e, &forecast.epochs[e]);
        *ret_forecast = forecast;
    }
    model_done(&model);
    return status;
}
