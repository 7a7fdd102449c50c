/* `penstock plan`: what a run would do, before it starts. Main thread.
 *
 * Opens the dataset's metadata, settles the run as penstock-reader would (run/setup.h), and prints
 * sizes, steps, memory and traffic; with --order, the order of samples instead. Reads no chunks and
 * needs no MPI.
 */
#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/assume.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/plan_dataset.h"
#include "cli/plan_quality.h"
#include "cli/plan_ragged.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "plan/assign.h"
#include "plan/mix.h"
#include "read/fetch_stage.h"
#include "read/stored_rows.h"
#include "run/forecast.h"
#include "run/setup.h"
#include "topology/topology.h"

#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    struct cli_settings settings;
    uint64_t readers, nodes, threads; /* threads 0: as configured */
    struct run_rates rates;
    bool json, order, quality;
    const char *plot;
    uint64_t epoch, limit;
};

static void parse_assumed(void *options, const struct argp_state *state, const char *option,
                          char *argument)
{
    struct error err;
    if (assume_parse(argument, &((struct options *)options)->rates, &err) != STATUS_OK)
        argp_error(state, "%s: %s", option, err.message);
}

static const struct cli_option option_table[] = {
    {"readers", 'r', "R", "number of readers (1)", CLI_COUNT(readers, 1, ASSIGN_MAX_READERS)},
    {"nodes", 0, "K", "number of nodes with readers (1)", CLI_COUNT(nodes, 1, ASSIGN_MAX_READERS)},
    {"threads", 'j', "N", "worker threads of each reader (readers.threads)",
     CLI_COUNT(threads, 1, TOPOLOGY_MAX_WORKERS)},
    {"assume", 0, "RATES",
     "choose ways as a run would that measures these rates: link=1gbit,store=2GB/s,decode=1GB/s. "
     "Of each link, of the store for all readers together, of each reader",
     CLI_OWN(parse_assumed)},
    {"json", 0, NULL, "print the figures for programs, as one line of JSON", CLI_FLAG(json)},
    {"order", 0, NULL, "print the order of samples: epoch step position index, and of a mix source",
     CLI_FLAG(order)},
    {"quality", 0, NULL,
     "print how well samples are mixed, with windows of several sizes and their memory",
     CLI_FLAG(quality)},
    {"plot", 0, "FILE", "with --quality: draw the table, too, as an SVG picture", CLI_TEXT(plot)},
    {"epoch", 0, "E", "with --order or --quality: of this epoch (0)",
     CLI_COUNT(epoch, 0, UINT32_MAX)},
    {"limit", 0, "N", "with --order: the first N samples only", CLI_COUNT(limit, 0, UINT64_MAX)},
};

static const char help[] =
    "Show what a run would do: its order, steps, rounds, memory and traffic."
    "\v"
    "The figures are those of penstock-reader. Cores and free memory of this machine stand for "
    "those of the nodes.\n"
    "\n"
    "Examples:\n"
    "  penstock plan -c run.yaml\n"
    "  penstock plan -c run.yaml --readers 16 --nodes 8 --threads 24\n"
    "  penstock plan -c run.yaml --readers 4 --nodes 4 --assume link=1gbit,decode=1GB/s\n"
    "  penstock plan --set dataset.uri=latents.zarr --order --epoch 2 --limit 100\n"
    "  penstock plan -c run.yaml --quality --plot quality.svg\n";

static void check(const void *input, const struct argp_state *state)
{
    const struct options *options = input;
    if (options->nodes > options->readers)
        argp_error(state, "--nodes %" PRIu64 ": there are only %" PRIu64 " readers", options->nodes,
                   options->readers);
    if (options->plot && !options->quality)
        argp_error(state, "--plot draws what --quality measures: give both");
    if (options->order && options->quality)
        argp_error(state, "--order and --quality are two outputs: give one of them");
}

static const struct cli_command command = {
    .help = help,
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .check = check,
    .configured = true,
    .settings_offset = offsetof(struct options, settings),
};

