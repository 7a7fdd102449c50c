/* penstock-trainer: a trainer that does not train. It consumes batches as a training process would,
 * and can check them. It is also a short complete example of a trainer in C: consume.c has the
 * loop. */
#include "delivery/trainer/consume.h"
#include "delivery/trainer/digest.h"
#include "delivery/trainer/report.h"
#include "penstock.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct penstock_options connect;
    struct consume_options consume;
    int rank, world_size; /* -1: from the environment */
    const char *digest_path, *state_path, *json_path;
    bool digest_padding, json;
    unsigned given; /* a bit for each option */
};

enum { EXIT_FINAL = 4 }; /* as all programs of Penstock: another try is of no use */

enum option_key {
    OPTION_RUN_DIR = 256,
    OPTION_RANK,
    OPTION_WORLD_SIZE,
    OPTION_COORDINATES,
    OPTION_TIMEOUT,
    OPTION_DIGEST,
    OPTION_DIGEST_PADDING,
    OPTION_COMPUTE_MS,
    OPTION_TOUCH,
    OPTION_HOLD,
    OPTION_STEPS,
    OPTION_STATE,
    OPTION_JSON,
    OPTION_PROGRESS,
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Which service, and as which trainer:", 1},
    {"run-dir", OPTION_RUN_DIR, "DIR", 0, "the service's run directory (PENSTOCK_RUN_DIR)", 0},
    {"rank", OPTION_RANK, "R", 0, "this trainer's rank (RANK, SLURM_PROCID, ...)", 0},
    {"world-size", OPTION_WORLD_SIZE, "T", 0,
     "number of trainers (WORLD_SIZE, SLURM_STEP_NUM_TASKS, ...)", 0},
    {"coordinates", OPTION_COORDINATES, "LIST", 0,
     "in the mesh of trainers, such as dp=1,tp=0 (those of the rank)", 0},
    {"timeout", OPTION_TIMEOUT, "SECONDS", 0, "how long to wait for the service (60)", 0},
    {0, 0, 0, 0, "What to do with a batch:", 2},
    {"touch", OPTION_TOUCH, 0, 0, "read one byte of every page", 0},
    {"compute-ms", OPTION_COMPUTE_MS, "MS", 0, "pretend to compute for MS milliseconds", 0},
    {"hold", OPTION_HOLD, "K", 0,
     "lease up to K batches at once, and release them out of order (1)", 0},
    {"digest", OPTION_DIGEST, "FILE", 0,
     "write a line for each sample: epoch step position index XXH3-64", 0},
    {"digest-padding", OPTION_DIGEST_PADDING, 0, 0,
     "with --digest: also for samples that only fill the last step", 0},
    {0, 0, 0, 0, "When to stop, and what to write:", 3},
    {"steps", OPTION_STEPS, "K", 0, "stop after K batches instead of at the end", 0},
    {"state", OPTION_STATE, "FILE", 0, "at the end, write the state from which a run goes on", 0},
    {"json", OPTION_JSON, "FILE", OPTION_ARG_OPTIONAL,
     "write a report: counts, rates, share of time spent waiting (default: to standard output)", 0},
    {"progress", OPTION_PROGRESS, 0, 0, "show progress on standard error", 0},
    {0}};

static const char description[] =
    "Consumes batches from the Penstock service of this node, instead of a training process."
    "\vIn FILE names {rank} stands for the rank.\n\nExamples:\n"
    "  Does the service keep up with 8 trainers of 50 ms a step?\n"
    "    mpirun -n 2 penstock-reader -c run.yaml -- penstock-trainer --compute-ms 50 --json\n\n"
    "  Are two runs the same, sample by sample?\n"
    "    penstock-trainer --digest run1.{rank}.txt; sort -n run1.*.txt > run1.txt\n\n"
    "Exit code: 0 at the end of all epochs or after --steps, 1 when the service failed or a file "
    "cannot be written, 4 for wrong usage or a wrong environment.";

