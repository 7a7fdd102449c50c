/* A snapshot of an Icechunk repository: its nodes by path, and the manifests that say where the
 * chunks of its arrays lie. Read once, and kept. Foreign bytes. Pure; any thread.
 */
#ifndef PENSTOCK_STORE_ICECHUNK_SNAPSHOT_H
#define PENSTOCK_STORE_ICECHUNK_SNAPSHOT_H

#include "base/error.h"
#include "store/icechunk/flat.h"
#include "store/icechunk/icechunk_id.h"

struct snapshot_node {
    const char *path; /* without a '/' in front, "" of the root; not NUL-terminated; borrowed */
    uint32_t path_bytes;
    uint32_t table;
    bool is_array;
    const unsigned char *document; /* the text of zarr.json; borrowed */
    uint32_t document_bytes;
    const unsigned char *id; /* [ICECHUNK_NODE_BYTES]; borrowed */
};

struct snapshot_manifest {
    unsigned char id[ICECHUNK_ID_BYTES];
    uint64_t stored_bytes;          /* of the file, as the snapshot says */
    _Atomic uint64_t decoded_bytes; /* 0: not found out yet (manifest.h) */
    bool is_loading;                /* a thread reads it: under the store's mutex */
};

struct snapshot {
    unsigned char *bytes; /* owned */
    size_t size;
    struct snapshot_node *nodes; /* owned: [node_count], in order of store_key_compare() */
    size_t node_count;
    struct snapshot_manifest *manifests; /* owned: [manifest_count], in order of id */
    size_t manifest_count;
};

/* Takes the decompressed bytes of a snapshot apart. Takes `bytes`, malloc'ed, on failure too.
 * CORRUPT; NO_MEMORY. */
MUST_USE enum status snapshot_read(unsigned char *bytes, size_t size, struct snapshot *ret_snapshot,
                                   struct error *err);

void snapshot_done(struct snapshot *snapshot);

/* The index of the first node at or behind a path; node_count if there is none. */
size_t snapshot_find_from(const struct snapshot *snapshot, const char *path, size_t bytes);

/* NULL: there is no such node. */
const struct snapshot_node *snapshot_find(const struct snapshot *snapshot, const char *path,
                                          size_t bytes);

/* One after another, the manifests that may have chunks of an array. */
struct snapshot_walk {
    struct flat flat;
    uint32_t refs, count, next;
};

struct snapshot_walk snapshot_walk(const struct snapshot *snapshot,
                                   const struct snapshot_node *node);

/* The next manifest whose extents have an index that begins with the `fixed` numbers at `index`, of
 * `axes` in all; an array without axes fits any. NULL: there are no more. CORRUPT, with NULL: the
 * bytes are damaged, the array has another number of axes, or no such manifest is listed. */
MUST_USE enum status snapshot_next(const struct snapshot *snapshot, struct snapshot_walk *walk,
                                   const uint32_t *index, uint32_t fixed, uint32_t axes,
                                   struct snapshot_manifest **ret_manifest, struct error *err);

/* How many axes an array has, as the extents of its first manifest say; 1 of an array without any
 * manifest. CORRUPT. */
MUST_USE enum status snapshot_axes(const struct snapshot *snapshot,
                                   const struct snapshot_node *node, uint32_t *ret_axes,
                                   struct error *err);

#endif
