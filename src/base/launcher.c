/* See launcher.h. */
#include "base/launcher.h"

#include <stdlib.h>
#include <string.h>

#define HERE    LAUNCHER_COUNT_HERE
#define BY_NODE LAUNCHER_COUNT_BY_NODE
#define OF_ALL  LAUNCHER_COUNT_OF_ALL

/* clang-format off */
const struct launcher launchers[LAUNCHERS] = {
    /* name           rank                    size                    local rank                    local size                    which is, nobody */
    {"torchrun",      "RANK",                 "WORLD_SIZE",           "LOCAL_RANK",                 "LOCAL_WORLD_SIZE",           HERE, false},
    {"Open MPI",      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", HERE, false},
    {"MPICH",         "PMI_RANK",             "PMI_SIZE",             "MPI_LOCALRANKID",            "MPI_LOCALNRANKS",            HERE, false},
    {"PALS",          "PALS_RANKID",          NULL,                   "PALS_LOCAL_RANKID",          "PALS_LOCAL_SIZE",            HERE, false},
    {"Flux",          "FLUX_TASK_RANK",       "FLUX_JOB_SIZE",        "FLUX_TASK_LOCAL_ID",         "FLUX_JOB_SIZE",              OF_ALL, false},
    {"jsrun",         "JSM_NAMESPACE_RANK",   "JSM_NAMESPACE_SIZE",   "JSM_NAMESPACE_LOCAL_RANK",   "JSM_NAMESPACE_LOCAL_SIZE",   HERE, false},
    {"srun",          "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",              "SLURM_STEP_TASKS_PER_NODE",  BY_NODE, true},
    {"a PMIx server", "PMIX_RANK",            NULL,                   NULL,                         NULL,                         HERE, true},
    {"Kubernetes",    "JOB_COMPLETION_INDEX", NULL,                   NULL,                         NULL,                         HERE, false},
};
/* clang-format on */

const char *launcher_value(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

const struct launcher *launcher_of_size(void)
{
    for (int i = LAUNCHER_OPEN_MPI; i < LAUNCHERS; i++)
        if (launcher_value(launchers[i].size))
            return &launchers[i];
    return NULL;
}

bool launcher_tells_rank(const struct launcher *launcher)
{
    const char *rank = launcher_value(launcher->rank);
    return rank &&
           (!launcher->zero_is_nobody || strcmp(rank, "0") != 0 || launcher_value(launcher->size));
}

const struct launcher *launcher_of_half(void)
{
    for (int i = LAUNCHER_OPEN_MPI; i < LAUNCHERS; i++)
        if (launcher_tells_rank(&launchers[i]) && !launcher_value(launchers[i].size))
            return &launchers[i];
    return NULL;
}

const char *launcher_rank(void)
{
    for (int i = LAUNCHER_OPEN_MPI; i < LAUNCHERS; i++)
        if (launcher_value(launchers[i].rank))
            return getenv(launchers[i].rank);
    return "0";
}
