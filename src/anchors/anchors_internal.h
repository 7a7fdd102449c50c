/* Anchors as one block of bytes: shared by the files of src/anchors. See anchors.h. */
#ifndef PENSTOCK_ANCHORS_ANCHORS_INTERNAL_H
#define PENSTOCK_ANCHORS_ANCHORS_INTERNAL_H

#include "anchors/anchors.h"

#include "base/divide.h"

/* The block: this, then
 *     u64 store_frames[stores + 1], store_rows[stores + 1], episode_ends[episodes]
 *     struct run[runs + 1], where runs > 0; the last one's rank is the number of anchors
 *     u64 words[bits_words(frames)], ranks[blocks + 1], where runs = 0
 *     u32 row_samples[rows], and zeros up to a multiple of 8
 *     u64 weight_sums[samples + 1], with weights. */
struct anchors_header {
    uint64_t magic, bytes;
    uint64_t frames, stores, episodes, rows, row_length, stride;
    uint64_t samples, runs, hash;
    uint64_t weights; /* enum weights_kind */
};

enum weights_kind { WEIGHTS_NONE, WEIGHTS_WHOLE, WEIGHTS_REPLACED };

/* The anchors first + j * stride, of which the first is the rank-th of all. */
struct run {
    uint64_t first, rank;
};

enum { RANK_BLOCK = 512, RANK_BLOCK_WORDS = RANK_BLOCK / 64 };

/* Pointers into the block, const for all but the one who fills it. */
struct anchors {
    struct anchors_header *header;
    uint64_t *store_frames, *store_rows, *episode_ends;
    struct run *runs;        /* NULL: a bitmap */
    uint64_t *words, *ranks; /* ranks[b]: anchors before frame b * RANK_BLOCK */
    uint32_t *row_samples;
    uint64_t *weight_sums; /* of the anchors before, in units of 2^-32; NULL: no weights */
    struct divider row_divider;
    void *owned; /* the block, where anchors_free() frees it */
};

/* A block with room for this many runs (0: for a bitmap), zero but for the header's sizes.
 * NO_MEMORY. */
MUST_USE enum status anchors_new(const struct anchors_header *sizes, struct anchors **ret,
                                 struct error *err);

/* The bytes of a block, by its header's sizes; UINT64_MAX: more than there can be. */
uint64_t anchors_block_bytes(const struct anchors_header *sizes);

/* How many anchors are before `frame`, which may be the number of frames. */
uint64_t anchors_rank(const struct anchors *anchors, uint64_t frame);

/* What finds runs: anchors are added in rising order, and runs that continue the last one join it.
 * Counts alone where `runs` is NULL. */
struct run_list {
    struct run *runs;
    uint64_t stride, count, samples, next;
};
void run_list_add(struct run_list *list, uint64_t first, uint64_t count);

/* weights.c: replaces the anchors, all but their hash, by the same with weights. Errors as of
 * anchors_build(). */
MUST_USE enum status anchors_weigh(struct anchors **anchors, const double *weights, uint64_t draws,
                                   struct error *err);

/* existence.c: the anchors of one episode after another, as far as stride and ends decide. */
struct episodes {
    const struct anchors_options *options;
    const uint64_t *ends;
    size_t count;
};
void episodes_list_runs(const struct episodes *episodes, struct run_list *list,
                        struct anchors_counts *counts);

/* The bitmap of all anchors, masks included; `words` are zero before. NO_MEMORY. */
MUST_USE enum status episodes_mark(const struct episodes *episodes, uint64_t *words,
                                   struct anchors_counts *counts, struct error *err);

#endif
