/* A pass of the decoder over a video's packets, from a keyframe on. One thread. */
#ifndef PENSTOCK_WORKSHOP_INGEST_PASS_H
#define PENSTOCK_WORKSHOP_INGEST_PASS_H

#include "workshop/ingest/video.h"

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialised; pass_done() frees. */
struct pass {
    bool is_open;    /* the decoder can go on */
    int64_t key_pts; /* of the first packet */
    /* [capacity] each: packets, NULL once they are sent; when the frame is shown; the same for
     * keyframes that need nothing before them. AV_NOPTS_VALUE: not at all. */
    AVPacket **packets;
    int64_t *times, *keys;
    uint64_t count, capacity, sent;
};

/* Goes to the keyframe at `key_pts`; the decoder begins anew. CORRUPT: the keyframe is not found.
 * NO_MEMORY. Errors of video.h. */
MUST_USE enum status pass_begin(struct pass *pass, struct video *video, int64_t key_pts,
                                struct error *err);

/* Reads on until there are `wanted` packets. CORRUPT: the file ends before. NO_MEMORY. Errors of
 * video.h. */
MUST_USE enum status pass_read(struct pass *pass, struct video *video, uint64_t wanted,
                               struct error *err);

/* The next packet for the decoder, of which sent < count says that it is there; the caller frees
 * it. */
AVPacket *pass_next(struct pass *pass);

/* The packet of the keyframe at `key_pts`, if decoding may as well begin there; else `count`. */
uint64_t pass_find_key(const struct pass *pass, int64_t key_pts);

/* Drops packets; the memory of the arrays is kept. */
void pass_end(struct pass *pass);
void pass_done(struct pass *pass);

#endif
