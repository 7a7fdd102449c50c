/* Synthetic datasets of `penstock synth`.
 *
 *   synth.c          the command: options, summary
 *   synth_layouts.c  which arrays a dataset has: tables
 *   synth_content.c  the numbers: pure functions of (seed, array, index)
 *   synth_series.c   the same for frames that follow one another: robots, weather, tokens
 *   synth_ragged.c   the same for samples of unequal lengths: events, cells, documents
 *   synth_write.c    metadata documents and chunks, written by several threads
 */
#ifndef PENSTOCK_WORKSHOP_SYNTH_SYNTH_H
#define PENSTOCK_WORKSHOP_SYNTH_SYNTH_H

#include "base/error.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct synth_array;

/* Writes the entry at `index` along axis 0, in native byte order; a function of its arguments
 * alone. */
typedef void synth_fill(const struct synth_array *array, uint64_t index, void *ret_entry);

struct synth_array {
    const char *name;       /* may have groups in front: "meta/episode_ends" */
    const char *dimensions; /* names of the axes, "time latitude"; NULL: none */
    enum dtype dtype;
    uint64_t shape[ZARR_MAX_RANK];
    uint64_t chunk_length; /* along axis 0; the other axes are not divided */
    uint64_t range; /* of the array that this one points into, or that points into this: entries */
    synth_fill *fill;
    const char *attributes; /* members of a JSON object; NULL: none */
    bool text;              /* uint32 [n, w] that is stored as n texts of w characters, UTF-32 */
    uint64_t side;          /* values are 0 to before this number */
    uint64_t grain; /* of latents: noise of each value, in percent of the nodes' deviation */
    bool long_tail; /* a few samples have many times as many items as the others */
    int rank;
    uint64_t seed;
    uint64_t stream;      /* tells the arrays of one dataset apart */
    uint64_t entry_items; /* product of shape[1..] */
};

/* float16 [20, 4, 32, 32] that look like latents of a video autoencoder, at any such shape with 4
 * axes: a field that changes slowly over time and space, plus noise (`grain`), of about unit
 * variance. */
synth_fill synth_fill_latents;

/* float16 vector of about unit length in expectation. */
synth_fill synth_fill_embedding;

/* int64: which of `range` videos segment `index` belongs to; videos are runs of segments. */
synth_fill synth_fill_index;

/* Any dtype: about Gaussian floats, uniform integers. */
synth_fill synth_fill_noise;

/* Frames of episodes, in which a disc follows a path and a block moves. uint8 [h, w, 3]; float32
 * [5]: where the disc is, where the block is, and the block's angle; float32 [2]: where the disc
 * will be at the next frame. Numbers are 0 to 512. `range` is the number of episodes. */
synth_fill synth_fill_camera, synth_fill_state, synth_fill_action;

/* int64: the episode of each frame, of `range`; and the end of each episode, of `range` frames. The
 * lengths of episodes differ by up to half of their mean. */
synth_fill synth_fill_episode, synth_fill_episode_end;

/* float32 [variables, latitudes, longitudes]: variable v is 10 v on average, with a standard
 * deviation of 1 + v/8; all NaN where the date is missing. Then these statistics, a bool for each
 * date that is missing, the hours since the first date, and coordinates of all axes. */
synth_fill synth_fill_weather, synth_fill_mean, synth_fill_deviation, synth_fill_missing,
    synth_fill_hours, synth_fill_latitude, synth_fill_longitude, synth_fill_variable;

/* uint16: small numbers more often than large ones. */
synth_fill synth_fill_tokens;

/* int64: where each sample's items begin, of `range` items; one more entry, the number of items. */
synth_fill synth_fill_offset;

/* Items of `range` samples. uint16: when, and where along an axis, an event was, of `side`; uint8:
 * how many there were. int32: a gene of `side`, rising within the sample; float32: its count.
 * int64: a class for each sample. */
synth_fill synth_fill_event_bin, synth_fill_event_coordinate, synth_fill_event_count,
    synth_fill_gene, synth_fill_expression, synth_fill_label;

enum { SYNTH_MAX_ARRAYS = 12, SYNTH_NAME_CHARACTERS = 8 };

struct synth_dataset {
    const char *directory;
    bool overwrite;
    enum zarr_format format;
    const char *codec;   /* "blosc-zstd", "zstd+crc32c", "none" ... */
    const char *shuffle; /* of blosc: "noshuffle", "shuffle", "bitshuffle" */
    int level;           /* of the codec, SYNTH_LEVEL_AUTO for its own default */
    uint32_t thread_count;
    char group_attributes[192]; /* of the first array's group: a JSON object; "": none */
    size_t array_count;
    struct synth_array arrays[SYNTH_MAX_ARRAYS];
};

enum { SYNTH_LEVEL_AUTO = -1000 };

/* What the command line says about the arrays; 0 (dtype, rank: as well): the layout's default. */
struct synth_sizes {
    uint64_t samples, chunk, seed;
    uint64_t items;  /* of a sample on average, where lengths differ */
    uint64_t groups; /* videos, episodes or documents that the samples are from */
    uint64_t grain;  /* of latents */
    enum dtype dtype;
    int rank; /* of a sample, with shape */
    uint64_t shape[ZARR_MAX_RANK - 1];
};

struct synth_layout;

/* NULL: no layout has that name. */
const struct synth_layout *synth_layout_find(const char *name);

/* The names of all layouts: "latents, plain and robot". */
const char *synth_layout_names(void);

/* Adds the layout's arrays, and sets *sizes' members that are 0.
 * INVALID: the layout's samples have another number of axes. */
MUST_USE enum status synth_layout_add(const struct synth_layout *layout, struct synth_sizes *sizes,
                                      struct synth_dataset *dataset, struct error *err);

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
