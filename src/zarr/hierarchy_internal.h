/* A hierarchy while it is being built. Internal to src/zarr. */
#ifndef PENSTOCK_ZARR_HIERARCHY_INTERNAL_H
#define PENSTOCK_ZARR_HIERARCHY_INTERNAL_H

#include "zarr/hierarchy.h"

struct builder {
    struct zarr_hierarchy *hierarchy;
    size_t capacity, group_capacity; /* of its nodes; of its groups */
};

/* Adds the array at `path`, whose document is copied; one that does not parse is recorded, not an
 * error. INVALID: too many arrays. */
MUST_USE enum status hierarchy_add(struct builder *builder, const char *path, const char *document,
                                   size_t size, struct error *err);

/* Adds the group at `path`; one too many leaves the list incomplete, which is no error. */
MUST_USE enum status hierarchy_add_group(struct builder *builder, const char *path,
                                         struct error *err);

/* discover.c: adds all arrays of a store, in any order, and settles the format. */
MUST_USE enum status discover_arrays(struct builder *builder, const struct store *store,
                                     struct error *err);

#endif
