/* An array that encoders make of a dataset's arrays, as a Zarr v3 dataset of its own:
 *
 *     <field>    [N, ...] dtype and shape as the encoders' first result; N samples of the source
 *     <copies>   arrays of the source as they are, in their own chunks
 *
 * The journal's folder is .penstock-derive.
 */
#ifndef PENSTOCK_WORKSHOP_ENCODE_DERIVE_H
#define PENSTOCK_WORKSHOP_ENCODE_DERIVE_H

#include "store/store.h"
#include "workshop/encode/encoding.h"

struct derive_options {
    struct making_options making;
    struct encoding_options encoding;
    const char *source;         /* uri, for messages and the attributes */
    const char *field;          /* the array's name */
    struct making_names inputs; /* paths of the source's arrays; none: the one with most bytes */
    struct making_names copies; /* arrays of the source's root group that are copied beside it */
    uint64_t chunk, shard;      /* samples; chunk 0: about 1 MiB; shard 0: none */
    const char *codec;          /* as of rechunk_options */
    int level;
    const char *shuffle;
};

/* Does this part, reading from `source` (borrowed). Blocks; draws a progress line. NOT_FOUND: no
 * source, or no such array. INVALID: arrays of unequal lengths, an array's name that cannot be.
 * UNSUPPORTED: an array that cannot be read, or that encoders cannot get. Errors of
 * encoding_settle() and making_run(). */
MUST_USE enum status derive_run(const struct derive_options *options, const struct store *source,
                                struct making_result *ret_result, struct error *err);

#endif
