/* The arrays of a Zarr store: found at opening, in order of path.
 *
 * Arrays come from consolidated metadata if there is any (v2 `.zmetadata`, v3
 * `consolidated_metadata`). Otherwise the groups are walked. Arrays that are wanted by name are
 * looked up by name: nothing is walked, and no group needs to be above them. An array that cannot
 * be read is listed, too, with the reason. So `penstock inspect` can show the array, and only those
 * who use the array are hurt.
 *
 * A hierarchy does not change after opening. Any number of threads may read a hierarchy.
 */
#ifndef PENSTOCK_ZARR_HIERARCHY_HIERARCHY_H
#define PENSTOCK_ZARR_HIERARCHY_HIERARCHY_H

#include "base/error.h"
#include "base/text.h"
#include "store/store.h"
#include "zarr/metadata/array.h"

#include <stddef.h>

/* The most that foreign metadata can make us hold. */
enum {
    ZARR_MAX_ARRAYS = 4096,
    ZARR_MAX_GROUPS = 4096,
    ZARR_MAX_GROUP_DEPTH = 16,
    ZARR_MAX_DOCUMENT_BYTES = 1 << 20,
    ZARR_MAX_CONSOLIDATED_BYTES = 64 << 20,
};

/* One array of the hierarchy. */
struct zarr_node {
    struct zarr_array array; /* complete if status is OK, else as far as zarr_array_parse() came */
    enum status status;      /* of parsing: OK, UNSUPPORTED, CORRUPT or INVALID */
    char *reason;            /* owned: why not OK, without the array's name; NULL if OK */
    /* Owned: the metadata document, NUL-terminated. The document of a v2 array has one more member,
     * "attributes", as in v3: the part of `.zattrs` that attributes.h reads. */
    char *document;
    size_t document_bytes;
};

struct zarr_hierarchy {
    enum zarr_format format;
    bool consolidated; /* found in consolidated metadata */
    size_t node_count;
    struct zarr_node *nodes; /* in order of path */
    size_t group_count;      /* 0 after unpacking */
    bool incomplete;         /* there are more arrays than were asked for (`most`) */
    bool groups_incomplete; /* there are more groups, or groups whose path is not valid: no error */
    char **groups; /* [group_count] paths of groups with a document, in order; "": the root */
};

/* Which arrays are wanted. All zero: all arrays. Paths begin at the root; a '/' at either end does
 * not matter. All pointers are borrowed during the call. */
struct zarr_wanted {
    /* [path_count] the wanted arrays, members of structured dtypes included; a path that is not
     * there is no error. NULL: by group. */
    const char *const *paths;
    size_t path_count;
    const char *group; /* without paths: all arrays in this group; NULL or "": the root */
    size_t most;       /* without paths: the most arrays that are looked for; 0: all */
};

/* Finds the wanted arrays of `store` (`wanted` NULL: all). An array at the root makes a hierarchy
 * of one array, with path "". Blocks on the store; one thread. NOT_FOUND: no Zarr metadata at the
 * root, nor for any of the paths. CORRUPT: a group's document, or a consolidated document, is not
 * valid. INVALID: more arrays or levels than our bounds. NO_MEMORY. Other errors as of
 * store_get_text() and store_list(). */
MUST_USE enum status zarr_hierarchy_open_wanted(const struct store *store,
                                                const struct zarr_wanted *wanted,
                                                struct zarr_hierarchy **ret_hierarchy,
                                                struct error *err);

/* As zarr_hierarchy_open_wanted(), for all arrays. */
MUST_USE enum status zarr_hierarchy_open(const struct store *store,
                                         struct zarr_hierarchy **ret_hierarchy, struct error *err);

/* The array at `path`, borrowed from the hierarchy; NULL: none. A '/' in front does not matter. */
const struct zarr_node *zarr_hierarchy_find(const struct zarr_hierarchy *hierarchy,
                                            const char *path);

/* Appends the metadata documents as bytes. */
void zarr_hierarchy_pack(const struct zarr_hierarchy *hierarchy, struct text *out);

/* Builds the same hierarchy from packed bytes, without a store. CORRUPT: the bytes are not from
 * zarr_hierarchy_pack(). NO_MEMORY. */
MUST_USE enum status zarr_hierarchy_unpack(const void *bytes, size_t size,
                                           struct zarr_hierarchy **ret_hierarchy,
                                           struct error *err);

/* NULL is fine. */
void zarr_hierarchy_free(struct zarr_hierarchy *hierarchy);

#endif
