/* Who this process is, as numbers: see launcher.h. */
#include "base/launcher.h"

#include <assert.h>
#include <errno.h>
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

enum status launcher_number(const char *name, int64_t *ret_value, struct error *err)
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
    enum status status = launcher_number("SLURM_NODEID", &node, err);
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
    enum status status = launcher_number(name, &count, err);
    if (status == STATUS_OK)
        status = launcher_number("FLUX_JOB_NNODES", &nodes, err);
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

static enum status read_pair(const struct pair *pair, struct launcher_standing *ret_standing,
                             struct error *err)
{
    int64_t number = 0, count = 0;
    enum status status = launcher_number(pair->number, &number, err);
    if (status == STATUS_OK)
        status = pair->kind == LAUNCHER_COUNT_BY_NODE ? read_count_by_node(pair->count, &count, err)
                 : pair->kind == LAUNCHER_COUNT_OF_ALL
                     ? read_count_of_all(pair->count, number, &count, err)
                     : launcher_number(pair->count, &count, err);
    if (status != STATUS_OK)
        return status;
    if (number >= count)
        return error_set(err, STATUS_INVALID,
                         "environment: %s=%s is not below %s=%s: one of them is wrong",
                         pair->number, getenv(pair->number), pair->count, getenv(pair->count));
    *ret_standing = (struct launcher_standing){true, (uint32_t)number, (uint32_t)count};
    return STATUS_OK;
}

enum status launcher_world(int first, struct launcher_standing *ret_standing, struct error *err)
{
    const struct launcher *half = launcher_of_half();
    struct launcher_standing standing = {.size = 1};
    for (int i = first; i < LAUNCHERS && !standing.told; i++) {
        const struct launcher *row = &launchers[i];
        struct pair pair = {row->rank, row->size ? row->size : "WORLD_SIZE", LAUNCHER_COUNT_HERE};
        if (!launcher_tells_rank(row) || !is_whole(&pair))
            continue;
        enum status status = read_pair(&pair, &standing, err);
        if (status != STATUS_OK)
            return status;
        if (standing.size == 1 && half && half < row && row > &launchers[LAUNCHER_TORCHRUN]) {
            standing.told = false;
            break;
        }
    }
    *ret_standing = standing;
    return STATUS_OK;
}

enum status launcher_node(int first, struct launcher_standing *ret_standing, struct error *err)
{
    struct launcher_standing standing = {.size = 1};
    for (int i = first; i < LAUNCHERS && !standing.told; i++) {
        const struct launcher *row = &launchers[i];
        struct pair pair = {row->local_rank, row->local_size, row->local_count};
        if (!is_whole(&pair))
            continue;
        enum status status = read_pair(&pair, &standing, err);
        if (status != STATUS_OK)
            return status;
    }
    *ret_standing = standing;
    return STATUS_OK;
}
