/* penstock-sieve: passes on what launchers and all that they have started print, as it comes, but
 * keeps back what mpirun, mpiexec and srun say themselves when a process fails, and the readers'
 * error. So that error stands last, and once.
 *
 *     penstock-sieve PID [verbose] <words 3<more-words
 *
 * Standard input goes to standard error; descriptor 3, if it is open, to standard output. What was
 * kept back is printed at the end of both, at SIGUSR1, and at a line of one FLUSH: the launchers'
 * words only where nobody else has named a cause. At a line of two FLUSH, of a good run, these are
 * forgotten. Signals that go to all processes of a job are ignored: the last words come after them.
 * When nobody reads standard output or standard error any more, process PID gets SIGPIPE, and what
 * comes is thrown away. The exit code is EXIT_LOST if a launcher has lost a node: Open MPI 5's own
 * code is 0 then.
 *
 * A line is kept back where one of `forms` matches. An object of --log json (mpi/log_json.h) is
 * judged as the line of text that says the same, and goes on as an object. What cannot be told yet,
 * because less than the beginning of a form has come, waits for WAIT_MS: progress bars, prompts and
 * halves of lines pass.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_BYTES = 4096,
    KEPT_BYTES = 65536,
    BLOCK_LINES = 16,
    WAIT_MS = 200,
    INPUTS = 2,
    EXIT_LOST = 3
};

#define FLUSH       "\036"
#define ERROR       "penstock-reader: error: "
#define OBJECT      "{\"program\":\"penstock-"
#define LOST        "PRTE has lost communication with a remote daemon."
#define OPENMPI_END "--------------------------------------------------------------------------"
#define HYDRA_END \
    "==================================================================================="

/* What a line is. */
enum kind {
    OTHERS, /* goes on */
    NAMED,  /* says why the run ends, so that no launcher need to; goes on */
    CAUSE,  /* the readers' error, which ends a run: kept, to be last */
    WORDS,  /* a launcher's own: kept */
    END,    /* begins or ends a block of these, or is somebody's own line of dashes */
    SETTLE, /* print what was kept */
    FORGET, /* launchers' words that were kept */
    UNKNOWN /* too little of it has come */
};

/* Patterns of fnmatch(), for whole lines; the first that matches counts. */
static const struct form {
    enum kind kind;
    const char *pattern;
} forms[] = {{SETTLE, FLUSH},
             {FORGET, FLUSH FLUSH},
             {CAUSE, ERROR "*"},
             {NAMED, "penstock-reader: * by SIG*, in good order, *"},
             {NAMED, "penstock-reader: trainer * closed its connection early, *"},
             {NAMED, "penstock-run: trainer * ended *, after * restarts"},
             {NAMED, "penstock-run: error: *"},
             {OTHERS, "srun: error: *: task*: Out Of Memory*"},
             {OTHERS, "slurmstepd: error: [*][*][*] STEP * DUE TO *"},
             {END, OPENMPI_END},
             {END, HYDRA_END},
             {WORDS, "[[]*] [0-9]* more process* sent help message help-*"},
             {WORDS, "[[]*] Set MCA parameter \"[op]r*te_base_help_aggregate\" *"},
             {WORDS, "[[]*] plm:ssh: Warning: setpgid(*) failed in parent *"},
             {WORDS, "[[]*:mca_btl_tcp_proc_create_interface_graph] *"},
             {WORDS, "Unable to find reachable pairing between local and remote interfaces"},
             {WORDS, "[[]*:[0-9]*] [[][[]*],*] ORTE_ERROR_LOG: *"},
             {WORDS, "[[]*:[0-9]*] PMIX ERROR: *"},
             {WORDS, "mpi*: Forwarding signal * to job"},
             {WORDS, "srun: error: *: task*: *"},
             {WORDS, "srun: error: Timed out waiting for job step to complete*"},
             {WORDS, "srun: launch/slurm: _step_signal: *"},
             {WORDS, "srun: Job step aborted: *"},
             {WORDS, "srun: *Terminating *StepId=*"},
             {WORDS, "slurmstepd: error: [*][*][*] STEP *"},
             {WORDS, "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: *"},
             {WORDS, "This typically refers to a problem with your application."},
             {WORDS, "Please see the FAQ page for debugging suggestions"},
             {WORDS, "[[]mpiexec@*] *"},
             {WORDS, "[[]proxy:*] HYD_pmc*"},
             {WORDS, "[[]proxy:*] HYDT_*"},
             {WORDS, "[[]proxy:*] main (*"}};

/* The first lines of blocks that say no more than that a process has failed. */
static const char *const blocks[] = {"Primary job  terminated normally, but *",
                                     "* detected that one or more processes exited *",
                                     "* noticed that process rank * with PID *",
                                     "* has exited due to process rank *",
                                     "MPI_ABORT was invoked on rank *",
                                     "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES*"};

struct kept {
    char bytes[KEPT_BYTES];
    size_t length;
};

