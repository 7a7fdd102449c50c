/* Who a trainer takes itself for, in the environments that launchers make: alone and nested. */
#include "delivery/client/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_VARIABLES = 32, NAME_BYTES = 64 };

#define TORCHRUN "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4"
#define OPEN_MPI                                                                        \
    "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=6", "OMPI_COMM_WORLD_LOCAL_RANK=2", \
        "OMPI_COMM_WORLD_LOCAL_SIZE=3", "PMIX_RANK=3"
#define MPICH "PMI_RANK=2", "PMI_SIZE=4", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2"
/* A task of a step, on the last of three nodes. */
#define SLURM                                                                        \
    "SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=5", "SLURM_NTASKS=5", "SLURM_LOCALID=0", \
        "SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE=2(x2),1", "PMIX_RANK=4"
/* What mpirun's and torchrun's processes inherit from the step that started their parents. */
#define SLURM_OF_PARENT                                                              \
    "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_NTASKS=2", "SLURM_LOCALID=0", \
        "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)"
#define PALS_OF_NODE "PALS_LOCAL_RANKID=1", "PALS_LOCAL_SIZE=4", "PALS_NODEID=1", "PALS_DEPTH=1"
#define PALS_CRAY    "PALS_RANKID=5", "PMI_RANK=5", "PMI_SIZE=8", PALS_OF_NODE
#define PALS_PMIX    "PALS_RANKID=5", "PMIX_RANK=5", PALS_OF_NODE
/* On the second of three nodes, with PMI as flux-shell gives it to all programs. */
#define FLUX                                                                            \
    "FLUX_TASK_RANK=4", "FLUX_JOB_SIZE=8", "FLUX_TASK_LOCAL_ID=1", "FLUX_JOB_NNODES=3", \
        "PMI_RANK=4", "PMI_SIZE=8", "PMI_FD=12"
#define JSRUN                                                                      \
    "JSM_NAMESPACE_RANK=7", "JSM_NAMESPACE_SIZE=12", "JSM_NAMESPACE_LOCAL_RANK=1", \
        "JSM_NAMESPACE_LOCAL_SIZE=6", "PMIX_RANK=7"
/* The batch script itself: task 0 of a job that has many. */
#define SLURM_BATCH                                                                            \
    "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_NPROCS=8", "SLURM_LOCALID=0", "SLURM_NODEID=0", \
        "SLURM_TASKS_PER_NODE=4(x2)", "SLURM_NTASKS_PER_NODE=4"

/* The environment is these variables alone. */
static void set_environment(const char *const *variables)
{
    clearenv();
    for (; *variables; variables++) {
        char name[NAME_BYTES];
        size_t length = strcspn(*variables, "=");
        assert_true(length < sizeof name);
        memcpy(name, *variables, length);
        name[length] = '\0';
        setenv(name, *variables + length + 1, 1);
    }
}

struct environment {
    const char *variables[MAX_VARIABLES];
    uint32_t rank, world_size, local_rank, local_world_size;
};

static void check_environment(const struct environment *environment)
{
    struct dial_options options = {.run_dir = "/tmp"};
    set_environment(environment->variables);
    assert_int_equal(environment_fill(&options, NULL), STATUS_OK);
    assert_int_equal(options.rank, environment->rank);
    assert_int_equal(options.world_size, environment->world_size);
    assert_int_equal(options.local_rank, environment->local_rank);
    assert_int_equal(options.local_world_size, environment->local_world_size);
    assert_int_equal(options.reader, -1);
}

