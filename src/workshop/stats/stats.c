/* `penstock stats`: mean, standard deviation, least and greatest value and quantiles of what a run
 * trains on. See stats.h. Main thread, and threads of a team. */
#include "workshop/stats/stats.h"

#include "base/number.h"
#include "base/size.h"
#include "cli/common/cli.h"
#include "scan/team.h"
#include "workshop/commands/commands.h"
#include "workshop/commands/making_options.h"
#include "workshop/making/journal.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BY = 64, FEW_PASSES = 4 };

struct options {
    struct making_options making;
    const char *by[MOST_BY];
    size_t by_count;
    struct making_names fields; /* none: all that have numbers */
    double quantiles[STATS_MOST_QUANTILES];
    size_t quantile_count;
    struct cli_settings settings;
};

static void parse_by(void *input, const struct argp_state *state, const char *option,
                     char *argument)
{
    struct options *options = input;
    if (options->by_count == MOST_BY)
        argp_error(state, "%s comes more than %d times", option, MOST_BY);
    else
        options->by[options->by_count++] = argument;
}

static void parse_quantiles(void *input, const struct argp_state *state, const char *option,
                            char *argument)
{
    struct options *options = input;
    char *rest = argument, *part;
    options->quantile_count = 0;
    if (strcmp(argument, "none") == 0)
        return;
    while ((part = strsep(&rest, ","))) {
        if (options->quantile_count == STATS_MOST_QUANTILES)
            argp_error(state, "%s: more than %d", option, STATS_MOST_QUANTILES);
        else
            options->quantiles[options->quantile_count++] = cli_real(state, option, part, 0, 1);
    }
}

static const struct cli_option option_table[] = {
    {"output", 'o', "DST", "the store to write", CLI_TEXT(making.destination)},
    {"fields", 0, "FIELD[,FIELD]", "of these fields alone, and read no other (all with numbers)",
     CLI_OWN_IN(fields, cli_making_names)},
    {"by", 0, "[FIELD=]AXIS[,AXIS]",
     "axes that have entries of their own, by number or name, of one field or of all others that "
     "have them; FIELD= alone: one entry; may be repeated, and adds up (samples' only axis, else "
     "channel, variable, "
     "band or feature)",
     CLI_EACH(parse_by)},
    {"quantiles", 0, "Q[,Q]", "from 0 to 1, or none (0.01,0.05,0.25,0.5,0.75,0.95,0.99)",
     CLI_OWN(parse_quantiles)},
    CLI_WORK_OPTIONS(making),
};

static void check(const void *input, const struct argp_state *state)
{
    if (!((const struct options *)input)->making.destination)
        argp_error(state, "-o DST is missing: where to?");
}

static const char help[] =
    "Write statistics of what a run trains on, as the Zarr store DST."
    "\v"
    "The configuration says what: split and part, where, episodes, slices, scale and cf. mean, "
    "std, "
    "stats and cast are left out, and so are fields that are ragged or have no numbers. Each frame "
    "that any sample has counts once, however many samples "
    "have it; random crops count as whole frames. NaN and missing values do not count.\n"
    "\n"
    "DST has a group for each field, with count, mean, std (of the population), min, max and "
    "quantiles: float64, with the axes of a sample's frame, of length 1 where all indices are one "
    "entry. Quantiles are exact, as numpy.quantile() has them, of float64; they take further "
    "passes over the data. A field names DST by stats: DST, and becomes (x - mean) / std, or with "
    "normalise: min/max from -1 to 1.\n"
    "\n"
    "After an interruption, the same command goes on. Under mpirun or srun the processes share the "
    "work by files in DST; processes that start later help, too. The numbers do not depend on how "
    "many there are.\n"
    "\n"
    "Exit code: 0 DST is complete; 1 failed, and the same command can go on; 4 failed, and will "
    "fail again: wrong usage or configuration.\n"
    "\n"
    "Examples:\n"
    "  penstock stats -c train.yaml -o stats.zarr\n"
    "  penstock stats -c robot.yaml -o stats.zarr --fields state,action\n"
    "  penstock stats -c robot.yaml -o stats.zarr --by image=channel --by state=1\n"
    "  mpirun -np 16 penstock stats -c weather.yaml -o stats.zarr --quantiles none\n";

static const struct cli_command command = {
    .help = help,
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .check = check,
    .configured = true,
    .settings_offset = offsetof(struct options, settings),
};

/* Blocks
 * ------------------------------------------------------------------------------------------- */

struct work {
    struct stats stats;
    const struct making_options *making;
    _Atomic uint64_t rows_bytes;
};

struct thread {
    struct dataset_reader *reader;
    unsigned char *row;
    struct stats_table table;
};

static void stop(void *argument, void *state)
{
    struct thread *thread = state;
    (void)argument;
    dataset_reader_free(thread->reader);
    stats_table_free(&thread->table);
    free(thread->row);
    free(thread);
}

