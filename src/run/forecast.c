/* See forecast.h. */
#include "run/forecast.h"

#include "base/divide.h"
#include "base/number.h"
#include "base/size.h"
#include "base/tables.h"
#include "plan/order/mix.h"
#include "plan/rounds/locality.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 1000000, MOST_POSITIONS = 400000, LEAST_STEPS = 4 };

/* The pass over a source, or over the run's one dataset, that a step is in. */
struct source_pass {
    struct plan_epoch epoch;   /* with a sample_count of 0: none */
    struct plan_window window; /* of the sample before, or empty */
};

/* The run itself, or a smaller one in proportion. */
struct model {
    struct run_setup setup;
    double scale;          /* rows of the run for each row here */
    double longer;         /* and how many times more of them an epoch of a mix comes to */
    double sample_scale;   /* and samples */
    double records, items; /* times as many travel with order.placement local as here: see
                            * note_cuts() */
    struct assigner *assigner;
    struct matcher *matcher; /* NULL: order.placement is fixed */
    struct plan_merge merge; /* the windows to come */
    struct tables tables;    /* those that follow */
    uint32_t *reader_of_trainer;
    uint16_t *owners;           /* [window_rows] */
    uint16_t *owner_of_row;     /* [all_rows] as given out last; NULL: order.placement is fixed */
    uint32_t *destinations;     /* [records of a step] */
    uint16_t *sources;          /* [records of a step] readers of their rows */
    uint64_t *rows, *drawn;     /* [records of a step] the same rows; in the order of draws */
    struct source_pass *passes; /* [sources] NULL: order.placement is fixed */
};

/* A source, or the run's one dataset, with one row in `scale`, of as many samples each; without
 * short rows. */
static struct plan_options scaled_options(const struct plan *plan, double scale)
{
    uint64_t samples =
        plan->anchors ? size_divide_up(plan->sample_count, plan->row_count) : plan->row_length;
    uint64_t rows = max_u64((uint64_t)((double)plan->row_count / scale), plan->window_rows);
    return (struct plan_options){.sample_count = rows * samples,
                                 .row_length = samples,
                                 .window_rows = plan->window_rows,
                                 .seed = plan->seed,
                                 .shuffle = plan->shuffle,
                                 .global_batch =
                                     max_u64(plan_mean_samples(plan), plan->trainer_count),
                                 .last = PLAN_PARTIAL,
                                 .trainer_count = plan->trainer_count,
                                 .locality = plan->locality};
}

/* Rows that an epoch comes to: those of all passes. */
static double rows_of_epoch(const struct plan *plan)
{
    double rows = 0;
    for (uint32_t d = 0; plan->mix && d < plan_source_count(plan); d++) {
        const struct plan *source = plan_source(plan, d);
        rows += plan_epoch_passes(plan, d) * (double)source->row_count;
    }
    return rows > (double)plan->row_count ? rows : (double)plan->row_count;
}

/* The weight of a source in a mix without cuts, whose weights divide samples instead of steps. */
static uint64_t scaled_weight(const struct plan *plan, uint32_t source)
{
    const struct plan *of = plan_source(plan, source);
    if (plan->cuts.items == 0 && plan_entry_count(plan) == 0)
        return plan_weight(plan, source);
    double share = plan_mean_share(plan, source);
    if (plan->cuts.items == 0)
        return (uint64_t)(share * (1 << 30)) + 1;
    double samples = (double)of->sample_count / (double)of->steps_per_epoch;
    return (uint64_t)(share * samples / (double)plan->global_batch * (1 << 30)) + 1;
}

static enum status scaled_mix(const struct plan *plan, uint64_t epochs, const struct model *model,
                              struct plan *ret_plan, struct error *err)
{
    struct plan_options sources[MIX_MAX_SOURCES];
    uint64_t weights[MIX_MAX_SOURCES];
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        sources[d] = scaled_options(plan_source(plan, d), model->scale);
        weights[d] = scaled_weight(plan, d);
    }
    const struct plan_mix_options options = {
        .source_count = plan_source_count(plan),
        .sources = sources,
        .weights = weights,
        .sample_count =
            max_u64((uint64_t)((double)plan->epoch_samples / model->scale / model->longer), 1),
        .epochs = epochs,
        .seed = plan->seed,
        .global_batch = max_u64(plan_mean_samples(plan), plan->trainer_count),
        .last = PLAN_PARTIAL,
        .trainer_count = plan->trainer_count,
        .locality = plan->locality};
    return plan_mix_new(&options, ret_plan, err);
}

/* The budget of a run of which `plan` is a smaller one. */
static void scale_budget(struct budget *budget, const struct plan *plan, uint32_t readers,
                         double scale)
{
    budget->keep_rows = (uint64_t)((double)budget->keep_rows / scale);
    if (budget->keep_rows * readers >= plan->row_count)
        budget->keep_rows++; /* what fits fits */
}

