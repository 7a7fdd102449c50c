/* See environment.h. */
#include "delivery/client/environment.h"
#include "base/inode.h"
#include "base/launcher.h"
#include "delivery/ring/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static enum status fill_rank(struct dial_options *options, struct error *err)
{
    struct launcher_standing standing;
    enum status status = launcher_world(LAUNCHER_TORCHRUN, &standing, err);
    if (status == STATUS_OK && !standing.told)
        status = check_halves(err);
    if (status != STATUS_OK)
        return status;
    options->rank = standing.rank;
    options->world_size = standing.size;
    return STATUS_OK;
}

/* Choosing among the readers of a node. */
static enum status fill_local_rank(struct dial_options *options, struct error *err)
{
    struct launcher_standing standing;
    enum status status = launcher_node(LAUNCHER_TORCHRUN, &standing, err);
    if (status != STATUS_OK)
        return status;
    options->local_rank = standing.rank;
    options->local_world_size = standing.size;
    options->reader = -1;
    return launcher_number("PENSTOCK_READER", &options->reader, err);
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
            "no run directory: start the program with 'penstock-run -c run.yaml -- ...', set "
            "PENSTOCK_RUN_DIR to the service's delivery.run_dir, or give it when connecting");
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