static enum status start(void *argument, void **ret_state, struct error *err)
{
    const struct work *work = argument;
    struct thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    thread->row = aligned_alloc(64, work->stats.dataset->row_bytes + 64);
    enum status status = thread->row ? stats_table_new(&work->stats, &thread->table, err)
                                     : error_set(err, STATUS_NO_MEMORY, "no memory for a row");
    if (status == STATUS_OK)
        status = dataset_reader_new(work->stats.dataset, &thread->reader, err);
    if (status != STATUS_OK)
        stop(NULL, thread);
    else
        *ret_state = thread;
    return status;
}

static enum status do_block(void *argument, void *state, uint64_t number, struct error *err)
{
    const struct work *work = argument;
    const struct stats *stats = &work->stats;
    struct thread *thread = state;
    const struct making_options *making = work->making;
    uint64_t first = share_begin(stats->block_count, making->part, making->part_count);
    uint64_t block = (number + first) % stats->block_count;
    if (stats_has_block(stats, block))
        return STATUS_OK;
    int fd;
    enum status status = stats_claim(&work->stats, block, &fd, err);
    if (status != STATUS_OK || fd < 0)
        return status;
    if (!stats_has_block(stats, block)) {
        stats_table_clear(stats, &thread->table);
        status = stats_read_block(stats, block, thread->reader, thread->row, &thread->table, err);
        if (status == STATUS_OK)
            status = stats_table_write(stats, block, &thread->table, err);
    }
    close(fd);
    return status;
}

/* For the pass under way. */
static enum status settle_threads(const struct work *work, uint32_t *ret_count, struct error *err)
{
    const struct dataset *dataset = work->stats.dataset;
    uint64_t memory = work->making->memory_bytes;
    uint64_t each = dataset->row_bytes + dataset->scratch_bytes + stats_table_bytes(&work->stats);
    uint64_t shared = dataset->held_bytes + stats_shared_bytes(&work->stats);
    uint64_t room = memory > shared ? (memory - shared) / max_u64(each, 1) : 0;
    if (room == 0)
        return error_set(err, STATUS_NO_MEMORY,
                         "a thread takes %s, held arrays and sums take %s, and --memory is %s: "
                         "give more, or keep fewer axes (--by), or fewer quantiles",
                         size_format(each).text, size_format(shared).text,
                         size_format(memory).text);
    *ret_count =
        (uint32_t)min_u64(min_u64(work->making->thread_count, room), work->stats.block_count);
    return STATUS_OK;
}

static enum status run_pass(struct work *work, struct stats_table *sums, struct error *err)
{
    struct team team = {.work_count = work->stats.block_count,
                        .label = work->stats.pass == 0 ? "statistics" : "quantiles",
                        .unit = "blocks",
                        .argument = work,
                        .start = start,
                        .run = do_block,
                        .stop = stop};
    bool is_free;
    uint64_t missing;
    enum status status = settle_threads(work, &team.thread_count, err);
    while (status == STATUS_OK &&
           (status = stats_count_missing(&work->stats, &missing, &is_free, err)) == STATUS_OK &&
           missing > 0) {
        if (is_free)
            status = team_run(&team, err);
        if (status == STATUS_OK && !journal_has_plan(work->stats.path, ".penstock-stats"))
            status = error_set(err, STATUS_IO, "the journal in '%s' has gone", work->stats.path);
        if (status == STATUS_OK)
            status = stats_wait_for_others(&work->stats, err);
    }
    for (uint64_t block = 0; block < work->stats.block_count && status == STATUS_OK; block++)
        status = stats_table_add(&work->stats, block, sums, err);
    return status;
}

static enum status run_passes(struct work *work, struct error *err)
{
    bool more = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && more) {
        struct stats_table sums = {0};
        status = stats_table_new(&work->stats, &sums, err);
        if (status == STATUS_OK)
            status = run_pass(work, &sums, err);
        if (status == STATUS_OK)
            more = stats_next_pass(&work->stats, &sums);
        stats_table_free(&sums);
    }
    return status;
}

static enum status work_all(struct work *work, struct error *err)
{
    const struct targets targets = {.work = "stats", .folder = ".penstock-stats"};
    if (stats_has_ended(&work->stats))
        return STATUS_OK;
    enum status status =
        journal_open_folder(work->stats.path, &targets, &work->stats.folder_fd, err);
    if (status == STATUS_OK)
        status = stats_settle_plan(&work->stats, err);
    if (status == STATUS_OK)
        status = run_passes(work, err);
    if (status == STATUS_OK)
        status = stats_finish(&work->stats, err);
    if (status != STATUS_OK)
        stats_wait_for_finish(&work->stats);
    if (!stats_has_ended(&work->stats))
        return status;
    stats_remove_journal(
        &work->stats); /* what this process has put there since another one ended */
    return STATUS_OK;
}

