/* penstock-reader: the MPI program that reads a dataset and serves trainers. See docs/design.md. */
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "job.h"
#include "service.h"
#include "spawner.h"
#include "user_path.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_STOPPED_EARLY = 3, MAX_SETTINGS = 128, SIGNAL_GRACE_MS = 200, MAX_STATES = 1000 };

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

static void print_help(void)
{
    struct text options = {0};
    config_help(&options);
    fputs(usage, stdout);
    fputs(options.data, stdout);
    text_done(&options);
}

struct arguments {
    struct job_options job;
    char *settings[MAX_SETTINGS];
    const char *report_path, *save_path;
    bool help, version;
};

static enum status parse_option(struct arguments *arguments, int option, char **argv,
                                struct error *err)
{
    switch (option) {
    case 'c':
        arguments->job.config_path = optarg;
        return STATUS_OK;
    case 's':
        if (arguments->job.setting_count == MAX_SETTINGS)
            return error_set(err, STATUS_INVALID, "more than %d --set options", MAX_SETTINGS);
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

static enum status parse(int argc, char **argv, struct arguments *arguments, struct error *err)
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

/* Signals are read from a descriptor by the main thread; all threads, MPI's too, inherit the block.
 * SIGUSR2 is how penstock-run asks for an orderly end: mpirun and srun pass it on and do no more,
 * where SIGTERM has srun kill at once. */
static int open_signal_fd(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* What leave_on_signal() goes by. */
struct leaving {
    struct job *job;
    const struct job_options *options;
};

/* A signal goes to every rank: each cleans up after itself and leaves without waiting for the
 * others, since the launcher kills what is left about a second later. SIGTERM is also how a
 * launcher ends the others when one rank has died: under a supervisor that is no end. */
static void leave_on_signal(void *argument, int signal_number)
{
    const struct leaving *leaving = argument;
    struct job *job = leaving->job;
    bool told = !(leaving->options->supervised && signal_number == SIGTERM);
    struct error outcome;
    error_set(&outcome, STATUS_INTERRUPTED, "stopped by SIG%s", sigabbrev_np(signal_number));
    if (job->comm.rank == 0)
        fprintf(stderr, "penstock-reader: %s\n", outcome.message);
    if (job->server && told)
        server_finish(job->server, &outcome);
    if (job->server) {
        server_leave(job->server); /* no more: workers may still write to rings */
    }
    /* Only SIGUSR2 is not followed by a launcher's SIGKILL. */
    job_stop_children(job, signal_number == SIGUSR2 && job->session_count > 0
                               ? job->config.grace_s * 1000
                               : SIGNAL_GRACE_MS);
    masks_save(job->masks);
    _exit(128 + signal_number);
}

/* Before a run that ends in writing: rank 0 writes. */
static enum status check_outputs(const struct arguments *arguments, struct error *err)
{
    const char *const paths[] = {arguments->report_path, arguments->save_path};
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        if (paths[i])
            status = file_check_writable(paths[i], err);
    return status;
}

static void write_report(const char *path, const struct text *json)
{
    struct error err;
    if (file_replace(path, json->data, json->length, &err) != STATUS_OK)
        fprintf(stderr, "penstock-reader: the report is not written: %s\n", err.message);
}

static void print_report(const struct job *job, const struct service_summary *summary,
                         const struct arguments *arguments)
{
    struct text table = {0}, json = {0};
    service_describe(job, summary, &table, &json);
    if (job->comm.rank == 0 && !arguments->job.quiet)
        fputs(table.data, stderr);
    if (job->comm.rank == 0 && arguments->report_path)
        write_report(arguments->report_path, &json);
    text_done(&table);
    text_done(&json);
}

/* A state that nobody has asked for: into a new file in the current directory, with the run's name,
 * and a number where that file is there already. */
static enum status write_new_state(const struct job *job, const struct text *line,
                                   struct text *ret_path, struct error *err)
{
    char directory[PATH_MAX];
    const char *name = strrchr(job->run_dir, '/');
    int fd = -1;
    if (!getcwd(directory, sizeof directory))
        return error_set(err, STATUS_IO, "there is no current directory");
    for (int i = 1; fd < 0 && i <= MAX_STATES; i++) {
        text_done(ret_path);
        text_append(ret_path, "%s/penstock-state-%s", directory, name ? name + 1 : job->run_dir);
        text_append(ret_path, i > 1 ? "-%d.json" : ".json", i);
        fd = open(ret_path->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        return error_set(err, STATUS_IO, "cannot create '%s': %s", ret_path->data, strerror(errno));
    close(fd);
    enum status status = file_replace(ret_path->data, line->data, line->length, err);
    if (status != STATUS_OK)
        unlink(ret_path->data);
    return status;
}

/* In words that a shell takes as they are. */
static void print_hint(const char *where, const char *state)
{
    struct text quoted = {0};
    for (const char *c = state; *c; c++)
        text_append(&quoted, *c == '\'' ? "'\\''" : "%c", *c);
    fprintf(stderr, "penstock-reader: to go on there%s: --resume '%s'\n", where, quoted.data);
    text_done(&quoted);
}

/* After an orderly end, on rank 0: where to go on, if all trainers came to the same step. */
static void save_state(const struct job *job, const char *path)
{
    const struct ring_service *service = &job->setup.service;
    struct run_state state = {.order = service->order,
                              .epoch = job->stop_cursor / service->steps_per_epoch,
                              .step = job->stop_cursor % service->steps_per_epoch};
    struct text json = {0}, line = {0}, beside = {0};
    struct error err;
    run_state_print(&state, &json);
    text_append(&line, "%s\n", json.data);
    enum status status = path ? file_replace(path, line.data, line.length, &err)
                              : write_new_state(job, &line, &beside, &err);
    if (status != STATUS_OK && path)
        fprintf(stderr, "penstock-reader: the state is not saved: %s\n", err.message);
    if (status == STATUS_OK)
        print_hint("", path ? path : beside.data);
    /* The file is on this rank's node, which need not be where the run is started. */
    print_hint(status == STATUS_OK ? ", where that file is not" : "", json.data);
    text_done(&json);
    text_done(&line);
    text_done(&beside);
}

/* The same on all ranks. What trainers were told is final for them. */
static int exit_code(enum status status, const struct job *job)
{
    switch (status) {
    case STATUS_OK:
        return 0;
    case STATUS_INTERRUPTED:
        return 128 + job->stopped_by;
    case STATUS_ENDED:
        return EXIT_STOPPED_EARLY;
    default:
        return job->listening ? EXIT_FINAL : status_exit_code(status);
    }
}

/* Rank 0 speaks for all: every rank has come to the same error. */
static void print_outcome(const struct job *job, const struct error *err)
{
    if (job->comm.rank == 0)
        fprintf(stderr, "penstock-reader: %s%s\n",
                err->status == STATUS_ENDED || err->status == STATUS_INTERRUPTED ? "" : "error: ",
                err->message);
}

static int run(struct job *job, struct arguments *arguments, enum status parsed, struct error *err)
{
    if (parsed == STATUS_OK && job->comm.rank == 0)
        parsed = check_outputs(arguments, err);
    enum status status = comm_agree(&job->comm, parsed, err);
    struct service_summary *summary = calloc(1, sizeof *summary);
    if (status == STATUS_OK && !summary)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the summary");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK)
        status = job_start(job, &arguments->job, err);
    for (bool again = true; again && status == STATUS_OK;) {
        again = false;
        status = job_gather(job, arguments->job.quiet, err);
        if (status == STATUS_OK && !job->over)
            status = service_run(job, arguments->job.quiet, summary, &again, err);
        if (status == STATUS_OK && again)
            status = job_scatter(job, err);
    }
    if (status == STATUS_OK || status == STATUS_INTERRUPTED || status == STATUS_ENDED)
        print_report(job, summary, arguments);
    if (status != STATUS_OK)
        print_outcome(job, err);
    if (status == STATUS_INTERRUPTED && job->comm.rank == 0)
        save_state(job, arguments->save_path);
    int code = exit_code(status, job);
    job_done(job, err);
    free(summary);
    return code;
}

/* Tells a supervisor, on standard output, that readers live, whatever MPI does meanwhile: it may
 * hang when a process dies early. The first rank does, by the launcher's word: MPI cannot be asked
 * yet. */
static void *say_alive(void *unused)
{
    static const char line[] = "alive\n";
    const uint64_t period_ns = UINT64_C(3000000000);
    while (write(STDOUT_FILENO, line, sizeof line - 1) > 0)
        clock_sleep_ns(period_ns);
    return unused;
}

static void start_saying_alive(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    const char *rank = NULL;
    for (size_t i = 0; !rank && i < sizeof names / sizeof names[0]; i++)
        rank = getenv(names[i]);
    pthread_t thread;
    if ((!rank || strcmp(rank, "0") == 0) && pthread_create(&thread, NULL, say_alive, NULL) == 0)
        pthread_detach(thread);
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "--exec-trainer") == 0)
        return spawner_exec(argv + 2);
    struct arguments arguments = {0};
    struct error err;
    error_clear(&err);
    enum status parsed = parse(argc, argv, &arguments, &err);
    if (parsed == STATUS_OK && arguments.help) {
        print_help();
        return 0;
    }
    if (parsed == STATUS_OK && arguments.version) {
        puts("penstock-reader " PENSTOCK_VERSION_TEXT);
        return 0;
    }
    static struct job job;
    user_path_note();
    int signal_fd = open_signal_fd();
    if (arguments.job.supervised) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* of a launcher that is killed: the next is waiting */
        start_saying_alive();
    }
    prctl(PR_SET_TIMERSLACK, 5000); /* short sleeps stay short: see comm_back_off() */
    enum status started = comm_init(&job.comm, &err);
    if (started != STATUS_OK) {
        fprintf(stderr, "penstock-reader: error: %s\n", err.message);
        return 1;
    }
    job.comm.signal_fd = signal_fd;
    job.comm.on_signal = leave_on_signal;
    struct leaving leaving = {.job = &job, .options = &arguments.job};
    job.comm.on_signal_argument = &leaving;
    int code = run(&job, &arguments, parsed, &err);
    comm_done(&job.comm);
    if (job.stuck) {
        fflush(NULL);
        _exit(code); /* a worker hangs in the store: nothing is there to be taken apart */
    }
    return code;
}
