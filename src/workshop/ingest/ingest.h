/* Videos into a dataset: segments of each video, cut into frames, as Zarr v3 (making.h).
 *
 *     base_frames       [N, frames, size, size, 3] uint8, or as options say; N segments. With
 *                       encoders [N, ...], what they make of these
 *     segment_start     [N] float64, seconds from the video's first frame
 *     segment_to_video  [N] int64, the video's row in the arrays below
 *     segment_valid     [N] bool; false: the segment could not be decoded, and its frames are 0
 *     text_emb          [V, D], the rows of a file, where one is given
 *     video_duration    [V] float64, seconds; 0 of a video that was left out
 *     video_fps         [V] float64, frames a second on average
 *     video_name        [V] text
 *
 * V is the number of videos in the list. The list, the seed and the options decide all bytes; the
 * number of threads and processes does not. The journal's folder is .penstock-ingest.
 */
#ifndef PENSTOCK_WORKSHOP_INGEST_INGEST_H
#define PENSTOCK_WORKSHOP_INGEST_INGEST_H

#include "base/dtype.h"
#include "base/error.h"
#include "workshop/encode/encoding.h"
#include "workshop/making/making.h"

#include <stdbool.h>
#include <stdint.h>

enum { SEGMENT_MOST_FRAMES = 1000000 };

struct ingest_options {
    struct making_options making;
    struct encoding_options encoding; /* with a command, base_frames is what encoders make */
    const char *list;                 /* a text file, a CSV file or a folder (video_list.h) */
    const char *text;                 /* FILE.npy or FILE.csv; NULL: none */
    const char *report;               /* a file for the report, as JSON; NULL: none */
    uint64_t seed;
    uint64_t segments; /* of a video, at most */
    double seconds;    /* of a segment */
    double fps;        /* frames of a segment, a second */
    uint32_t size;     /* pixels of a frame's sides */
    enum dtype dtype;  /* DTYPE_UINT8, or a float: (value / 255 - mean) / std */
    double mean[3], std[3];
    bool channels_first;   /* [frames, 3, size, size] */
    bool bad_is_error;     /* a video that cannot be used ends the work */
    uint64_t chunk, shard; /* segments; shard 0: none */
    const char *codec;     /* as of rechunk_options */
    int level;             /* or RECHUNK_LEVEL_AUTO */
    const char *shuffle;   /* NULL: the codec's default */
};

struct ingest_result {
    struct making_result making;
    uint64_t video_count, segment_count, bad_video_count;
    uint64_t bad_segment_count; /* known to the process that finishes */
};

/* Does this part. Blocks; draws progress lines, and names on standard error what was left out.
 * NOT_FOUND: the list or the text is missing. INVALID: neither is as it should be; more than
 * SEGMENT_MOST_FRAMES frames of a segment; no video can be
 * used; with bad_is_error, a video cannot be used. Errors as of making_run(). */
MUST_USE enum status ingest_run(const struct ingest_options *options,
                                struct ingest_result *ret_result, struct error *err);

#endif
