/* For tests: mixes of random sources. */
#ifndef PENSTOCK_TESTS_MADE_UP_MIX_H
#define PENSTOCK_TESTS_MADE_UP_MIX_H

#include "base/random.h"
#include "made_up_lengths.h"
#include "plan/order/mix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct made_up_mix {
    struct plan_options sources[MIX_MAX_SOURCES];
    uint64_t weights[MIX_MAX_SOURCES];
    uint64_t later[5][MIX_MAX_SOURCES]; /* weights of a schedule */
    struct plan_mix_entry entries[5];
    struct plan_mix_options options;
};

/* Sources of 1 to `most_samples` samples, in rows of 1 to 9; weights up to `most_weight`. */
static inline void make_up(struct made_up_mix *made_up, uint32_t source_count,
                           uint64_t most_samples, uint64_t most_weight, uint64_t key)
{
    memset(made_up, 0, sizeof *made_up);
    for (uint32_t d = 0; d < source_count; d++) {
        made_up->sources[d] = (struct plan_options){
            .sample_count = 1 + random_u64(key, 0, d) % most_samples,
            .row_length = 1 + random_u64(key, 1, d) % 9,
            .window_rows = 1 + random_u64(key, 2, d) % 7,
            .shuffle = d % 5 != 4,
        };
        made_up->weights[d] = 1 + random_u64(key, 3, d) % most_weight;
    }
    made_up->options = (struct plan_mix_options){
        .source_count = source_count,
        .sources = made_up->sources,
        .weights = made_up->weights,
        .epochs = 3,
        .seed = key,
        .global_batch = 24,
        .last = PLAN_PARTIAL,
        .trainer_count = 3,
    };
}

/* Other weights, some of them 0, at up to five later steps; up to some of these in a line. */
static inline void make_up_schedule(struct made_up_mix *made_up, uint64_t most_step, uint64_t key)
{
    uint64_t step = 0;
    for (uint32_t i = 0; i < 1 + key % 5; i++) {
        step += 1 + random_u64(key, 100, i) % most_step;
        for (uint32_t d = 0; d < made_up->options.source_count; d++)
            made_up->later[i][d] =
                random_u64(key, 101 + i, 2 * d) % 3 ? random_u64(key, 101 + i, 2 * d + 1) % 8 : 0;
        made_up->later[i][(key + i) % made_up->options.source_count]++;
        made_up->entries[i] =
            (struct plan_mix_entry){step, random_u64(key, 110, i) % 2, made_up->later[i]};
    }
    made_up->options.entries = made_up->entries;
    made_up->options.entry_count = 1 + key % 5;
}

/* Sources of random lengths, with one budget. */
struct made_up_cuts {
    struct made_up_mix made_up;
    struct lengths lengths[6];
};

static inline void make_up_cuts(struct made_up_cuts *with, uint64_t *seed)
{
    struct made_up_mix *made_up = &with->made_up;
    uint64_t longest = 1;
    make_up(made_up, (uint32_t)draw(seed, 1, 6), 100, draw(seed, 1, 9), *seed);
    for (uint32_t d = 0; d < made_up->options.source_count; d++) {
        do
            draw_lengths(seed, &with->lengths[d]);
        while (with->lengths[d].count > 200);
        longest = max_u64(longest, with->lengths[d].longest);
    }
    uint64_t items = draw(seed, longest, 8 * longest);
    for (uint32_t d = 0; d < made_up->options.source_count; d++) {
        struct plan_options *source = &made_up->sources[d];
        source->sample_count = with->lengths[d].count;
        source->cuts = cuts_of(seed, &with->lengths[d]);
        source->cuts.items = items;
    }
    made_up->options.sample_count = draw(seed, 0, 1) * draw(seed, 1, 400);
}

static inline struct plan new_mix(const struct plan_mix_options *options)
{
    struct plan plan;
    struct error err;
    if (plan_mix_new(options, &plan, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return plan;
}

static inline uint64_t step_count(const struct plan *plan, uint64_t epochs)
{
    return epochs * plan->steps_per_epoch;
}

#endif
