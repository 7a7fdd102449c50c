/* The inside of a dataset, shared by the files of src/dataset. */
#ifndef PENSTOCK_DATASET_DATASET_INTERNAL_H
#define PENSTOCK_DATASET_DATASET_INTERNAL_H

#include "dataset/dataset.h"
#include "store/disk_cache.h"
#include "store/fetch.h"
#include "store/store.h"
#include "zarr/hierarchy.h"

#include <stdbool.h>

/* What a field is made of. */
struct field_origin {
    const struct zarr_array *array;
    const struct zarr_array *index; /* NULL for a direct field */
    size_t held_offset;             /* FIELD_HELD: the array, in the held memory, multiple of 64 */
    size_t index_offset;            /* joined: int64[N] in the held memory, multiple of 64 */
    uint64_t version;               /* of the array's metadata when it was opened; 0: it has none */
    char name[DATASET_NAME_BYTES];
};

struct dataset_private {
    char *uri;
    uint64_t hold_limit_bytes;
    char *cache_dir; /* "": no disk cache */
    uint64_t cache_dir_bytes;
    uint64_t cache_identity;  /* what chunks are cached under; 0 without a disk cache */
    struct disk_cache *cache; /* NULL: none */
    struct store *store;
    bool missing_is_bad;
    uint32_t retries;
    struct store_settings settings;
    struct store_watch *watch; /* borrowed, as is the next; NULL: none */
    struct bad_log *bad_log;
    struct zarr_hierarchy *hierarchy;
    const unsigned char *held; /* borrowed; NULL before dataset_hold() or dataset_attach() */
    struct field_origin origins[DATASET_MAX_FIELDS]; /* parallel to dataset->fields */
    struct dataset_field fields[DATASET_MAX_FIELDS];
};

/* select.c: which arrays are the fields. Both fill origins (name, array, index) in order of name
 * and return their count; names and paths are checked, sample counts are not. */
MUST_USE enum status select_configured(const struct zarr_hierarchy *hierarchy,
                                       const struct dataset_field_spec *specs, size_t spec_count,
                                       struct field_origin *origins, size_t *ret_count,
                                       struct error *err);
MUST_USE enum status select_default(const struct zarr_hierarchy *hierarchy,
                                    struct field_origin *origins, size_t *ret_count,
                                    struct error *err);

/* identity.c: a hash that changes when chunks may have: of the store's identity, the metadata
 * documents, and the versions of the values that these come from. Asks the store for each document.
 */
MUST_USE enum status dataset_identify(const struct store *store,
                                      const struct zarr_hierarchy *hierarchy,
                                      uint64_t *ret_identity, struct error *err);

/* identity.c: remembers the versions of the fields' metadata documents, and compares them. INVALID:
 * the array's was written anew, or removed. */
MUST_USE enum status dataset_note_versions(struct dataset *dataset, struct error *err);
MUST_USE enum status dataset_check_unchanged(const struct dataset *dataset,
                                             const struct zarr_array *array, struct error *err);

/* hold_samples.c: zarr_read_samples() of a whole array, with its chunks fetched ahead where the
 * store is remote. */
struct zarr_chunk_reader;
struct zarr_read_stats;
MUST_USE enum status hold_samples(const struct dataset *dataset, struct zarr_chunk_reader *reader,
                                  const struct zarr_array *array, void *out,
                                  struct zarr_read_stats *stats, struct error *err);

/* fingerprint.c: of a dataset that is otherwise settled. */
uint64_t fingerprint_of(const struct dataset *dataset);

/* layout.c: everything that follows of the origins: counts, sources, offsets, fingerprint. */
MUST_USE enum status layout_settle(struct dataset *dataset, struct error *err);

#endif
