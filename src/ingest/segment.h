/* Decodes one segment: from the keyframe before to the last frame that is wanted, and no further.
 * One thread. */
#ifndef PENSTOCK_INGEST_SEGMENT_H
#define PENSTOCK_INGEST_SEGMENT_H

#include "ingest/cuts.h"
#include "ingest/picture.h"

/* Puts frame_count pictures at `ret_pixels`. Errors of video.h; CORRUPT also: a frame is damaged,
 * or is not there. */
MUST_USE enum status segment_read(struct video *video, const struct cuts *cuts,
                                  const struct video_segment *segment,
                                  const struct segment_wish *wish, struct picture_maker *maker,
                                  uint32_t size, const struct picture_crop *crop,
                                  unsigned char *ret_pixels, struct error *err);

#endif
