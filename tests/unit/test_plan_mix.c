/* Mixes: each source's share, in closed form; every draw once; the order of windows. */
#include "made_up_anchors.h"
#include "plan/assign.h"
#include "plan/locality.h"
#include "plan/mix.h"
#include "plan/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DRAWS = 1 << 16 };

struct made_up_mix {
    struct plan_options sources[MIX_MAX_SOURCES];
    uint64_t weights[MIX_MAX_SOURCES];
    struct plan_mix_options options;
};

/* Sources of 1 to `most_samples` samples, in rows of 1 to 9; weights up to `most_weight`. */
static void make_up(struct made_up_mix *made_up, uint32_t source_count, uint64_t most_samples,
                    uint64_t most_weight, uint64_t key)
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

static struct plan new_mix(const struct plan_mix_options *options)
{
    struct plan plan;
    struct error err;
    if (plan_mix_new(options, &plan, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return plan;
}

static uint64_t step_count(const struct plan *plan, uint64_t epochs)
{
    return epochs * plan->steps_per_epoch;
}

/* Draws before n positions, by halves, one position at a time: the next one is the left half's if
 * floor() grows. */
static void count_naively(const uint64_t *weights, uint32_t count, uint64_t n, uint64_t *ret_draws)
{
    uint64_t left = 0, all = 0, left_draws = 0;
    if (count == 1) {
        *ret_draws = n;
        return;
    }
    for (uint32_t d = 0; d < count; d++) {
        left += d < count / 2 ? weights[d] : 0;
        all += weights[d];
    }
    for (uint64_t i = 1; i <= n; i++)
        while ((left_draws + 1) * all <= i * left)
            left_draws++;
    count_naively(weights, count / 2, left_draws, ret_draws);
    count_naively(weights + count / 2, count - count / 2, n - left_draws, ret_draws + count / 2);
}

static void shares_are_exact(void **state)
{
    (void)state;
    for (uint32_t source_count = 1; source_count <= MIX_MAX_SOURCES;
         source_count += 1 + source_count / 5) {
        struct made_up_mix made_up;
        uint64_t before[MIX_MAX_SOURCES] = {0}, draws[MIX_MAX_SOURCES], naive[MIX_MAX_SOURCES];
        make_up(&made_up, source_count, 50, source_count % 2 ? 10 : 1000000000, source_count);
        struct plan plan = new_mix(&made_up.options);
        double all = (double)plan.mix->weight_sums[source_count], most = 0;
        uint32_t levels = 0;
        while (UINT32_C(1) << levels < source_count)
            levels++;
        for (uint64_t s = 0; s < step_count(&plan, 3); s++) {
            uint64_t n = s / plan.steps_per_epoch * plan.position_count +
                         s % plan.steps_per_epoch * plan.global_batch,
                     sum = 0;
            plan_step_draws(&plan, s, draws);
            if (s % 7 == 0)
                count_naively(made_up.weights, source_count, n, naive);
            for (uint32_t d = 0; d < source_count; d++) {
                double off = (double)draws[d] - (double)n * (double)made_up.weights[d] / all;
                most = off > most ? off : -off > most ? -off : most;
                assert_true(draws[d] >= before[d]);
                assert_true(s % 7 || draws[d] == naive[d]);
                sum += before[d] = draws[d];
            }
            assert_int_equal(sum, n);
        }
        assert_true(most <= levels);
        plan_mix_free(plan.mix);
    }
}

/* All positions of a run once each: by step, by position, by draw. */
static void check_draws(const struct plan *plan)
{
    struct plan_draw draws[64];
    uint64_t next[MIX_MAX_SOURCES] = {0}, first[MIX_MAX_SOURCES];
    for (uint64_t s = 0; s < step_count(plan, 3); s++) {
        uint64_t epoch = s / plan->steps_per_epoch, step = s % plan->steps_per_epoch;
        uint64_t count = plan_step_samples(plan, step), given = 0;
        plan_draws_at(plan, epoch, step * plan->global_batch, count, draws);
        plan_step_draws(plan, s, first);
        assert_memory_equal(first, next, plan_source_count(plan) * sizeof first[0]);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t position = round_absolute_position(plan, epoch, step * plan->global_batch + i);
            assert_int_equal(plan_draw_step(plan, draws[i]), s);
            assert_int_equal(plan_draw_position(plan, draws[i]), position);
            struct plan_draw one;
            plan_draws_at(plan, epoch, step * plan->global_batch + i, 1, &one);
            assert_int_equal(one.source, draws[i].source);
            assert_int_equal(one.number, draws[i].number);
            next[draws[i].source]++;
        }
        for (uint32_t d = 0; d < plan_source_count(plan); d++) /* they are those of the step */
            for (uint64_t m = first[d]; m < next[d]; m++, given++) {
                size_t i = 0;
                while (i < count && (draws[i].source != d || draws[i].number != m))
                    i++;
                assert_true(i < count);
            }
        assert_int_equal(given, count);
    }
}

static void every_position_is_one_draw(void **state)
{
    (void)state;
    for (uint32_t source_count = 1; source_count <= MIX_MAX_SOURCES;
         source_count += 1 + source_count / 3) {
        struct made_up_mix made_up;
        make_up(&made_up, source_count, 80, source_count % 3 ? 7 : 1000000000, source_count);
        made_up.options.last = source_count % 3;
        made_up.options.sample_count = source_count % 4 ? 0 : 5 + source_count;
        if (made_up.options.last == PLAN_DROP && made_up.options.sample_count > 0)
            made_up.options.sample_count += 24;
        struct plan plan = new_mix(&made_up.options);
        check_draws(&plan);
        plan_mix_free(plan.mix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_exact),
        cmocka_unit_test(every_position_is_one_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