/* With cuts, all steps here have as many samples as the run's have on average. Of b samples a share
 * like 1 / sqrt(b) travels (locality_moved()), so that of long samples, which come few in a step,
 * more do. */
static void note_cuts(struct model *model, const struct plan *plan)
{
    double samples = 0, items = 0, sent_samples = 0, sent_items = 0;
    double mean = (double)plan_mean_samples(plan);
    for (uint32_t d = 0; plan->cuts.items > 0 && d < plan_source_count(plan); d++) {
        const struct plan *source = plan_source(plan, d);
        const struct plan_cuts *cuts = &source->cuts;
        double passes = plan_epoch_passes(plan, d);
        for (uint32_t k = 0; k < cuts->bucket_count; k++) {
            double count = passes * (double)cuts->samples(cuts->of, cuts->field, k);
            double length = (double)plan_cuts_bound(cuts, k);
            double more = sqrt(mean / (double)plan_cuts_most(cuts, plan->global_batch, k));
            samples += count;
            items += count * length;
            sent_samples += count * more;
            sent_items += count * length * more;
        }
    }
    model->records = samples > 0 ? sent_samples / samples : 1;
    model->items = items > 0 ? sent_items / items : 1;
}

/* model->setup.plan.mix becomes the model's own. */
static enum status scale_down(struct model *model, struct error *err)
{
    struct run_setup *setup = &model->setup;
    const struct plan plan = setup->plan;
    double rows = rows_of_epoch(&plan), all = (double)plan.row_count;
    double most = (double)max_u64(MOST_ROWS, plan.window_rows);
    model->scale = model->sample_scale = model->longer = 1;
    note_cuts(model, &plan);
    setup->plan.mix = NULL;
    if (rows <= most && plan.cuts.items == 0) /* steps of equal samples tell as much */
        return plan.mix ? plan_mix_copy(&plan, &setup->plan, err) : STATUS_OK;
    model->scale = all > most ? all / most : 1;
    model->longer = fmax(rows / most / model->scale, 1);
    enum status status;
    if (plan.mix) {
        status = scaled_mix(&plan, setup->service.epochs, model, &setup->plan, err);
    } else {
        const struct plan_options options = scaled_options(&plan, model->scale);
        status = plan_init(&setup->plan, &options, err);
    }
    if (status != STATUS_OK)
        return status;
    model->sample_scale = (double)plan.epoch_samples / (double)setup->plan.sample_count;
    scale_budget(&setup->budget, &setup->plan, setup->demand.reader_count, model->scale);
    return STATUS_OK;
}

static void take_tables(struct model *model, const struct plan *plan)
{
    struct tables *tables = &model->tables;
    uint64_t batch = plan->global_batch;
    model->reader_of_trainer =
        tables_take(tables, (uint64_t)plan->trainer_count * model->setup.demand.copies,
                    sizeof *model->reader_of_trainer);
    model->owners = tables_take(tables, plan->window_rows, sizeof *model->owners);
    model->destinations = tables_take(tables, batch, sizeof *model->destinations);
    model->sources = tables_take(tables, batch, sizeof *model->sources);
    model->rows = tables_take(tables, batch, sizeof *model->rows);
    model->drawn = tables_take(tables, batch, sizeof *model->drawn);
    if (!plan->locality)
        return;
    model->owner_of_row = tables_take(tables, plan->all_rows, sizeof *model->owner_of_row);
    model->passes = tables_take(tables, plan_source_count(plan), sizeof *model->passes);
}

/* Which readers serve which groups, with trainers in blocks: of those with fewer readers than
 * others the readers again. */
static void spread_groups(struct model *model)
{
    const struct mesh *mesh = &model->setup.shares.mesh;
    uint32_t readers = model->setup.demand.reader_count, copies = model->setup.demand.copies;
    uint32_t *of = model->reader_of_trainer, groups = mesh_group_count(mesh);
    memset(of, 0xff, (size_t)groups * copies * sizeof *of);
    for (uint32_t r = 0; r < readers; r++)
        for (uint32_t rank = mesh_block_first(mesh, readers, r);
             rank < mesh_block_first(mesh, readers, r + 1); rank++) {
            uint32_t *at = of + (size_t)mesh_group_of(mesh, rank) * copies, c = 0;
            while (c < copies && at[c] != r && at[c] != UINT32_MAX)
                c++;
            if (c < copies)
                at[c] = r;
        }
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t c = 1, count = 1; c < copies; c++)
            if (of[(size_t)g * copies + c] == UINT32_MAX)
                of[(size_t)g * copies + c] = of[(size_t)g * copies + c % count];
            else
                count = c + 1;
}

