/* See tracing.h. */
#include "account/tracing.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/trace.h"
#include "metrics/trace_call.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const uint64_t period_ns = 50000000;

/* Pids of the system are below 2^22: these collide with none, on whichever node. */
static const uint64_t FIRST_PID = 1000000000;

struct tracing {
    int rank, signal_fd;
    struct trace_track *track;
    struct text path;             /* "": none */
    uint64_t start_ns, looked_ns; /* of this run; the last look for a signal */
    bool called;                  /* by a signal */
    uint64_t called_ns;
};

static sigset_t just_usr1(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    return signals;
}

void tracing_block_signal(void)
{
    sigset_t signals = just_usr1();
    sigprocmask(SIG_BLOCK, &signals, NULL);
}

static void name_file(struct text *path, const char *pattern, int rank)
{
    static const char mark[] = "{rank}";
    const char *at = strstr(pattern, mark);
    if (at)
        text_append(path, "%.*s%d%s", (int)(at - pattern), pattern, rank, at + sizeof mark - 1);
    else
        text_append(path, "%s.%d", pattern, rank);
}

enum status tracing_new(const char *path, int rank, struct tracing **ret_tracing, struct error *err)
{
    sigset_t signals = just_usr1();
    struct tracing *tracing = calloc(1, sizeof *tracing);
    if (!tracing)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the trace");
    *tracing = (struct tracing){.rank = rank,
                                .signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK),
                                .track = trace_claim("main"),
                                .start_ns = clock_now_ns()};
    *ret_tracing = tracing;
    trace_use(tracing->track);
    if (!path)
        return STATUS_OK;
    name_file(&tracing->path, path, rank);
    enum status status = file_check_writable(tracing->path.data, err);
    if (status == STATUS_OK)
        trace_start();
    return status;
}

static void write_trace(const struct tracing *tracing, const char *path, uint64_t since_ns)
{
    struct error error;
    char name[32];
    snprintf(name, sizeof name, "penstock reader %d", tracing->rank);
    if (trace_write(path, name, FIRST_PID + (uint64_t)tracing->rank, since_ns, &error) != STATUS_OK)
        fprintf(stderr, "penstock-reader: warning: %s\n", error.message);
}

static void end_call(struct tracing *tracing, const char *run_dir)
{
    struct text path = {0};
    text_append(&path, "%s/reader-%d.trace", run_dir, tracing->rank);
    write_trace(tracing, path.data, tracing->called_ns);
    text_done(&path);
    tracing->called = false;
    if (tracing->path.data)
        trace_start();
}

void tracing_keep(struct tracing *tracing, uint64_t now_ns, const char *run_dir)
{
    struct signalfd_siginfo info;
    if (now_ns - tracing->looked_ns < period_ns)
        return;
    tracing->looked_ns = now_ns;
    if (read(tracing->signal_fd, &info, sizeof info) != sizeof info)
        return;
    bool says = info.ssi_code == SI_QUEUE;
    bool begins = says ? info.ssi_int == TRACE_CALL_BEGIN : !tracing->called;
    if (begins) {
        tracing->called = true;
        tracing->called_ns = now_ns;
        trace_start();
    } else if (tracing->called) {
        end_call(tracing, run_dir);
    }
}

void tracing_end(struct tracing *tracing)
{
    if (!tracing)
        return;
    if (tracing->path.data && trace_on())
        write_trace(tracing, tracing->path.data, tracing->start_ns);
    trace_use(NULL);
    trace_release(tracing->track);
    if (tracing->signal_fd >= 0)
        close(tracing->signal_fd);
    text_done(&tracing->path);
    free(tracing);
}
