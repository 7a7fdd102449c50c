/* What a keyframe is good for. Containers and FFmpeg call more frames keyframes than decoding can
 * begin at. */
#ifndef PENSTOCK_WORKSHOP_INGEST_KEYFRAME_H
#define PENSTOCK_WORKSHOP_INGEST_KEYFRAME_H

#include "workshop/ingest/video.h"

enum keyframe {
    KEYFRAME_NONE,   /* not a keyframe; or one that others must follow before pictures are right */
    KEYFRAME_BEGINS, /* decoding can begin here */
    KEYFRAME_CLEAN,  /* the same, and nothing after refers to what was before */
};

/* Of video->packet. H.264 and HEVC are looked into (ITU-T H.264 and H.265, table 7-1 of both, and
 * 7.3.3 of H.264); other codecs' keyframes are KEYFRAME_BEGINS. */
enum keyframe keyframe_of(const struct video *video);

#endif
