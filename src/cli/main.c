/* The `penstock` command: finds the subcommand and hands over to it.
 *
 * Subcommands parse their own options. This file has the table of commands, help, version, and the
 * suggestion for a mistyped name.
 */
#include "base/error.h"
#include "base/spelling.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "codec/codec.h"
#include "penstock.h"
#include "workshop/commands/commands.h"

#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static const struct command commands[] = {
#ifdef PENSTOCK_HAS_WORKSHOP
    {"synth", cli_synth, "write a synthetic dataset for trials"},
#endif
    {"inspect", cli_inspect,
     "show the arrays of a dataset, and the samples that a run would deliver"},
    {"verify", cli_verify, "read all of a dataset, list damaged chunks, hash the content"},
#ifdef PENSTOCK_HAS_WORKSHOP
    {"import", cli_import, "write Parquet files as a dataset"},
    {"ingest", cli_ingest, "cut segments out of videos, and write their frames as a dataset"},
    {"derive", cli_derive, "write an array that a program makes of a dataset's arrays"},
    {"rechunk", cli_rechunk, "write a dataset anew: Zarr v3, other chunks, shards and codecs"},
    {"stats", cli_stats, "write mean, deviation and quantiles of what a run trains on"},
#endif
    {"plan", cli_plan, "show a run's order, rounds and memory before it starts"},
    {"samples", cli_samples, "show what one sample of a run is made of"},
    {"top", cli_top, "show what a running job does, and what it waits for"},
    {"trace", cli_trace, "show what readers and trainers did in each moment, for Perfetto"},
    {"config", cli_config, "show the configuration in force, from all its sources"},
    {"doctor", cli_doctor, "look for what would make a run fail on a node or a cluster"},
#if defined PENSTOCK_HAS_WORKSHOP && defined PENSTOCK_HAS_READERS
    {"demo", cli_demo, "write a small dataset and deliver it to trainers on this machine"},
#endif
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fprintf(out, "Usage: penstock COMMAND [OPTION...]\n"
                 "Prepare and inspect datasets and runs of penstock-reader.\n\n"
                 "Commands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n"
                 "From nothing to a checked dataset:\n"
                 "  penstock synth latents.zarr --samples 1000\n"
                 "  penstock inspect latents.zarr\n"
                 "\n"
                 "'penstock COMMAND --help' explains a command, with examples.\n"
                 "\n"
                 "Exit code: 0 success; 1 failed; 4 failed and will fail again: wrong usage or\n"
                 "configuration, or data that is damaged or not supported.\n");
}

static void print_version(void)
{
    struct text codecs = {0};
    codec_list_optional(&codecs);
    printf("penstock %d.%d.%d\n%s\n", PENSTOCK_VERSION_MAJOR, PENSTOCK_VERSION_MINOR,
           PENSTOCK_VERSION_PATCH, codecs.data);
    text_done(&codecs);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *nearest = spelling_nearest(name, names, COMMAND_COUNT);
    fprintf(stderr, "penstock: there is no command '%s'", name);
    if (nearest)
        fprintf(stderr, "; did you mean '%s'?\n", nearest);
    else
        fprintf(stderr, "; 'penstock --help' lists the commands\n");
    return EXIT_FINAL;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    char name[32];
    snprintf(name, sizeof name, "penstock %s", command->name);
    argv[0] = name; /* what argp calls the program in usage and messages */
    return command->run(argc, argv);
}

static int run_help(const char *name)
{
    const struct command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    char option[] = "--help";
    char *arguments[] = {NULL, option, NULL};
    return run_command(command, 2, arguments);
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

static int dispatch(int argc, char **argv)
{
    const char *first = argv[1];
    bool wants_help = is_one_of(first, "--help", "-h") || strcmp(first, "help") == 0;
    if (wants_help && argc > 2)
        return run_help(argv[2]);
    if (wants_help) {
        print_help(stdout);
        return EXIT_SUCCESS;
    }
    if (is_one_of(first, "--version", "-V")) {
        print_version();
        return EXIT_SUCCESS;
    }
    const struct command *command = find_command(first);
    return command ? run_command(command, argc - 1, argv + 1) : unknown_command(first);
}

int main(int argc, char **argv)
{
    setlinebuf(stderr); /* a line is one write: lines of several processes do not mix */
    argp_err_exit_status = EXIT_FINAL;
    if (argc < 2) {
        print_help(stderr);
        return EXIT_FINAL;
    }
    int code = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "penstock: cannot write to standard output: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return code;
}
