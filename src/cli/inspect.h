/* What `penstock inspect` found, and its two ways of saying it. Internal to cli/. */
#ifndef PENSTOCK_CLI_INSPECT_H
#define PENSTOCK_CLI_INSPECT_H

#include "base/error.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "zarr/hierarchy.h"

#include <stdbool.h>
#include <stdint.h>

#define STORED_UNKNOWN UINT64_MAX

/* What a layout costs a run: bytes read from the store for a sample, with the rows of a window in
 * memory as far as they fit. */
struct layout_cost {
    uint64_t window_rows, window_bytes; /* that samples are shuffled over, decoded */
    uint64_t memory_bytes;              /* that readers have for them */
    double stored_bytes;                /* of one sample: its share of the chunks */
    double read_bytes;                  /* for one sample */
    double amplification;               /* read / stored */
    double chunks;                      /* decoded for one sample */
    bool small, large, across;          /* chunks are too small or too large; along the samples
                                         * rather than across them */
    bool unaligned;                     /* fields' chunks do not lie along the rows */
    uint64_t chunk;                     /* a better length along axis 0; 0: it is right as it is */
    double chunk_amplification;         /* what that would cost */
    double chunk_reads;                 /* chunks decoded for one sample then */
};

/* What an array takes. */
struct stored_size {
    uint64_t bytes; /* STORED_UNKNOWN: nobody says */
    bool
        is_estimate; /* from some of its chunks; else, where values are listed, with its metadata */
};

struct inspection {
    const char *uri;
    struct store *store;
    struct zarr_hierarchy *hierarchy;
    struct stored_size *stored; /* [hierarchy->node_count] */
    struct error listing_error; /* why sizes were not listed, where they could be */
    struct error sizes_error;   /* why some are unknown, which count as decoded ones; the statuses
                                 * of both are OK otherwise */
    struct dataset *dataset;    /* with default fields; NULL if that does not make one */
    struct error dataset_error; /* why not */
    struct layout_cost cost;    /* of the dataset, if there is one */
    const char *group;          /* that was looked at; "": all */
    const char *root;           /* in front of paths in settings: "/" where there is a group */
    const struct zarr_node *index; /* that arrays may be joined through; NULL: none */
    bool *joined;                  /* [hierarchy->node_count]: which, if there is an index */
    struct text doubts;            /* lines "warning: ..." */
};

/* inspect_sizes.c: finds out `stored`, by as few requests as tell. Blocks. NO_MEMORY. */
MUST_USE enum status inspect_measure(struct inspection *inspection, struct error *err);

/* Finds index and joined arrays; `options` as the dataset was opened with. Reads the values of what
 * could be an index. inspect_join.c */
void inspect_find_joins(struct inspection *inspection, const struct dataset_options *options);

/* Behind the last '/'. */
const char *inspect_last_component(const char *path);

/* What a run with windows of `window_rows` rows (0: the default for that global batch) and that
 * much memory would read; inspect_cost.c tells how it is counted. */
void inspect_count_cost(const struct inspection *inspection, uint64_t window_rows,
                        uint64_t global_batch, uint64_t memory_bytes, struct layout_cost *ret_cost);

/* To standard output. */
void inspect_print_text(const struct inspection *inspection);
void inspect_print_json(const struct inspection *inspection);

#endif
