/* See environment.h. */
#include "delivery/client/environment.h"
#include "base/inode.h"
#include "base/launcher.h"
#include "delivery/ring/rundir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const char *text = launcher_value(name), *end;
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
    if (status != STATUS_OK)
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

/* All tasks over all nodes; the remainder goes to the first nodes, or to those with more cores. */
static enum status read_count_of_all(const char *name, int64_t number, int64_t *ret_value,
                                     struct error *err)
{
    int64_t count = 0, nodes = 1;
    enum status status = read_number(name, &count, err);
    if (status == STATUS_OK)
        status = read_number("FLUX_JOB_NNODES", &nodes, err);
    if (status != STATUS_OK)
        return status;
    int64_t evenly = nodes > 0 ? (count + nodes - 1) / nodes : count;
    *ret_value = number < count && number >= evenly ? number + 1 : evenly;
    return STATUS_OK;
}

/* A number below a count: a rank and its world. */
struct pair {
    const char *number, *count;
    enum launcher_count kind;
};

static bool is_whole(const struct pair *pair)
{
    return launcher_value(pair->number) && launcher_value(pair->count);
}

static enum status read_pair(const struct pair *pair, uint32_t *ret_number, uint32_t *ret_count,
                             struct error *err)
{
    int64_t number = 0, count = 0;
    enum status status = read_number(pair->number, &number, err);
    if (status == STATUS_OK)
        status = pair->kind == LAUNCHER_COUNT_BY_NODE ? read_count_by_node(pair->count, &count, err)
                 : pair->kind == LAUNCHER_COUNT_OF_ALL
                     ? read_count_of_all(pair->count, number, &count, err)
                     : read_number(pair->count, &count, err);
    if (status != STATUS_OK)
        return status;
    if (number >= count)
        return error_set(err, STATUS_INVALID,
                         "environment: %s=%s is not below %s=%s: one of them is wrong",
                         pair->number, getenv(pair->number), pair->count, getenv(pair->count));
    *ret_number = (uint32_t)number;
    *ret_count = (uint32_t)count;
    return STATUS_OK;
}

/* What is there of a rank and its world, and is no pair. */
static enum status check_halves(struct error *err)
{
    const struct launcher *half = launcher_of_half();
    const char *rank = launcher_value("RANK"), *world_size = launcher_value("WORLD_SIZE");
    if (half)
        return error_set(err, STATUS_INVALID,
                         "environment: %s=%s: %s has started this trainer, and does not say of how "
                         "many: set WORLD_SIZE to their number, or RANK and WORLD_SIZE (0 and 1 "
                         "for a single trainer)",
                         half->rank, getenv(half->rank), half->name);
    if (rank || world_size)
        return error_set(err, STATUS_INVALID,
                         "environment: %s is set, but %s is not: set both, or none for a single "
                         "trainer",
                         rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK");
    return STATUS_OK;
}

/* An outer launcher's 0 of 1 hides no inner one that has started several. */
static enum status fill_rank(struct dial_options *options, struct error *err)
{
    const struct launcher *half = launcher_of_half();
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *row = &launchers[i];
        struct pair pair = {row->rank, row->size ? row->size : "WORLD_SIZE", LAUNCHER_COUNT_HERE};
        if (!launcher_tells_rank(row) || !is_whole(&pair))
            continue;
        enum status status = read_pair(&pair, &options->rank, &options->world_size, err);
        bool hides = half && half < row && row > &launchers[LAUNCHER_TORCHRUN];
        if (status == STATUS_OK && options->world_size == 1 && hides)
            return check_halves(err);
        return status;
    }
    options->rank = 0;
    options->world_size = 1;
    return check_halves(err);
}

/* Choosing among the readers of a node. */
static enum status fill_local_rank(struct dial_options *options, struct error *err)
{
    options->local_rank = 0;
    options->local_world_size = 1;
    options->reader = -1;
    enum status status = STATUS_OK;
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *row = &launchers[i];
        struct pair pair = {row->local_rank, row->local_size, row->local_count};
        if (!is_whole(&pair))
            continue;
        status = read_pair(&pair, &options->local_rank, &options->local_world_size, err);
        break;
    }
    return status != STATUS_OK ? status : read_number("PENSTOCK_READER", &options->reader, err);
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
    if (status == STATUS_OK)
        status = fill_local_rank(&filled, err);
    if (status != STATUS_OK)
        return status;
    const char *usual = launcher_value("PENSTOCK_RUN_DIR");
    if (!filled.run_dir)
        filled.run_dir = usual;
    if (!usual || same_directory(filled.run_dir, usual))
        filled.cursors = launcher_value("PENSTOCK_CURSORS");
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
    const char *text = launcher_value("PENSTOCK_STATE");
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
