/* See environment.h. */
#include "delivery/client/environment.h"
#include "base/inode.h"
#include "delivery/ring/rundir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number below a count: a rank and its world. */
struct pair {
    const char *number, *count;
    bool by_node; /* the count is Slurm's list of counts by node */
};

/* In the order of environment.h. */
static const struct pair worlds[] = {
    {"RANK", "WORLD_SIZE", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
    {"PMI_RANK", "PMI_SIZE", false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false},
};
static const struct pair local_ranks[] = {
    {"LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", false},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS", false},
    {"SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", true},
};

enum { PAIRS = sizeof worlds / sizeof worlds[0] };

static const char *value_of(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* The number at the start of `text`; *ret_end is behind it. */
static bool leading_number(const char *text, const char **ret_end, int64_t *ret_value)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || value < 0 || value > INT32_MAX)
        return false;
    *ret_end = end;
    *ret_value = value;
    return true;
}

static enum status not_a_number(const char *name, struct error *err)
{
    return error_set(err, STATUS_INVALID, "environment: %s='%s' is not a number from 0 to %d", name,
                     getenv(name), INT32_MAX);
}

/* *ret_value stays as it is if the variable is not set. */
static enum status read_number(const char *name, int64_t *ret_value, struct error *err)
{
    const char *text = value_of(name), *end;
    int64_t value;
    if (!text)
        return STATUS_OK;
    if (!leading_number(text, &end, &value) || *end)
        return not_a_number(name, err);
    *ret_value = value;
    return STATUS_OK;
}

/* Slurm lists tasks by node, "2(x3),1": two on each of the first three nodes, one on the fourth.
 * Behind the list's end its last entry goes on. */
static enum status read_count_by_node(const char *name, int64_t *ret_value, struct error *err)
{
    const char *text = getenv(name);
    assert(text); /* the caller has looked */
    int64_t node = 0, count, nodes;
    enum status status = read_number("SLURM_NODEID", &node, err);
    if (status)
        return status;
    for (;; text++) {
        if (!leading_number(text, &text, &count))
            return not_a_number(name, err);
        nodes = 1;
        if (strncmp(text, "(x", 2) == 0 &&
            (!leading_number(text + 2, &text, &nodes) || *text++ != ')'))
            return not_a_number(name, err);
        node -= nodes;
        if (node < 0 || *text != ',')
            break;
    }
    if (*text && *text != ',')
        return not_a_number(name, err);
    *ret_value = count;
    return STATUS_OK;
}

/* The first pair that is there as a whole; else *ret_number and *ret_count stay as they are. */
static enum status read_pair(const struct pair *pairs, uint32_t *ret_number, uint32_t *ret_count,
                             struct error *err)
{
    for (const struct pair *pair = pairs; pair < pairs + PAIRS; pair++) {
        int64_t number = 0, count = 0;
        if (!value_of(pair->number) || !value_of(pair->count))
            continue;
        enum status status = read_number(pair->number, &number, err);
        if (!status)
            status = pair->by_node ? read_count_by_node(pair->count, &count, err)
                                   : read_number(pair->count, &count, err);
        if (status)
            return status;
        if (number >= count)
            return error_set(err, STATUS_INVALID,
                             "environment: %s=%s is not below %s=%s: one of them is wrong",
                             pair->number, getenv(pair->number), pair->count, getenv(pair->count));
        *ret_number = (uint32_t)number;
        *ret_count = (uint32_t)count;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status fill_rank(struct dial_options *options, struct error *err)
{
    enum status status = read_pair(worlds, &options->rank, &options->world_size, err);
    if (status || options->world_size)
        return status;
    const char *rank = value_of("RANK"), *world_size = value_of("WORLD_SIZE");
    if (rank || world_size)
        return error_set(err, STATUS_INVALID,
                         "environment: %s is set, but %s is not: set both, or none for a single "
                         "trainer",
                         rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK");
    options->rank = 0;
    options->world_size = 1;
    return STATUS_OK;
}

/* Choosing among the readers of a node. */
static enum status fill_local_rank(struct dial_options *options, struct error *err)
{
    options->local_rank = 0;
    options->local_world_size = 1;
    options->reader = -1;
    enum status status =
        read_pair(local_ranks, &options->local_rank, &options->local_world_size, err);
    return status ? status : read_number("PENSTOCK_READER", &options->reader, err);
}

/* However they are spelt, where both are there. */
static bool same_directory(const char *a, const char *b)
{
    struct inode first, second;
    if (strcmp(a, b) == 0)
        return true;
    return inode_at(AT_FDCWD, a, 0, &first) && inode_at(AT_FDCWD, b, 0, &second) &&
           inode_same(&first, &second);
}

enum status environment_fill(struct dial_options *options, struct error *err)
{
    struct dial_options filled = *options;
    enum status status = filled.world_size == 0 ? fill_rank(&filled, err) : STATUS_OK;
    if (!status)
        status = fill_local_rank(&filled, err);
    if (status)
        return status;
    const char *usual = value_of("PENSTOCK_RUN_DIR");
    if (!filled.run_dir)
        filled.run_dir = usual;
    if (!usual || same_directory(filled.run_dir, usual))
        filled.cursors = value_of("PENSTOCK_CURSORS");
    if (!filled.run_dir || !*filled.run_dir)
        return error_set(
            err, STATUS_INVALID,
            "no run directory: set PENSTOCK_RUN_DIR to the service's delivery.run_dir, "
            "or give it when connecting");
    if (filled.rank >= filled.world_size)
        return error_set(err, STATUS_INVALID,
                         "rank %" PRIu32 " is not below the world size, %" PRIu32, filled.rank,
                         filled.world_size);
    *options = filled;
    return STATUS_OK;
}

/* Readers open the directories of --also before the one beside. */
enum status environment_named_run(const char *run_dir, const char *name, char *buffer, size_t size,
                                  struct error *err)
{
    struct inode inode;
    int length = rundir_name(run_dir, name, buffer, size);
    if (strchr(name, '/') || (size_t)length >= size)
        return error_set(err, STATUS_INVALID, "'%s' is no name of a run", name);
    if (inode_at(AT_FDCWD, run_dir, 0, &inode) && !inode_at(AT_FDCWD, buffer, 0, &inode))
        return error_set(err, STATUS_NOT_FOUND,
                         "the readers of run directory '%s' have no run '%s': start them with "
                         "--also %s=FILE",
                         run_dir, name, name);
    return STATUS_OK;
}

enum status environment_state(char *buffer, size_t size, const char **ret_state, struct error *err)
{
    const char *text = value_of("PENSTOCK_STATE");
    *ret_state = NULL;
    if (!text)
        return STATUS_OK;
    if (*text == '{') {
        *ret_state = text;
        return STATUS_OK;
    }
    FILE *file = fopen(text, "re");
    if (!file)
        return error_set_errno(err, STATUS_INVALID, "environment: open PENSTOCK_STATE='%s'", text);
    size_t got = fread(buffer, 1, size, file);
    bool readable = !ferror(file);
    fclose(file);
    if (!readable || got == 0 || got == size)
        return error_set(err, STATUS_INVALID,
                         "environment: PENSTOCK_STATE='%s' is no state: it cannot be read, is "
                         "empty, or has %zu bytes or more",
                         text, size);
    buffer[got] = '\0';
    *ret_state = buffer;
    return STATUS_OK;
}