static enum status model_init(struct model *model, struct error *err)
{
    const uint64_t windows[MIX_MAX_SOURCES] = {0};
    enum status status = scale_down(model, err);
    if (status == STATUS_OK)
        status = plan_sources_tables_new(&model->setup.plan, windows, err);
    if (status != STATUS_OK)
        return status;
    const struct plan *plan = &model->setup.plan;
    take_tables(model, plan);
    if (plan->locality)
        model->matcher = matcher_new(plan);
    if (model->tables.failed || (plan->locality && !model->matcher))
        return error_set(err, STATUS_NO_MEMORY, "no memory for a forecast");
    spread_groups(model);
    plan_merge_start(&model->merge, plan, 0, model->setup.service.epochs * plan->steps_per_epoch);
    struct assigner_options options;
    run_setup_assigner(&model->setup, model->reader_of_trainer, &options);
    return assigner_new(&options, &model->assigner, err);
}

static void model_done(struct model *model)
{
    plan_sources_tables_free(&model->setup.plan);
    plan_mix_free(model->setup.plan.mix);
    assigner_free(model->assigner);
    matcher_free(model->matcher);
    tables_done(&model->tables);
}

/* The row of the sample at a position of an epoch of a source, or of the run's one dataset. */
static uint64_t row_of(struct source_pass *pass, const struct plan *source, uint64_t epoch,
                       uint64_t position)
{
    struct plan_window *window = &pass->window;
    if (pass->epoch.plan.sample_count == 0 || pass->epoch.epoch != epoch) {
        plan_epoch_init(&pass->epoch, source, epoch);
        window->sample_count = 0;
    }
    position = plan_unpad(&pass->epoch, position);
    bool shared = source->cuts.items > 0; /* windows that are given out may have the same tables */
    if (shared || position - window->first_position >= window->sample_count)
        plan_window_at(window, &pass->epoch, plan_window_of(&pass->epoch, position));
    return plan_row_at(&pass->epoch,
                       window->first_row_position + plan_location_at(window, position).window_row);
}

/* The rows of a step of a mix. Draws are in the order of their source's windows, positions are not.
 */
static void find_drawn_rows(struct model *model, uint64_t epoch, uint64_t step, uint64_t count)
{
    const struct plan *plan = &model->setup.plan;
    struct plan_mix_step at;
    plan_mix_step_at(plan, epoch * plan->steps_per_epoch + step, &at);
    for (uint32_t d = 0; d < at.source_count; d++)
        for (uint64_t i = at.begins[d]; i < at.begins[d + 1]; i++) {
            struct plan_draw draw = {d, at.first_draws[d] + i - at.begins[d]};
            struct plan_pass at_pass = plan_draw_pass(plan, draw);
            model->drawn[i] =
                row_of(&model->passes[d], plan_source(plan, d), at_pass.number, at_pass.position);
        }
    for (uint64_t i = 0; i < count; i++)
        model->rows[i] = i;
    permutation_apply_many(&at.permutation, model->rows, count);
    for (uint64_t i = 0; i < count; i++)
        model->rows[i] = model->drawn[model->rows[i]];
}

static void find_rows(struct model *model, uint64_t epoch, uint64_t step, uint64_t count)
{
    const struct plan *plan = &model->setup.plan;
    if (plan->mix) {
        find_drawn_rows(model, epoch, step, count);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        model->rows[i] = row_of(&model->passes[0], plan, epoch, step * plan->global_batch + i);
}

/* The readers of a group but for that one. */
static uint32_t other_readers(const struct model *model, uint32_t group, uint32_t reader)
{
    uint32_t copies = model->setup.demand.copies, others = 0;
    const uint32_t *of = model->reader_of_trainer + (size_t)group * copies;
    for (uint32_t c = 0; c < copies; c++) {
        bool is_first = true;
        for (uint32_t before = 0; before < c; before++)
            is_first = is_first && of[before] != of[c];
        others += is_first && of[c] != reader;
    }
    return others;
}

/* How often samples of a step go to readers of their groups that have not read them. */
static uint64_t count_moved(struct model *model, uint64_t epoch, uint64_t step)
{
    const struct plan *plan = &model->setup.plan;
    struct locality_near near = locality_near(plan);
    uint64_t first = step * plan->global_batch, count = plan_step_samples(plan, step), moved = 0;
    find_rows(model, epoch, step, count);
    for (uint64_t i = 0; i < count; i++) {
        model->sources[i] = model->owner_of_row[model->rows[i]];
        model->destinations[i] = locality_trainer(near, model->rows[i]);
    }
    matcher_match(model->matcher, epoch, step, model->destinations);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t destination = first + model->destinations[i];
        uint32_t group = plan_recipient_of(plan, destination).trainer;
        moved += other_readers(model, group, assign_reader(model->sources[i]));
    }
    return moved;
}

