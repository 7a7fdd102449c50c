/* Synthetic datasets of `penstock synth`, in three parts. Internal to cli/.
 *
 *   synth.c          the command: options, layouts, summary
 *   synth_content.c  the numbers: pure functions of (seed, array, index)
 *   synth_write.c    metadata documents and chunks, written by several threads
 */
#ifndef PENSTOCK_CLI_SYNTH_H
#define PENSTOCK_CLI_SYNTH_H

#include "base/error.h"
#include "zarr/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct synth_array;

/* Writes the entry at `index` along axis 0, in native byte order; a function of its arguments
 * alone. */
typedef void synth_fill(const struct synth_array *array, uint64_t index, void *ret_entry);

struct synth_array {
    const char *name;
    enum dtype dtype;
    int rank;
    uint64_t shape[ZARR_MAX_RANK];
    uint64_t chunk_length; /* along axis 0; the other axes are not divided */
    synth_fill *fill;
    uint64_t seed;
    uint64_t stream;      /* tells the arrays of one dataset apart */
    uint64_t entry_items; /* product of shape[1..] */
    uint64_t range;       /* synth_fill_index: entries of the array that is pointed into */
};

/* float16 [20, 4, 32, 32] that look like latents of a video autoencoder, at any such shape with 4
 * axes: a field that changes slowly over time and space, plus noise, of about unit variance. */
synth_fill synth_fill_latents;

/* float16 vector of about unit length in expectation. */
synth_fill synth_fill_embedding;

/* int64: which of `range` videos segment `index` belongs to; videos are runs of segments. */
synth_fill synth_fill_index;

/* Any dtype: about Gaussian floats, uniform integers. */
synth_fill synth_fill_noise;

enum { SYNTH_MAX_ARRAYS = 4 };

struct synth_dataset {
    const char *directory;
    bool overwrite;
    enum zarr_format format;
    const char *codec;   /* "blosc-zstd", "zstd+crc32c", "none" ... */
    const char *shuffle; /* of blosc: "noshuffle", "shuffle", "bitshuffle" */
    int level;           /* of the codec, SYNTH_LEVEL_AUTO for its own default */
    uint32_t thread_count;
    size_t array_count;
    struct synth_array arrays[SYNTH_MAX_ARRAYS];
};

enum { SYNTH_LEVEL_AUTO = -1000 };

struct synth_result {
    uint64_t chunk_count;
    uint64_t decoded_bytes; /* of the arrays, without what pads the last chunks */
    uint64_t stored_bytes;  /* of the chunks */
};

/* Writes the dataset; draws progress. The number of threads does not change the bytes. INVALID: the
 * directory exists, or a codec or a setting is unknown. UNSUPPORTED: Penstock cannot write that
 * codec. IO: the disk. */
MUST_USE enum status synth_write(const struct synth_dataset *dataset,
                                 struct synth_result *ret_result, struct error *err);

#endif