/* The placement of a node's first reader, with its threads and trainers, on this machine. */
static enum status assume_placement(const struct options *options, const struct config *config,
                                    uint32_t readers_on_node, struct placement *ret_placement,
                                    struct error *err)
{
    struct topology *topology;
    enum status status = topology_load(NULL, NULL, &topology, err);
    if (status)
        return status;
    uint32_t trainers = (uint32_t)size_divide_up(config->trainers, options->nodes);
    uint64_t threads = options->threads ? options->threads : config->threads;
    status = topology_placement(topology, 0, readers_on_node, trainers, (uint32_t)threads,
                                config->bind, ret_placement, err);
    topology_free(topology);
    return status;
}

static enum status settle(const struct options *options, const struct config *config,
                          const struct dataset *dataset, struct run_setup *ret_setup,
                          struct placement *ret_placement, struct error *err)
{
    struct run_shape shape = {
        .reader_count = (uint32_t)options->readers,
        .readers_on_node = (uint32_t)size_divide_up(options->readers, options->nodes),
        .trainers_served = (uint32_t)size_divide_up(config->trainers, options->readers),
        /* The plan may be for another machine than this. */
        .node_available_bytes =
            config->memory_limit_bytes > 0 ? UINT64_MAX : memory_available_bytes(),
    };
    shape.fetch_bytes =
        fetch_stage_bytes(dataset, run_fetch_memory(config, &shape), &shape.fetch_rows);
    shape.fetch_row_bytes = fetch_stage_row_bytes(dataset, &shape.fetch_row_requests);
    enum status status =
        assume_placement(options, config, shape.readers_on_node, ret_placement, err);
    shape.worker_count = ret_placement->worker_count;
    if (!status)
        status = stored_rows_estimate(dataset, config_may_keep_stored(config),
                                      &shape.stored_row_bytes, &shape.stored_row_cost, err);
    return status ? status : run_setup_settle(config, dataset, &shape, NULL, ret_setup, err);
}

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
    text_append(out, "; order id %016" PRIx64 "\n", setup->service.order.id);
    text_append(out, "%-11s%s an epoch of %s sample%s, %s for %s", "steps",
                count_format(plan->steps_per_epoch).text, count_format(plan->global_batch).text,
                count_plural(plan->global_batch), count_format(plan->batch).text,
                count_each(plan->trainer_count, "trainer").text);
    uint64_t rest = plan->sample_count % plan->global_batch;
    if (rest > 0)
        text_append(out, "; %s sample%s %s", count_format(rest).text, count_plural(rest),
                    last_text(plan->last, plan->shuffle));
    text_append(out, "\n");
}

static void describe_rounds(const struct run_setup *setup, struct text *out)
{
    text_append(out, "%-11s%s an epoch, ", "rounds",
                count_format(rounds_per_epoch(&setup->plan, setup->shape)).text);
    if (setup->shape.stripes_per_step > 1)
        text_append(out, "each step in %u stripes\n", setup->shape.stripes_per_step);
    else
        text_append(out, "%u step%s each\n", setup->shape.steps_per_round,
                    count_plural(setup->shape.steps_per_round));
    text_append(out, "%-11s%u, with %u thread%s and up to %u trainer%s each\n", "readers",
                setup->demand.reader_count, setup->demand.worker_count,
                count_plural(setup->demand.worker_count), setup->demand.trainers_served,
                count_plural(setup->demand.trainers_served));
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
                 (double)dataset->ragged[r].tail_item_bytes / (double)dataset->row_count;
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
        double often =
            (double)plan_weight(plan, d) * (double)source->row_count / (double)source->sample_count;
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
        text_append(out, "nothing: there is one reader");
    else
        describe_epochs(forecast, exchange, out);
    if (setup->demand.reader_count > 1 && setup->plan.row_samples == 1 && !setup->plan.locality)
        text_append(out, " (a row of one sample is read where its trainer is)");
    text_append(out, "\n");
}