static void innermost_launcher_counts(void **state)
{
    (void)state;
    static const struct environment environments[] = {
        {{NULL}, 0, 1, 0, 1},
        {{TORCHRUN}, 5, 8, 1, 4},
        {{OPEN_MPI}, 3, 6, 2, 3},
        {{MPICH}, 2, 4, 0, 2},
        {{SLURM}, 4, 5, 0, 1},
        {{SLURM_BATCH}, 0, 1, 0, 1},
        {{PALS_CRAY}, 5, 8, 1, 4},
        {{PALS_PMIX, "WORLD_SIZE=8"}, 5, 8, 1, 4},
        {{FLUX}, 4, 8, 1, 3},
        {{"FLUX_TASK_RANK=7", "FLUX_JOB_SIZE=8", "FLUX_TASK_LOCAL_ID=5", "FLUX_JOB_NNODES=2"},
         7,
         8,
         5,
         6}, /* the node with more cores has more tasks */
        {{JSRUN}, 7, 12, 1, 6},
        {{"PMIX_RANK=0"}, 0, 1, 0, 1}, /* Open MPI 4, a program that was started alone */
        {{"PMIX_RANK=3", "WORLD_SIZE=4"}, 3, 4, 0, 1},
        {{"PMIX_RANK=0", "JOB_COMPLETION_INDEX=1", "WORLD_SIZE=2"}, 1, 2, 0, 1},
        {{"RANK=0", "WORLD_SIZE=1", "PMIX_RANK=3"}, 0, 1, 0, 1}, /* alone, as the user says */
        {{"JOB_COMPLETION_INDEX=1", "WORLD_SIZE=2"}, 1, 2, 0, 1},
        {{TORCHRUN, OPEN_MPI, SLURM_OF_PARENT}, 5, 8, 1, 4},
        {{TORCHRUN, SLURM}, 5, 8, 1, 4},
        {{OPEN_MPI, SLURM_OF_PARENT}, 3, 6, 2, 3},
        {{OPEN_MPI, SLURM_BATCH}, 3, 6, 2, 3},
        {{MPICH, SLURM_OF_PARENT}, 2, 4, 0, 2},
        {{TORCHRUN, PALS_PMIX}, 5, 8, 1, 4},
        {{TORCHRUN, FLUX}, 5, 8, 1, 4},
        {{TORCHRUN, "JOB_COMPLETION_INDEX=1"}, 5, 8, 1, 4},
        {{OPEN_MPI, "JOB_COMPLETION_INDEX=0"}, 3, 6, 2, 3},
        {{MPICH, "FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=1", "FLUX_TASK_LOCAL_ID=0"}, 2, 4, 0, 2},
    };
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++)
        check_environment(&environments[i]);
}

/* Halves of pairs are passed over, and a rank never meets another launcher's world. */
static void pairs_are_whole(void **state)
{
    (void)state;
    static const struct environment environments[] = {
        {{"RANK=7", SLURM}, 4, 5, 0, 1},
        {{"WORLD_SIZE=2", SLURM}, 4, 5, 0, 1},
        {{"RANK=", "WORLD_SIZE=", OPEN_MPI}, 3, 6, 2, 3},
        {{"OMPI_COMM_WORLD_RANK=9", MPICH}, 2, 4, 0, 2},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4"}, 0, 1, 0, 1},
        {{"PMIX_RANK=4", "PALS_RANKID=4", SLURM}, 4, 5, 0, 1},
        /* By hand from Slurm's variables, as many scripts do. */
        {{"RANK=4", "WORLD_SIZE=5", "LOCAL_RANK=0", SLURM}, 4, 5, 0, 1},
        {{"RANK=4", "WORLD_SIZE=5", SLURM, "SLURM_LOCALID=1", "SLURM_NODEID=0"}, 4, 5, 1, 2},
    };
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++)
        check_environment(&environments[i]);
}

static void tasks_are_listed_by_node(void **state)
{
    (void)state;
    static const struct {
        const char *list, *node;
        uint32_t tasks;
    } lists[] = {
        {"4", "0", 4},
        {"4", "1", 4},
        {"2(x3)", "2", 2},
        {"2(x3),1", "0", 2},
        {"2(x3),1", "2", 2},
        {"2(x3),1", "3", 1},
        {"3,2,1", "1", 2},
        {"3,2,1", "2", 1},
        {"8,2(x2),5", "2", 2},
        {"8,2(x2),5", "3", 5},
        {"1,16(x1000)", "999", 16},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct dial_options options = {.run_dir = "/tmp"};
        clearenv();
        setenv("SLURM_LOCALID", "0", 1);
        setenv("SLURM_NODEID", lists[i].node, 1);
        setenv("SLURM_STEP_TASKS_PER_NODE", lists[i].list, 1);
        assert_int_equal(environment_fill(&options, NULL), STATUS_OK);
        assert_int_equal(options.local_world_size, lists[i].tasks);
    }
}