/* A whole number in [low, high], or a usage error. */
static long long whole(const char *text, long long low, long long high, struct argp_state *state)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        argp_error(state, "'%s' is not a whole number from %lld to %lld", text, low, high);
    return value;
}

static double seconds_or_ms(const char *text, struct argp_state *state)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value < 1e9))
        argp_error(state, "'%s' is not a duration", text);
    return value;
}

/* Nobody means to give a value that another one replaces. */
static void note_given(unsigned *given, int key, struct argp_state *state)
{
    const struct argp_option *option = options;
    while (option->key != key && option->doc)
        option++;
    if (!option->arg)
        return;
    if (*given >> (key - OPTION_RUN_DIR) & 1)
        argp_error(state, "--%s is given twice: give it once", option->name);
    *given |= 1u << (key - OPTION_RUN_DIR);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *settings = state->input;
    if (key >= OPTION_RUN_DIR && key <= OPTION_PROGRESS)
        note_given(&settings->given, key, state);
    switch (key) {
    case OPTION_RUN_DIR:
        settings->connect.run_dir = arg;
        return 0;
    case OPTION_RANK:
        settings->rank = (int)whole(arg, 0, INT32_MAX, state);
        return 0;
    case OPTION_WORLD_SIZE:
        settings->world_size = (int)whole(arg, 1, INT32_MAX, state);
        return 0;
    case OPTION_COORDINATES:
        settings->connect.coordinates = arg;
        return 0;
    case OPTION_TIMEOUT:
        settings->connect.timeout_ms = (int64_t)(seconds_or_ms(arg, state) * 1000);
        if (settings->connect.timeout_ms == 0)
            settings->connect.timeout_ms = 1;
        return 0;
    case OPTION_DIGEST:
        settings->digest_path = arg;
        return 0;
    case OPTION_DIGEST_PADDING:
        settings->digest_padding = true;
        return 0;
    case OPTION_COMPUTE_MS:
        settings->consume.compute_ms = seconds_or_ms(arg, state);
        return 0;
    case OPTION_TOUCH:
        settings->consume.touch = true;
        return 0;
    case OPTION_HOLD:
        settings->consume.leases = (uint32_t)whole(arg, 1, CONSUME_MOST_LEASES, state);
        return 0;
    case OPTION_STEPS:
        settings->consume.steps = (uint64_t)whole(arg, 1, INT64_MAX, state);
        return 0;
    case OPTION_STATE:
        settings->state_path = arg;
        return 0;
    case OPTION_JSON:
        settings->json = true;
        settings->json_path = arg;
        return 0;
    case OPTION_PROGRESS:
        settings->consume.progress = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option", arg);
        return 0;
    case ARGP_KEY_END:
        if ((settings->rank >= 0) != (settings->world_size >= 0))
            argp_error(state, "--rank and --world-size belong together");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* `path` with every {rank} replaced; allocated. */
static char *expand(const char *path, uint32_t rank)
{
    static const char mark[] = "{rank}";
    char *result = NULL;
    size_t size;
    FILE *text = open_memstream(&result, &size);
    if (!text)
        return NULL;
    for (const char *found; (found = strstr(path, mark)); path = found + strlen(mark))
        fprintf(text, "%.*s%u", (int)(found - path), path, rank);
    fputs(path, text);
    return fclose(text) == 0 ? result : NULL;
}

static bool complain(const char *what, const char *path)
{
    fprintf(stderr, "penstock-trainer: %s '%s': %s\n", what, path, strerror(errno));
    return false;
}

/* Writes the report to its file, or to standard output where --json has no FILE. */
static bool write_report(const struct settings *settings, const struct penstock_info *info,
                         const struct report *report, enum penstock_status status)
{
    if (!settings->json)
        return true;
    if (!settings->json_path) {
        report_write(report, info, status, stdout);
        return fflush(stdout) == 0;
    }
    char *path = expand(settings->json_path, info->rank);
    FILE *file = path ? fopen(path, "we") : NULL;
    if (file)
        report_write(report, info, status, file);
    bool written = file && fclose(file) == 0;
    if (!written)
        complain("write report", settings->json_path);
    free(path);
    return written;
}

/* Writes the file whole or not at all: another process may start from it at any time. */
static bool write_whole(const char *path, const char *text)
{
    char *partial = NULL;
    if (asprintf(&partial, "%s.partial", path) < 0)
        return false;
    FILE *file = fopen(partial, "we");
    bool written =
        file && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file)
        written &= fclose(file) == 0;
    written = written && rename(partial, path) == 0;
    if (file && !written)
        unlink(partial);
    free(partial);
    return written;
}

static bool write_state(const struct settings *settings, const struct penstock *connection)
{
    if (!settings->state_path)
        return true;
    char state[PENSTOCK_STATE_BYTES];
    bool ready = penstock_state(connection, state, sizeof state) == PENSTOCK_OK;
    char *path = expand(settings->state_path, penstock_describe(connection)->rank);
    bool written = ready && path && write_whole(path, state);
    if (!written)
        complain("write state", settings->state_path);
    free(path);
    return written;
}

/* *ret_digest stays NULL when no digests are wanted. */
static bool open_digest(const struct settings *settings, uint32_t rank, struct digest **ret_digest)
{
    if (!settings->digest_path)
        return true;
    char *path = expand(settings->digest_path, rank);
    *ret_digest = path ? digest_open(path, settings->digest_padding) : NULL;
    free(path);
    return *ret_digest ? true : complain("create digest file", settings->digest_path);
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "penstock-trainer with libpenstock %s\n", penstock_version());
}

