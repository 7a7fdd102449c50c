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
#include "cli/plan_print.h"
#include "cli/plan_quality.h"
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
                            const struct run_setup *setup, struct plan_forecasts *ret_forecasts,
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
    struct plan_forecasts forecasts;
    enum status status = forecast(options, dataset, setup, &forecasts, err);
    if (status)
        return status;
    if (options->json)
        plan_print_json(dataset, setup, &forecasts);
    else
        plan_print_summary(config, dataset, setup, placement, &forecasts);
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
