/* See process.h. */
#include "transform/process.h"

#include "base/clock.h"
#include "base/spawn.h"
#include "delivery/ring/fdpass.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { CHILD_SOCKET = 3 };

/* Libraries of the user's program would start a thread for each core, in each process. */
static const char *const quiet_variables[] = {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
                                              "MKL_NUM_THREADS=1"};
enum { QUIET = sizeof quiet_variables / sizeof quiet_variables[0] };

static bool has_variable(char *const *environment, const char *assignment)
{
    size_t length = strcspn(assignment, "=") + 1;
    for (; *environment; environment++)
        if (strncmp(*environment, assignment, length) == 0)
            return true;
    return false;
}

/* The caller frees the array, not its texts. */
static char **child_environment(char *const *given)
{
    static char socket_variable[] = BOARD_SOCKET_VARIABLE "=3";
    size_t count = 0, at = 0;
    while (given[count])
        count++;
    char **entries = calloc(count + QUIET + 2, sizeof *entries);
    if (!entries)
        return NULL;
    for (size_t i = 0; i < count; i++)
        entries[at++] = given[i];
    for (size_t i = 0; i < QUIET; i++)
        if (!has_variable(given, quiet_variables[i]))
            entries[at++] = (char *)(uintptr_t)quiet_variables[i];
    entries[at] = socket_variable;
    return entries;
}

/* The words of the child; the caller frees the array, not its texts. */
static char **child_words(const struct transform_command *command)
{
    static char sh[] = "/bin/sh", option[] = "-c";
    size_t count = 0;
    while (command->through && command->through[count])
        count++;
    char **words = calloc(count + 4, sizeof *words);
    if (!words)
        return NULL;
    for (size_t i = 0; i < count; i++)
        words[i] = command->through[i];
    words[count] = sh;
    words[count + 1] = option;
    words[count + 2] = (char *)(uintptr_t)command->text;
    return words;
}

enum status transform_process_start(const struct transform_command *command,
                                    struct transform_process *ret_process, struct error *err)
{
    int ends[2];
    pid_t pid = 0;
    char **environment =
        child_environment(command->environment ? command->environment : (char *const *)environ);
    char **words = child_words(command);
    if (!environment || !words) {
        free(environment);
        free(words);
        return error_set(err, STATUS_NO_MEMORY, "no memory to start a transform");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        free(environment);
        free(words);
        return error_set_errno(err, STATUS_IO, "make a socket for a transform");
    }
    int failure = spawn_program(words[0], words, environment, ends[1], CHILD_SOCKET, &pid);
    free(environment);
    free(words);
    close(ends[1]);
    if (failure) {
        close(ends[0]);
        errno = failure;
        return error_set_errno(err, STATUS_IO, "start the transform '%s'", command->text);
    }
    *ret_process = (struct transform_process){.pid = pid, .socket = ends[0]};
    return STATUS_OK;
}

bool transform_process_has_ended(struct transform_process *process)
{
    if (process->pid <= 0 || process->ended)
        return process->ended;
    pid_t found = waitpid(process->pid, &process->status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR))
        return false;
    if (found < 0)
        process->status = ENDING_UNKNOWN;
    process->ended = true;
    return true;
}

bool transform_process_was_killed(const struct transform_process *process)
{
    int status = process->status;
    return process->ended &&
           (status == ENDING_UNKNOWN || WIFSIGNALED(status) || WEXITSTATUS(status) > 128);
}

struct transform_ending transform_ending(int status)
{
    static const char *const texts[] = {"ended", "hung", "has closed its socket",
                                        "reads no messages"};
    struct transform_ending ending;
    char *text = ending.text;
    const size_t size = sizeof ending.text;
    if (status < 0)
        snprintf(text, size, "%s", texts[ENDING_UNKNOWN - status]);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 127)
        snprintf(text, size, "ended with exit code 127: the shell found no such command");
    else
        snprintf(text, size, "ended with exit code %d", WEXITSTATUS(status));
    return ending;
}

void transform_process_kill(struct transform_process *process)
{
    fd_close(&process->socket);
    if (process->pid > 0)
        kill(-process->pid, SIGKILL); /* also what it may have left */
}

void transform_process_stop(struct transform_process *process, uint32_t patience_ms)
{
    const uint64_t ms_ns = 1000000, start_ns = clock_now_ns();
    fd_close(&process->socket);
    if (process->pid <= 0)
        return;
    while (!transform_process_has_ended(process) && clock_now_ns() - start_ns < patience_ms * ms_ns)
        clock_sleep_ns(ms_ns);
    transform_process_kill(process);
    while (!transform_process_has_ended(process))
        clock_sleep_ns(ms_ns);
    *process = (struct transform_process){.socket = -1};
}
