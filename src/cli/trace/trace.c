/* `penstock trace`: what the readers of a running job do for some seconds, and traces put together.
 * Main thread.
 *
 * Readers are called by signals: see mpi/account/tracing.h.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "cli/trace/trace_merge.h"
#include "delivery/ring/rundir.h"
#include "metrics/metrics_file.h"
#include "metrics/trace_call.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_READERS = 1024, MOST_FILES = 1024, PATIENCE_S = 30 };

struct options {
    const char *run_dir; /* or "merge" */
    const char *output;
    uint64_t seconds;
    const char *files[MOST_FILES];
    size_t file_count;
};

static void parse_file(void *into, const struct argp_state *state, const char *option,
                       char *argument)
{
    (void)option;
    struct options *options = into;
    if (strcmp(options->run_dir, "merge") != 0)
        argp_error(state, "unexpected '%s'", argument);
    if (options->file_count == MOST_FILES)
        argp_error(state, "more than %d files", MOST_FILES);
    options->files[options->file_count++] = argument;
}

static void check(const void *from, const struct argp_state *state)
{
    const struct options *options = from;
    if (strcmp(options->run_dir, "merge") == 0 && options->file_count == 0)
        argp_error(state, "which traces?");
}

static const struct cli_option option_table[] = {
    {"seconds", 'n', "N", "how long readers are traced (10)", CLI_COUNT(seconds, 1, 3600)},
    {"output", 'o', "FILE", "where the trace goes (trace.json)", CLI_TEXT(output)},
};

static const char help[] =
    "Show what readers and trainers did in each moment: trace the readers of a running job, or put "
    "traces together."
    "\v"
    "RUN_DIR is the run directory, which a run prints at its start. All readers of this node are "
    "traced for the seconds asked for, and the job goes on. A reader keeps the last 4,096 spans of "
    "each thread and each round.\n"
    "\n"
    "'merge' puts traces of readers, of trainers (PENSTOCK_TRACE) and of torch.profiler on one "
    "clock and in one file. Files of other nodes fit as well as the clocks of the nodes do.\n"
    "\n"
    "The file is for https://ui.perfetto.dev or chrome://tracing.\n"
    "\n"
    "Examples:\n"
    "  penstock trace /tmp/penstock-0/run --seconds 5 -o readers.json\n"
    "  penstock trace merge readers.json torch.json -o all.json\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "RUN_DIR\nmerge FILE...",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, run_dir)},
    .argument_count = 1,
    .missing = "which run directory? A run prints its own at its start (run_dir)",
    .more = parse_file,
    .check = check,
};

/* The readers that are traced. */
struct traced {
    pid_t pids[MOST_READERS];
    struct text paths[MOST_READERS]; /* where their traces will be */
    size_t count;
};

static volatile sig_atomic_t stopped;

static void note_signal(int number)
{
    stopped = number;
}

/* Readers heed signals while they serve. Of two signals that come before, the second is lost. */
static enum status await_serving(int dir, uint32_t reader, struct metrics_snapshot **ret_snapshot,
                                 struct error *err)
{
    const uint64_t turn_ns = 20000000;
    uint64_t end_ns = clock_now_ns() + PATIENCE_S * UINT64_C(1000000000);
    for (;;) {
        enum status status = metrics_file_read(dir, reader, ret_snapshot, err);
        if (status != STATUS_OK || (*ret_snapshot)->state == METRICS_SERVING)
            return status;
        free(*ret_snapshot);
        if (stopped || clock_now_ns() > end_ns)
            return error_set(err, STATUS_TIMEOUT,
                             "reader %" PRIu32 " waits for its trainers: start the trace once "
                             "batches are delivered, or the run with --trace FILE",
                             reader);
        clock_sleep_ns(turn_ns);
    }
}

