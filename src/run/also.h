/* Runs of --also: runs beside the one that is trained on, for the same trainers. What the command
 * line says of such runs, what they take over from the training, and what each run has alone.
 */
#ifndef PENSTOCK_RUN_ALSO_H
#define PENSTOCK_RUN_ALSO_H

#include "config/config.h"
#include "mesh/mesh.h"

#include <limits.h>
#include <stddef.h>

/* Of what a node has available, where readers.memory_limit is auto: see run_shape.auto_divisor. The
 * training gets half of the rest. */
enum { ALSO_DIVISOR = 8 };

enum { ALSO_NAME_BYTES = 32, ALSO_MOST = 7 };

struct also_run {
    const char *text; /* NAME=FILE, borrowed */
    char name[ALSO_NAME_BYTES];
    const char *config_path; /* within `text` */
};

struct also_list {
    struct also_run runs[ALSO_MOST];
    int count;
};

/* Adds the run that NAME=FILE names; `text` is borrowed. INVALID: it is not so, the name is given
 * twice or is no part of a directory's name, or there are too many. */
MUST_USE enum status also_add(struct also_list *list, const char *text, struct error *err);

/* Options of the training that count for all runs. Plain bytes, to be sent. */
struct also_common {
    char mesh[MESH_TEXT_BYTES], mesh_data[MESH_TEXT_BYTES];
    uint64_t trainers, trainers_least, trainers_per_reader, reconnect_timeout_s, grace_s,
        drain_timeout_s, connect_timeout_s;
};

struct also_common also_common_of(const struct config *training);

/* Makes *config that of a run of --also: with these options, and endless epochs. Errors as of
 * config_check(); NO_MEMORY. */
MUST_USE enum status also_adapt(struct config *config, const struct also_common *common,
                                struct error *err);

/* What a run alone may have: files that readers write, as absolute paths, and where readers listen;
 * "": none. Plain bytes, to be sent. */
struct also_outputs {
    char run[ALSO_NAME_BYTES]; /* its name; "": the run that is trained on */
    char metrics_file[PATH_MAX], bad_list[PATH_MAX], metrics_listen[NAME_MAX];
    int readers_on_node; /* at most */
};

/* Those of a configuration, for the run `name`; NULL: the run that is trained on. Relative paths
 * start at the current directory. */
void also_outputs_of(const struct config *config, const char *name, int readers_on_node,
                     struct also_outputs *ret_outputs);

/* INVALID: both runs would write to one file, or listen at one port. */
MUST_USE enum status also_compare_outputs(const struct also_outputs *mine,
                                          const struct also_outputs *other, struct error *err);

#endif
