/* When a video's frames are shown, and which segments are cut out of the video. Found by reading
 * all packets, without decoding; where packets have no timestamps, by decoding all frames.
 *
 * Times are in ticks of the stream's time base. Frame k of a segment is the last frame that is
 * shown at begin + start + k / fps seconds or before, rounded to a tick.
 */
#ifndef PENSTOCK_WORKSHOP_INGEST_VIDEO_SEGMENTS_H
#define PENSTOCK_WORKSHOP_INGEST_VIDEO_SEGMENTS_H

#include "workshop/ingest/video.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is wanted of each video. */
struct segment_wish {
    uint64_t seed;
    uint64_t most;        /* segments of a video */
    double seconds, fps;  /* of a segment */
    uint32_t frame_count; /* of a segment */
};

/* A segment needs packet_count packets of the stream, from the keyframe at key_pts on. */
struct video_segment {
    int64_t start; /* ticks after `begin` */
    int64_t key_pts;
    uint64_t packet_count;
    int64_t *times; /* [frame_count] of the frames, where packets have none; else NULL; owned */
};

struct video_segments {
    AVRational time_base;
    int64_t begin; /* of the first frame */
    double duration, fps;
    int width, height; /* of a frame, in the file */
    double ratio;      /* of its sides, as it is shown (picture.h) */
    size_t count;
    struct video_segment *list; /* [count]; owned */
};

/* Reads all packets of the video, which was just opened, and chooses segments: of n segments,
 * number i begins in the i-th of n equal parts of all possible starts, uniformly, by (seed,
 * number of the video, i). Decodes the first frame, to see that the video can be decoded.
 * video_segments_done() frees. INVALID: shorter than a segment. UNSUPPORTED also: frames are too
 * narrow. Errors of video.h. */
MUST_USE enum status video_segments_read(struct video *video, uint64_t number,
                                         const struct segment_wish *wish,
                                         struct video_segments *ret_segments, struct error *err);
void video_segments_done(struct video_segments *segments);

/* The times of a segment's frames, of those in `times` (which rise): the last that is not after
 * each moment, or the first of all. */
void video_segments_choose(const int64_t *times, size_t count,
                           const struct video_segments *segments, int64_t start,
                           const struct segment_wish *wish, int64_t *ret_chosen);

/* Sorts times, and leaves out those that are there twice; returns how many stay. */
size_t video_segments_sort(int64_t *times, size_t count);

#endif