static void given_options_win(void **state)
{
    (void)state;
    static const char *const variables[] = {OPEN_MPI, "PENSTOCK_RUN_DIR=/tmp/run",
                                            "PENSTOCK_READER=7", NULL};
    struct dial_options options = {.rank = 1, .world_size = 2};
    set_environment(variables);
    assert_int_equal(environment_fill(&options, NULL), STATUS_OK);
    assert_int_equal(options.rank, 1);
    assert_int_equal(options.world_size, 2);
    assert_int_equal(options.local_rank, 2);
    assert_int_equal(options.reader, 7);
    assert_string_equal(options.run_dir, "/tmp/run");
}

/* Cursors are of the service at PENSTOCK_RUN_DIR. */
static void another_service_has_no_cursors(void **state)
{
    (void)state;
    static const char *const variables[] = {"PENSTOCK_RUN_DIR=/tmp/run",
                                            "PENSTOCK_CURSORS=/tmp/run/cursor-", NULL};
    struct dial_options usual = {0}, same = {.run_dir = "/tmp/run"},
                        other = {.run_dir = "/tmp/validation"};
    set_environment(variables);
    assert_int_equal(environment_fill(&usual, NULL), STATUS_OK);
    assert_string_equal(usual.cursors, "/tmp/run/cursor-");
    assert_int_equal(environment_fill(&same, NULL), STATUS_OK);
    assert_string_equal(same.cursors, "/tmp/run/cursor-");
    assert_int_equal(environment_fill(&other, NULL), STATUS_OK);
    assert_null(other.cursors);
    static const char *const there[] = {"PENSTOCK_RUN_DIR=/tmp", "PENSTOCK_CURSORS=/tmp/cursor-",
                                        NULL};
    struct dial_options spelt = {.run_dir = "/tmp/../tmp/"};
    set_environment(there);
    assert_int_equal(environment_fill(&spelt, NULL), STATUS_OK);
    assert_string_equal(spelt.cursors, "/tmp/cursor-");
}

