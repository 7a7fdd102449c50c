/* What `penstock inspect` found, and its two ways of saying it. Internal to cli/. */
#ifndef PENSTOCK_CLI_INSPECT_H
#define PENSTOCK_CLI_INSPECT_H

#include "base/error.h"
#include "dataset/dataset.h"
#include "store/store.h"
#include "zarr/hierarchy.h"

#include <stdint.h>

#define STORED_UNKNOWN UINT64_MAX

struct report {
    const char *uri;
    struct store *store;
    struct zarr_hierarchy *hierarchy;
    uint64_t
        *stored_bytes; /* [hierarchy->node_count] with the array's metadata; or STORED_UNKNOWN */
    struct dataset *dataset;    /* with default fields; NULL if that does not make one */
    struct error dataset_error; /* why not */
};

/* To standard output. */
void inspect_print_text(const struct report *report);
void inspect_print_json(const struct report *report);

#endif