static bool run(struct settings *settings, struct penstock *connection)
{
    const struct penstock_info *info = penstock_describe(connection);
    struct digest *digest = NULL;
    if (!open_digest(settings, info->rank, &digest))
        return false;
    settings->consume.digest = digest;

    struct report report;
    report_init(&report);
    enum penstock_status status = consume(connection, &settings->consume, &report);
    bool good = status == PENSTOCK_OK || status == PENSTOCK_ENDED;
    const char *reason = penstock_last_error(connection);
    const char *said = *reason ? reason : penstock_status_text(status);
    bool served = good;
    if (!good)
        fprintf(stderr, "penstock-trainer: rank %u: %s\n", info->rank, said);
    if (!digest_close(digest))
        good = complain("write digest file", settings->digest_path);
    good &= write_report(settings, info, &report, status);
    good &= write_state(settings, connection);
    report_done(&report);
    if (!good)
        penstock_fail(connection, served ? "it cannot write its digests, report or state" : said);
    return good;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.options = options, .parser = parse, .doc = description};
    setlinebuf(stderr); /* a line is one write: lines of several processes do not mix */
    argp_program_version_hook = print_version;
    argp_err_exit_status = EXIT_FINAL;
    struct settings settings = {.rank = -1, .world_size = -1, .consume = {.leases = 1}};
    argp_parse(&argp, argc, argv, 0, NULL, &settings);
    if (settings.rank >= 0) {
        settings.connect.rank = settings.rank;
        settings.connect.world_size = settings.world_size;
    }
    struct penstock *connection;
    char message[PENSTOCK_MESSAGE_BYTES];
    enum penstock_status status = penstock_connect(&settings.connect, &connection, message);
    if (status != PENSTOCK_OK) {
        fprintf(stderr, "penstock-trainer: %s\n", message);
        if (status == PENSTOCK_ENDED)
            return EXIT_SUCCESS; /* the process before this one died at the very end: nothing is
                                  * left to do */
        return status == PENSTOCK_INVALID ? EXIT_FINAL : EXIT_FAILURE;
    }
    bool good = run(&settings, connection);
    penstock_close(connection);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
