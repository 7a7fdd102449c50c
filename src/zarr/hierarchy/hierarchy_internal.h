/* A hierarchy while it is being built, shared by its files:
 *
 *     hierarchy.c         opened, asked, freed
 *     hierarchy_build.c   nodes and groups are added
 *     hierarchy_pack.c    as bytes, and back
 *     discover.c          finding the arrays of a store: by which way
 *     consolidated.c      documents that hold those of others
 *     discover_node.c     the document of one node
 *     discover_walk.c     from group to group
 *     discover_named.c    by name
 *
 * Internal to src/zarr. One thread, while opening. */
#ifndef PENSTOCK_ZARR_HIERARCHY_HIERARCHY_INTERNAL_H
#define PENSTOCK_ZARR_HIERARCHY_HIERARCHY_INTERNAL_H

#include "zarr/hierarchy/hierarchy.h"

struct builder {
    struct zarr_hierarchy *hierarchy;
    struct zarr_wanted wanted;
    size_t capacity, group_capacity; /* of its nodes; of its groups */
};

/* hierarchy_build.c: an empty hierarchy, to be freed by zarr_hierarchy_free(); and all in order of
 * path, when everything was added. NO_MEMORY. */
MUST_USE enum status hierarchy_build_begin(struct builder *builder, struct error *err);
void hierarchy_build_end(struct builder *builder);

/* hierarchy_build.c: adds the array at `path`, whose document is copied; one that does not parse is
 * recorded, not an error. INVALID: too many arrays. ENDED: it is enough to know of those before. */
MUST_USE enum status hierarchy_add(struct builder *builder, const char *path, const char *document,
                                   size_t size, struct error *err);

/* hierarchy_build.c: adds the group at `path`; one too many leaves the list incomplete, which is no
 * error. */
MUST_USE enum status hierarchy_add_group(struct builder *builder, const char *path,
                                         struct error *err);

/* discover.c: adds all arrays of a store that are wanted, in any order, and settles the format.
 * ENDED: as above. */
MUST_USE enum status discover_arrays(struct builder *builder, const struct store *store,
                                     struct error *err);

struct json_object;

/* consolidated.c: adds what is wanted of '.zmetadata', and of the "consolidated_metadata" of a
 * 'zarr.json'. CORRUPT: they are not valid. Errors as of hierarchy_add(). */
MUST_USE enum status consolidated_add_v2(struct builder *builder, struct json_object *root,
                                         struct error *err);
MUST_USE enum status consolidated_add_v3(struct builder *builder, struct json_object *consolidated,
                                         struct error *err);

/* discover_named.c: the wanted group, without '/' at either end. INVALID: it is too long. */
MUST_USE enum status discover_group(const struct builder *builder, char ret_path[ZARR_PATH_BYTES],
                                    struct error *err);

/* discover_named.c: whether the document of an array at `path` is wanted. */
bool discover_wants(const struct builder *builder, const char *path);

/* discover_named.c: adds the arrays that are wanted by name and not there yet. Without a format it
 * becomes that of the first one. */
MUST_USE enum status discover_named(struct builder *builder, const struct store *store,
                                    struct error *err);

/* discover_walk.c: adds the arrays in the wanted group, from group to group. Without a format it
 * becomes the group's; at the root nothing is done then. A group that is not there has no arrays.
 */
MUST_USE enum status discover_walk(struct builder *builder, const struct store *store,
                                   struct error *err);

/* discover_node.c: paths come from foreign documents: relative, clean, not too long. UNSUPPORTED,
 * CORRUPT. */
MUST_USE enum status discover_check_path(const char *path, struct error *err);

/* discover_node.c: adds the array at `path`, whose document is `document`. Errors as of
 * hierarchy_add(), and a path that is none. */
MUST_USE enum status discover_document(struct builder *builder, const char *path,
                                       struct json_object *document, struct error *err);

/* discover_node.c: whether a v3 document is an array's. */
bool discover_is_array(struct json_object *document);

/* discover_node.c: the document `name` of the node at `path`, as by store_get_text(); NOT_FOUND if
 * the node has none. */
MUST_USE enum status discover_get_document(const struct store *store, const char *path,
                                           const char *name, size_t limit, char **ret_text,
                                           size_t *ret_size, struct error *err);

/* discover_node.c: adds the array at `path`; *ret_is_group: a group is there, and nothing was
 * added. NOT_FOUND: no document of the hierarchy's format. */
MUST_USE enum status discover_node(struct builder *builder, const struct store *store,
                                   const char *path, bool *ret_is_group, struct error *err);

#endif
