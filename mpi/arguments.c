/* See arguments.h. */
#include "arguments.h"

#include "base/text.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: mpirun -np READERS penstock-reader -c run.yaml [OPTION...] [-- TRAINER...]\n"
    "\n"
    "Reads a Zarr dataset, shuffles its samples between the readers and hands finished batches to\n"
    "the trainers of each node in shared memory.\n"
    "\n"
    "With TRAINER, a command, each reader starts its share of delivery.trainers processes of it, "
    "with\n"
    "RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and "
    "PENSTOCK_RUN_DIR\n"
    "set. Without, it waits for trainers that are started elsewhere with the same "
    "PENSTOCK_RUN_DIR.\n"
    "\n"
    "  -c, --config FILE    the run's configuration (YAML)\n"
    "      --set KEY=VALUE  override one option; may be repeated\n"
    "      --resume FILE    continue at a state that a trainer saved (penstock_state), or the "
    "state\n"
    "                       itself: '{...}'\n"
    "      --save-state FILE\n"
    "                       when a signal ends the run, write where all trainers stopped; "
    "without,\n"
    "                       to a file in the current directory that is named then\n"
    "      --report FILE    write rates and bytes of each epoch as JSON\n"
    "      --supervised     somebody starts the readers again when they fail: trainers are not "
    "told\n"
    "                       of SIGTERM, and come back (needs delivery.reconnect_timeout); rank 0\n"
    "                       writes 'gathered' to standard output when all trainers are there,\n"
    "                       'serving epoch E step S' when they have the first batch, 'alive' now\n"
    "                       and then, and all 'left RANK CURSOR' for those that are "
    "gone\n"
    "      --left FILE      where trainers had stopped: the lines 'left RANK CURSOR' that the "
    "readers\n"
    "                       before these ones wrote, and a line '.'; - is standard input of rank "
    "0\n"
    "  -q, --quiet          only errors, and warnings while it runs\n"
    "  -v, --verbose        also memory by purpose, rings, and who sits where\n"
    "  -V, --version\n"
    "  -h, --help\n"
    "\n"
    "Examples:\n"
    "  mpirun -np 2 --bind-to none penstock-reader -c run.yaml -- python3 train.py\n"
    "  mpirun -np 1 penstock-reader --set dataset.uri=demo.zarr -- penstock-trainer\n"
    "\n"
    "Exit code: 0 when everything was delivered and every trainer succeeded, 3 when the trainers\n"
    "stopped early, 4 on an error that starting again does not help against (wrong usage or\n"
    "configuration, damaged data, or one of which trainers were told), 128+N on signal N, 1 on "
    "any\n"
    "other error.\n"
    "\n"
    "Options of the configuration (section.key, default, meaning):\n";

void arguments_print_help(void)
{
    struct text options = {0};
    config_help(&options);
    fputs(usage, stdout);
    fputs(options.data, stdout);
    text_done(&options);
}

static enum status parse_option(struct arguments *arguments, int option, char **argv,
                                struct error *err)
{
    switch (option) {
    case 'c':
        arguments->job.config_path = optarg;
        return STATUS_OK;
    case 's':
        if (arguments->job.setting_count == ARGUMENTS_MAX_SETTINGS)
            return error_set(err, STATUS_INVALID, "more than %d --set options",
                             ARGUMENTS_MAX_SETTINGS);
        arguments->settings[arguments->job.setting_count++] = optarg;
        return STATUS_OK;
    case 'r':
        arguments->job.resume = optarg;
        return STATUS_OK;
    case 'j':
        arguments->report_path = optarg;
        return STATUS_OK;
    case 'S':
        arguments->save_path = optarg;
        return STATUS_OK;
    case 'l':
        arguments->job.left_path = optarg;
        return STATUS_OK;
    case 'u':
        arguments->job.supervised = true;
        return STATUS_OK;
    case 'q':
        arguments->job.quiet = true;
        return STATUS_OK;
    case 'v':
        arguments->job.verbose = true;
        return STATUS_OK;
    case 'V':
        arguments->version = true;
        return STATUS_OK;
    case 'h':
        arguments->help = true;
        return STATUS_OK;
    case ':':
        return error_set(err, STATUS_INVALID, "option '%s' needs a value", argv[optind - 1]);
    default:
        return error_set(err, STATUS_INVALID, "unknown option '%s': see penstock-reader --help",
                         argv[optind - 1]);
    }
}

enum status arguments_parse(struct arguments *arguments, int argc, char **argv, struct error *err)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"set", required_argument, NULL, 's'},
                                            {"resume", required_argument, NULL, 'r'},
                                            {"report", required_argument, NULL, 'j'},
                                            {"save-state", required_argument, NULL, 'S'},
                                            {"left", required_argument, NULL, 'l'},
                                            {"supervised", no_argument, NULL, 'u'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    arguments->job.settings = arguments->settings;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+:c:qvVh", options, NULL)) != -1;) {
        enum status status = parse_option(arguments, option, argv, err);
        if (status != STATUS_OK)
            return status;
    }
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0 && strstr(argv[optind], ".y"))
        return error_set(err, STATUS_INVALID, "unexpected '%s': a configuration is given with -c",
                         argv[optind]);
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
        return error_set(err, STATUS_INVALID,
                         "unexpected '%s': put -- in front of the trainer command", argv[optind]);
    if (optind < argc)
        arguments->job.command = argv + optind;
    return STATUS_OK;
}
