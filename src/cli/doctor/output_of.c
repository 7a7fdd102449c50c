/* See output_of.h. */
#include "cli/doctor/output_of.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* `penstock doctor` of 60,000 nodes, with 4 KiB each, is kept whole. */
enum { MOST_BYTES = 256 << 20, POLL_MS = 50 };

static const int endings[] = {SIGHUP, SIGINT, SIGTERM};
enum { ENDING_COUNT = sizeof endings / sizeof endings[0] };

/* The program that runs, for end_child(). Set while the signals are blocked. */
static pid_t running;

/* What the terminal sends does not reach the program's group. It gets SIGTERM, which shells pass on
 * to what they have started in the background, where they ignore SIGINT. */
static void end_child(int number)
{
    kill(-running, SIGTERM);
    raise(number); /* SA_RESETHAND: ends this process when the handler returns */
}

/* Leaves what is ignored ignored. */
static void catch_endings(struct sigaction before[ENDING_COUNT])
{
    const struct sigaction ours = {.sa_handler = end_child, .sa_flags = SA_RESETHAND};
    for (int i = 0; i < ENDING_COUNT; i++) {
        sigaction(endings[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(endings[i], &ours, NULL);
    }
}

static void restore_endings(const struct sigaction before[ENDING_COUNT])
{
    for (int i = 0; i < ENDING_COUNT; i++)
        sigaction(endings[i], &before[i], NULL);
}

static void run_child(const char *const *words, int output)
{
    int input = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    if (input < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(127);
    execvp(words[0], (char *const *)words);
    _exit(127);
}

/* False: the end of the output. */
static bool take_output(int fd, struct text *output)
{
    char bytes[4096];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0 && output->length + (size_t)got < MOST_BYTES)
        text_append_bytes(output, bytes, (size_t)got);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static int exit_code_of(int outcome)
{
    return WIFSIGNALED(outcome) ? 128 + WTERMSIG(outcome) : WEXITSTATUS(outcome);
}

/* The program ends when it has exited, although others that it has started may hold the pipe. */
static int follow(pid_t child, int fd, unsigned timeout_s, struct text *output)
{
    const uint64_t end_ns = clock_now_ns() + timeout_s * UINT64_C(1000000000);
    int outcome = 0;
    bool open = true;
    while (waitpid(child, &outcome, WNOHANG) == 0) {
        struct pollfd ready = {.fd = open ? fd : -1, .events = POLLIN};
        if (poll(&ready, 1, POLL_MS) > 0)
            open = take_output(fd, output);
        if (clock_now_ns() < end_ns)
            continue;
        kill(-child, SIGKILL);
        waitpid(child, &outcome, 0);
        return OUTPUT_TIMEOUT;
    }
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (open && poll(&ready, 1, 0) > 0 && take_output(fd, output)) {
    }
    return exit_code_of(outcome);
}

/* Signals that end this process wait until its child has a group of its own, which they can end. */
static pid_t start_child(const char *const *words, int output,
                         struct sigaction before[ENDING_COUNT])
{
    sigset_t all, mask;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    running = fork();
    if (running == 0) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
        run_child(words, output);
    }
    if (running > 0) {
        setpgid(running, running); /* the child may not have come to it */
        catch_endings(before);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return running;
}

int output_of(const char *const *words, unsigned timeout_s, struct text *output)
{
    struct sigaction before[ENDING_COUNT];
    int ends[2];
    text_append_bytes(output, "", 0); /* never NULL */
    if (pipe2(ends, O_CLOEXEC) < 0)
        return OUTPUT_NOT_STARTED;
    pid_t child = start_child(words, ends[1], before);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    int code = child > 0 ? follow(child, ends[0], timeout_s, output) : OUTPUT_NOT_STARTED;
    if (child > 0)
        restore_endings(before);
    close(ends[0]);
    return code;
}

void output_line_after(const char *text, const char *start, char *ret_line, size_t size)
{
    const char *found = strstr(text, start);
    ret_line[0] = '\0';
    if (found)
        snprintf(ret_line, size, "%.*s", (int)strcspn(found + strlen(start), "\n"),
                 found + strlen(start));
}

static bool is_error(const char *line, size_t length)
{
    static const char mark[] = ": error: ";
    return strncmp(line, "penstock-", strlen("penstock-")) == 0 &&
           memmem(line, length, mark, sizeof mark - 1);
}

/* Adds a line to what is there, with single spaces between words. */
static void join_words(const char *line, size_t length, char *joined, size_t size)
{
    size_t used = strlen(joined);
    bool space = used > 0;
    for (size_t i = 0; i < length && used + 2 < size; i++) {
        if (line[i] == ' ' || line[i] == '\t') {
            space = used > 0;
            continue;
        }
        if (space)
            joined[used++] = ' ';
        space = false;
        joined[used++] = line[i];
    }
    joined[used] = '\0';
}

void output_cause(const char *text, char *ret_line, size_t size)
{
    enum { BEFORE, WITHIN, BEHIND } block = BEFORE;
    bool error = false, blocked = false;
    ret_line[0] = '\0';
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");
        bool dashes = length > 40 && strspn(at, "-") == length;
        bool says = length > 0 && at[0] != '-' && strspn(at, " ") < length;
        if (is_error(at, length)) {
            snprintf(ret_line, size, "%.*s", (int)length, at);
            error = true;
        } else if (dashes) {
            block = block == BEFORE ? WITHIN : BEHIND;
        } else if (says && !error && block == WITHIN) {
            if (!blocked)
                ret_line[0] = '\0';
            blocked = true;
            join_words(at, length, ret_line, size);
        } else if (says && !error && !blocked) {
            snprintf(ret_line, size, "%.*s", (int)length, at);
        }
        at += length + (at[length] == '\n');
    }
}
