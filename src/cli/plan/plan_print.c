/* See plan_print.h. */
#include "cli/plan/plan_print.h"

#include "base/size.h"
#include "base/text.h"
#include "cli/inspect/dataset_text.h"
#include "cli/plan/plan_ragged.h"
#include "cli/plan/plan_schedule.h"
#include "cli/plan/plan_weights.h"
#include "plan/order/mix.h"
#include "transform/trial.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static const char *last_text(enum plan_last last, bool shuffled)
{
    switch (last) {
    case PLAN_DROP:
        return shuffled ? "left out, others in each epoch" : "left out";
    case PLAN_PAD:
        return "in a last step that is filled up with repeats";
    case PLAN_PARTIAL:
        return "in a short last step";
    }
    return "";
}

/* Items of an epoch's steps if the samples of each were padded to the longest one. */
struct padded {
    double items;          /* without padding */
    double budget, chance; /* with the budget, and in steps of as many samples by chance */
};

static struct padded padded_items(const struct plan *plan)
{
    struct padded sum = {0};
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        const struct plan *source = plan_source(plan, d);
        const struct dataset *dataset = source->cuts.of;
        uint64_t pass_items = dataset->ragged[source->cuts.field].sample_items;
        struct plan_cuts_padding padding =
            plan_cuts_padding(&source->cuts, plan->global_batch, source->window_count, pass_items);
        if (pass_items == 0)
            continue;
        double items = plan_epoch_passes(plan, d) * (double)pass_items;
        sum.items += items;
        sum.budget += items / (1 - padding.budget);
        sum.chance += items / (1 - padding.chance);
    }
    return sum;
}

static double padding_percent(double items, double padded)
{
    return padded > 0 ? 100 * (1 - items / padded) : 0;
}

/* Behind the number of steps, and the most samples of one. */
static void describe_budget(const struct config *config, const struct plan *plan, struct text *out)
{
    struct padded padded = padded_items(plan);
    text_append(out,
                " at most, %.1f on average; a budget of %s items of '%s', padded to the longest of "
                "a step %.1f%% are padding, of steps by chance %.1f%%",
                (double)plan->epoch_samples / (double)plan->steps_per_epoch,
                count_format(plan->cuts.items).text, config->budget_field,
                padding_percent(padded.items, padded.budget),
                padding_percent(padded.items, padded.chance));
    if (plan->mix)
        text_append(out, "; each step has samples of one source");
}

/* "32 for each of the 4 trainers"; "31 or 32 ..." if trainers do not divide a step. */
static void describe_shares(const struct run_setup *setup, struct text *out)
{
    const struct plan *plan = &setup->plan;
    const char *noun = setup->service.mesh.axis_count > 0 ? "group" : "trainer";
    if (plan->global_batch % plan->trainer_count != 0)
        text_append(out, "%s or ", count_format(plan->batch - 1).text);
    text_append(out, "%s for %s", count_format(plan->batch).text,
                count_each(plan->trainer_count, noun).text);
}

static void describe_order(const struct config *config, const struct run_setup *setup,
                           struct text *out)
{
    const struct plan *plan = &setup->plan;
    text_append(out, "%-11s", "order");
    if (plan->shuffle || plan->mix) {
        text_append(out, "seed %" PRIu64 ", %s", plan->seed, plan->mix ? "" : "shuffled in ");
        run_setup_describe_windows(setup, out);
    } else {
        text_append(out, "not shuffled");
    }
    if (plan->shuffle && !plan->mix)
        text_append(out, ": %s an epoch", count_format(plan->window_count).text);
    text_append(out, "; ");
    run_describe_epochs(config, out);
    text_append(out, "; order id %016" PRIx64 ", placement %s\n", setup->service.order.id,
                plan->locality ? "local" : "fixed");
    text_append(out, "%-11s%s an epoch of %s sample%s, ", "steps",
                count_format(plan->steps_per_epoch).text, count_format(plan->global_batch).text,
                count_plural(plan->global_batch));
    describe_shares(setup, out);
    if (plan->cuts.items > 0)
        describe_budget(config, plan, out);
    uint64_t rest = plan->sample_count % plan->global_batch;
    if (rest > 0 && plan->cuts.items == 0)
        text_append(out, "; %s sample%s %s", count_format(rest).text, count_plural(rest),
                    last_text(plan->last, plan->shuffle));
    text_append(out, "\n");
    run_setup_warn_scarce(config, setup, out);
}

static void describe_rounds(const struct run_setup *setup, struct text *out)
{
    uint32_t trainers =
        (uint32_t)size_divide_up(setup->service.world_size, run_setup_readers(setup));
    text_append(out, "%-11s%s an epoch, ", "rounds",
                count_format(rounds_per_epoch(&setup->plan, setup->shape)).text);
    if (setup->shape.stripes_per_step > 1)
        text_append(out, "each step in %u stripes\n", setup->shape.stripes_per_step);
    else
        text_append(out, "%u step%s each\n", setup->shape.steps_per_round,
                    count_plural(setup->shape.steps_per_round));
    text_append(out, "%-11s%u, with %u thread%s and up to %u trainer%s each\n", "readers",
                run_setup_readers(setup), setup->demand.worker_count,
                count_plural(setup->demand.worker_count), trainers, count_plural(trainers));
}

