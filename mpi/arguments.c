/* See arguments.h. */
#include "arguments.h"

#include "base/text.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: mpirun -np READERS penstock-reader -c run.yaml [OPTION...] [-- TRAINER...]\n"
    "\n"
    "Reads a Zarr dataset, shuffles its samples between the readers and hands\n"
    "finished batches to the trainers of each node in shared memory.\n"
    "\n"
    "With TRAINER, a command, each reader starts its share of delivery.trainers\n"
    "processes of this command, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,\n"
    "MASTER_ADDR, MASTER_PORT and PENSTOCK_RUN_DIR set. Without TRAINER, readers wait\n"
    "for trainers that are started elsewhere with the same PENSTOCK_RUN_DIR.\n"
    "\n"
    "  -c, --config FILE    the run's configuration (YAML)\n"
    "      --set KEY=VALUE  override one option; may be repeated: the last of one key\n"
    "                       counts\n"
    "      --also NAME=FILE deliver another run beside this one, to the same trainers:\n"
    "                       penstock.connect(\"NAME\"). FILE is its configuration.\n"
    "                       mpirun starts as many readers for each run, on every node.\n"
    "                       May be repeated\n"
    "      --resume FILE    go on at a state that a trainer saved (penstock_state());\n"
    "                       FILE may also be the state itself: '{...}'\n"
    "      --save-state FILE\n"
    "                       if a signal ends the run, write the state at which all\n"
    "                       trainers stopped to FILE (default: to a new file in the\n"
    "                       current directory, whose name is printed)\n"
    "      --report FILE    write rates and bytes of each epoch as JSON; to FILE.html, a\n"
    "                       page to look at. May be given once for each\n"
    "      --trace FILE     write what threads, rounds and main thread did last, for\n"
    "                       Perfetto or chrome://tracing: {rank} in FILE is the\n"
    "                       reader's rank, which is appended otherwise.\n"
    "                       'penstock trace' does so during a run\n"
    "      --log FORMAT     the log on standard error: text, or json, an object a line\n"
    "                       with program, time, level, rank, host and message\n"
    "      --supervised     a supervisor starts the readers again when they fail.\n"
    "                       Trainers do not hear of SIGTERM, and connect again (needs\n"
    "                       delivery.reconnect_timeout). On standard output rank 0\n"
    "                       writes 'gathered' when all trainers are there, 'serving\n"
    "                       epoch E step S' when the first batch is there, 'alive' now\n"
    "                       and then, 'trainers N' when there are more or fewer, and\n"
    "                       'served' at the good end. Each reader writes 'left RANK\n"
    "                       CURSOR' for its trainers that are gone\n"
    "      --left FILE      the lines 'left RANK CURSOR' that earlier readers wrote, the\n"
    "                       last of each rank, and those since 'trainers N'; the last\n"
    "                       'locality N' and 'trainers N'; and a line '.' at the end:\n"
    "                       trainers go on at these cursors.\n"
    "                       '-' is the standard input of rank 0\n"
    "  -q, --quiet          print only errors, and warnings of the run\n"
    "  -v, --verbose        also print memory by purpose, rings, and seats of readers\n"
    "                       and trainers\n"
    "  -V, --version        print the version\n"
    "  -h, --help           print this text\n"
    "\n"
    "Examples:\n"
    "  mpirun -np 2 --bind-to none penstock-reader -c run.yaml -- python3 train.py\n"
    "  mpirun -np 2 penstock-reader -c train.yaml --also val=val.yaml -- python3 train.py\n"
    "  mpirun -np 1 penstock-reader --set dataset.uri=demo.zarr -- penstock-trainer\n"
    "\n"
    "Exit code:\n"
    "  0      everything was delivered, and every trainer succeeded\n"
    "  1      an error after which another try may succeed\n"
    "  3      the trainers stopped early\n"
    "  4      an error that would come again (wrong usage or configuration, damaged\n"
    "         data), or an error that trainers were told\n"
    "  128+N  signal N\n"
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

static bool is_page(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending && strcmp(ending, ".html") == 0;
}

/* An option that a value of another one would replace; what may come again (--set, --also,
 * --report) is looked at elsewhere. */
static enum status check_once(bool given[UCHAR_MAX + 1], int option, const struct option *options,
                              struct error *err)
{
    if (!optarg || strchr("sAj:?", option))
        return STATUS_OK;
    while (options->name && options->val != option)
        options++;
    if (given[option])
        return error_set(err, STATUS_INVALID, "--%s is given twice: give it once", options->name);
    given[option] = true;
    return STATUS_OK;
}

static enum status parse_option(struct arguments *arguments, int option, char **argv,
                                struct error *err)
{
    const char **target;
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
    case 'A':
        return also_add(&arguments->also, optarg, err);
    case 'r':
        arguments->job.resume = optarg;
        return STATUS_OK;
    case 'j':
        target = is_page(optarg) ? &arguments->html_path : &arguments->report_path;
        if (*target)
            return error_set(err, STATUS_INVALID, "--report is given twice: '%s' and '%s'", *target,
                             optarg);
        *target = optarg;
        return STATUS_OK;
    case 'T':
        arguments->trace_path = optarg;
        return STATUS_OK;
    case 'S':
        arguments->save_path = optarg;
        return STATUS_OK;
    case 'L':
        arguments->log_json = strcmp(optarg, "json") == 0;
        if (!arguments->log_json && strcmp(optarg, "text") != 0)
            return error_set(err, STATUS_INVALID, "--log '%s': neither text nor json", optarg);
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

void arguments_choose_also(struct arguments *arguments, const struct also_run *run)
{
    arguments->job = (struct job_options){.config_path = run->config_path,
                                          .also = run->name,
                                          .quiet = arguments->job.quiet,
                                          .verbose = arguments->job.verbose,
                                          .supervised = arguments->job.supervised};
    arguments->report_path = arguments->html_path = NULL;
    arguments->save_path = arguments->trace_path = NULL;
}

enum status arguments_parse(struct arguments *arguments, int argc, char **argv, struct error *err)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"set", required_argument, NULL, 's'},
                                            {"also", required_argument, NULL, 'A'},
                                            {"resume", required_argument, NULL, 'r'},
                                            {"report", required_argument, NULL, 'j'},
                                            {"save-state", required_argument, NULL, 'S'},
                                            {"trace", required_argument, NULL, 'T'},
                                            {"log", required_argument, NULL, 'L'},
                                            {"left", required_argument, NULL, 'l'},
                                            {"supervised", no_argument, NULL, 'u'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    arguments->job.settings = arguments->settings;
    bool given[UCHAR_MAX + 1] = {0};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+:c:qvVh", options, NULL)) != -1;) {
        enum status status = check_once(given, option, options, err);
        if (status == STATUS_OK)
            status = parse_option(arguments, option, argv, err);
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
