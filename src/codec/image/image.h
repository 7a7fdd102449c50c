/* Chunks that are stored as images. One file a codec; image.c compares what an image's header says
 * with the array's chunks, before anything is decoded.
 *
 * An image has axes frames, height, width, samples, and lies in memory like a chunk in C order.
 * Writers leave out axes of length 1, or put them where they like, so these do not count: a chunk
 * of (1, 96, 96, 3) is an image of 96 x 96 pixels of 3 samples. Any other chunk whose axes are not
 * those of its image is refused. Such are the chunks of (3, H, W) that imagecodecs stores by JPEG
 * 2000 as H x W x 3, and reads back in another order than they were written in.
 *
 * Libraries allocate within a call; state_room() says about how much. None of them starts threads.
 * Inside src/codec. */
#ifndef PENSTOCK_CODEC_IMAGE_IMAGE_H
#define PENSTOCK_CODEC_IMAGE_IMAGE_H

#include "codec/codec_internal.h"

/* What a header says. */
struct image {
    uint64_t frames; /* 0: as many as fill the chunk */
    uint64_t height, width, samples;
    uint32_t sample_bits;
    bool is_float, is_signed;
    bool may_fold; /* height and width need not be axes of the chunk, if the number of pixels is
                      right: JPEG, as its proposal for Zarr v3 has it */
};

/* CORRUPT: the image is no chunk of the array that the step was settled for. *ret_frames may be
 * NULL. */
MUST_USE enum status image_check(const struct codec_step *step, const struct image *image,
                                 uint64_t *ret_frames, struct error *err);

/* The samples of a pixel that the chunk wants: its last axis, if that is 1 to 4; else 1. */
uint64_t image_samples(const struct codec_step *step);

/* Members of struct codec. */
MUST_USE enum status image_parse(struct json_object *configuration, size_t item_bytes,
                                 struct codec_step *step, struct error *err);
MUST_USE enum status image_settle(struct codec_step *step, const struct codec_chunk *chunk,
                                  struct error *err);
size_t image_stored_bound(const struct codec_step *step, size_t decoded_bytes);

/* For parse(): UNSUPPORTED: the setting is there, and is not null. */
MUST_USE enum status image_refuse_setting(struct json_object *configuration, const char *key,
                                          struct error *err);

#endif