struct input {
    int from, to; /* from: -1 at its end */
    bool passing; /* in the middle of a line that goes on */
    char line[LINE_BYTES + 1];
    size_t length;
    int block_lines; /* since an END line that may begin a block: that many; 0: outside of one */
    struct kept block;
};

static struct {
    pid_t watcher;
    bool verbose, closed, named, lost;
    struct kept words, cause;
} sieve;

static void put(int fd, const char *bytes, size_t size)
{
    while (size > 0 && !sieve.closed) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN) { /* somebody has made the terminal so */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (written < 0) {
            sieve.closed = true;
            kill(sieve.watcher, SIGPIPE);
            return;
        }
        bytes += written;
        size -= (size_t)written;
    }
}

/* False, and nothing is kept, where there is no room. */
static bool keep(struct kept *kept, const char *bytes, size_t size)
{
    if (size > sizeof kept->bytes - kept->length)
        return false;
    memcpy(kept->bytes + kept->length, bytes, size);
    kept->length += size;
    return true;
}

static void put_kept(struct kept *kept, int fd)
{
    put(fd, kept->bytes, kept->length);
    kept->length = 0;
}

static void settle(void)
{
    if (!sieve.named && sieve.cause.length == 0)
        put_kept(&sieve.words, STDERR_FILENO);
    put_kept(&sieve.cause, STDERR_FILENO);
    sieve.words.length = 0;
    sieve.named = false;
}

/* What the object of penstock-reader or penstock-run says as text: "penstock-reader: error:
 * MESSAGE". Escapes within MESSAGE stay. */
static void describe_object(const char *line, char text[LINE_BYTES + 1])
{
    static const char level_key[] = "\"level\":\"", message_key[] = "\"message\":\"";
    const char *level = strstr(line, level_key), *message = strstr(line, message_key);
    level = level ? level + sizeof level_key - 1 : "info";
    message = message ? message + sizeof message_key - 1 : "";
    int level_length = strncmp(level, "info", 4) == 0 ? 0 : (int)strcspn(level, "\"");
    const char *program = line + sizeof "{\"program\":\"" - 1;
    int length = snprintf(text, LINE_BYTES + 1, "%.*s: %.*s%s%s", (int)strcspn(program, "\""),
                          program, level_length, level, level_length ? ": " : "", message);
    if (length >= 2 && length <= LINE_BYTES && strcmp(text + length - 2, "\"}") == 0)
        text[length - 2] = '\0';
}

/* What a line is (whole), or could be that begins like this. */
static enum kind judge(const char *line, bool whole)
{
    static char text[LINE_BYTES + 1];
    if (whole && strncmp(line, OBJECT, strlen(OBJECT)) == 0) {
        describe_object(line, text);
        line = text;
    }
    size_t length = strlen(line);
    size_t shorter = length < strlen(OBJECT) ? length : strlen(OBJECT);
    if (!whole && !sieve.verbose && strncmp(OBJECT, line, shorter) == 0)
        return UNKNOWN;
    for (size_t i = 0; i < (sieve.verbose ? 2 : sizeof forms / sizeof forms[0]); i++) {
        size_t literal = strcspn(forms[i].pattern, "*[");
        if (whole && fnmatch(forms[i].pattern, line, 0) == 0)
            return forms[i].kind;
        if (!whole && strncmp(forms[i].pattern, line, length < literal ? length : literal) == 0)
            return UNKNOWN;
    }
    return OTHERS;
}

static bool begins_block(const char *line)
{
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (fnmatch(blocks[i], line, 0) == 0)
            return true;
    return false;
}

static void keep_words(struct input *input, const char *bytes, size_t size)
{
    if (!keep(&sieve.words, bytes, size))
        put(input->to, bytes, size);
}

/* It was none, or has no end. */
static void give_up_block(struct input *input)
{
    put_kept(&input->block, input->to);
    input->block_lines = 0;
}

static void add_to_block(struct input *input, enum kind kind, const char *line, size_t size)
{
    bool ends = kind == END && input->block_lines > 0;
    keep(&input->block, line, size);
    input->block_lines++;
    if (!ends)
        return;
    keep_words(input, input->block.bytes, input->block.length);
    input->block.length = 0;
    input->block_lines = 0;
}

static void take_line(struct input *input)
{
    char *line = input->line;
    size_t size = input->length + 1;
    line[size - 1] = '\0';
    enum kind kind = judge(line, true);
    sieve.lost |= strcmp(line, LOST) == 0;
    if ((input->block_lines == 1 && !begins_block(line)) || input->block_lines > BLOCK_LINES)
        give_up_block(input);
    line[size - 1] = '\n';
    input->length = 0;
    if (input->block_lines > 0 || kind == END) {
        add_to_block(input, kind, line, size);
    } else if (kind == SETTLE) {
        settle();
    } else if (kind == FORGET) {
        sieve.words.length = 0;
    } else if (kind == CAUSE) {
        put_kept(&sieve.cause, STDERR_FILENO);
        keep(&sieve.cause, line, size);
    } else if (kind == WORDS) {
        keep_words(input, line, size);
    } else {
        sieve.named |= kind == NAMED;
        put(input->to, line, size);
    }
}

