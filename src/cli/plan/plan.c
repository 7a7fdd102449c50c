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
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "cli/plan/plan_print.h"
#include "cli/plan/plan_quality.h"
#include "cli/plan/plan_run.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "plan/assign/assign.h"
#include "plan/order/mix.h"
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
    struct plan_where where;
    bool json, order, quality;
    const char *plot;
    uint64_t epoch, limit;
};

static void parse_also(void *options, const struct argp_state *state, const char *option,
                       char *argument)
{
    (void)option;
    cli_add_also(&((struct options *)options)->settings, state, argument);
}

static const struct cli_option option_table[] = {
    {"also", 0, "NAME=FILE",
     "plan this run beside it, as of penstock-run --also, in one memory; may be repeated",
     CLI_EACH(parse_also)},
    {"readers", 'r', "R", "number of readers (1)", CLI_COUNT(where.readers, 1, ASSIGN_MAX_READERS)},
    {"nodes", 0, "K", "number of nodes with readers (1)",
     CLI_COUNT(where.nodes, 1, ASSIGN_MAX_READERS)},
    {"threads", 'j', "N", "worker threads of each reader (readers.threads)",
     CLI_COUNT(where.threads, 1, TOPOLOGY_MAX_WORKERS)},
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
    "  penstock plan -c train.yaml --also val=val.yaml\n"
    "  penstock plan --set dataset.uri=latents.zarr --order --epoch 2 --limit 100\n"
    "  penstock plan -c run.yaml --quality --plot quality.svg\n";

static void check(const void *input, const struct argp_state *state)
{
    const struct options *options = input;
    const struct plan_where *where = &options->where;
    if (where->nodes > where->readers)
        argp_error(state, "--nodes %" PRIu64 ": there are only %" PRIu64 " readers", where->nodes,
                   where->readers);
    if (options->settings.also.count > 0 && (options->order || options->quality))
        argp_error(state, "--order and --quality are of one run: give its file with -c");
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

/* The first samples of a step, `most` at most. Returns how many. */
static uint64_t print_step(const struct options *options, const struct plan_epoch *epoch,
                           uint64_t step, uint64_t most)
{
    const struct plan *plan = &epoch->plan;
    if (plan->mix && plan->cuts.items > 0)
        plan_mix_cut_fill(plan, plan->first_step + step);
    uint64_t first = plan_step_first(plan, step);
    uint64_t count = min_u64(plan_step_samples(plan, step), most);
    for (uint64_t i = 0; i < count; i++) {
        struct plan_found found = {0};
        if (plan->mix)
            plan_find(plan, options->epoch, first + i, &found);
        else
            found.frame = plan_sample_at(epoch, first + i);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, options->epoch, step, i,
               found.frame);
        if (plan->mix)
            printf(" %" PRIu32, found.source);
        printf("\n");
    }
    return count;
}

/* The lengths of samples. Fills *ret_held, which is the caller's in any case. */
static enum status hold(struct dataset *dataset, void **ret_held, struct error *err)
{
    *ret_held = aligned_alloc(64, size_round_up(dataset->held_bytes, 64));
    if (!*ret_held)
        return error_set(err, STATUS_NO_MEMORY, "no memory for held arrays of %s",
                         size_format(dataset->held_bytes).text);
    return dataset_hold(dataset, *ret_held, err);
}

static enum status print_order(const struct options *options, struct plan *plan, struct error *err)
{
    const uint64_t windows[MIX_MAX_SOURCES] = {0};
    struct plan_epoch epoch;
    enum status status = plan_sources_tables_new(plan, windows, err);
    if (status == STATUS_OK) {
        plan_epoch_init(&epoch, plan, options->epoch);
        uint64_t left = options->limit;
        for (uint64_t step = 0; step < plan->steps_per_epoch && left > 0; step++)
            left -= print_step(options, &epoch, step, left);
    }
    plan_sources_tables_free(plan);
    return status;
}

static void tell_doubts(const struct dataset *dataset)
{
    struct text doubts = {0};
    dataset_describe_doubts(dataset, &doubts);
    if (doubts.data)
        fputs(doubts.data, stderr);
    text_done(&doubts);
}

static enum status show_quality(const struct options *options, const struct plan_run *run,
                                struct error *err)
{
    struct quality_report report;
    if (run->setup.plan.mix)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--quality measures the order of one dataset, and this is a mix: measure "
                         "each source by the file that mix.sources names");
    if (run->setup.plan.cuts.items > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--quality measures steps of equal samples, and batch.budget_field makes "
                         "unequal ones: measure with batch.budget_field= and batch.budget_items=0");
    enum status status =
        plan_quality_measure(&run->config, run->dataset, &run->setup, options->epoch, &report, err);
    if (status == STATUS_OK && options->plot)
        status = plan_quality_plot(&report, options->plot, err);
    if (status == STATUS_OK && options->json)
        plan_quality_print_json(&report, stdout);
    else if (status == STATUS_OK)
        plan_quality_print(&report, stdout);
    return status;
}

