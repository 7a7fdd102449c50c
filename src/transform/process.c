/* See process.h. A process with MPI and threads must not fork(), and posix_spawn() cannot set an
 * affinity: this thread takes the child's for a moment. */
#include "transform/process.h"

#include "base/clock.h"
#include "base/spawn.h"
#include "delivery/ring/fdpass.h"
#include "topology/topology.h"

#include <errno.h>
#include <sched.h>
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

/* Where the child may run. Failures leave it where this thread may. */
static int spawn_on(const struct transform_command *command, char *const *environment, int socket,
                    pid_t *ret_pid)
{
    cpu_set_t *own = CPU_ALLOC(CPUSET_MAX_CPUS);
    size_t size = CPU_ALLOC_SIZE(CPUSET_MAX_CPUS);
    struct error ignored;
    bool moved = command->cpus && own && sched_getaffinity(0, size, own) == 0 &&
                 topology_bind_self(command->cpus, &ignored) == STATUS_OK;
    char *const words[] = {"sh", "-c", (char *)(uintptr_t)command->text, NULL};
    int failure = spawn_program("/bin/sh", words, environment, socket, CHILD_SOCKET, ret_pid);
    if (moved)
        (void)sched_setaffinity(0, size, own);
    CPU_FREE(own);
    return failure;
}

enum status transform_process_start(const struct transform_command *command,
                                    struct transform_process *ret_process, struct error *err)
{
    int ends[2];
    pid_t pid = 0;
    char **environment =
        child_environment(command->environment ? command->environment : (char *const *)environ);
    if (!environment)
        return error_set(err, STATUS_NO_MEMORY, "no memory to start a transform");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        free(environment);
        return error_set_errno(err, STATUS_IO, "make a socket for a transform");
    }
    int failure = spawn_on(command, environment, ends[1], &pid);
    free(environment);
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
        process->status = -1;
    process->ended = true;
    return true;
}

bool transform_process_was_killed(const struct transform_process *process)
{
    int status = process->status;
    return process->ended && (status == -1 || WIFSIGNALED(status) || WEXITSTATUS(status) > 128);
}

const char *transform_process_ending(const struct transform_process *process)
{
    static char text[96];
    int status = process->status;
    if (status == -1)
        snprintf(text, sizeof text, "ended");
    else if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 127)
        snprintf(text, sizeof text, "ended with exit code 127: the shell found no such command");
    else
        snprintf(text, sizeof text, "ended with exit code %d", WEXITSTATUS(status));
    return text;
}

void transform_process_stop(struct transform_process *process, uint32_t patience_ms)
{
    const uint64_t ms_ns = 1000000, start_ns = clock_now_ns();
    fd_close(&process->socket);
    if (process->pid <= 0)
        return;
    while (!transform_process_has_ended(process) && clock_now_ns() - start_ns < patience_ms * ms_ns)
        clock_sleep_ns(ms_ns);
    kill(-process->pid, SIGKILL); /* also what it may have left */
    while (!transform_process_has_ended(process))
        clock_sleep_ns(ms_ns);
    *process = (struct transform_process){.socket = -1};
}
