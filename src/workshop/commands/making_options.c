/* See making.h. */
#include "workshop/commands/making_options.h"

#include "base/cpu.h"
#include "base/launcher.h"
#include "base/memory.h"
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

/* The part by the launcher's word, and how many processes share this node: as if all did, where it
 * does not say. */
static enum status ask_launcher(struct making_options *making, uint32_t *ret_local,
                                struct error *err)
{
    struct launcher_standing world, node;
    enum status status = launcher_world(LAUNCHER_OPEN_MPI, &world, err);
    if (status == STATUS_OK)
        status = launcher_node(LAUNCHER_OPEN_MPI, &node, err);
    if (status != STATUS_OK)
        return status;
    const struct launcher *half = world.told ? NULL : launcher_of_half();
    if (half)
        return error_set(err, STATUS_INVALID,
                         "environment: %s=%s: %s has started this process, and does not say of how "
                         "many: set WORLD_SIZE to their number, 1 for one that is alone",
                         half->rank, launcher_value(half->rank), half->name);
    making->part = world.rank;
    making->part_count = world.size;
    *ret_local = node.told && node.size < world.size ? node.size : world.size;
    return STATUS_OK;
}

enum status cli_making_settle(struct making_options *making, struct error *err)
{
    uint32_t local = 1, cores = cpu_count();
    enum status status = making->part_count == 0 ? ask_launcher(making, &local, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    if (making->thread_count == 0)
        making->thread_count = cores / local > 0 ? cores / local : 1;
    if (making->memory_bytes == 0)
        making->memory_bytes = memory_available_bytes() / 2 / local;
    return STATUS_OK;
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
