/* `penstock inspect`: the inspection of a dataset, and printing the inspection as text or as JSON.
 * Internal to cli/. */
#ifndef PENSTOCK_CLI_INSPECT_INSPECT_H
#define PENSTOCK_CLI_INSPECT_INSPECT_H

#include "base/error.h"
#include "cli/common/settings.h"
#include "cli/kinds/kinds.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "zarr/hierarchy/hierarchy.h"

#include <stdbool.h>
#include <stdint.h>

#define STORED_UNKNOWN UINT64_MAX

/* The cost of a layout: bytes that a run reads from the store for a sample. The rows of a window
 * are in memory as far as they fit. */
struct layout_cost {
    uint64_t window_rows, window_bytes; /* of a window, decoded */
    uint64_t memory_bytes;              /* of the readers, for rows */
    uint64_t row_bytes;                 /* of a row; of a dataset with ragged fields, in the mean */
    double stored_bytes;                /* one sample's share of the stored chunks */
    double read_bytes;                  /* for one sample */
    double amplification;               /* read / stored */
    double chunks;                      /* decoded for one sample */
    bool small, large, across;          /* chunks are too small or too large; along the samples
                                         * rather than across them */
    bool unaligned;                     /* fields' chunks do not lie along the rows */
    uint64_t chunk;             /* a better length along axis 0; 0: the present one is good, or no
                                 * option of `penstock rechunk` brings another */
    double chunk_amplification; /* amplification with that length */
    double chunk_reads;         /* chunks decoded for one sample with that length */
};

/* The size of an array in the store. */
struct stored_size {
    uint64_t bytes;   /* STORED_UNKNOWN: the store does not tell */
    bool is_estimate; /* scaled up from some of the chunks; a listed size has the metadata, too */
};

struct inspection {
    const char *uri;
    struct store *store;
    struct zarr_hierarchy *hierarchy;
    struct stored_size *stored; /* [hierarchy->node_count] */
    struct error listing_error; /* why the store did not list sizes; OK: nothing failed */
    struct error
        sizes_error; /* why some sizes are unknown: decoded ones count there; OK: all are known */
    struct dataset *dataset;       /* NULL: the arrays make no dataset */
    bool configured;               /* its fields are those of the configuration, not by default */
    struct error dataset_error;    /* why not */
    struct layout_cost cost;       /* of the dataset, if there is one */
    uint64_t global_batch;         /* of the configuration */
    const char *group;             /* the inspected group; "": all */
    const char *root;              /* prefix of paths in hints: "/" where there is a group */
    const struct zarr_node *index; /* index of a join; NULL: none */
    const struct zarr_node *ends;  /* what looks like the ends of episodes; NULL: none */
    bool is_stats;                 /* penstock stats wrote the store */
    const struct cli_settings *settings; /* of the command */
    bool has_uri;                        /* the configuration's dataset is the inspected one */
    bool *joined;             /* [hierarchy->node_count]: whether the index points into the array */
    struct text doubts;       /* lines "warning: ..." */
    struct kind_finding kind; /* what the store is by name */
    const char *written;      /* the file of --write; NULL: none */
};

/* Measures `stored` with few requests (inspect_sizes.c). Blocks. NO_MEMORY. */
MUST_USE enum status inspect_measure(struct inspection *inspection, struct error *err);

/* Finds the ends of episodes, an index, and the arrays joined through it (inspect_join.c).
 * `options` are those of the open dataset. Reads the values of arrays that could be ends or an
 * index. */
void inspect_find_joins(struct inspection *inspection, const struct dataset_options *options);

/* The part of `path` behind the last '/'. */
const char *inspect_last_component(const char *path);

/* Counts the cost of a run with windows of `window_rows` rows (0: the default for the global batch)
 * and that much memory. inspect_cost.c tells how. */
void inspect_count_cost(const struct inspection *inspection, uint64_t window_rows,
                        uint64_t global_batch, uint64_t memory_bytes, struct layout_cost *ret_cost);

/* The readable array with the most bytes: `penstock rechunk --chunk N` counts its samples. NULL:
 * none. */
const struct zarr_node *inspect_largest(const struct inspection *inspection);

/* To standard output. */
void inspect_print_text(const struct inspection *inspection);
void inspect_print_json(const struct inspection *inspection);

#endif