/* What rates that are assumed make of it. */
static void describe_ways(const struct run_setup *setup, const struct run_forecast *forecast,
                          struct text *out)
{
    const struct run_forecast_epoch *last = &forecast->epochs[forecast->epoch_count - 1];
    double rows = (double)setup->plan.row_count;
    if (setup->demand.reader_count == 1 || last->way_s[WAYS_ALL_SEND] <= 0)
        return;
    text_append(out, "%-11s", "ways");
    for (uint32_t e = 0; e < forecast->epoch_count; e++)
        text_append(out, "%s%.0f%%", e > 0 ? ", " : "", 100 * forecast->epochs[e].rows_each / rows);
    text_append(out,
                " of the rows are not sent, but read by each reader that needs them; the busiest "
                "part takes %.3g s of the last of these epochs, %.3g s if all is sent, %.3g s if "
                "each reads all that it needs\n",
                last->way_s[WAYS_CHOSEN], last->way_s[WAYS_ALL_SEND], last->way_s[WAYS_ALL_EACH]);
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

static void describe_notes(const struct dataset *dataset, struct text *out)
{
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->decode_amplification > 1)
            text_append(
                out,
                "note: chunks of field '%s' straddle rows: each is decoded %.1f times an epoch; "
                "raise "
                "dataset.hold_limit to hold the array, or write it with chunks like those of the "
                "largest field\n",
                field->name, field->decode_amplification);
    }
}

/* What the run exchanges, as configured, and with the other order.placement. */
struct forecasts {
    struct run_forecast own, other;
};

static void print_epochs(const struct run_forecast *forecast)
{
    for (uint32_t e = 0; e < forecast->epoch_count; e++)
        printf("%s{\"rows_read\":%.0f,\"rows_kept\":%.0f,\"rows_each\":%.0f,"
               "\"exchanged_bytes\":%.0f,\"chosen_s\":%.6f,\"all_sent_s\":%.6f,"
               "\"all_each_s\":%.6f}",
               e > 0 ? "," : "", forecast->epochs[e].rows_read, forecast->epochs[e].rows_kept,
               forecast->epochs[e].rows_each, forecast->epochs[e].exchanged_bytes,
               forecast->epochs[e].way_s[WAYS_CHOSEN], forecast->epochs[e].way_s[WAYS_ALL_SEND],
               forecast->epochs[e].way_s[WAYS_ALL_EACH]);
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

static void print_json(const struct dataset *dataset, const struct run_setup *setup,
                       const struct forecasts *forecasts)
{
    printf("{\"order_id\":\"%016" PRIx64 "\",\"readers\":%u,\"steps_per_epoch\":%" PRIu64
           ",\"row_count\":%" PRIu64 ",\"kept_rows_of_a_reader\":%" PRIu64
           ",\"replica_rows\":%" PRIu64 ",\"memory_bytes_of_a_reader\":%" PRIu64 ",\"memory\":",
           setup->service.order.id, setup->demand.reader_count, setup->plan.steps_per_epoch,
           setup->plan.row_count, setup->budget.keep_rows, setup->budget.replica_rows,
           setup->budget.total_bytes);
    struct text memory = {0};
    run_setup_memory_json(setup, &memory);
    text_append(&memory, ",");
    plan_ragged_json(dataset, setup, &memory);
    printf("%s", memory.data);
    text_done(&memory);
    print_sources(&setup->plan);
    printf("\"epochs\":[");
    print_epochs(&forecasts->own);
    printf("],\"%s\":{\"epochs\":[", setup->plan.locality ? "fixed" : "local");
    print_epochs(&forecasts->other);
    printf("]}}\n");
}

static void print_summary(const struct config *config, const struct dataset *dataset,
                          const struct run_setup *setup, const struct placement *placement,
                          const struct forecasts *forecasts)
{
    struct text out = {0};
    plan_describe_dataset(config, dataset, &out);
    plan_describe_ragged(dataset, setup, &out);
    describe_order(config, setup, &out);
    describe_rounds(setup, &out);
    describe_forecast(dataset, setup, &forecasts->own, &out);
    describe_other(setup, &forecasts->own, &forecasts->other, &out);
    describe_ways(setup, &forecasts->own, &out);
    text_append(&out, "memory of one reader\n");
    run_setup_describe_memory(setup, &out);
    text_append(&out, "seats on a node like this machine, of its first reader\n");
    topology_describe(placement, &out);
    describe_notes(dataset, &out);
    fputs(out.data, stdout);
    text_done(&out);
}

static void print_sample(const struct options *options, const struct plan *plan,
                         const struct plan_epoch *epoch, uint64_t p)
{
    struct plan_found found;
    if (plan->mix)
        plan_find(plan, options->epoch, p, &found);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, options->epoch, p / plan->global_batch,
           p % plan->global_batch, plan->mix ? found.frame : plan_sample_at(epoch, p));
    if (plan->mix)
        printf(" %" PRIu32, found.source);
    printf("\n");
}

