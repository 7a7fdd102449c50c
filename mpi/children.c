/* See children.h. A child is started through our own program once more (--exec-trainer): the
 * parent-death signal can only be asked for by the child itself, posix_spawn() has no affinity, and
 * fork() is no choice in a process with MPI and threads. */
#include "children.h"

#include "base/clock.h"
#include "user_path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ADDED_VARIABLES = 9, VARIABLE_BYTES = 512, PATH_BYTES = 4096 };
enum { ARGUMENT_PARENT = 2, ARGUMENT_CPUSET, ARGUMENT_COMMAND }; /* of --exec-trainer */

struct child {
    pid_t pid;         /* 0 once reaped */
    pid_t group;       /* that it led and left, and that is being ended; 0: none */
    uint64_t ended_ns; /* when it was reaped */
    uint32_t rank;
    uint64_t restarts_left;
    bool said_failure; /* its trainer did */
    bool failed;       /* and not started again */
    struct error end;  /* of one that failed */
};

struct children {
    struct children_options options;
    uint32_t count; /* started so far */
    struct child child[];
};

static bool belongs_to_launcher(const char *variable)
{
    static const char *const prefixes[] = {"OMPI_",           "PMIX_",        "PMI_",
                                           "PRTE_",           "MPIR_",        "HYDRA_",
                                           "HYDI_",           "MPI_LOCAL",    "RANK=",
                                           "WORLD_SIZE=",     "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=",
                                           "MASTER_ADDR=",    "MASTER_PORT=", "PENSTOCK_RUN_DIR=",
                                           "PENSTOCK_READER="};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* The inherited environment without the launcher's variables, with room for ours behind it. */
static char **child_environment(size_t *ret_count)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **variables = calloc(count + ADDED_VARIABLES + 1, sizeof *variables);
    if (!variables)
        return NULL;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!belongs_to_launcher(environ[i]))
            variables[kept++] = environ[i];
    *ret_count = kept;
    return variables;
}

static void describe_child(const struct children_options *options, uint32_t index,
                           char text[ADDED_VARIABLES][VARIABLE_BYTES])
{
    snprintf(text[0], VARIABLE_BYTES, "RANK=%u", options->first_rank + index);
    snprintf(text[1], VARIABLE_BYTES, "WORLD_SIZE=%u", options->world_size);
    snprintf(text[2], VARIABLE_BYTES, "LOCAL_RANK=%u", options->first_local_rank + index);
    snprintf(text[3], VARIABLE_BYTES, "LOCAL_WORLD_SIZE=%u", options->local_world_size);
    snprintf(text[4], VARIABLE_BYTES, "MASTER_ADDR=%s", options->master_addr);
    snprintf(text[5], VARIABLE_BYTES, "MASTER_PORT=%u", options->master_port);
    snprintf(text[6], VARIABLE_BYTES, "PENSTOCK_RUN_DIR=%s", options->run_dir);
    snprintf(text[7], VARIABLE_BYTES, "PENSTOCK_READER=%u", options->reader);
}

/* The library that was installed or built with this program, for trainers that load it by name.
 * False if there is none, or the environment names one. */
static bool find_library(char ret_variable[VARIABLE_BYTES])
{
    char program[VARIABLE_BYTES - 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0 || getenv("PENSTOCK_LIBRARY"))
        return false;
    program[length] = '\0';
    snprintf(ret_variable, VARIABLE_BYTES, "PENSTOCK_LIBRARY=%s/../lib/libpenstock.so.0",
             dirname(program));
    return access(strchr(ret_variable, '=') + 1, R_OK) == 0;
}

static int spawn(char *const *arguments, char *const *environment, pid_t *ret_pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int failure =
        posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failure;
}

static char **child_arguments(char *const *command)
{
    size_t count = 0;
    while (command[count])
        count++;
    char **arguments = calloc(count + ARGUMENT_COMMAND + 1, sizeof *arguments);
    if (!arguments)
        return NULL;
    arguments[0] = "penstock-reader";
    arguments[1] = "--exec-trainer";
    memcpy(arguments + ARGUMENT_COMMAND, command, count * sizeof *arguments);
    return arguments;
}

/* Whether `program` can be executed, as execvp() would find it. */
static bool program_exists(const char *program)
{
    if (strchr(program, '/'))
        return access(program, X_OK) == 0;
    const char *path = getenv("PATH");
    for (const char *start = path ? path : "/usr/bin:/bin"; *start;) {
        size_t length = strcspn(start, ":");
        char candidate[PATH_BYTES];
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, start, program);
        if (access(candidate, X_OK) == 0)
            return true;
        start += length + (start[length] == ':');
    }
    return false;
}

