/* The arrays of a Zarr store: found at opening, sorted by path.
 *
 * Takes consolidated metadata where there is some (v2 `.zmetadata`, v3 `consolidated_metadata`),
 * else walks the groups. Arrays that are wanted by name are looked up where they are: nothing is
 * walked, and no group needs to be above them. Arrays that cannot be read are listed too, with the
 * reason, so that `penstock inspect` can show them and that they hurt only those who use them.
 *
 * Immutable after opening: any number of threads may read it.
 */
#ifndef PENSTOCK_ZARR_HIERARCHY_H
#define PENSTOCK_ZARR_HIERARCHY_H

#include "base/error.h"
#include "base/text.h"
#include "store/store.h"
#include "zarr/array.h"

#include <stddef.h>

/* Bounds on what foreign metadata can make us hold. */
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
    char *reason;            /* why not OK, without the array's name; NULL if OK */
    /* The metadata document, NUL-terminated. Of a v2 array with what `.zattrs` says of its axes and
     * values: with that as one more member, "attributes", as v3 has them. */
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
    bool groups_incomplete; /* there are more, or some whose path is not valid: open all the same */
    char **groups;          /* paths of those that have a document, in order of path; "" the root */
};

/* Which arrays are wanted; zero: all. Paths count from the root; a '/' at either end does not
 * matter. */
struct zarr_wanted {
    const char *const
        *paths; /* these alone, those that there are; members of structured ones, too */
    size_t path_count;
    const char *group; /* without paths: those in this folder; NULL or "": the root */
    size_t most;       /* without paths: it is enough to know of so many; 0: all count */
};

/* Finds the arrays of `store` that are wanted (NULL: all); an array at the root makes a hierarchy
 * of one, with path "". Blocks on the store; one thread. NOT_FOUND: no Zarr metadata at the root,
 * nor for any of the paths. CORRUPT: a group's or consolidated document that is not
 * valid. INVALID: more arrays or levels than our bounds. IO: as the store says. */
MUST_USE enum status zarr_hierarchy_open_wanted(const struct store *store,
                                                const struct zarr_wanted *wanted,
                                                struct zarr_hierarchy **ret_hierarchy,
                                                struct error *err);
MUST_USE enum status zarr_hierarchy_open(const struct store *store,
                                         struct zarr_hierarchy **ret_hierarchy, struct error *err);

/* The array at `path`, NULL if there is none. A leading '/' does not matter. */
const struct zarr_node *zarr_hierarchy_find(const struct zarr_hierarchy *hierarchy,
                                            const char *path);

/* Appends the metadata documents as bytes, and builds the same hierarchy from them without a store.
 * CORRUPT: not what pack wrote. */
void zarr_hierarchy_pack(const struct zarr_hierarchy *hierarchy, struct text *out);
MUST_USE enum status zarr_hierarchy_unpack(const void *bytes, size_t size,
                                           struct zarr_hierarchy **ret_hierarchy,
                                           struct error *err);

void zarr_hierarchy_free(struct zarr_hierarchy *hierarchy);

#endif
