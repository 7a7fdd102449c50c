/* Shared by the parts of rechunking: rechunk.c (from the source), rechunk_target.c (what to write),
 * rechunk_type.c (types of v2 in v3), copy_attributes.c (what of its meaning stays),
 * rechunk_document.c (an array's zarr.json). */
#ifndef PENSTOCK_WORKSHOP_MAKING_RECHUNK_INTERNAL_H
#define PENSTOCK_WORKSHOP_MAKING_RECHUNK_INTERNAL_H

#include "store/store.h"
#include "workshop/making/rechunk.h"
#include "workshop/making/targets.h"
#include "zarr/hierarchy/hierarchy.h"

/* Settles what is to be written, but for slabs. Errors as of rechunk_run(). */
MUST_USE enum status targets_make(const struct rechunk_options *options, const struct store *store,
                                  const struct zarr_hierarchy *hierarchy,
                                  struct targets *ret_targets, struct error *err);

/* Settles how the array is cut into slabs. `source_length`: samples that the source has together.
 */
void target_set_demand(struct target *target, uint64_t source_length);

/* The data_type of an array in v3, and its fill_value from the source's `document`
 * (rechunk_type.c); both returned. Strings, raw bytes and dates have the names of zarr-python. A
 * member of a structured dtype is an array of its own. */
struct json_object;
struct json_object *target_type(const struct zarr_array *source);
struct json_object *target_fill(const struct zarr_array *source, struct json_object *document);

/* `bytes` as base64; and one value of a dtype, exact (rechunk_type.c). Returned. */
struct json_object *target_base64(const unsigned char *bytes, size_t count);
struct json_object *target_value_json(enum dtype dtype, const unsigned char *item);

/* The source with the shape that is written: a member that is a sub-array has a last axis more.
 * UNSUPPORTED: cannot be written so. */
MUST_USE enum status target_shape(const struct zarr_array *source, struct zarr_array *ret_shaped,
                                  struct error *err);

/* The members of the source's metadata that the target keeps; borrowed. */
struct target_origin {
    struct json_object *document, *attributes;
    struct json_object *dimension_names; /* NULL: none */
};

/* Makes the zarr.json (returned) of an array with the shape of `source` (rechunk_document.c). A
 * value is a shard if `value_shape` is larger than `chunk_shape`. INVALID: an unknown --codec.
 * Values are stored as differences along `delta_axis`, which is not 0, or as they are (0). */
MUST_USE enum status target_document(const struct rechunk_options *options,
                                     const struct zarr_array *source, int delta_axis,
                                     const uint64_t *chunk_shape, const uint64_t *value_shape,
                                     const struct target_origin *origin,
                                     struct json_object **ret_document, struct error *err);

#endif
