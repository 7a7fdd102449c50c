/* From a decoded frame to a picture: turned as it is shown, scaled so that its short side has
 * `size` pixels, and cut to size x size. The result is that of ffmpeg's command line with
 * scale=W:H:flags=bicubic+accurate_rnd+full_chroma_int+bitexact,format=rgb24,crop. W and H are in
 * the proportion that the frame is shown with. One thread.
 */
#ifndef PENSTOCK_WORKSHOP_INGEST_PICTURE_H
#define PENSTOCK_WORKSHOP_INGEST_PICTURE_H

#include "workshop/ingest/video.h"

#include <stdint.h>

/* Zero-initialised; picture_maker_done() frees what came to be in it. */
struct SwsContext;
struct picture_maker {
    struct SwsContext *scaler;
    AVFrame *turned, *scaled;
    int from_width, from_height, from_format; /* that the scaler is for */
    int width, height;
};

/* A frame's long side is at most so many times its short side, as it is shown: scaled, longer ones
 * would take more memory than all else. */
enum { PICTURE_MOST_RATIO = 32 };

/* The long side by the short one; `shape`: of a pixel, width to height. */
double picture_ratio(const AVFrame *frame, AVRational shape);

/* UNSUPPORTED: the frame's ratio is more than `most`. */
MUST_USE enum status picture_check_ratio(const AVFrame *frame, AVRational shape, double most,
                                         struct error *err);

/* Where the cut-out begins: fractions of the room, in 2^-64. */
struct picture_crop {
    uint64_t x, y;
};

/* Puts RGB of 3 * size * size bytes at `ret_pixels`. `shape`: of a pixel, width to height.
 * The frame's ratio has been checked. UNSUPPORTED: the pixel format cannot be scaled. NO_MEMORY. */
MUST_USE enum status picture_make(struct picture_maker *maker, const AVFrame *frame,
                                  const struct orientation *orientation, AVRational shape,
                                  uint32_t size, const struct picture_crop *crop,
                                  unsigned char *ret_pixels, struct error *err);
void picture_maker_done(struct picture_maker *maker);

#endif
