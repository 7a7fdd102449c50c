/* What is cut out of each video of a list. The first process finds out and writes the plan into the
 * journal's folder; the others wait for the plan and read it. */
#ifndef PENSTOCK_WORKSHOP_INGEST_VIDEO_PLAN_H
#define PENSTOCK_WORKSHOP_INGEST_VIDEO_PLAN_H

#include "workshop/ingest/video_list.h"
#include "workshop/ingest/video_segments.h"

#include <stdint.h>

struct planned_video {
    char *reason; /* why the video is left out; NULL: it is not; owned */
    struct video_segments segments;
};

struct video_plan {
    size_t count, bad_count;
    struct planned_video *videos;
    uint64_t *first_segments; /* [count + 1]: number of each video's first; last: of all */
    uint64_t segment_count;
    uint64_t most_pixels; /* of a frame */
    double most_ratio;    /* of a frame's sides, as it is shown */
    uint64_t most_shared; /* segments that a pass of the decoder can serve at once */
};

/* Reads the plan in the folder `folder_fd`, or makes it with `thread_count` threads. `request`
 * stands for the list and all options: a plan of another request is refused. Blocks while another
 * process makes the plan. NOT_FOUND: the folder was removed. INVALID: another request. IO,
 * NO_MEMORY. video_plan_done() frees the plan. */
MUST_USE enum status video_plan_settle(int folder_fd, const char *request,
                                       const struct video_list *list,
                                       const struct segment_wish *wish, uint32_t thread_count,
                                       bool bad_is_error, struct video_plan *ret_plan,
                                       struct error *err);
void video_plan_done(struct video_plan *plan);

#endif