/* Which readers read what, where trainers of a group need different parts of samples. */
static void describe_partitions(const struct run_setup *setup, struct text *out)
{
    uint32_t groups = setup->plan.trainer_count;
    if (setup->service.mesh.axis_count == 0)
        return;
    uint32_t members = setup->service.world_size / groups;
    text_append(out, "%-11s%u group%s of %u trainer%s", "mesh", groups, count_plural(groups),
                members, count_plural(members));
    if (setup->partition_count > 1)
        text_append(out,
                    "; %u partitions of %u reader%s: each reads %.0f%% of a sample at most, and "
                    "exchanges nothing with others",
                    setup->partition_count, setup->demand.reader_count,
                    count_plural(setup->demand.reader_count), 100 * setup->partitions.most);
    else if (setup->partitions.class_count > 1)
        text_append(out,
                    "; readers need %u different parts of samples, would read %.2f times the "
                    "dataset by themselves, and so read it together",
                    setup->partitions.class_count, setup->partitions.sum);
    text_append(out, "\n");
}

/* Bytes that a reader decodes for a row, halos included, on average. */
static double decoded_own_row_bytes(const struct dataset *dataset)
{
    double frames = (double)dataset->frame_count / (double)dataset->row_count, bytes = 0;
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->source == FIELD_ROW && field->row_leader == f)
            bytes += (double)field->frame_bytes *
                     (frames + (double)(field->halo_before + field->halo_after));
    }
    for (size_t r = 0; r < dataset->ragged_count; r++)
        bytes += (double)dataset->ragged[r].item_count *
                 (double)dataset->ragged[r].trailer_item_bytes / (double)dataset->row_count;
    return bytes;
}

/* The same, over the rows of all sources, each as often as the mix comes to it. */
static double decoded_row_bytes(const struct dataset *dataset, const struct plan *plan)
{
    double bytes = 0, rows = 0;
    if (!plan->mix)
        return decoded_own_row_bytes(dataset);
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        const struct plan *source = plan_source(plan, d);
        double often = plan_epoch_passes(plan, d) * (double)source->row_count;
        bytes += often * decoded_own_row_bytes(dataset_source(dataset, d));
        rows += often;
    }
    return bytes / rows;
}

/* "first epoch 5 GiB, second 2 GiB, later ones 1.6 GiB" */
static void describe_epochs(const struct run_forecast *forecast, const double *bytes,
                            struct text *out)
{
    static const char *const names[] = {"first epoch ", "second ", "later ones "};
    assert(forecast->epoch_count <= sizeof names / sizeof names[0]);
    for (uint32_t e = 0; e < forecast->epoch_count; e++)
        text_append(out, "%s%s%s", e > 0 ? ", " : "", names[e],
                    bytes[e] < 0.5 ? "nothing" : size_format((uint64_t)bytes[e]).text);
}

static void describe_forecast(const struct dataset *dataset, const struct run_setup *setup,
                              const struct run_forecast *forecast, struct text *out)
{
    double reading[RUN_FORECAST_EPOCHS], exchange[RUN_FORECAST_EPOCHS];
    double row_bytes = decoded_row_bytes(dataset, &setup->plan);
    for (uint32_t e = 0; e < forecast->epoch_count; e++) {
        reading[e] = forecast->epochs[e].rows_read * row_bytes;
        exchange[e] = forecast->epochs[e].exchanged_bytes;
    }
    text_append(out, "%-11s", "cache");
    run_setup_describe_cache(setup, out);
    text_append(out, "\n%-11s", "reading");
    describe_epochs(forecast, reading, out);
    text_append(out, ", decoded");
    if (dataset->held_bytes > 0)
        text_append(out, "; and once %s of held arrays", size_format(dataset->held_bytes).text);
    text_append(out, "\n%-11s", "exchange");
    if (setup->demand.reader_count == 1)
        text_append(out, setup->partition_count > 1 ? "nothing: each partition has one reader"
                                                    : "nothing: there is one reader");
    else
        describe_epochs(forecast, exchange, out);
    if (setup->demand.reader_count > 1 && setup->plan.row_samples == 1 && !setup->plan.locality)
        text_append(out, " (a row of one sample is read where its trainer is)");
    text_append(out, "\n");
}

/* "           with order.placement: local: first epoch 5 GiB, ...", and whether the other would
 * pay. */
