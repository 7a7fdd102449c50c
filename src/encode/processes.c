/* See processes.h. */
#include "encode/processes.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

/* Between fork and exec of a process with threads: system calls alone. */
static void become(const char *command, char **environment, const sigset_t *mask)
{
    char shell[] = "sh", option[] = "-c";
    char *words[] = {shell, option, (char *)(uintptr_t)command, NULL};
    int input = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (input >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        execve("/bin/sh", words, environment);
    _exit(127);
}

enum status process_start(const char *command, const char *run_dir, uint32_t rank, uint32_t count,
                          struct process *ret_process, struct error *err)
{
    char own[OWN_SET][320];
    sigset_t all, mask;
    char **environment = make_environment(own, run_dir, rank, count);
    if (!environment)
        return error_set(err, STATUS_NO_MEMORY, "no memory for an encoder's environment");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pid_t pid = fork();
    if (pid == 0)
        become(command, environment, &mask);
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    free(environment);
    errno = number;
    if (pid < 0)
        return error_set_errno(err, STATUS_IO, "start encoder %u", rank);
    setpgid(pid, pid); /* the child may not have come to it */
    *ret_process = (struct process){.pid = pid};
    return STATUS_OK;
}

bool process_has_ended(struct process *process)
{
    if (process->pid > 0 && !process->ended)
        process->ended = waitpid(process->pid, &process->outcome, WNOHANG) == process->pid;
    return process->pid > 0 && process->ended;
}

const char *process_ending(const struct process *process)
{
    static _Thread_local char text[96];
    int outcome = process->outcome;
    if (WIFSIGNALED(outcome))
        snprintf(text, sizeof text, "was killed by signal %d (%s)", WTERMSIG(outcome),
                 strsignal(WTERMSIG(outcome)));
    else if (WEXITSTATUS(outcome) == 127)
        snprintf(text, sizeof text, "ended with exit code 127: the shell found no such command");
    else
        snprintf(text, sizeof text, "ended with exit code %d", WEXITSTATUS(outcome));
    return text;
}

static void wait_for(struct process *process, uint64_t patience_ns)
{
    uint64_t end_ns = clock_now_ns() + patience_ns;
    while (!process_has_ended(process) && clock_now_ns() < end_ns)
        clock_sleep_ns(5000000);
}

void process_stop(struct process *process, uint64_t patience_ns)
{
    if (process->pid <= 0)
        return;
    kill(-process->pid, SIGTERM); /* also what a shell that has ended left */
    wait_for(process, patience_ns);
    kill(-process->pid, SIGKILL);
    while (!process_has_ended(process))
        clock_sleep_ns(1000000);
}
