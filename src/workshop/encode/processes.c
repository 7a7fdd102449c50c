/* See processes.h. */
#include "workshop/encode/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Variables that a trainer of this service has, and that others may have set for this process. */
static const char *const own_names[] = {
    "PENSTOCK_RUN_DIR", "PENSTOCK_READER", "PENSTOCK_STATE",   "PENSTOCK_CURSORS", "RANK",
    "WORLD_SIZE",       "LOCAL_RANK",      "LOCAL_WORLD_SIZE",
};
enum { OWN_NAMES = sizeof own_names / sizeof own_names[0], OWN_SET = 5 };

static bool is_own(const char *entry)
{
    for (size_t i = 0; i < OWN_NAMES; i++)
        if (strncmp(entry, own_names[i], strlen(own_names[i])) == 0 &&
            entry[strlen(own_names[i])] == '=')
            return true;
    return false;
}

/* The environment of the process: entries of `own` and of this process's, in an array that is the
 * caller's to free. */
static char **make_environment(char own[OWN_SET][320], const char *run_dir, uint32_t rank,
                               uint32_t count)
{
    size_t length = 0, at = 0;
    while (environ[length])
        length++;
    char **entries = calloc(length + OWN_SET + 1, sizeof *entries);
    if (!entries)
        return NULL;
    for (size_t i = 0; i < length; i++)
        if (!is_own(environ[i]))
            entries[at++] = environ[i];
    snprintf(own[0], sizeof own[0], "PENSTOCK_RUN_DIR=%s", run_dir);
    snprintf(own[1], sizeof own[1], "RANK=%u", rank);
    snprintf(own[2], sizeof own[2], "WORLD_SIZE=%u", count);
    snprintf(own[3], sizeof own[3], "LOCAL_RANK=%u", rank);
    snprintf(own[4], sizeof own[4], "LOCAL_WORLD_SIZE=%u", count);
    for (int i = 0; i < OWN_SET; i++)
        entries[at++] = own[i];
    return entries;
}

/* Starting
 * ------------------------------------------------------------------------------------------- */

/* Between fork and exec of a process with threads, as what calls it: system calls alone. */
static void become(const char *words[], char **environment, int input)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (input >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        execve("/bin/sh", (char **)(uintptr_t)words, environment);
    _exit(127);
}

/* The keeper
 * ------------------------------------------------------------------------------------------- */

/* Reads process groups until the last writer is gone. */
static const char keeper_script[] =
    "while read -r group; do all=\"$all -$group\"; done\n"
    "[ -z \"$all\" ] || { kill -s TERM -- $all; sleep 1; kill -s KILL -- $all; }\n"
    "rm -rf -- \"$0\"\n";

enum status keeper_start(const char *folder, struct keeper *ret_keeper, struct error *err)
{
    const char *words[] = {"sh", "-c", keeper_script, folder, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, STATUS_IO, "make a pipe for encoders");
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        setsid(); /* what ends this process by its terminal or its group leaves the keeper */
        dup2(null, STDERR_FILENO);
        become(words, environ, ends[0]);
    }
    int number = errno;
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        errno = number;
        return error_set_errno(err, STATUS_IO, "start what ends encoders");
    }
    *ret_keeper = (struct keeper){.pid = pid, .pipe = ends[1]};
    return STATUS_OK;
}

void keeper_dismiss(struct keeper *keeper)
{
    if (keeper->pid <= 0)
        return;
    kill(keeper->pid, SIGKILL);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(keeper->pipe);
    *keeper = (struct keeper){0};
}

/* By the process itself, before there is anything to end: whoever dies when, the keeper knows. */
static void tell_keeper(const struct keeper *keeper)
{
    char line[16];
    int length = snprintf(line, sizeof line, "%d\n", (int)getpid());
    if (write(keeper->pipe, line, (size_t)length) != length)
        _exit(127);
}

/* Processes
 * ------------------------------------------------------------------------------------------- */

enum status process_start(const struct keeper *keeper, const char *command, const char *run_dir,
                          uint32_t rank, uint32_t count, struct process *ret_process,
                          struct error *err)
{
    const char *words[] = {"sh", "-c", command, NULL};
    char own[OWN_SET][320];
    char **environment = make_environment(own, run_dir, rank, count);
    if (!environment)
        return error_set(err, STATUS_NO_MEMORY, "no memory for an encoder's environment");
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        tell_keeper(keeper);
        become(words, environment, open("/dev/null", O_RDONLY));
    }
    int number = errno;
    free(environment);
    errno = number;
    if (pid < 0)
        return error_set_errno(err, STATUS_IO, "start encoder %u", rank);
    setpgid(pid, pid); /* the child may not have come to it */
    *ret_process = (struct process){.pid = pid};
    return STATUS_OK;
}

/* The process stays a zombie, so that its number is nobody else's until process_reap(). */
bool process_has_ended(struct process *process)
{
    siginfo_t info = {0};
    if (process->pid <= 0 || process->ended)
        return process->pid > 0;
    if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid != process->pid)
        return false;
    process->ended = true;
    process->killed = info.si_code != CLD_EXITED;
    process->outcome = info.si_status;
    return true;
}

const char *process_ending(const struct process *process)
{
    static _Thread_local char text[96];
    int outcome = process->outcome;
    if (process->killed)
        snprintf(text, sizeof text, "was killed by signal %d (%s)", outcome, strsignal(outcome));
    else if (outcome == 127)
        snprintf(text, sizeof text, "ended with exit code 127: the shell found no such command");
    else
        snprintf(text, sizeof text, "ended with exit code %d", outcome);
    return text;
}

void process_signal(const struct process *process, int number)
{
    if (process->pid > 0)
        kill(-process->pid, number);
}

void process_reap(struct process *process)
{
    if (process->pid <= 0)
        return;
    process_signal(process, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *process = (struct process){0};
}
