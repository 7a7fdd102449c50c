/* See making.h. */
#include "workshop/commands/making_options.h"

#include "base/cpu.h"
#include "base/launcher.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_making_part(void *input, const struct argp_state *state, const char *option,
                     char *argument)
{
    struct making_options *making = input;
    char *slash = strchr(argument, '/');
    if (!slash) {
        argp_error(state, "%s '%s': write a part as 0/4", option, argument);
        return;
    }
    *slash = '\0';
    making->part_count = (uint32_t)cli_count(state, option, slash + 1, 1, UINT32_MAX);
    making->part =
        (uint32_t)cli_count(state, option, argument, 0, (uint64_t)making->part_count - 1);
}

void cli_making_level(void *level, const struct argp_state *state, const char *option,
                      char *argument)
{
    *(int *)level = (int)cli_count(state, option, argument, 0, 22);
}

void cli_making_names(void *input, const struct argp_state *state, const char *option,
                      char *argument)
{
    struct making_names *list = input;
    list->names = cli_names(state, option, argument, &list->count);
}

/* A whole number from the environment; false: there is none. */
static bool from_environment(const char *name, uint32_t *ret_value)
{
    const char *text = launcher_value(name);
    uint64_t value;
    if (!text || !number_parse(text, 0, UINT32_MAX, &value))
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

/* Reads rank, size, and the number of processes on this node from the launcher's variables. A Slurm
 * batch script has SLURM_PROCID, too; only srun sets the size of a step. */
static void ask_launcher(struct making_options *making, uint32_t *ret_local)
{
    for (int i = LAUNCHER_OPEN_MPI; i < LAUNCHERS; i++) {
        const struct launcher *row = &launchers[i];
        uint32_t rank, size;
        if (!from_environment(row->rank, &rank) || !from_environment(row->size, &size) ||
            rank >= size)
            continue;
        making->part = rank;
        making->part_count = size;
        /* Not known: as if all were on this node. */
        if (row->local_count == LAUNCHER_COUNT_OF_ALL ||
            !from_environment(row->local_size, ret_local) || *ret_local == 0)
            *ret_local = size;
        return;
    }
}

void cli_making_settle(struct making_options *making)
{
    uint32_t local = 1, cores = cpu_count();
    if (making->part_count == 0) {
        making->part_count = 1;
        ask_launcher(making, &local);
    }
    if (making->thread_count == 0)
        making->thread_count = cores / local > 0 ? cores / local : 1;
    if (making->memory_bytes == 0)
        making->memory_bytes = memory_available_bytes() / 2 / local;
}

void cli_making_tell(const struct making_options *making, const struct making_result *result,
                     const char *claim)
{
    double seconds = (double)result->elapsed_ns / 1e9;
    char part[48] = "";
    if (making->part_count > 1)
        snprintf(part, sizeof part, "part %u of %u: ", making->part, making->part_count);
    if (result->slab_count > 0)
        printf("%s%s in %.1f s%s; %u thread%s, at most %s", part,
               size_format(result->decoded_bytes).text, seconds,
               rate_format(result->decoded_bytes, seconds).text, result->thread_count,
               count_plural(result->thread_count), size_format(result->memory_bytes).text);
    if (result->slabs_found > 0)
        printf("; %s of %s slab%s were there already", count_format(result->slabs_found).text,
               count_format(result->slab_count).text, count_plural(result->slab_count));
    if (result->slab_count > 0)
        printf("\n");
    if (result->already_complete)
        printf("%s%s is complete already\n", part, making->destination);
    else if (result->slabs_left > 0)
        printf("%s%s slabs are left to other parts\n", part, count_format(result->slabs_left).text);
    else
        printf("%s%s is complete%s\ndigest %s\n", part, making->destination,
               making->verify ? claim : "", result->digest.text);
}
