/* Codecs of Zarr v3 while they are read: shared by metadata_v3_codecs.c and metadata_v3_sharding.c.
 */
#ifndef PENSTOCK_ZARR_METADATA_METADATA_V3_CODECS_H
#define PENSTOCK_ZARR_METADATA_METADATA_V3_CODECS_H

#include "zarr/metadata/document.h"

/* How far the codecs are read. */
struct v3_codecs {
    struct zarr_array *array;
    bool has_bytes;  /* codecs from array to bytes are complete */
    bool is_ordered; /* a filter needs the order that values have now, so no codec may change the
                        order */
    bool is_flat;    /* a codec has changed the number of axes: only "bytes" may follow */
};

/* Reads a list of codecs. v3_sharding_parse() calls this for the list of inner chunks. UNSUPPORTED:
 * a codec, or an order of codecs, that is not read. CORRUPT. */
MUST_USE enum status v3_codecs_parse(struct json_object *list, struct v3_codecs *codecs,
                                     struct error *err);

/* Reads "endian" of a bytes codec. Without "endian", items must have one byte. `type` is the name
 * of larger items in messages. */
MUST_USE enum status v3_codecs_endian(struct json_object *configuration, size_t unit_bytes,
                                      const char *type, bool *ret_is_little, struct error *err);

/* metadata_v3_sharding.c: reads "sharding_indexed": a level of shards, and the codecs of its inner
 * chunks. */
MUST_USE enum status v3_sharding_parse(struct json_object *configuration, struct v3_codecs *codecs,
                                       struct error *err);

#endif