static enum status show_summary(const struct options *options, const struct plan_run *run,
                                struct error *err)
{
    struct plan_forecasts forecasts;
    enum status status = plan_run_forecast(run, &forecasts, err);
    if (status != STATUS_OK)
        return status;
    if (options->json)
        plan_print_json(&run->config, run->dataset, &run->setup, &forecasts);
    else
        plan_print_summary(&run->config, run->dataset, &run->setup, &run->placement, &forecasts);
    tell_doubts(run->dataset);
    return STATUS_OK;
}

/* Settled as readers do: those of --also from the last one on, then the one that is trained on. */
static enum status settle_all(const struct options *options, struct plan_run *runs,
                              struct error *err)
{
    const struct also_list *also = &options->settings.also;
    const struct also_common common = also_common_of(&runs[0].config);
    uint64_t taken_bytes = 0;
    enum status status = STATUS_OK;
    for (int i = also->count; i > 0 && status == STATUS_OK; i--) {
        const struct cli_settings settings = cli_settings_of_also(&options->settings, i - 1);
        runs[i].name = also->runs[i - 1].name;
        status = cli_settings_read(&settings, &runs[i].config, err);
        if (status == STATUS_OK)
            status = also_adapt(&runs[i].config, &common, err);
        if (status == STATUS_OK)
            status = config_open_dataset(&runs[i].config, false, NULL, &runs[i].dataset, err);
        if (status == STATUS_OK)
            status = plan_run_settle(&runs[i], &options->where, taken_bytes, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "run '%s': ", runs[i].name);
        taken_bytes += runs[i].node_bytes;
    }
    return plan_run_settle(&runs[0], &options->where, taken_bytes, err);
}

/* What all runs take of a node, each and together. */
static void print_node(const struct plan_run *runs, int count)
{
    uint64_t bytes = 0, threads = 0;
    for (int i = 0; i < count; i++)
        bytes += runs[i].node_bytes;
    printf("\nof a node, the %d runs together\n  memory   %s, with what a process takes itself:",
           count, size_format(bytes).text);
    for (int i = 0; i < count; i++)
        printf("%s %s of %s", i ? "," : "", size_format(runs[i].node_bytes).text,
               runs[i].name ? runs[i].name : "the training");
    printf("; %s are available on this machine\n  threads  ",
           size_format(memory_available_bytes()).text);
    for (int i = 0; i < count; i++) {
        uint32_t workers = runs[i].shape.worker_count * runs[i].shape.readers_on_node;
        printf("%s%" PRIu32 " of %s", i ? ", " : "", workers,
               runs[i].name ? runs[i].name : "the training");
        threads += workers;
    }
    printf(": %" PRIu64 " on the same cores; those of a run that nobody asks sleep\n", threads);
}

static enum status show_all(const struct options *options, struct plan_run *runs, struct error *err)
{
    int count = 1 + options->settings.also.count;
    uint64_t bytes = 0;
    enum status status = settle_all(options, runs, err);
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        bytes += runs[i].node_bytes;
        if (options->json && i > 0)
            printf(",%s", i == 1 ? "\"also\":[" : "");
        else if (i > 0)
            printf("\nrun '%s', beside it: penstock.connect(\"%s\")\n", runs[i].name, runs[i].name);
        status = show_summary(options, &runs[i], err);
        if (options->json && i > 0)
            printf(",\"name\":\"%s\"}", runs[i].name);
    }
    if (status != STATUS_OK)
        return status;
    if (options->json)
        printf("%s,\"node_memory_bytes\":%" PRIu64 "}\n", count > 1 ? "]" : "", bytes);
    else if (count > 1)
        print_node(runs, count);
    return STATUS_OK;
}

static enum status run(const struct options *options, struct plan_run *runs, struct error *err)
{
    struct plan_run *first = &runs[0];
    enum status status =
        cli_settings_open(&options->settings, &first->config, &first->dataset, err);
    if (status != STATUS_OK)
        return status;
    if (options->order) {
        void *held = NULL;
        status = run_plan_settle(&first->config, first->dataset, &first->setup.plan, err);
        if (status == STATUS_OK && first->setup.plan.cuts.items > 0)
            status = hold(first->dataset, &held, err);
        if (status == STATUS_OK)
            status = print_order(options, &first->setup.plan, err);
        free(held);
        return status;
    }
    if (!options->quality)
        return show_all(options, runs, err);
    status = plan_run_settle(first, &options->where, 0, err);
    return status != STATUS_OK ? status : show_quality(options, first, err);
}

int cli_plan(int argc, char **argv)
{
    static struct plan_run runs[1 + ALSO_MOST];
    struct options options = {.where = {.readers = 1, .nodes = 1}, .limit = UINT64_MAX};
    struct error err;
    cli_parse(&command, argc, argv, &options);
    enum status status = run(&options, runs, &err);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        plan_run_done(&runs[i]);
    cli_settings_done(&options.settings);
    return status != STATUS_OK ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
