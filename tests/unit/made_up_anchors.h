/* For tests: anchors at random frames of a few stores, and plans of these. */
#ifndef PENSTOCK_TESTS_MADE_UP_ANCHORS_H
#define PENSTOCK_TESTS_MADE_UP_ANCHORS_H

#include "base/random.h"
#include "base/size.h"
#include "plan/order/plan.h"
#include "plan/order/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MADE_UP_STORES = 3, MADE_UP_FRAMES = 4096 };

struct made_up_anchors {
    uint64_t row_length;
    uint64_t store_frames[MADE_UP_STORES + 1], store_rows[MADE_UP_STORES + 1];
    uint64_t wanted[MADE_UP_FRAMES / 64]; /* the anchors, as a bitmap */
    struct anchors *anchors;
};

static inline bool made_up_has(const struct made_up_anchors *made_up, uint64_t frame)
{
    return made_up->wanted[frame / 64] >> frame % 64 & 1;
}

/* Which frames of a store are anchors: any with a probability, few with others all of a range, one
 * of each `row_length` + 1, all. */
static inline bool made_up_wants(uint64_t key, uint64_t frame, uint64_t frames, uint64_t row_length)
{
    double chance = (double)(random_u64(key, 1, frame) >> 11) * 0x1p-53;
    switch (key % 5) {
    case 0:
        return chance < 0.4;
    case 1:
        return chance < 0.01 || (frame > frames / 3 && frame < frames / 2);
    case 2:
        return frame % (row_length + 1) == 0;
    case 3:
        return chance < 0.9 / (double)row_length;
    default:
        return true;
    }
}

/* Up to `frames` frames. `key` decides everything else; there is an anchor at least. */
static inline void made_up_anchors_init(struct made_up_anchors *made_up, uint64_t frames,
                                        uint64_t row_length, uint64_t key)
{
    *made_up = (struct made_up_anchors){.row_length = row_length};
    for (uint64_t s = 0; s < MADE_UP_STORES; s++) {
        uint64_t left = frames - made_up->store_frames[s];
        uint64_t length = s + 1 < MADE_UP_STORES ? random_u64(key, 2, s) % (left + 1) : left;
        made_up->store_frames[s + 1] = made_up->store_frames[s] + length;
        made_up->store_rows[s + 1] = made_up->store_rows[s] + size_divide_up(length, row_length);
    }
    for (uint64_t frame = 0; frame < frames; frame++)
        if (frame == frames / 2 || made_up_wants(key, frame, frames, row_length))
            made_up->wanted[frame / 64] |= UINT64_C(1) << frame % 64;
    const struct anchors_options options = {.store_frames = made_up->store_frames,
                                            .store_count = MADE_UP_STORES,
                                            .row_length = row_length,
                                            .stride = 1,
                                            .wanted = made_up->wanted};
    struct anchors_counts counts;
    struct error err;
    if (anchors_build(&options, &made_up->anchors, &counts, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

/* `made_up` must last as long as the plan, which has tables for plan_tables_free(). */
static inline struct plan made_up_plan(const struct made_up_anchors *made_up,
                                       struct plan_options options, uint64_t epoch_count)
{
    struct plan plan;
    struct error err;
    options.sample_count = anchors_count(made_up->anchors);
    options.row_length = made_up->row_length;
    options.store_frames = made_up->store_frames;
    options.store_rows = made_up->store_rows;
    options.store_count = MADE_UP_STORES;
    options.anchors = made_up->anchors;
    if (plan_init(&plan, &options, &err) != STATUS_OK ||
        plan_tables_new(&plan, epoch_count, 1, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return plan;
}

#endif