/* Starts the child of that index. */
static enum status start_child(const struct children *children, uint32_t index, char **arguments,
                               char **environment, size_t inherited, pid_t *ret_pid,
                               struct error *err)
{
    const struct children_options *options = &children->options;
    char added[ADDED_VARIABLES][VARIABLE_BYTES];
    struct text cpus = {0};
    char parent[24];
    for (size_t i = 0; i < ADDED_VARIABLES; i++)
        environment[inherited + i] = added[i];
    if (!find_library(added[ADDED_VARIABLES - 1]))
        environment[inherited + ADDED_VARIABLES - 1] = NULL;
    if (index < options->seat_count)
        cpuset_print(&options->seats[index].cpuset, &cpus);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    arguments[ARGUMENT_PARENT] = parent;
    arguments[ARGUMENT_CPUSET] = cpus.data ? cpus.data : "";
    describe_child(options, index, added);
    int failure = spawn(arguments, environment, ret_pid);
    text_done(&cpus);
    if (failure) {
        errno = failure;
        return error_set_errno(err, STATUS_IO, "start trainer %u ('%s')",
                               options->first_rank + index, options->command[0]);
    }
    return STATUS_OK;
}

/* Starts children [first, end). */
static enum status start_children(struct children *children, uint32_t first, uint32_t end,
                                  struct error *err)
{
    const struct children_options *options = &children->options;
    if (!program_exists(options->command[0]))
        return error_set(err, STATUS_NOT_FOUND,
                         "trainer program '%s' is not there or not executable",
                         options->command[0]);
    size_t inherited = 0;
    char **environment = child_environment(&inherited);
    char **arguments = child_arguments(options->command);
    enum status status = STATUS_OK;
    if (!environment || !arguments)
        status = error_set(err, STATUS_NO_MEMORY, "no memory to start trainers");
    for (uint32_t i = first; i < end && status == STATUS_OK; i++) {
        status = start_child(children, i, arguments, environment, inherited,
                             &children->child[i].pid, err);
        if (status == STATUS_OK && i == children->count)
            children->count++;
    }
    free(arguments);
    free(environment);
    return status;
}

enum status children_start(const struct children_options *options, struct children **ret_children,
                           struct error *err)
{
    struct children *children = calloc(1, sizeof *children + options->count * sizeof(struct child));
    if (!children)
        return error_set(err, STATUS_NO_MEMORY, "no memory to start trainers");
    children->options = *options;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what children leave comes to us, whoever is process 1 */
    for (uint32_t i = 0; i < options->count; i++)
        children->child[i] =
            (struct child){.rank = options->first_rank + i, .restarts_left = options->restarts};
    enum status status = start_children(children, 0, options->count, err);
    if (status == STATUS_OK) {
        *ret_children = children;
    } else {
        children_stop(children);
        children_free(children);
    }
    return status;
}

void children_note(struct children *children, uint32_t rank, bool failed)
{
    uint32_t first = children->options.first_rank;
    if (rank >= first && rank - first < children->count)
        children->child[rank - first].said_failure = failed;
}

bool children_may_restart(const struct children *children)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->child[i].failed && children->child[i].restarts_left == 0)
            return false;
    return true;
}

bool children_failed(const struct children *children)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->child[i].failed)
            return true;
    return false;
}

enum status children_restart(struct children *children, bool *ret_restarted, uint32_t *ret_rank,
                             struct error *err)
{
    *ret_restarted = false;
    for (uint32_t i = 0; i < children->count; i++) {
        struct child *child = &children->child[i];
        if (!child->failed)
            continue;
        if (child->restarts_left == 0) {
            if (err)
                *err = child->end;
            return STATUS_LOST;
        }
        if (child->group)
            continue;
        enum status status = start_children(children, i, i + 1, err);
        if (status != STATUS_OK)
            return status;
        child->restarts_left--;
        child->failed = child->said_failure = false;
        *ret_rank = child->rank;
        *ret_restarted = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status describe_end(const struct child *child, pid_t pid, bool connected,
                                int wait_status, struct error *err)
{
    bool zero = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    if (zero && child->said_failure)
        return error_set(err, STATUS_LOST,
                         "trainer %u (pid %d) said that it failed, and ended with exit code 0",
                         child->rank, (int)pid);
    if (zero && connected)
        return STATUS_OK;
    if (zero)
        return error_set(err, STATUS_LOST,
                         "trainer %u (pid %d) ended with exit code 0 before all trainers were "
                         "connected: does it call penstock_connect()?",
                         child->rank, (int)pid);
    if (WIFSIGNALED(wait_status))
        return error_set(err, STATUS_LOST, "trainer %u (pid %d) was killed by signal %d (%s)",
                         child->rank, (int)pid, WTERMSIG(wait_status),
                         strsignal(WTERMSIG(wait_status)));
    return error_set(err, STATUS_LOST, "trainer %u (pid %d) ended with exit code %d", child->rank,
                     (int)pid, WEXITSTATUS(wait_status));
}

/* Asks what a child has left in its group to end; once is not enough where the grace is over. What
 * SIGKILL does not end soon hangs in the kernel. */
static void end_group(const struct children *children, struct child *child)
{
    const uint64_t ms_ns = 1000000, last_ms = CHILDREN_LAST_S * 1000;
    uint64_t passed_ms = (clock_now_ns() - child->ended_ns) / ms_ns;
    while (waitpid(-child->group, NULL, WNOHANG) > 0)
        continue; /* what is dead but not reaped still counts */
    int signal_number = passed_ms < children->options.grace_ms ? 0 : SIGKILL;
    if (kill(-child->group, signal_number) < 0 || passed_ms > children->options.grace_ms + last_ms)
        child->group = 0;
}

/* One has been reaped. */
static void note_end(struct child *child)
{
    child->ended_ns = clock_now_ns();
    child->group = kill(-child->pid, SIGTERM) == 0 ? child->pid : 0;
    child->pid = 0;
}

static bool is_known(const struct children *children, pid_t pid)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->child[i].pid == pid)
            return true;
    return false;
}

