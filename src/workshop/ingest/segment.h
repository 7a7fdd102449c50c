/* Decodes segments, from the keyframe before to the last frame that is wanted, and no further.
 * Segments that begin at the same keyframe share one pass of the decoder, where they are asked for
 * in order: a frame goes to each of them as it comes out. What a segment gets does not depend on
 * the segments before and after. One thread.
 */
#ifndef PENSTOCK_WORKSHOP_INGEST_SEGMENT_H
#define PENSTOCK_WORKSHOP_INGEST_SEGMENT_H

#include "workshop/ingest/video_segments.h"

struct segment_reader;

/* Frames of a video may get as long as this, by their short side, whatever the first one is. */
enum { SEGMENT_RATIO = 4 };

/* At most this many segments share a pass. */
enum { SEGMENTS_AT_ONCE = 8 };

/* Pictures have size x size pixels, of 3 bytes each. Memory for the pictures of `at_once` segments
 * is allocated here; `wish` is borrowed. NO_MEMORY. */
MUST_USE enum status segment_reader_new(const struct segment_wish *wish, uint32_t size,
                                        uint32_t at_once, struct segment_reader **ret_reader,
                                        struct error *err);
void segment_reader_free(struct segment_reader *reader);

/* Opens a video, if another one is open; `path` and `segments` are borrowed. Errors of
 * video_open(). */
MUST_USE enum status segment_reader_use(struct segment_reader *reader, const char *path,
                                        uint64_t number, const struct video_segments *segments,
                                        struct error *err);

/* Decodes segment `i` of the video: wish->frame_count pictures, valid until the next call. Errors
 * of video.h; CORRUPT also: a frame is damaged, or is not there. UNSUPPORTED also: a frame is
 * longer than the first one and SEGMENT_RATIO. After an error the video is closed. */
MUST_USE enum status segment_read(struct segment_reader *reader, uint64_t i,
                                  const unsigned char **ret_pictures, struct error *err);

#endif