/* What has come of a line goes on as it is. */
static void pass(struct input *input)
{
    if (input->block_lines > 0)
        give_up_block(input);
    put(input->to, input->line, input->length);
    input->passing |= input->length > 0;
    input->length = 0;
}

/* How much of what comes belongs to a line that goes on: a progress bar may stand before the
 * readers' error, and before FLUSH, in the same line. */
static size_t before_own_line(const char *bytes, size_t size)
{
    static const char *const beginnings[] = {ERROR, OBJECT, FLUSH};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        const char *own = memmem(bytes, size, beginnings[i], strlen(beginnings[i]));
        if (own)
            return (size_t)(own - bytes);
    }
    return size;
}

static void take_bytes(struct input *input, const char *bytes, size_t size)
{
    while (size > 0) {
        /* Open MPI 5 writes one behind a block. */
        if (*bytes == '\0' && !input->passing && input->length == 0) {
            bytes++;
            size--;
            continue;
        }
        const char *newline = memchr(bytes, '\n', size);
        size_t piece = newline ? (size_t)(newline - bytes) : size;
        size_t before = input->passing ? before_own_line(bytes, piece) : piece;
        if (before < piece) {
            put(input->to, bytes, before);
            put(input->to, "\n", 1);
            newline = NULL;
            input->passing = false;
            piece = before;
        } else if (input->passing) {
            put(input->to, bytes, piece + (newline != NULL));
        } else {
            size_t room = LINE_BYTES - input->length;
            bool fits = piece <= room;
            memcpy(input->line + input->length, bytes, fits ? piece : room);
            input->length += fits ? piece : room;
            input->line[input->length] = '\0';
            if (!fits) {
                pass(input);
                bytes += room;
                size -= room;
                continue;
            }
            if (newline)
                take_line(input);
            else if (input->block_lines == 0 && judge(input->line, false) == OTHERS)
                pass(input);
        }
        if (newline)
            input->passing = false;
        bytes += piece + (newline != NULL);
        size -= piece + (newline != NULL);
    }
}

/* True while something of it may come. */
static bool read_input(struct input *input)
{
    char bytes[16384];
    ssize_t count = read(input->from, bytes, sizeof bytes);
    if (count > 0)
        take_bytes(input, bytes, (size_t)count);
    else if (count == 0 || errno != EINTR)
        input->from = -1;
    return input->from >= 0;
}

static bool waits(const struct input *input)
{
    return input->from >= 0 && (input->length > 0 || input->block_lines == 1);
}

static volatile sig_atomic_t ended;

static void end(int signal_number)
{
    (void)signal_number;
    ended = 1;
}

static void run(struct input inputs[INPUTS])
{
    sigset_t none;
    sigemptyset(&none);
    while (!ended && (inputs[0].from >= 0 || inputs[1].from >= 0)) {
        bool open = !sieve.closed;
        struct pollfd fds[] = {{.fd = inputs[0].from, .events = POLLIN},
                               {.fd = inputs[1].from, .events = POLLIN},
                               {.fd = open ? STDOUT_FILENO : -1},
                               {.fd = open ? STDERR_FILENO : -1}};
        const struct timespec wait = {.tv_nsec = WAIT_MS * 1000000L};
        bool limited = waits(&inputs[0]) || waits(&inputs[1]);
        int ready = ppoll(fds, 4, limited ? &wait : NULL, &none);
        for (int i = 0; i < INPUTS; i++)
            if (ready == 0 && waits(&inputs[i]))
                pass(&inputs[i]);
            else if (ready > 0 && fds[i].revents)
                read_input(&inputs[i]);
        if (ready > 0 && open &&
            (fds[2].revents || fds[3].revents)) { /* no events: an error, or a peer that is gone */
            sieve.closed = true;
            kill(sieve.watcher, SIGPIPE);
        }
    }
}

int main(int argc, char **argv)
{
    static struct input inputs[INPUTS] = {{.from = STDIN_FILENO, .to = STDERR_FILENO},
                                          {.from = 3, .to = STDOUT_FILENO}};
    if (argc < 2) {
        fprintf(stderr, "%s is for penstock-run itself\n", argv[0]);
        return 1;
    }
    sieve.watcher = (pid_t)strtol(argv[1], NULL, 10);
    sieve.verbose = argc > 2 && strcmp(argv[2], "verbose") == 0;
    const int ignored[] = {SIGPIPE, SIGINT, SIGHUP, SIGQUIT, SIGTERM};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    sigset_t blocked; /* but in ppoll() */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = end}, NULL);
    if (fcntl(inputs[1].from, F_GETFD) < 0)
        inputs[1].from = -1;
    run(inputs);
    for (int i = 0; i < INPUTS; i++) {
        if (inputs[i].block_lines > 1) {
            keep_words(&inputs[i], inputs[i].block.bytes, inputs[i].block.length);
            inputs[i].block.length = 0;
            inputs[i].block_lines = 0;
        }
        pass(&inputs[i]);
    }
    settle();
    return sieve.lost ? EXIT_LOST : 0;
}