static void nonsense_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *variables[MAX_VARIABLES];
        const char *message;
    } environments[] = {
        {{"RANK=0", "WORLD_SIZE=1"}, "no run directory"},
        {{"RANK=one", "WORLD_SIZE=2"}, "RANK='one'"},
        {{"RANK=1", "WORLD_SIZE=2x"}, "WORLD_SIZE='2x'"},
        {{"RANK=1", "WORLD_SIZE=4,2"}, "WORLD_SIZE='4,2'"},
        {{"RANK=-1", "WORLD_SIZE=2"}, "RANK='-1'"},
        {{"RANK=2", "WORLD_SIZE=2"}, "RANK=2 is not below WORLD_SIZE=2"},
        {{"RANK=2"}, "RANK is set, but WORLD_SIZE is not"},
        {{"WORLD_SIZE=2"}, "WORLD_SIZE is set, but RANK is not"},
        /* A launcher is there, and this would be 0 of 1. */
        {{"RANK=2", PALS_PMIX}, "PALS_RANKID=5: PALS has started this trainer, and does not say"},
        {{PALS_PMIX}, "set WORLD_SIZE to their number, or RANK and WORLD_SIZE"},
        {{"PALS_RANKID=0", "PALS_LOCAL_RANKID=0", "PALS_LOCAL_SIZE=1"}, "PALS_RANKID=0"},
        {{"OMPI_COMM_WORLD_RANK=1"}, "Open MPI has started"},
        {{"PMI_RANK=1"}, "MPICH has started"},
        {{"FLUX_TASK_RANK=1"}, "Flux has started"},
        {{"JSM_NAMESPACE_RANK=1"}, "jsrun has started"},
        {{"SLURM_PROCID=3", "SLURM_NTASKS=4"}, "srun has started"},
        {{"PMIX_RANK=3"}, "a PMIx server has started"},
        {{"PMIX_RANK=0", "WORLD_SIZE=4"}, "WORLD_SIZE is set, but RANK is not"},
        {{"PALS_RANKID=1", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"}, "PALS has started"},
        {{"JOB_COMPLETION_INDEX=0"}, "Kubernetes has started"},
        {{"FLUX_TASK_RANK=8", "FLUX_JOB_SIZE=8"}, "FLUX_TASK_RANK=8 is not below FLUX_JOB_SIZE=8"},
        {{"FLUX_TASK_LOCAL_ID=9", "FLUX_JOB_SIZE=8"}, "FLUX_TASK_LOCAL_ID=9 is not below"},
        {{"PMI_RANK=99999999999", "PMI_SIZE=2"}, "PMI_RANK='99999999999'"},
        {{"SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=2(x"}, "SLURM_STEP_TASKS_PER_NODE='2(x'"},
        {{"SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=2(x3"}, "SLURM_STEP_TASKS_PER_NODE='2(x3'"},
        {{"SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=2 3"}, "SLURM_STEP_TASKS_PER_NODE='2 3'"},
        {{"PENSTOCK_READER=first"}, "PENSTOCK_READER='first'"},
    };
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++) {
        const struct dial_options before = {.timeout_ms = 5};
        struct dial_options options = before;
        struct error error;
        error_clear(&error);
        set_environment(environments[i].variables);
        assert_int_equal(environment_fill(&options, &error), STATUS_INVALID);
        assert_non_null(strstr(error.message, environments[i].message));
        assert_memory_equal(&options, &before, sizeof options);
    }
}

static void a_state_is_text_or_a_file(void **unused)
{
    (void)unused;
    char buffer[16], path[] = "/tmp/penstock-test-XXXXXX";
    const char *state;
    struct error error;
    int fd = mkstemp(path);
    clearenv();
    assert_int_equal(environment_state(buffer, sizeof buffer, &state, NULL), STATUS_OK);
    assert_null(state);
    setenv("PENSTOCK_STATE", "{\"step\":1}", 1);
    assert_int_equal(environment_state(buffer, sizeof buffer, &state, NULL), STATUS_OK);
    assert_string_equal(state, "{\"step\":1}");

    static const char *const texts[] = {"", "{\"step\":12345}\n", "{\"step\":123456}\n"};
    setenv("PENSTOCK_STATE", path, 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bool good = i == 1; /* empty, as long as can be, and one more */
        ssize_t length = (ssize_t)strlen(texts[i]);
        assert_int_equal(pwrite(fd, texts[i], (size_t)length, 0), length);
        assert_int_equal(environment_state(buffer, sizeof buffer, &state, &error),
                         good ? STATUS_OK : STATUS_INVALID);
        assert_non_null(strstr(good ? state : error.message, good ? texts[i] : path));
    }
    close(fd);
    unlink(path);
    assert_int_equal(environment_state(buffer, sizeof buffer, &state, &error), STATUS_INVALID);
    assert_non_null(strstr(error.message, "No such file"));
    setenv("PENSTOCK_STATE", "/tmp", 1);
    assert_int_equal(environment_state(buffer, sizeof buffer, &state, &error), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(innermost_launcher_counts),      cmocka_unit_test(pairs_are_whole),
        cmocka_unit_test(tasks_are_listed_by_node),       cmocka_unit_test(given_options_win),
        cmocka_unit_test(another_service_has_no_cursors), cmocka_unit_test(nonsense_is_named),
        cmocka_unit_test(a_state_is_text_or_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