/* What children leave outside their groups comes to us, too: reaps such as have ended. */
static void reap_strangers(const struct children *children)
{
    siginfo_t ended = {0};
    while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0 &&
           !is_known(children, ended.si_pid)) {
        waitpid(ended.si_pid, NULL, WNOHANG);
        ended.si_pid = 0;
    }
}

enum status children_poll(struct children *children, bool connected, uint32_t *ret_running,
                          struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t running = 0;
    for (uint32_t i = 0; i < children->count; i++) {
        struct child *child = &children->child[i];
        int wait_status;
        if (child->group)
            end_group(children, child);
        running += child->group != 0;
        if (child->pid == 0)
            continue;
        /* After a failure the rest is only counted: it is reaped, and reported, by the next call.
         */
        if (status != STATUS_OK || waitpid(child->pid, &wait_status, WNOHANG) != child->pid) {
            running++;
            continue;
        }
        status = describe_end(child, child->pid, connected, wait_status, &child->end);
        child->failed =
            status != STATUS_OK &&
            (child->said_failure || !(WIFEXITED(wait_status) && !WEXITSTATUS(wait_status)));
        note_end(child);
        running += child->group != 0;
        if (status != STATUS_OK && err)
            *err = child->end;
    }
    reap_strangers(children);
    *ret_running = running;
    return status;
}

static void signal_all(const struct children *children, int signal_number)
{
    for (uint32_t i = 0; i < children->count; i++) {
        const struct child *child = &children->child[i];
        pid_t group = child->pid ? child->pid : child->group;
        if (group)
            kill(-group, signal_number);
    }
}

static bool wait_until_gone(struct children *children, uint32_t timeout_ms)
{
    uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        uint32_t running = 0;
        enum status ignored = children_poll(children, true, &running, NULL);
        (void)ignored; /* they are being stopped: how they end does not matter */
        if (running == 0)
            return true;
        if (clock_now_ns() >= deadline)
            return false;
        clock_sleep_ns(2000000);
    }
}

void children_stop(struct children *children)
{
    enum { TERM_MS = 300, KILL_MS = 2000 };
    if (!children || wait_until_gone(children, 0))
        return;
    signal_all(children, SIGTERM);
    if (wait_until_gone(children, TERM_MS))
        return;
    signal_all(children, SIGKILL);
    wait_until_gone(children, KILL_MS);
}

void children_free(struct children *children)
{
    free(children);
}

int children_exec(char *const *arguments)
{
    pid_t parent = (pid_t)strtol(arguments[0], NULL, 10);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return 1;             /* it died before we could ask */
    signal(SIGUSR2, SIG_IGN); /* srun sends it to all of a step; it is meant for the readers */
    char *const *command = arguments + 2;
    struct cpuset seat;
    struct error err;
    if (*arguments[1] && (cpuset_parse(arguments[1], &seat, &err) != STATUS_OK ||
                          topology_bind_self(&seat, &err) != STATUS_OK)) {
        fprintf(stderr, "penstock: start trainer '%s': %s\n", command[0], err.message);
        return 127;
    }
    user_path_restore();
    close_range(STDERR_FILENO + 1, ~0U, 0); /* the launcher's sockets are no business of trainers */
    execvp(command[0], command);
    fprintf(stderr, "penstock: start trainer '%s': %s\n", command[0], strerror(errno));
    return 127;
}