static enum status find_readers(int dir, const char *run_dir, struct traced *traced,
                                struct error *err)
{
    static uint32_t readers[MOST_READERS];
    size_t count = rundir_readers(dir, readers, MOST_READERS);
    for (size_t i = 0; i < count; i++) {
        struct metrics_snapshot *snapshot;
        enum status status = await_serving(dir, readers[i], &snapshot, err);
        if (status == STATUS_NOT_FOUND)
            continue;
        if (status != STATUS_OK)
            return status;
        traced->pids[traced->count] = (pid_t)snapshot->pid;
        text_append(&traced->paths[traced->count++], "%s/reader-%" PRIu32 ".trace", run_dir,
                    readers[i]);
        free(snapshot);
    }
    if (traced->count == 0)
        return error_set(err, STATUS_NOT_FOUND, "no reader of this node runs here");
    return STATUS_OK;
}

static enum status call(const struct traced *traced, int value, struct error *err)
{
    for (size_t i = 0; i < traced->count; i++)
        if (sigqueue(traced->pids[i], SIGUSR1, (union sigval){.sival_int = value}) != 0)
            return error_set_errno(err, STATUS_IO, "send a signal to the reader of pid %d",
                                   (int)traced->pids[i]);
    return STATUS_OK;
}

static void pause_for(uint64_t duration_ns)
{
    const uint64_t turn_ns = 20000000;
    uint64_t end_ns = clock_now_ns() + duration_ns;
    while (!stopped && clock_now_ns() < end_ns)
        clock_sleep_ns(turn_ns);
}

/* Says the end again and again: a reader that was held up may have missed the word. */
static enum status await_traces(const struct traced *traced, struct error *err)
{
    const uint64_t turn_ns = 20000000, again_ns = 1000000000;
    uint64_t begin_ns = clock_now_ns(), said_ns = begin_ns;
    uint64_t end_ns = begin_ns + PATIENCE_S * UINT64_C(1000000000);
    for (size_t i = 0; i < traced->count; i++)
        while (access(traced->paths[i].data, R_OK) != 0) {
            if (clock_now_ns() - said_ns > again_ns) {
                said_ns = clock_now_ns();
                sigqueue(traced->pids[i], SIGUSR1, (union sigval){.sival_int = TRACE_CALL_END});
            }
            if (kill(traced->pids[i], 0) != 0)
                return error_set(err, STATUS_LOST,
                                 "the run has ended meanwhile: start it with --trace FILE");
            if (clock_now_ns() > end_ns)
                return error_set(err, STATUS_TIMEOUT,
                                 "the reader of pid %d wrote no trace within %d s: see its log",
                                 (int)traced->pids[i], PATIENCE_S);
            clock_sleep_ns(turn_ns);
        }
    return STATUS_OK;
}

static enum status trace_readers(const struct options *options, struct traced *traced,
                                 struct error *err)
{
    int dir;
    enum status status = cli_open_run_dir(options->run_dir, &dir, err);
    if (status != STATUS_OK)
        return status;
    status = find_readers(dir, options->run_dir, traced, err);
    close(dir);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < traced->count; i++)
        unlink(traced->paths[i].data);
    const struct sigaction action = {.sa_handler = note_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status = call(traced, TRACE_CALL_BEGIN, err);
    if (status == STATUS_OK)
        pause_for(options->seconds * 1000000000);
    if (status == STATUS_OK)
        status = call(traced, TRACE_CALL_END, err);
    if (status == STATUS_OK)
        status = await_traces(traced, err);
    const char *paths[MOST_READERS];
    for (size_t i = 0; i < traced->count; i++)
        paths[i] = traced->paths[i].data;
    if (status == STATUS_OK)
        status = trace_merge(paths, traced->count, options->output, err);
    for (size_t i = 0; i < traced->count; i++)
        unlink(paths[i]);
    return status;
}

int cli_trace(int argc, char **argv)
{
    static struct options options = {.seconds = 10, .output = "trace.json"};
    static struct traced traced;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    bool merges = strcmp(options.run_dir, "merge") == 0;
    enum status status = merges
                             ? trace_merge(options.files, options.file_count, options.output, &err)
                             : trace_readers(&options, &traced, &err);
    for (size_t i = 0; i < traced.count; i++)
        text_done(&traced.paths[i]);
    return status == STATUS_OK ? EXIT_SUCCESS : cli_fail("penstock trace", &err);
}
