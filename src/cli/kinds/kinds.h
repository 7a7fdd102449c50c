/* What a store is by the name that people have for it (AnnData, anemoi, a replay buffer): told in a
 * paragraph, with a configuration to start from. Main thread; blocks on the store, of which
 * attributes of groups are read.
 *
 * A kind is one function, which looks at names, shapes and attributes, and is a row in the table of
 * kinds.c.
 */
#ifndef PENSTOCK_CLI_KINDS_KINDS_H
#define PENSTOCK_CLI_KINDS_KINDS_H

#include "base/error.h"
#include "base/text.h"
#include "cli/common/settings.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "zarr/hierarchy/hierarchy.h"

#include <stdbool.h>

/* What is looked at. All pointers are borrowed. */
struct kind_look {
    const char *uri; /* as the user wrote it */
    const struct store *store;
    const struct zarr_hierarchy *hierarchy;
    const char *group;             /* where paths begin; "": the root */
    const struct dataset *dataset; /* with default fields; NULL: there is none */
    const char *no_dataset;        /* why not */
    const struct zarr_node *index; /* of a join; NULL: none */
    const bool *joined; /* [node_count]: whether the index points into the array; NULL: none */
    const struct zarr_node *ends; /* of episodes; NULL: none */
    /* Why a run refuses what was written first: what may be refused is to be left out. NULL: first.
     */
    const char *refused;
};

/* What was found. Texts are owned; kind_finding_done() frees them. */
struct kind_finding {
    const char *name; /* static: "AnnData"; NULL: nothing is known */
    struct text about;
    struct text group;   /* dataset.group, instead of the one that was looked at; else empty */
    struct text members; /* a list of paths (base/text.h) behind the uri: each is a store; else
                          * empty */
    struct text dataset; /* further lines of the section `dataset`, two blanks in front */
    struct text rest;    /* other sections */
};

/* Recognises the store. An attribute that cannot be read counts as one that is not there. */
void kind_recognise(const struct kind_look *look, struct kind_finding *ret_finding);
void kind_finding_done(struct kind_finding *finding);

/* Appends a text in lines of about 100 columns, each with `before` in front. */
void kind_wrap(const char *before, const char *text, struct text *out);

/* Writes the configuration of what the store is recognised as to the file `path`, after a dataset
 * was opened with it. Of `settings` it takes over --set store.* and dataset.group. INVALID: there
 * is such a file, nothing is recognised, or other settings are given. Errors as of
 * config_open_dataset(); IO. */
MUST_USE enum status kind_write(const struct kind_look *look, const struct cli_settings *settings,
                                const char *path, struct error *err);

#endif