/* How often an epoch's samples travel, on average, with order.placement local, from some of its
 * steps.
 */
static double moved_share(struct model *model, uint64_t epoch)
{
    const struct plan *plan = &model->setup.plan;
    for (uint32_t d = 0; d < plan_source_count(plan); d++) /* tables may have other epochs by now */
        model->passes[d].epoch.plan.sample_count = 0;
    uint64_t steps = max_u64(MOST_POSITIONS / plan->global_batch, LEAST_STEPS);
    uint64_t stride = size_divide_up(plan->steps_per_epoch, steps), moved = 0, seen = 0;
    for (uint64_t step = 0; step < plan->steps_per_epoch; step += stride) {
        moved += count_moved(model, epoch, step);
        seen += plan_step_samples(plan, step);
    }
    return seen > 0 ? (double)moved / (double)seen : 0;
}

/* The next window, which is of that source. */
static void give_out_window(struct model *model, uint32_t source)
{
    const struct plan *plan = plan_source(&model->setup.plan, source);
    uint64_t serial = model->merge.sources[source].serial;
    struct plan_epoch epoch;
    struct plan_window window;
    plan_epoch_init(&epoch, plan, serial / plan->window_count);
    plan_window_at(&window, &epoch, serial % plan->window_count);
    assigner_window(model->assigner, &epoch, &window, model->owners);
    for (uint64_t i = 0; model->owner_of_row && i < window.row_count; i++)
        model->owner_of_row[plan_row_at(&epoch, window.first_row_position + i)] = model->owners[i];
    plan_merge_take(&model->merge, source, window.sample_count);
}

/* A count of rows in an epoch of the run, from the counts before, in the middle and after it here:
 * what is left out of the epoch goes on as the second half does, where rows that stay are in
 * memory. */
static double extend(const struct model *model, uint64_t before, uint64_t middle, uint64_t after)
{
    double first = (double)(middle - before), second = (double)(after - middle);
    return model->scale * (first + second * (2 * model->longer - 1));
}

static void give_out_epoch(struct model *model, uint64_t number,
                           struct run_forecast_epoch *ret_epoch)
{
    const struct plan *plan = &model->setup.plan;
    struct assigner_stats before, middle, after;
    uint32_t source;
    assigner_stats(model->assigner, &before);
    middle = before;
    for (uint64_t end = (number + 1) * plan->steps_per_epoch, half = plan->steps_per_epoch / 2;
         plan_merge_next(&model->merge, &source) && model->merge.sources[source].due < end;) {
        if (model->merge.sources[source].due < end - half)
            assigner_stats(model->assigner, &middle);
        give_out_window(model, source);
    }
    assigner_stats(model->assigner, &after);
    double samples = after.samples - before.samples;
    double exchanged = after.exchanged_samples - before.exchanged_samples;
    double share =
        model->matcher ? moved_share(model, number) : exchanged / (samples > 0 ? samples : 1);
    if (plan->mix) /* windows that begin in an epoch may end in others */
        exchanged = (double)plan->position_count * share;
    else if (model->matcher)
        exchanged = samples * share;
    double record_bytes = (double)model->setup.record_bytes;
    double trailer_bytes = (double)model->setup.demand.ragged.mean_trailer_bytes;
    if (model->matcher) {
        record_bytes *= model->records;
        trailer_bytes *= model->items;
    }
    *ret_epoch = (struct run_forecast_epoch){
        .rows_kept = extend(model, before.kept_rows, middle.kept_rows, after.kept_rows),
        .rows_read = extend(model, before.read_rows, middle.read_rows, after.read_rows),
        .exchanged_bytes = exchanged * model->sample_scale * (record_bytes + trailer_bytes),
    };
}

enum status run_forecast(const struct run_setup *setup, struct run_forecast *ret_forecast,
                         struct error *err)
{
    struct model model = {.setup = *setup};
    model.setup.plan.tables = NULL;
    struct run_forecast forecast = {0};
    enum status status = model_init(&model, err);
    if (status == STATUS_OK) {
        uint64_t epochs = setup->service.epochs;
        forecast.epoch_count =
            epochs < RUN_FORECAST_EPOCHS ? (uint32_t)epochs : RUN_FORECAST_EPOCHS;
        for (uint32_t e = 0; e < forecast.epoch_count; e++) {
            give_out_epoch(&model, e, &forecast.epochs[e]);
            if (setup->plan.weighted) /* the model has the same rows in all epochs */
                forecast.epochs[e].rows_read =
                    fmax(forecast.epochs[e].rows_read, plan_new_rows(&setup->plan, e));
        }
        *ret_forecast = forecast;
    }
    model_done(&model);
    return status;
}
