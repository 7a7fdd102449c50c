/* See environment.h. */
#include "client/environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* In order of precedence, NULL-terminated. */
static const char *const rank_names[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         NULL};
static const char *const world_size_names[] = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE",
                                               "PMI_SIZE", NULL};
static const char *const local_rank_names[] = {"LOCAL_RANK", "SLURM_LOCALID",
                                               "OMPI_COMM_WORLD_LOCAL_RANK", NULL};
static const char *const local_world_size_names[] = {"LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE",
                                                     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL};
static const char *const reader_names[] = {"PENSTOCK_READER", NULL};

/* The first variable that is set and not empty; else *ret_value stays as it is. */
static enum status number(const char *const *names, int64_t *ret_value, struct error *err)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (!text || !*text)
            continue;
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno || *end || value < 0 || value > INT32_MAX)
            return error_set(err, STATUS_INVALID,
                             "environment: %s='%s' is not a number from 0 to %d", *names, text,
                             INT32_MAX);
        *ret_value = value;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status fill_rank(struct connect_options *options, struct error *err)
{
    int64_t rank = 0, world_size = 1;
    enum status status = number(rank_names, &rank, err);
    if (!status)
        status = number(world_size_names, &world_size, err);
    if (status)
        return status;
    options->rank = (uint32_t)rank;
    options->world_size = (uint32_t)world_size;
    return STATUS_OK;
}

/* Choosing among the readers of a node. */
static enum status fill_place(struct connect_options *options, struct error *err)
{
    int64_t local_rank = 0, local_world_size = 1;
    options->reader = -1;
    enum status status = number(local_rank_names, &local_rank, err);
    if (!status)
        status = number(local_world_size_names, &local_world_size, err);
    if (!status)
        status = number(reader_names, &options->reader, err);
    if (status)
        return status;
    options->local_rank = (uint32_t)local_rank;
    options->local_world_size = (uint32_t)local_world_size;
    return STATUS_OK;
}

enum status environment_fill(struct connect_options *options, struct error *err)
{
    struct connect_options filled = *options;
    enum status status = filled.world_size == 0 ? fill_rank(&filled, err) : STATUS_OK;
    if (!status)
        status = fill_place(&filled, err);
    if (status)
        return status;
    if (!filled.run_dir)
        filled.run_dir = getenv("PENSTOCK_RUN_DIR");
    if (!filled.run_dir || !*filled.run_dir)
        return error_set(
            err, STATUS_INVALID,
            "no run directory: set PENSTOCK_RUN_DIR to the service's delivery.run_dir, "
            "or give it when connecting");
    if (filled.rank >= filled.world_size)
        return error_set(err, STATUS_INVALID,
                         "rank %" PRIu32 " is not below the world size, %" PRIu32
                         "; set RANK and WORLD_SIZE, or give both when connecting",
                         filled.rank, filled.world_size);
    *options = filled;
    return STATUS_OK;
}
