/* See spawner.h. posix_spawn() cannot set a child's affinity, and a process with MPI and threads
 * must not fork(). So penstock-reader itself, as --exec-trainer, runs between reader and trainer.
 */
#include "trainers/spawner.h"

#include "base/spawn.h"
#include "trainers/user_path.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

enum { ADDED_VARIABLES = 9, VARIABLE_BYTES = 512, PATH_BYTES = 4096 };
enum { KERNELS_SLACK_NS = 50000 };
enum { ARGUMENT_PARENT = 2, ARGUMENT_CPUSET, ARGUMENT_COMMAND }; /* of --exec-trainer */

static bool belongs_to_launcher(const char *variable)
{
    /* clang-format off */
    static const char *const prefixes[] = {
        "OMPI_", "PMIX_", "PMI_", "PRTE_", "MPIR_", "HYDRA_", "HYDI_", "MPI_LOCAL", "PALS_",
        "FLUX_TASK_", "FLUX_JOB_SIZE=", "JSM_NAMESPACE_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=",
        "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", "PENSTOCK_RUN_DIR=", "PENSTOCK_READER="};
    /* clang-format on */
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
    size_t inherited = 0;
    for (size_t i = 0; i < count; i++)
        if (!belongs_to_launcher(environ[i]))
            variables[inherited++] = environ[i];
    *ret_count = inherited;
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

char **spawner_plain_environment(void)
{
    static char library[VARIABLE_BYTES];
    size_t count;
    char **environment = child_environment(&count);
    if (environment && find_library(library))
        environment[count] = library;
    return environment;
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

enum status spawner_init(struct spawner *spawner, const struct children_options *options,
                         struct error *err)
{
    *spawner = (struct spawner){.options = options};
    if (!program_exists(options->command[0]))
        return error_set(err, STATUS_NOT_FOUND,
                         "trainer program '%s' is not there or not executable",
                         options->command[0]);
    spawner->environment = child_environment(&spawner->inherited);
    spawner->arguments = child_arguments(options->command);
    if (!spawner->environment || !spawner->arguments)
        return error_set(err, STATUS_NO_MEMORY, "no memory to start trainers");
    return STATUS_OK;
}

void spawner_done(struct spawner *spawner)
{
    free(spawner->environment);
    free(spawner->arguments);
}

enum status spawner_start(const struct spawner *spawner, uint32_t index, pid_t *ret_pid,
                          struct error *err)
{
    const struct children_options *options = spawner->options;
    char **arguments = spawner->arguments, **environment = spawner->environment;
    size_t inherited = spawner->inherited;
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
    int failure = spawn_program("/proc/self/exe", arguments, environment, -1, -1, ret_pid);
    text_done(&cpus);
    if (failure) {
        errno = failure;
        return error_set_errno(err, STATUS_IO, "start trainer %u ('%s')",
                               options->first_rank + index, options->command[0]);
    }
    return STATUS_OK;
}

char **spawner_through(const struct cpuset *cpus)
{
    enum { WORDS = 4, PID_BYTES = 24 };
    struct text set = {0};
    if (cpus)
        cpuset_print(cpus, &set);
    const size_t head = (WORDS + 1) * sizeof(char *) + PID_BYTES;
    char **words = calloc(1, head + set.length + 1);
    if (words) {
        static char program[] = "/proc/self/exe", command[] = "--exec-transform";
        words[0] = program;
        words[1] = command;
        words[2] = (char *)(words + WORDS + 1);
        words[3] = words[2] + PID_BYTES;
        snprintf(words[2], PID_BYTES, "%d", (int)getpid());
        memcpy(words[3], set.data ? set.data : "", set.length);
    }
    text_done(&set);
    return words;
}

int spawner_exec(enum spawner_kind kind, char *const *arguments)
{
    pid_t parent = (pid_t)strtol(arguments[0], NULL, 10);
    bool is_trainer = kind == SPAWN_TRAINER;
    prctl(PR_SET_PDEATHSIG, is_trainer ? SIGTERM : SIGKILL);
    prctl(PR_SET_TIMERSLACK, KERNELS_SLACK_NS); /* not the reader's: see comm_init() */
    if (getppid() != parent)
        return 1;             /* it died before we could ask */
    signal(SIGUSR2, SIG_IGN); /* srun sends it to all of a step; it is meant for the readers */
    char *const *command = arguments + 2;
    struct cpuset seat;
    struct error err;
    if (*arguments[1] && (cpuset_parse(arguments[1], &seat, &err) != STATUS_OK ||
                          topology_bind_self(&seat, &err) != STATUS_OK)) {
        fprintf(stderr, "penstock: start %s '%s': %s\n", is_trainer ? "trainer" : "transform",
                command[0], err.message);
        return 127;
    }
    user_path_restore();
    /* The launcher's sockets are no business of trainers. */
    close_range(STDERR_FILENO + (is_trainer ? 1 : 2), ~0U, 0);
    execvp(command[0], command);
    fprintf(stderr, "penstock: start %s '%s': %s\n", is_trainer ? "trainer" : "transform",
            command[0], strerror(errno));
    return 127;
}
