/* Which runs of this user are alive on this node, for `penstock top` without a run directory.
 *
 * A run is alive while a reader holds its lock in the run directory. Looked at are the directories
 * that runs make by themselves, /tmp/penstock-*, and the one in PENSTOCK_RUN_DIR. Other users'
 * directories and links are left out. Main thread.
 */
#ifndef PENSTOCK_CLI_TOP_TOP_RUNS_H
#define PENSTOCK_CLI_TOP_TOP_RUNS_H

#include "base/text.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TOP_MOST_RUNS = 256 };

struct top_run {
    char *path;                   /* owned */
    char *name;                   /* of --also, owned; "": the run that is trained on */
    char *dataset;                /* owned, shown text; "": not known yet */
    uint64_t pid;                 /* of the first reader on this node; 0: not known yet */
    uint64_t age_s;               /* since the readers started */
    size_t here;                  /* readers on this node */
    uint32_t readers;             /* on all nodes; 0: not known yet */
    uint32_t trainers, connected; /* on this node */
};

struct top_runs {
    struct top_run runs[TOP_MOST_RUNS];
    size_t count;
};

/* Finds the runs, the youngest first. top_runs_done() frees what is in them. */
void top_runs_find(struct top_runs *ret_runs);

/* Appends a table, and how to look at a run; or one line of JSON. */
void top_runs_print(const struct top_runs *runs, struct text *out);
void top_runs_json(const struct top_runs *runs, struct text *out);

void top_runs_done(struct top_runs *runs);

#endif
