/* Anchors: which frames samples are at, where samples are windows of frames, or only some frames
 * are used.
 *
 * A sample is an anchor and, for each field, frames relative to the anchor (the field's steps). A
 * window never crosses an episode's end. A frame t of the episode [first, end) is an anchor if
 *
 *     t = first + j * stride,
 *     at most pad_before of the steps u have t + u < first, and at most pad_after t + u >= end,
 *     no frame t + u of the episode is blocked (missing, or outside the split's part), and
 *     t is wanted.
 *
 * Rows are row_length frames, cut anew in each store, as in the plan; they have unequal numbers of
 * anchors, from none to row_length. An anchor's place is a row and an offset: how many anchors of
 * the row come before.
 *
 * Samples may have weights: an epoch then has anchors_draws() samples, each as often as its weight
 * says (plan/order/weights.h), and a frame of weight 0 is no anchor.
 *
 * Two encodings, of which the smaller is chosen: runs of anchors at distances of the stride (16
 * bytes a run), or a bitmap with the rank of each 512th frame (1.125 bits a frame). Besides, 4
 * bytes a row, 8 an episode, and with weights 8 a sample. All is one run of bytes without pointers,
 * for other ranks, or for all ranks of a node in shared memory.
 *
 * Immutable once built: any thread. Nothing allocates after the start.
 */
#ifndef PENSTOCK_ANCHORS_ANCHORS_H
#define PENSTOCK_ANCHORS_ANCHORS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Steps are within -ANCHORS_MOST_STEP .. ANCHORS_MOST_STEP. */
enum { ANCHORS_MOST_STEP = (1 << 24) - 1, ANCHORS_MOST_DRAWS = INT32_MAX };

/* AUTO takes the smaller one; the others are for tests. Places and hash do not depend on this. */
enum anchors_encoding { ANCHORS_AUTO, ANCHORS_RUNS, ANCHORS_BITMAP };

struct anchors_options {
    const uint64_t
        *store_frames; /* [store_count + 1]: first frame of each store, then all frames */
    size_t store_count;
    uint64_t row_length; /* frames of a row, 1 .. 2^32 - 1 */
    bool continuous;     /* an episode may go on in the next store */
    /* [episode_count], over all stores, never falling (equal ends: an empty episode), the last one
     * the number of frames. NULL: a store is an episode, or all stores are one if continuous. */
    const uint64_t *episode_ends;
    size_t episode_count;
    const int32_t
        *steps; /* [step_count], rising: the steps of all fields. NULL: the anchor alone */
    size_t step_count;
    uint64_t stride;                /* > 0 */
    uint64_t pad_before, pad_after; /* together fewer than the steps */
    const uint64_t *blocked; /* bitmap [frames], bit i of word i / 64; NULL: no frame is blocked */
    const uint64_t *wanted;  /* bitmap [frames]; NULL: all frames are wanted */
    /* [frames], finite, above 0 for anchors. NULL: none. A sample of weight w comes w times in an
     * epoch, rounded up or down; or, with `draws` (up to ANCHORS_MOST_DRAWS), so many are drawn
     * with replacement. */
    const double *weights;
    uint64_t draws;
    enum anchors_encoding encoding;
};

/* Each frame that is no anchor is counted once, under the first reason in this order. */
struct anchors_counts {
    uint64_t frames, episodes, samples;
    uint64_t off_stride, at_ends, blocked, unwanted;
    uint64_t short_episodes; /* with frames, but too short for any sample */
};

struct anchors;

/* *ret: for anchors_free(). What the options point to is borrowed during the call. *ret_counts is
 * filled on success, and where nothing is left. Time: a pass over the masks, and over episodes and
 * rows.
 * INVALID: ends that fall, or lie beyond the frames or across a store's end, or leave frames out;
 * steps that do not rise or are out of range; a stride of 0; pads as long as the window; nothing
 * left, with the counts; weights of more than ANCHORS_MOST_DRAWS samples. NO_MEMORY. */
MUST_USE enum status anchors_build(const struct anchors_options *options, struct anchors **ret,
                                   struct anchors_counts *ret_counts, struct error *err);
void anchors_free(struct anchors *anchors);

uint64_t anchors_count(const struct anchors *anchors);
uint64_t anchors_frames(const struct anchors *anchors);
uint64_t anchors_row_count(const struct anchors *anchors);

/* The number of anchors in a row. O(1). */
uint32_t anchors_row_samples(const struct anchors *anchors, uint64_t row);

/* A row's frames: the first, and the end. O(log stores). */
uint64_t anchors_row_frames(const struct anchors *anchors, uint64_t row, uint64_t *ret_end);

/* The frame of an anchor, by place; offset < anchors_row_samples(). A search within the row in
 * the bitmap, among all runs else. */
uint64_t anchors_frame_at(const struct anchors *anchors, uint64_t row, uint32_t offset);

/* The inverse. UINT64_MAX: the frame is no anchor; *ret_row is set all the same. */
uint64_t anchors_offset_of(const struct anchors *anchors, uint64_t frame, uint64_t *ret_row);

/* Whether there are weights; and whether samples are drawn with replacement. */
bool anchors_are_weighted(const struct anchors *anchors);
bool anchors_are_replaced(const struct anchors *anchors);

/* The samples of an epoch: with weights their sum, else all. */
uint64_t anchors_draws(const struct anchors *anchors);

/* With weights: n + 1 numbers for the n anchors of a row, which rise from one to the next by the
 * anchor's weight, in units of 2^-32. Weights are changed a little: the sum of those of all rows
 * that weigh less than 1 is whole, and so is that of the others. Borrowed. */
const uint64_t *anchors_row_weights(const struct anchors *anchors, uint64_t row);

/* The episode of a frame: its frames [first, end), and its number over all stores. O(log
 * episodes). */
struct anchors_episode {
    uint64_t first, end, number;
};
struct anchors_episode anchors_episode_of(const struct anchors *anchors, uint64_t frame);

/* 64 bits of the anchors, their weights, the stores' and the episodes' ends: equal for equal ones,
 * whatever the encoding and the rows. */
uint64_t anchors_hash(const struct anchors *anchors);

/* All of the anchors as one run of bytes: borrowed, aligned to 8, the same on machines of one byte
 * order. */
const void *anchors_packed(const struct anchors *anchors);
size_t anchors_bytes(const struct anchors *anchors);

/* The anchors that `bytes` are, copied, or borrowed until anchors_free() (then aligned to 8).
 * CORRUPT: the sizes do not fit. NO_MEMORY. */
MUST_USE enum status anchors_unpack(const void *bytes, size_t size, bool borrow,
                                    struct anchors **ret, struct error *err);

#endif
