/* A manifest of an Icechunk repository: where chunks lie. Chunks are looked up in the decompressed
 * bytes, by binary search. Foreign bytes. Pure; any thread.
 */
#ifndef PENSTOCK_STORE_ICECHUNK_MANIFEST_H
#define PENSTOCK_STORE_ICECHUNK_MANIFEST_H

#include "base/error.h"
#include "store/icechunk/flat.h"
#include "store/icechunk/icechunk_id.h"

enum { MANIFEST_LOCATION_BYTES = 1025, MANIFEST_ETAG_BYTES = 256, MANIFEST_MOST_AXES = 32 };

enum chunk_kind { CHUNK_INLINE, CHUNK_NATIVE, CHUNK_VIRTUAL };

struct chunk_ref {
    enum chunk_kind kind;
    const unsigned char *bytes;             /* CHUNK_INLINE: borrowed from the manifest */
    uint64_t offset, length;                /* in the object that holds the chunk */
    unsigned char id[ICECHUNK_ID_BYTES];    /* CHUNK_NATIVE */
    char location[MANIFEST_LOCATION_BYTES]; /* CHUNK_VIRTUAL: of the object */
    char etag[MANIFEST_ETAG_BYTES];         /* CHUNK_VIRTUAL: as servers have it; "": none */
    uint32_t modified_s;                    /* CHUNK_VIRTUAL: since 1970; 0: not said */
};

/* Checks once that arrays and chunks are in order, without which a search would miss some. CORRUPT.
 */
MUST_USE enum status manifest_check(const unsigned char *bytes, size_t size, struct error *err);

/* The chunks of one array in a manifest that was checked. */
struct manifest_array {
    struct flat flat;
    uint32_t root, refs, count; /* count 0: the manifest has none of the array */
};

struct manifest_array manifest_array(const unsigned char *bytes, size_t size,
                                     const unsigned char node[ICECHUNK_NODE_BYTES]);

/* The number of the first chunk at or behind an index that begins with `fixed` numbers; the count
 * if there is none. */
uint32_t manifest_find_from(struct manifest_array *array, const uint32_t *index, uint32_t fixed);

/* Whether chunk `i` has an index that begins so; of an array without axes: any. If so, its number
 * along axis `fixed` is *ret_next, unless ret_next is NULL. */
bool manifest_begins(struct manifest_array *array, uint32_t i, const uint32_t *index,
                     uint32_t fixed, uint32_t *ret_next);

/* The number of the chunk at an index. An array without axes has one chunk, whose index some
 * writers give as 0. False: there is none. */
bool manifest_find(struct manifest_array *array, const uint32_t *index, uint32_t axes,
                   uint32_t *ret_i);

/* Reads chunk `i`. CORRUPT: it is damaged, or too long. UNSUPPORTED: an unknown kind. */
MUST_USE enum status manifest_ref(struct manifest_array *array, uint32_t i,
                                  struct chunk_ref *ret_ref, struct error *err);

#endif