static void describe_other(const struct run_setup *setup, const struct run_forecast *forecast,
                           const struct run_forecast *other, struct text *out)
{
    double exchange[RUN_FORECAST_EPOCHS];
    uint32_t last = forecast->epoch_count - 1;
    bool local = setup->plan.locality != 0;
    if (setup->demand.reader_count == 1)
        return;
    for (uint32_t e = 0; e < other->epoch_count; e++)
        exchange[e] = other->epochs[e].exchanged_bytes;
    text_append(out, "%-11swith order.placement %s: ", "", local ? "fixed" : "local");
    describe_epochs(other, exchange, out);
    double now = forecast->epochs[last].exchanged_bytes;
    if (!local && other->epochs[last].exchanged_bytes < now / 2)
        text_append(out, "; it pays if links bound the run");
    text_append(out, "\n");
}

/* Of how often chunks are decoded: less is no reason to change anything. */
static const double worth_a_note = 1.1;

static void describe_notes(const struct dataset *dataset, const struct run_setup *setup,
                           struct text *out)
{
    if (setup->partition_count == 1 && setup->partitions.class_count > 1 &&
        setup->partitions.sum > worth_a_note)
        text_append(out,
                    "note: parts of samples travel between readers: with chunks that end where "
                    "parts do (dataset.cuts), each reader would read its own parts alone\n");
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        bool costs = field->source == FIELD_ROW && field->row_leader == f &&
                     field->decode_amplification >= worth_a_note;
        if (costs && field->hold_bytes > 0)
            text_append(out,
                        "note: chunks of field '%s' straddle rows: each is decoded %.1f times an "
                        "epoch; --set dataset.hold_limit=%" PRIu64
                        "KiB holds the array in memory; chunks of %" PRIu64
                        " frames would not straddle\n",
                        field->name, field->decode_amplification,
                        size_divide_up(field->hold_bytes, 1024), dataset->row_length);
    }
}

static void print_epochs(const struct run_forecast *forecast)
{
    for (uint32_t e = 0; e < forecast->epoch_count; e++)
        printf("%s{\"rows_read\":%.0f,\"rows_kept\":%.0f,\"exchanged_bytes\":%.0f}",
               e > 0 ? "," : "", forecast->epochs[e].rows_read, forecast->epochs[e].rows_kept,
               forecast->epochs[e].exchanged_bytes);
}

/* Of a mix. */
static void print_sources(const struct plan *plan)
{
    if (!plan->mix)
        return;
    printf("\"sources\":[");
    for (uint32_t d = 0; d < plan_source_count(plan); d++)
        printf("%s{\"weight\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"row_count\":%" PRIu64
               ",\"window_rows\":%" PRIu64 "}",
               d > 0 ? "," : "", plan_weight(plan, d), plan_source(plan, d)->sample_count,
               plan_source(plan, d)->row_count, plan_source(plan, d)->window_rows);
    printf("],");
}

void plan_print_json(const struct config *config, const struct dataset *dataset,
                     const struct run_setup *setup, const struct plan_forecasts *forecasts)
{
    printf("{\"order_id\":\"%016" PRIx64 "\",\"readers\":%u,\"steps_per_epoch\":%" PRIu64
           ",\"row_count\":%" PRIu64 ",\"kept_rows_of_a_reader\":%" PRIu64
           ",\"memory_bytes_of_a_reader\":%" PRIu64 ",\"memory\":",
           setup->service.order.id, run_setup_readers(setup), setup->plan.steps_per_epoch,
           setup->plan.row_count, setup->budget.keep_rows, setup->budget.total_bytes);
    struct text memory = {0};
    run_setup_memory_json(setup, &memory);
    text_append(&memory, ",");
    plan_ragged_json(dataset, setup, &memory);
    plan_schedule_json(config, &setup->plan, &memory);
    plan_weights_json(&setup->plan, &memory);
    printf("%s", memory.data);
    text_done(&memory);
    print_sources(&setup->plan);
    printf("\"epochs\":[");
    print_epochs(&forecasts->own);
    printf("],\"%s\":{\"epochs\":[", setup->plan.locality ? "fixed" : "local");
    print_epochs(&forecasts->other);
    printf("]}");
}

void plan_print_summary(const struct config *config, const struct dataset *dataset,
                        const struct run_setup *setup, const struct placement *placement,
                        const struct plan_forecasts *forecasts)
{
    struct text out = {0};
    plan_describe_dataset(config, dataset, &setup->plan, &out);
    plan_describe_ragged(dataset, setup, &out);
    describe_order(config, setup, &out);
    plan_describe_schedule(config, &setup->plan, &out);
    plan_describe_weights(config, &setup->plan, &out);
    describe_rounds(setup, &out);
    describe_partitions(setup, &out);
    if (setup->shares.transform) {
        text_append(&out, "%-11s", "transform");
        trial_describe(setup->shares.transform, &out);
        text_append(&out, "\n");
    }
    describe_forecast(dataset, setup, &forecasts->own, &out);
    describe_other(setup, &forecasts->own, &forecasts->other, &out);
    text_append(&out, "memory of one reader\n");
    run_setup_describe_memory(setup, &out);
    text_append(&out, "seats on a node like this machine, of its first reader\n");
    topology_describe(placement, &out);
    describe_notes(dataset, setup, &out);
    fputs(out.data, stdout);
    text_done(&out);
}
