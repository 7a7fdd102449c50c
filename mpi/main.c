/* penstock-reader: the MPI program that reads a dataset and serves trainers. See
 * docs/inside/design.md. */
#include "account/meter.h"
#include "account/tracing.h"
#include "arguments.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/launcher.h"
#include "base/text.h"
#include "base/thread.h"
#include "check_mpi.h"
#include "delivery/ring/rundir.h"
#include "job/session.h"
#include "log_json.h"
#include "loop/service.h"
#include "save_state.h"
#include "trainers/spawner.h"
#include "trainers/user_path.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_STOPPED_EARLY = 3, SIGNAL_GRACE_MS = 200, HASTY_GRACE_MS = 80 };

/* Signals are read from a descriptor by the main thread; all threads, MPI's too, inherit the block.
 * SIGUSR2 is how penstock-run asks for an orderly end: mpirun and srun pass it on and do no more,
 * where SIGTERM has srun kill at once. */
static int open_signal_fd(void)
{
    sigset_t signals;
    tracing_block_signal();
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* what writes beyond ulimit -f fails, and says so */
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* What leave_on_signal() goes by. */
struct leaving {
    const struct job *job;
    const struct session *session;
    const struct job_options *options;
};

static const uint64_t OTHERS_NS = 250000000, SIBLINGS_NS = 850000000;

/* MPICH's launcher kills the others as soon as one has left: they clean up first, and those of this
 * node that are late are waited for until a launcher of another kind kills this process, too. */
static void await_others(const struct job *job)
{
    uint64_t end_ns = clock_now_ns() + SIBLINGS_NS;
    uint32_t other;
    int dir;
    clock_sleep_ns(OTHERS_NS);
    while (clock_now_ns() < end_ns && rundir_open(job->run_dir, false, &dir, NULL) == STATUS_OK) {
        size_t late = rundir_readers(dir, &other, 1);
        close(dir);
        if (late == 0)
            break;
        clock_sleep_ns(OTHERS_NS / 25);
    }
}

/* A signal goes to every rank: each cleans up after itself and leaves without waiting for the
 * others, since the launcher kills what is left about a second later. SIGTERM is also how a
 * launcher ends the others when one rank has died: under a supervisor that is no end. */
static void leave_on_signal(void *argument, int signal_number)
{
    const struct leaving *leaving = argument;
    const struct job *job = leaving->job;
    bool hasty = job->comm.is_hasty && signal_number != SIGUSR2;
    bool told = !(leaving->options->supervised && signal_number == SIGTERM);
    bool first_session = leaving->session->session_count == 0;
    struct error outcome;
    if (signal_number == SIGUSR2 && leaving->session->finishing)
        return; /* an end in good order is asked for, and under way */
    error_set(&outcome, STATUS_INTERRUPTED, "%s by SIG%s%s",
              signal_number == SIGUSR2 ? "asked to end" : "stopped", sigabbrev_np(signal_number),
              signal_number == SIGUSR2 && first_session ? ", before all trainers were there" : "");
    if (job->comm.rank == 0 && !job->also)
        fprintf(stderr, "penstock-reader: %s\n", outcome.message);
    if (job->server && told)
        server_finish(job->server, &outcome);
    if (job->server) {
        server_leave(job->server); /* no more: workers may still write to rings */
    }
    meter_leave(job->meter);
    /* Only SIGUSR2 is not followed by a launcher's SIGKILL. */
    job_stop_children(job, signal_number == SIGUSR2 && !first_session ? job->config.grace_s * 1000
                           : hasty                                    ? HASTY_GRACE_MS
                                                                      : SIGNAL_GRACE_MS);
    masks_save(job->masks);
    bool leads = job->siblings && job->comm.run == 0;
    if (leads && told)
        siblings_tell_end(job->siblings, &outcome);
    if (leads && !hasty)
        clock_sleep_ns(SIBLINGS_NS); /* readers of other runs leave later */
    else if (!hasty && job->comm.size > 1)
        await_others(job);
    _exit(128 + signal_number);
}

/* Before a run that ends in writing: rank 0 writes. */
static enum status check_outputs(const struct arguments *arguments, struct error *err)
{
    const char *const paths[] = {arguments->report_path, arguments->html_path,
                                 arguments->save_path};
    enum status status = STATUS_OK;
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        if (paths[i])
            status = file_check_writable(paths[i], err);
    return status;
}

/* `path` NULL: not wanted. */
static void write_report(const char *path, const struct text *report)
{
    struct error err;
    if (path && file_replace(path, report->data, report->length, &err) != STATUS_OK)
        fprintf(stderr, "penstock-reader: the report is not written: %s\n", err.message);
}

static void print_report(const struct session *session, const struct service_summary *summary,
                         const struct arguments *arguments)
{
    const struct job *job = session->job;
    struct text table = {0}, json = {0}, page = {0};
    service_describe(session, summary, &table, &json, arguments->html_path ? &page : NULL);
    if (job->comm.rank == 0 && !arguments->job.quiet)
        fprintf(stderr, "%s%s%s%s", job->also ? "run '" : "", job->also ? job->also : "",
                job->also ? "':\n" : "", table.data);
    if (job->comm.rank == 0) {
        write_report(arguments->report_path, &json);
        write_report(arguments->html_path, &page);
    }
    text_done(&table);
    text_done(&json);
    text_done(&page);
}

/* The same on all ranks. What trainers were told is final for them. */
static int exit_code(enum status status, const struct session *session)
{
    switch (status) {
    case STATUS_OK:
        return 0;
    case STATUS_INTERRUPTED:
        return 128 + session->stopped_by;
    case STATUS_ENDED:
        return EXIT_STOPPED_EARLY;
    default:
        return session->job->listening ? EXIT_FINAL : status_exit_code(status);
    }
}

/* Rank 0 speaks for all: every rank has come to the same error. */
static void print_outcome(const struct job *job, const struct error *err)
{
    if (job->comm.rank == 0 && job->comm.run == 0)
        fprintf(stderr, "penstock-reader: %s%s\n",
                err->status == STATUS_ENDED || err->status == STATUS_INTERRUPTED ? "" : "error: ",
                err->message);
}

/* All that is made before trainers are waited for. */
static enum status start(struct job *job, struct session *session,
                         const struct job_options *options, struct error *err)
{
    enum status status = job_start(job, session, options, err);
    if (status != STATUS_OK)
        return status;
    status = meter_new(session, &job->meter, err);
    if (status == STATUS_OK && job->comm.rank == 0 && !options->quiet && *meter_address(job->meter))
        fprintf(stderr, "metrics    http://%s/metrics\n", meter_address(job->meter));
    return job_make_ready(job, session, options, status, err);
}

static int run(struct job *job, struct session *session, struct arguments *arguments,
               enum status parsed, struct error *err)
{
    if (parsed == STATUS_OK && job->comm.rank == 0)
        parsed = check_outputs(arguments, err);
    if (parsed == STATUS_OK)
        parsed = tracing_new(arguments->trace_path, job->comm.rank, &job->tracing, err);
    if (parsed == STATUS_OK)
        parsed = siblings_new(&job->comm, arguments->job.also, &job->siblings, err);
    struct siblings *siblings = job->siblings;
    struct service_summary *summary = calloc(1, sizeof *summary);
    if (parsed == STATUS_OK && !summary)
        parsed = error_set(err, STATUS_NO_MEMORY, "no memory for the summary");
    enum status status = comm_agree(&job->comm, parsed, err);
    status = comm_agree_runs(&job->comm, status, err);
    bool begun = status == STATUS_OK;
    if (status == STATUS_OK)
        status = start(job, session, &arguments->job, err);
    for (bool again = true; again && status == STATUS_OK;) {
        again = false;
        status = session_gather(job, session, arguments->job.quiet, err);
        if (status == STATUS_OK && !session->over)
            status = service_run(session, arguments->job.quiet, summary, &again, err);
        if (status == STATUS_OK && again)
            status = session_scatter(session, err);
    }
    session->finishing = begun;
    if (status == STATUS_OK || status == STATUS_INTERRUPTED || status == STATUS_ENDED)
        print_report(session, summary, arguments);
    if (status != STATUS_OK)
        print_outcome(job, err);
    if (status == STATUS_INTERRUPTED && job->comm.rank == 0 && !job->also)
        save_state(session, arguments->save_path);
    int code = job->also ? 0 : exit_code(status, session);
    const struct error none = {0};
    siblings_tell_end(siblings, status == STATUS_OK ? &none : err);
    tracing_end(job->tracing);
    job_end(session, err);
    meter_free(job->meter);
    job_done(job, session);
    free(summary);
    if (begun)
        siblings_free(siblings);
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
    pthread_t thread;
    if (strcmp(launcher_rank(), "0") == 0 && thread_start("alive", say_alive, NULL, &thread))
        pthread_detach(thread);
}

int main(int argc, char **argv)
{
    setlinebuf(stderr); /* a line is one write: lines of several processes do not mix */
    if (argc > 4 && strcmp(argv[1], "--exec-trainer") == 0)
        return spawner_exec(SPAWN_TRAINER, argv + 2);
    if (argc > 4 && strcmp(argv[1], "--exec-transform") == 0)
        return spawner_exec(SPAWN_TRANSFORM, argv + 2);
    if (argc == 2 && strcmp(argv[1], "--check-mpi") == 0)
        return check_mpi();
    struct arguments arguments = {0};
    struct error err;
    error_clear(&err);
    enum status parsed = arguments_parse(&arguments, argc, argv, &err);
    if (parsed == STATUS_OK && arguments.help) {
        arguments_print_help();
        return 0;
    }
    if (parsed == STATUS_OK && arguments.version) {
        puts("penstock-reader " PENSTOCK_VERSION_TEXT);
        return 0;
    }
    if (parsed == STATUS_OK && arguments.log_json)
        parsed = log_json_begin(&err);
    static struct job job;
    static struct session session = {.job = &job};
    user_path_note();
    int signal_fd = open_signal_fd();
    if (arguments.job.supervised) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* of a launcher that is killed: the next is waiting */
        start_saying_alive();
    }
    int run_count = parsed == STATUS_OK ? 1 + arguments.also.count : 1;
    enum status started = comm_init(run_count, &job.comm, &err);
    if (started != STATUS_OK) {
        if (job.comm.rank == 0)
            fprintf(stderr, "penstock-reader: error: %s\n", err.message);
        MPI_Finalize();
        return status_exit_code(started);
    }
    if (job.comm.run > 0)
        arguments_choose_also(&arguments, &arguments.also.runs[job.comm.run - 1]);
    log_json_set_rank(job.comm.rank);
    job.comm.signal_fd = signal_fd;
    job.comm.on_signal = leave_on_signal;
    struct leaving leaving = {.job = &job, .session = &session, .options = &arguments.job};
    job.comm.on_signal_argument = &leaving;
    job.comm.requests = &session.requests;
    int code = run(&job, &session, &arguments, parsed, &err);
    bool is_told = code == 0 || code == EXIT_STOPPED_EARLY; /* launchers may end with another code */
    if (arguments.job.supervised && is_told && job.comm.rank == 0 && job.comm.run == 0) {
        puts(code == 0 ? "served" : "early");
        fflush(stdout);
    }
    comm_done(&job.comm);
    if (session.stuck) {
        fflush(NULL);
        _exit(code); /* a worker hangs in the store: nothing is there to be taken apart */
    }
    return code;
}
