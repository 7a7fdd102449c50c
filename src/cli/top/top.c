/* `penstock top`: what a running job does. Main thread.
 *
 * Reads the metrics files in the run directory (metrics/metrics_file.h), which readers write
 * anyway, twice or again and again, and shows what changed. On reader 0's node the pages of other
 * nodes' readers come there, too, while it looks (metrics/overview.h).
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "cli/top/top_look.h"
#include "cli/top/top_runs.h"
#include "cli/top/top_screen.h"

#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct options {
    const char *run_dir;
    bool once, json;
    uint64_t seconds;
};

static const struct cli_option option_table[] = {
    {"once", 0, NULL, "show one look, and end", CLI_FLAG(once)},
    {"json", 0, NULL, "print each look for programs, as one line of JSON", CLI_FLAG(json)},
    {"seconds", 'n', "N", "seconds from look to look (1)", CLI_COUNT(seconds, 1, 3600)},
};

static const char help[] =
    "Show what a running job does: progress, whether training waits for data and for what, and for "
    "each reader and trainer what flows."
    "\v"
    "Without RUN_DIR, the only run of yours that is alive on this node is shown; several are "
    "listed, "
    "with their run directories. Looked at are /tmp/penstock-* and PENSTOCK_RUN_DIR.\n"
    "\n"
    "RUN_DIR is the run directory, which a run prints at its start and tells its trainers in "
    "PENSTOCK_RUN_DIR. On the node of reader 0 the readers and trainers of all nodes are shown, on "
    "other nodes those of the node. On a terminal the screen is drawn anew until ^C, or until the "
    "run ends. "
    "Elsewhere each look is a line. Colors: none if NO_COLOR is set.\n"
    "\n"
    "'kept' is the share of the dataset's rows that a reader keeps in memory, 'busy' the share of "
    "its workers' time that is work, and 'waits for' what its next round waited for most. Waiting "
    "for trainers is good: data is ready.\n"
    "\n"
    "Exit code: 0 shown, or the run has ended; 1 no run is alive there; 4 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  penstock top\n"
    "  penstock top /tmp/penstock-0/run\n"
    "  penstock top $PENSTOCK_RUN_DIR --once --json\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "[RUN_DIR]",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, run_dir)},
    .argument_count = 1,
};

static volatile sig_atomic_t stopped;

static void note_signal(int number)
{
    stopped = number;
}

static void show(const struct options *options, bool terminal, double steps_per_s,
                 const struct top_watch *at, const struct top_look *before,
                 const struct top_look *now)
{
    static struct metrics_pair pairs[TOP_MOST_READERS];
    const char *no_color = getenv("NO_COLOR");
    struct winsize size = {0};
    struct text out = {0};
    top_look_pair(before, now, pairs);
    struct metrics_verdict verdict =
        metrics_judge(pairs, now->count, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
    struct top_view view = {.run_dir = options->run_dir,
                            .pairs = pairs,
                            .count = now->count,
                            .asks_others = at->others.fd >= 0,
                            .verdict = &verdict,
                            .steps_per_s = steps_per_s,
                            .color = terminal && !(no_color && *no_color),
                            .width = 100,
                            .height = 1000};
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
        view.width = size.ws_col;
        view.height = size.ws_row - 1; /* the cursor stands in the last line */
    }
    if (options->json)
        top_json(&view, &out);
    else if (terminal || options->once)
        top_screen(&view, &out);
    else
        top_line(&view, &out);
    if (terminal && !options->once && !options->json)
        fputs("\033[H\033[J", stdout);
    fputs(out.data, stdout);
    fflush(stdout);
    text_done(&out);
}

/* Shows look after look. OK: it was asked to end, or the readers ended. */
static enum status watch(const struct options *options, int dir, bool terminal, struct error *err)
{
    static struct top_look looks[2];
    static struct top_watch at;
    struct top_pace pace = {0};
    size_t last = 0;
    enum status status = top_watch_begin(&at, dir, err);
    if (status == STATUS_OK)
        status = top_look_take(&at, &looks[0], err);
    if (status == STATUS_OK)
        top_pace_take(&pace, looks[0].snapshots[0]);
    bool begun = status == STATUS_OK;
    while (!stopped && status == STATUS_OK) {
        clock_sleep_ns(options->seconds * 1000000000);
        if (stopped)
            break;
        status = top_look_take(&at, &looks[1 - last], err);
        if (status != STATUS_OK)
            break;
        top_pace_take(&pace, looks[1 - last].snapshots[0]);
        show(options, terminal, pace.steps_per_s, &at, &looks[last], &looks[1 - last]);
        top_look_done(&looks[last]);
        last = 1 - last;
        if (options->once || ferror(stdout)) /* nobody reads any more */
            break;
    }
    top_look_done(&looks[last]);
    top_watch_end(&at);
    return status == STATUS_NOT_FOUND && begun && !options->once ? STATUS_OK : status;
}

static int look_at_run(const struct options *options)
{
    struct error err;
    int dir;
    bool terminal = isatty(STDOUT_FILENO), full = terminal && !options->once && !options->json;
    enum status status = cli_open_run_dir(options->run_dir, &dir, &err);
    if (status != STATUS_OK)
        return cli_fail("penstock top", &err);
    const struct sigaction action = {.sa_handler = note_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (full)
        fputs("\033[?1049h\033[?25l", stdout); /* another screen, no cursor */
    status = watch(options, dir, terminal, &err);
    if (full) {
        fputs("\033[?25h\033[?1049l", stdout);
        fflush(stdout);
    }
    close(dir);
    if (status != STATUS_OK) {
        error_prefix(&err, status, "'%s': ", options->run_dir);
        return cli_fail("penstock top", &err);
    }
    if (!options->once && !options->json && !stopped)
        puts("the run has ended");
    return EXIT_SUCCESS;
}

/* The run directory where there is one run; else lists runs, and *ret_path stays NULL. NOT_FOUND:
 * there is none. */
static enum status choose_run(bool json, char **ret_path, struct error *err)
{
    static struct top_runs runs;
    struct text out = {0};
    enum status status = STATUS_OK;
    top_runs_find(&runs);
    if (runs.count == 0)
        status = error_set(err, STATUS_NOT_FOUND,
                           "no run of yours is alive on this node: none in /tmp/penstock-*, nor in "
                           "PENSTOCK_RUN_DIR; a run prints its directory at its start (run_dir)");
    else if (runs.count == 1)
        *ret_path = strdup(runs.runs[0].path);
    else if (json)
        top_runs_json(&runs, &out);
    else
        top_runs_print(&runs, &out);
    if (out.data)
        fputs(out.data, stdout);
    text_done(&out);
    top_runs_done(&runs);
    return status;
}

int cli_top(int argc, char **argv)
{
    struct options options = {.seconds = 1};
    cli_parse(&command, argc, argv, &options);
    struct error err;
    char *chosen = NULL;
    if (!options.run_dir) {
        if (choose_run(options.json, &chosen, &err) != STATUS_OK)
            return cli_fail("penstock top", &err);
        if (!chosen)
            return EXIT_SUCCESS;
        options.run_dir = chosen;
    }
    int code = look_at_run(&options);
    free(chosen);
    return code;
}