static enum status print_order(const struct options *options, struct plan *plan, struct error *err)
{
    const uint64_t windows[MIX_MAX_SOURCES] = {0};
    struct plan_epoch epoch;
    enum status status = plan_sources_tables_new(plan, windows, err);
    if (status == STATUS_OK) {
        if (!plan->mix)
            plan_epoch_init(&epoch, plan, options->epoch);
        uint64_t end = min_u64(plan->position_count, options->limit);
        for (uint64_t p = 0; p < end; p++)
            print_sample(options, plan, &epoch, p);
    }
    plan_sources_tables_free(plan);
    return status;
}

static enum status forecast(const struct options *options, const struct dataset *dataset,
                            const struct run_setup *setup, struct forecasts *ret_forecasts,
                            struct error *err)
{
    const struct run_shape shape = {.reader_count = (uint32_t)options->readers,
                                    .readers_on_node =
                                        (uint32_t)size_divide_up(options->readers, options->nodes)};
    struct run_setup other = *setup;
    other.plan.locality =
        setup->plan.locality ? 0 : run_locality(&shape, setup->plan.trainer_count);
    struct run_rates rates = options->rates;
    uint64_t cost;
    enum status status =
        stored_rows_estimate(dataset, rates.store > 0, &rates.stored_row_bytes, &cost, err);
    if (!status)
        status = run_forecast(setup, &rates, &ret_forecasts->own, err);
    return status ? status : run_forecast(&other, &rates, &ret_forecasts->other, err);
}

static void tell_doubts(const struct dataset *dataset)
{
    struct text doubts = {0};
    dataset_describe_doubts(dataset, &doubts);
    if (doubts.data)
        fputs(doubts.data, stderr);
    text_done(&doubts);
}

static enum status show_quality(const struct options *options, const struct config *config,
                                const struct dataset *dataset, const struct run_setup *setup,
                                struct error *err)
{
    struct quality_report report;
    if (setup->plan.mix)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--quality measures the order of one dataset, and this is a mix: measure "
                         "each source by the file that mix.sources names");
    enum status status = plan_quality_measure(config, dataset, setup, options->epoch, &report, err);
    if (!status && options->plot)
        status = plan_quality_plot(&report, options->plot, err);
    if (!status && options->json)
        plan_quality_print_json(&report, stdout);
    else if (!status)
        plan_quality_print(&report, stdout);
    return status;
}

static enum status show_summary(const struct options *options, const struct config *config,
                                const struct dataset *dataset, const struct run_setup *setup,
                                const struct placement *placement, struct error *err)
{
    struct forecasts forecasts;
    enum status status = forecast(options, dataset, setup, &forecasts, err);
    if (status)
        return status;
    if (options->json)
        print_json(dataset, setup, &forecasts);
    else
        print_summary(config, dataset, setup, placement, &forecasts);
    tell_doubts(dataset);
    return STATUS_OK;
}

static enum status run(const struct options *options, struct config *config, struct error *err)
{
    struct dataset *dataset;
    enum status status = cli_settings_open(&options->settings, config, &dataset, err);
    if (status)
        return status;
    struct run_setup setup = {0};
    if (options->order) {
        status = run_plan_settle(config, dataset, &setup.plan, err);
        if (!status)
            status = print_order(options, &setup.plan, err);
    } else {
        struct placement placement = {0};
        status = settle(options, config, dataset, &setup, &placement, err);
        if (!status)
            status = options->quality
                         ? show_quality(options, config, dataset, &setup, err)
                         : show_summary(options, config, dataset, &setup, &placement, err);
    }
    plan_mix_free(setup.plan.mix);
    dataset_free(dataset);
    return status;
}

int cli_plan(int argc, char **argv)
{
    struct options options = {.readers = 1, .nodes = 1, .limit = UINT64_MAX};
    struct config config;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    enum status status = run(&options, &config, &err);
    config_done(&config);
    cli_settings_done(&options.settings);
    return status ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