/* All of it
 * ------------------------------------------------------------------------------------------- */

/* What statistics are for, and what rounds values. */
static void leave_out(struct config *config)
{
    for (size_t i = 0; i < config->field_count; i++) {
        struct dataset_field_spec *field = (struct dataset_field_spec *)&config->fields[i];
        bool scales = field->scale < 0.0 || field->scale > 0.0 || field->offset < 0.0 ||
                      field->offset > 0.0 || field->scale_at || field->offset_at || field->cf;
        free((char *)field->mean);
        free((char *)field->std);
        free((char *)field->stats);
        field->mean = field->std = field->stats = NULL;
        field->cast = scales ? DTYPE_FLOAT64 : DTYPE_NONE;
    }
}

static enum status hold(struct dataset *dataset, void **ret_held, struct error *err)
{
    if (dataset->held_bytes == 0)
        return STATUS_OK;
    *ret_held = aligned_alloc(64, size_round_up(dataset->held_bytes, 64));
    if (!*ret_held)
        return error_set(err, STATUS_NO_MEMORY, "no memory for held arrays of %s",
                         size_format(dataset->held_bytes).text);
    return dataset_hold(dataset, *ret_held, err);
}

/* Paths that a configuration of any folder may take. */
static void tell(const struct work *work, const struct options *options)
{
    uint64_t entries = 0;
    char *whole = realpath(work->stats.path, NULL);
    const char *path = whole ? whole : work->stats.path;
    for (size_t f = 0; f < work->stats.field_count; f++)
        entries += work->stats.fields[f].entry_count;
    printf("%s has statistics of %zu field%s, %s entr%s\n", options->making.destination,
           work->stats.field_count, count_plural(work->stats.field_count),
           count_format(entries).text, entries == 1 ? "y" : "ies");
    for (size_t f = 0; f < work->stats.field_count; f++)
        printf("  %s: {stats: %s}\n", text_shown(work->stats.fields[f].name).text,
               text_shown(path).text);
    free(whole);
}

/* Each pass reads all the data again. */
static void note_passes(const struct stats *stats, struct text *notes)
{
    uint32_t passes = stats_most_passes(stats);
    if (passes > FEW_PASSES)
        text_append(notes,
                    "quantiles take up to %" PRIu32 " passes over the data: fewer axes (--by) or "
                    "quantiles take fewer, and --quantiles none takes one\n",
                    passes);
}

static enum status run_on(const struct options *options, const struct config *config,
                          struct dataset *dataset, struct text *notes, struct error *err)
{
    struct work work = {.stats = {.folder_fd = -1}, .making = &options->making};
    void *held = NULL;
    memcpy(work.stats.quantiles, options->quantiles, sizeof work.stats.quantiles);
    work.stats.quantile_count = options->quantile_count;
    work.stats.block_count = min_u64(dataset->row_count, STATS_MOST_BLOCKS);
    enum status status = making_path(options->making.destination, &work.stats.path, err);
    if (status == STATUS_OK)
        status = stats_take_fields(&work.stats, dataset, options->by, options->by_count, err);
    if (status == STATUS_OK) {
        uint32_t threads; /* before anything large is taken */
        stats_begin(&work.stats);
        status = settle_threads(&work, &threads, err);
    }
    if (status == STATUS_OK)
        status = hold(dataset, &held, err);
    if (status == STATUS_OK) {
        work.stats.request = stats_make_request(&work.stats, config->uri);
        note_passes(&work.stats, notes);
        fputs(notes->data ? notes->data : "", stderr);
        status = work_all(&work, err);
    }
    if (status == STATUS_OK)
        tell(&work, options);
    if (work.stats.folder_fd >= 0)
        close(work.stats.folder_fd);
    stats_done(&work.stats);
    free(held);
    free(work.stats.path);
    return status;
}

static enum status run(const struct options *options, struct config *config, struct error *err)
{
    struct dataset *dataset;
    struct text notes = {0};
    enum status status = cli_settings_read(&options->settings, config, err);
    if (status == STATUS_OK)
        status = config_check(config, err);
    if (status != STATUS_OK)
        return status;
    leave_out(config);
    status = stats_open(config, (const char *const *)options->fields.names, options->fields.count,
                        &notes, &dataset, err);
    if (status == STATUS_OK) {
        status = run_on(options, config, dataset, &notes, err);
        dataset_free(dataset);
    }
    text_done(&notes);
    return status;
}

int cli_stats(int argc, char **argv)
{
    struct options options = {.quantiles = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99},
                              .quantile_count = 7};
    struct config config = {0};
    struct error err;
    cli_parse(&command, argc, argv, &options);
    enum status status = cli_making_settle(&options.making, &err);
    if (status == STATUS_OK)
        status = run(&options, &config, &err);
    config_done(&config);
    free(options.fields.names);
    cli_settings_done(&options.settings);
    return status != STATUS_OK ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
