/* A hierarchy while it is being built. Internal to src/zarr. */
#ifndef PENSTOCK_ZARR_HIERARCHY_INTERNAL_H
#define PENSTOCK_ZARR_HIERARCHY_INTERNAL_H

#include "zarr/hierarchy.h"

struct builder {
    struct zarr_hierarchy *hierarchy;
    struct zarr_wanted wanted;
    size_t capacity, group_capacity; /* of its nodes; of its groups */
};

/* Adds the array at `path`, whose document is copied; one that does not parse is recorded, not an
 * error. INVALID: too many arrays. ENDED: it is enough to know of those before. */
MUST_USE enum status hierarchy_add(struct builder *builder, const char *path, const char *document,
                                   size_t size, struct error *err);

/* Adds the group at `path`; one too many leaves the list incomplete, which is no error. */
MUST_USE enum status hierarchy_add_group(struct builder *builder, const char *path,
                                         struct error *err);

/* discover.c: adds all arrays of a store that are wanted, in any order, and settles the format.
 * ENDED: as above. */
MUST_USE enum status discover_arrays(struct builder *builder, const struct store *store,
                                     struct error *err);

/* Paths come from foreign documents: relative, clean, not too long. UNSUPPORTED, CORRUPT. */
MUST_USE enum status discover_check_path(const char *path, struct error *err);

struct json_object;

/* Adds the array at `path`, whose document is `document`. Errors as of hierarchy_add(), and a path
 * that is none. */
MUST_USE enum status discover_document(struct builder *builder, const char *path,
                                       struct json_object *document, struct error *err);

/* Whether a v3 document is an array's. */
bool discover_is_array(struct json_object *document);

/* discover_named.c: the wanted group, without '/' at either end. INVALID: it is too long. */
MUST_USE enum status discover_group(const struct builder *builder, char ret_path[ZARR_PATH_BYTES],
                                    struct error *err);

/* Whether the document of an array at `path` is wanted. */
bool discover_wants(const struct builder *builder, const char *path);

/* Adds the arrays that are wanted by name and not there yet. Without a format it becomes that of
 * the first one. */
MUST_USE enum status discover_named(struct builder *builder, const struct store *store,
                                    struct error *err);

/* discover_walk.c: adds the arrays in the wanted group, from group to group. Without a format it
 * becomes the group's; at the root nothing is done then. A group that is not there has no arrays.
 */
MUST_USE enum status discover_walk(struct builder *builder, const struct store *store,
                                   struct error *err);

/* Adds the array at `path`; *ret_is_group: a group is there, and nothing was added. NOT_FOUND: no
 * document of the hierarchy's format. */
MUST_USE enum status discover_node(struct builder *builder, const struct store *store,
                                   const char *path, bool *ret_is_group, struct error *err);

#endif
