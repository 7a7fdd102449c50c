/* Codecs of Zarr v3 while they are read: shared by metadata_v3_codecs.c and metadata_v3_sharding.c.
 */
#ifndef PENSTOCK_ZARR_METADATA_V3_CODECS_H
#define PENSTOCK_ZARR_METADATA_V3_CODECS_H

#include "zarr/document.h"

/* Where reading the codecs has come. */
struct v3_codecs {
    struct zarr_array *array;
    bool has_bytes;  /* codecs from array to bytes are complete */
    bool is_ordered; /* a filter needs the order that values have now: it must stay */
    bool is_flat;    /* a codec has changed the number of axes: only "bytes" may follow */
};

/* One list of codecs; that of inner chunks from within the one of their shards. */
MUST_USE enum status v3_codecs_parse(struct json_object *list, struct v3_codecs *codecs,
                                     struct error *err);

/* "endian" of a bytes codec. Without it, it can only be meant for items of one byte; `type` is what
 * messages call larger ones. */
MUST_USE enum status v3_codecs_endian(struct json_object *configuration, size_t unit_bytes,
                                      const char *type, bool *ret_is_little, struct error *err);

/* metadata_v3_sharding.c: "sharding_indexed": a level of shards, and the codecs of its inner
 * chunks.
 */
MUST_USE enum status v3_sharding_parse(struct json_object *configuration, struct v3_codecs *codecs,
                                       struct error *err);

#endif
