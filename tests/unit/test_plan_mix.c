/* Mixes: each source's share, in closed form; every draw once; the order of windows. */
#include "base/number.h"
#include "made_up_anchors.h"
#include "made_up_mix.h"
#include "plan/assign/assign.h"
#include "plan/order/mix_pieces.h"
#include "plan/rounds/locality.h"
#include "plan/rounds/round.h"

#include <stdbool.h>
#include <stdlib.h>

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
        double most = 0;
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
                double off = (double)draws[d] - (double)n * plan_mean_share(&plan, d);
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

/* The same with pieces: the left half has the whole part of 2^-40 and what the pieces give it, each
 * rounded down to a multiple of 2^-64. `of_pieces` are the list's positions in each piece. */
static void count_pieces(const struct mix_pieces *pieces, uint32_t low, uint32_t high,
                         const uint64_t *of_pieces, uint64_t *ret_draws)
{
    uint64_t left[4096], right[4096], middle = low + (high - low) / 2, given = 0;
    unsigned __int128 sum = MIX_FIRST_REST;
    ret_draws[low] = 0;
    for (uint32_t k = 0; k < pieces->count && high - low == 1; k++)
        ret_draws[low] += of_pieces[k];
    if (high - low == 1)
        return;
    for (uint32_t k = 0; k < pieces->count; k++) {
        const uint64_t *sums = mix_piece_sums(pieces, k);
        unsigned __int128 part = (unsigned __int128)of_pieces[k] * (sums[middle] - sums[low]);
        uint64_t all = max_u64(sums[high] - sums[low], 1);
        sum += ((part / all) << 64) + ((part % all) << 64) / all;
        left[k] = (uint64_t)(sum >> 64) - given;
        right[k] = of_pieces[k] - left[k];
        given += left[k];
    }
    count_pieces(pieces, low, (uint32_t)middle, left, ret_draws);
    count_pieces(pieces, (uint32_t)middle, high, right, ret_draws);
}

static uint64_t position_of(const struct plan *plan, uint64_t step)
{
    return step / plan->steps_per_epoch * plan->position_count +
           step % plan->steps_per_epoch * plan->global_batch;
}

/* Counts at a step, and that a source without weight has no draws. */
static void check_pieces(const struct plan *plan, uint64_t step, uint64_t *before)
{
    const struct mix_pieces *pieces = plan->mix->pieces;
    uint64_t of_pieces[4096] = {0}, naive[MIX_MAX_SOURCES], draws[MIX_MAX_SOURCES];
    uint64_t n = position_of(plan, step), of_step = 0;
    for (uint32_t k = 0; k < pieces->count; k++) {
        uint64_t begin = position_of(plan, mix_piece_step(pieces, k)), end = n;
        if (k + 1 < pieces->count)
            end = min_u64(end, position_of(plan, mix_piece_step(pieces, k + 1)));
        of_pieces[k] = end > begin ? end - begin : 0;
        of_step = begin < n ? k : of_step; /* of the step before */
    }
    count_pieces(pieces, 0, plan_source_count(plan), of_pieces, naive);
    plan_step_draws(plan, step, draws);
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        const uint64_t *sums = mix_piece_sums(pieces, (uint32_t)of_step);
        assert_int_equal(draws[d], naive[d]);
        assert_true(draws[d] >= before[d]);
        assert_true(sums[d + 1] > sums[d] || draws[d] == before[d]);
        before[d] = draws[d];
    }
}

static void schedules_are_exact(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        struct made_up_mix made_up;
        uint64_t before[MIX_MAX_SOURCES] = {0};
        make_up(&made_up, 1 + i * i % 19, 120, i % 2 ? 10 : 1000000000, i);
        make_up_schedule(&made_up, i % 3 ? 9 : 40, i);
        made_up.options.last = i % 3;
        made_up.options.sample_count = 24 * (1 + i % 9) + i % 4;
        struct plan plan = new_mix(&made_up.options), copy;
        assert_int_equal(plan_mix_copy(&plan, &copy, NULL), STATUS_OK);
        for (uint64_t s = 0; s < step_count(&plan, 12); s++)
            check_pieces(s % 2 ? &copy : &plan, s, before);
        plan_mix_free(copy.mix);
        plan_mix_free(plan.mix);
    }
}

/* At the end of a ramp of long stairs counts are those of a line, as far as lists of two go. */
static void ramps_are_lines(void **state)
{
    (void)state;
    const uint64_t from[] = {10, 0}, to[] = {3, 7};
    const struct plan_options sources[] = {
        {.sample_count = 1000, .row_length = 1, .window_rows = 10},
        {.sample_count = 3000, .row_length = 1, .window_rows = 10}};
    const struct plan_mix_entry entry = {MIX_MOST_STAIRS * 10, true, to};
    const struct plan_mix_options options = {.source_count = 2,
                                             .sources = sources,
                                             .weights = from,
                                             .entries = &entry,
                                             .entry_count = 1,
                                             .epochs = UINT64_MAX,
                                             .global_batch = 100,
                                             .trainer_count = 1};
    struct plan plan = new_mix(&options);
    uint64_t draws[2], all = entry.step * 100;
    plan_step_draws(&plan, entry.step, draws);
    assert_int_equal(draws[1], all * 35 / 100); /* of which 0 to 70% are the second one's */
    plan_step_draws(&plan, entry.step / 2, draws);
    assert_int_equal(draws[1], all * 35 / 400);
    plan_step_draws(&plan, entry.step + 10, draws);
    assert_int_equal(draws[1], all * 35 / 100 + 700);
    plan_step_draws(&plan, entry.step * 1000, draws);
    assert_int_equal(draws[1], all * 35 / 100 + 999 * all * 7 / 10);
    plan_mix_free(plan.mix);
}

/* A source whose last weight is 0 has no draw behind: no run gets there. */
static void sources_end(void **state)
{
    (void)state;
    const uint64_t from[] = {1, 1, 1}, to[] = {1, 0, 0};
    struct made_up_mix made_up;
    const struct plan_mix_entry entry = {5, false, to};
    uint64_t draws[3], later[3];
    make_up(&made_up, 3, 50, 5, 7);
    made_up.options.weights = from;
    made_up.options.entries = &entry;
    made_up.options.entry_count = 1;
    struct plan plan = new_mix(&made_up.options);
    plan_step_draws(&plan, 5, draws);
    plan_step_draws(&plan, 500, later);
    for (uint32_t d = 1; d < 3; d++) {
        assert_int_equal(later[d], draws[d]);
        assert_int_equal(plan_draw_step(&plan, (struct plan_draw){d, draws[d] - 1}), 4);
        assert_true(plan_draw_step(&plan, (struct plan_draw){d, draws[d]}) == UINT64_MAX);
        assert_true(plan_draw_position(&plan, (struct plan_draw){d, draws[d] + 9}) == UINT64_MAX);
    }
    plan_mix_free(plan.mix);
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

/* Draws that follow one another reach so many passes, each of which may have the same sample. */
static void check_most(const struct plan *plan, uint64_t positions)
{
    struct plan_mix_most most;
    plan_mix_most(plan, positions, &most);
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        uint64_t samples = plan_source(plan, d)->sample_count, passes = 1;
        assert_int_equal(most.draws[d], plan_most_draws(plan, d, positions));
        for (uint64_t first = 0; first < samples && most.draws[d] > 0; first++) {
            uint64_t last = first + most.draws[d] - 1;
            passes = last / samples + 1 > passes ? last / samples + 1 : passes;
        }
        assert_int_equal(most.copies[d], passes);
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
        if (source_count % 2 == 0)
            make_up_schedule(&made_up, 7, source_count);
        struct plan plan = new_mix(&made_up.options);
        check_draws(&plan);
        for (uint64_t n = 1; n < 1000; n = 3 * n)
            check_most(&plan, n);
        plan_mix_free(plan.mix);
    }
}

/* ---- windows and items ---- */

/* What readers send of a mix: how often each position came, and what is there. */
struct delivery {
    const struct plan *plan;
    struct round_shape shape;
    uint32_t reader_count;
    struct assigner *assigner;
    uint8_t *seen;   /* [positions of the run] */
    uint64_t *where; /* [positions of the run] row, and offset in the row */
};

static void take_items(struct delivery *to, const struct plan_epoch *epoch,
                       const struct plan_window *window, const uint16_t *owners, uint32_t reader)
{
    const struct plan *plan = to->plan;
    struct round_item *items = calloc(round_window_capacity(&epoch->plan), sizeof *items);
    uint64_t count =
        round_window_items(epoch, window, to->shape, owners, reader, round_rows_all(window), items);
    assert_true(count <= round_window_capacity(&epoch->plan));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t p = items[i].position, in_epoch = p % plan->position_count;
        struct plan_epoch of_run;
        plan_epoch_init(&of_run, plan, p / plan->position_count);
        uint64_t index = plan->locality
                             ? round_of_position(&of_run.plan, to->shape, in_epoch)
                             : round_of(plan, to->shape, plan_recipient_of(&of_run.plan, in_epoch));
        assert_true(p < 3 * plan->position_count);
        assert_int_equal(items[i].round,
                         round_absolute(plan, to->shape, p / plan->position_count, index));
        assert_true(i == 0 || items[i - 1].round < items[i].round ||
                    (items[i - 1].round == items[i].round && items[i - 1].position < p));
        to->seen[p]++;
        to->where[p] = plan_row_at(epoch, window->first_row_position + items[i].window_row) << 16 |
                       items[i].offset;
    }
    free(items);
}

/* All windows from a step on, in the order of the run; each is there when a step comes to it. */
static uint64_t take_windows(struct delivery *to, uint64_t first_step)
{
    const struct plan *plan = to->plan;
    struct plan_merge merge;
    uint64_t due = 0, windows = 0, before = 0;
    uint32_t source, last = 0;
    plan_merge_start(&merge, plan, first_step, step_count(plan, 3));
    while (plan_merge_next(&merge, &source)) {
        const struct plan *of = plan_source(plan, source);
        uint64_t serial = merge.sources[source].serial;
        uint16_t owners[64];
        struct plan_epoch epoch;
        struct plan_window window;
        plan_epoch_init(&epoch, of, serial / of->window_count);
        plan_window_at(&window, &epoch, serial % of->window_count);
        struct plan_draw draw = {source, epoch.epoch * of->sample_count + window.first_position};
        uint64_t rows[64];
        for (uint64_t i = 0; i < window.row_count; i++)
            rows[i] = window.first_row_position + i;
        plan_rows_at(&epoch, rows, window.row_count);
        for (uint64_t i = 0; i < window.row_count; i++)
            assert_int_equal(rows[i], plan_row_at(&epoch, window.first_row_position + i));
        due = plan_draw_step(plan, draw);
        assert_true(windows == 0 || due > before || (due == before && source >= last));
        before = due;
        last = source;
        assigner_window(to->assigner, &epoch, &window, owners);
        for (uint32_t r = 0; r < to->reader_count; r++)
            take_items(to, &epoch, &window, owners, r);
        plan_merge_take(&merge, source, window.sample_count);
        windows++;
    }
    return windows;
}

/* Whether a position is a sample's. */
static bool is_used(const struct plan *plan, uint64_t position)
{
    struct plan_epoch epoch;
    uint64_t in_epoch = position % plan->position_count, step = in_epoch / plan->global_batch;
    plan_epoch_init(&epoch, plan, position / plan->position_count);
    if (plan->cuts.items > 0)
        plan_mix_cut_fill(plan, epoch.plan.first_step + step);
    return in_epoch - plan_step_first(plan, step) < plan_step_samples(&epoch.plan, step);
}

static void check_delivery(const struct plan *plan, uint32_t readers, struct round_shape shape)
{
    uint64_t positions = 3 * plan->position_count, windows = 0;
    uint32_t reader_of_trainer[8];
    struct delivery to = {.plan = plan,
                          .shape = shape,
                          .reader_count = readers,
                          .seen = calloc(positions, 1),
                          .where = calloc(positions, sizeof(uint64_t))};
    const struct assigner_options options = {.plan = plan,
                                             .reader_count = readers,
                                             .keep_rows = plan->row_count / 2 / readers,
                                             .most_rows = plan->window_rows,
                                             .reader_of_trainer = reader_of_trainer,
                                             .copies = 1};
    assert_true(to.seen && to.where);
    for (uint32_t t = 0; t < plan->trainer_count; t++)
        reader_of_trainer[t] = t % readers;
    assert_int_equal(assigner_new(&options, &to.assigner, NULL), STATUS_OK);
    windows = take_windows(&to, 0);
    for (uint64_t p = 0; p < positions; p++) {
        struct plan_found found;
        assert_int_equal(to.seen[p], is_used(plan, p));
        if (!is_used(plan, p))
            continue;
        plan_find(plan, p / plan->position_count, p % plan->position_count, &found);
        const struct plan *source = plan_source(plan, found.source);
        assert_int_equal(to.where[p] >> 16, found.row);
        assert_int_equal(plan_frame_at(source, to.where[p] >> 16, to.where[p] & 0xffff),
                         found.frame);
        assert_true(found.key == plan_sample_key(source->seed, found.pass, found.frame));
    }
    uint64_t middle = step_count(plan, 3) / 2;
    uint64_t from = middle / plan->steps_per_epoch * plan->position_count +
                    middle % plan->steps_per_epoch * plan->global_batch;
    memset(to.seen, 0, positions);
    assigner_go_on(to.assigner, reader_of_trainer);
    assert_true(take_windows(&to, middle) <= windows);
    for (uint64_t p = from; p < positions; p++)
        assert_int_equal(to.seen[p], is_used(plan, p));
    assigner_free(to.assigner);
    free(to.where);
    free(to.seen);
}

static void items_are_all_positions(void **state)
{
    (void)state;
    const struct round_shape shapes[] = {
        {1, 1, 2, {0}}, {3, 1, 2, {0}}, {1, 2, 2, {0}}, {1, 5, 2, {0}}};
    for (uint32_t i = 0; i < 24; i++) {
        struct made_up_mix made_up;
        make_up(&made_up, 1 + i * i % 37, i % 3 ? 200 : 9, i % 4 ? 6 : 1000000, 100 + i);
        made_up.options.last = i % 3;
        made_up.options.trainer_count = 1 + i % 4;
        if (i % 5 == 0)
            for (uint32_t d = 0; d < made_up.options.source_count; d += 2)
                made_up.sources[d].row_length = 1;
        made_up.options.sample_count = 24 + 11 * i;
        if (i / 2 % 2)
            make_up_schedule(&made_up, 9, i);
        if (i % 6 == 5)
            made_up.options.locality = locality_number((struct locality){.nodes = 1, .readers = 2});
        struct plan plan = new_mix(&made_up.options);
        check_delivery(&plan, 1 + i % 3, shapes[i / 2 % 4]);
        plan_set_trainers(&plan, 5 - i % 5); /* of which the order knows nothing */
        check_delivery(&plan, 1 + i % 3, shapes[i / 2 % 4]);
        plan_mix_free(plan.mix);
    }
}

/* Sources with anchors have tables. */
static void sources_have_anchors(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < 6; key++) {
        struct made_up_mix made_up;
        struct made_up_anchors anchors[2];
        uint64_t windows[3] = {8, 8, 8};
        make_up(&made_up, 3, 100, 5, key);
        for (uint32_t d = 0; d < 2; d++) {
            struct plan_options *source = &made_up.sources[2 * d];
            made_up_anchors_init(&anchors[d], 300 + 40 * d, 1 + (key + d) % 20, key + d);
            source->sample_count = anchors_count(anchors[d].anchors);
            source->row_length = anchors[d].row_length;
            source->store_frames = anchors[d].store_frames;
            source->store_rows = anchors[d].store_rows;
            source->store_count = MADE_UP_STORES;
            source->anchors = anchors[d].anchors;
        }
        struct plan plan = new_mix(&made_up.options);
        assert_int_equal(plan_sources_tables_new(&plan, windows, NULL), STATUS_OK);
        check_delivery(&plan, 2, (struct round_shape){1, 1, 2, {0}});
        plan_sources_tables_free(&plan);
        plan_mix_free(plan.mix);
        for (uint32_t d = 0; d < 2; d++)
            anchors_free(anchors[d].anchors);
    }
}

/* Each step is of one source, and each source's steps are those of its passes, one after another.
 */
static void check_cuts(const struct plan *plan)
{
    uint64_t next[MIX_MAX_SOURCES] = {0}, first[MIX_MAX_SOURCES], steps[MIX_MAX_SOURCES] = {0};
    struct plan_epoch pass;
    for (uint64_t s = 0; s < step_count(plan, 3); s++) {
        struct plan_mix_cut at = plan_mix_cut_at(plan, s);
        const struct plan *source = plan_source(plan, at.source);
        assert_int_equal(at.pass * source->steps_per_epoch + at.step, steps[at.source]++);
        plan_step_draws(plan, s, first);
        assert_memory_equal(first, next, plan_source_count(plan) * sizeof first[0]);
        plan_epoch_init(&pass, source, at.pass);
        uint64_t count = plan_step_samples(&pass.plan, at.step);
        assert_int_equal(plan_mix_cut_samples(plan, s), count);
        assert_int_equal(plan_mix_cut_bound(plan, s), plan_step_bound(&pass, at.step));
        for (uint64_t i = 0; i < count; i++) {
            struct plan_draw draw;
            uint64_t position = s * plan->global_batch + i;
            plan_draws_at(plan, 0, position, 1, &draw);
            assert_int_equal(draw.source, at.source);
            assert_int_equal(draw.number, first[at.source] + i);
            assert_int_equal(plan_draw_step(plan, draw), s);
            assert_int_equal(plan_draw_position(plan, draw), position);
        }
        next[at.source] += count;
    }
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        double of_pass = (double)plan_source(plan, d)->steps_per_epoch;
        double share = plan_mean_share(plan, d) * (double)step_count(plan, 3);
        double passes = 3 * plan_epoch_passes(plan, d);
        double most = plan_entry_count(plan) > 0 ? 10 : 4;
        assert_true((double)steps[d] - share < most && share - (double)steps[d] < most);
        assert_true(passes * of_pass - share < 1e-6 && share - passes * of_pass < 1e-6);
    }
}

/* Samples count evenly within a pass, and exactly where a pass ends. */
static void check_counts(const struct plan *plan)
{
    uint64_t first[MIX_MAX_SOURCES], before = 0;
    for (uint64_t s = 0; s <= step_count(plan, 3); s++) {
        uint64_t counted = plan_mix_cut_before(plan, s), exact = 0, open = 0;
        plan_step_draws(plan, s, first);
        for (uint32_t d = 0; d < plan_source_count(plan); d++) {
            exact += first[d];
            open += first[d] % plan_source(plan, d)->sample_count > 0
                        ? plan_source(plan, d)->sample_count
                        : 0;
        }
        assert_true(counted >= before);
        assert_true(counted <= exact + open && exact <= counted + open);
        before = counted;
    }
}

/* No steps one after another have more of a source. */
static void check_most_of_steps(const struct plan *plan, uint64_t steps)
{
    struct plan_mix_most most;
    plan_mix_most(plan, steps * plan->global_batch, &most);
    for (uint64_t s = 0; s + steps <= step_count(plan, 3); s++) {
        uint64_t first[MIX_MAX_SOURCES], end[MIX_MAX_SOURCES];
        plan_step_draws(plan, s, first);
        plan_step_draws(plan, s + steps, end);
        for (uint32_t d = 0; d < plan_source_count(plan); d++) {
            uint64_t samples = plan_source(plan, d)->sample_count;
            assert_true(end[d] - first[d] <= most.draws[d]);
            if (end[d] > first[d])
                assert_true((end[d] - 1) / samples - first[d] / samples + 1 <= most.copies[d]);
        }
    }
}

static void sources_have_cuts(void **state)
{
    (void)state;
    static struct made_up_cuts with;
    const struct round_shape shapes[] = {{1, 1, 2, {0}}, {3, 1, 2, {0}}};
    uint64_t windows[MIX_MAX_SOURCES], seed = 0;
    for (uint32_t i = 0; i < 60; i++) {
        make_up_cuts(&with, &seed);
        with.made_up.options.trainer_count = 1 + i % 4;
        if (i % 5 == 4)
            with.made_up.options.locality =
                locality_number((struct locality){.nodes = 1, .readers = 2});
        if (i % 3 == 0)
            make_up_schedule(&with.made_up, 30, i);
        struct plan plan = new_mix(&with.made_up.options);
        for (uint32_t d = 0; d < plan_source_count(&plan); d++)
            windows[d] = 4 + i % 9;
        assert_int_equal(plan_sources_tables_new(&plan, windows, NULL), STATUS_OK);
        check_cuts(&plan);
        check_counts(&plan);
        check_most_of_steps(&plan, 1);
        check_most_of_steps(&plan, 5);
        check_delivery(&plan, 1 + i % 3, shapes[i / 2 % 2]);
        plan_sources_tables_free(&plan);
        plan_mix_free(plan.mix);
    }
}

static void refused(void **state)
{
    (void)state;
    struct made_up_mix made_up;
    struct plan plan;
    struct error err;
    make_up(&made_up, 3, 100, 5, 1);
    made_up.weights[1] = (UINT64_C(1) << 32) + 1;
    assert_int_equal(plan_mix_new(&made_up.options, &plan, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "source 1"));
    make_up(&made_up, 3, 100, 5, 1);
    made_up.sources[2].sample_count = 0;
    assert_int_equal(plan_mix_new(&made_up.options, &plan, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "source 2"));
    make_up(&made_up, 3, 100, 5, 1);
    made_up.options.source_count = 0;
    assert_int_equal(plan_mix_new(&made_up.options, &plan, &err), STATUS_INVALID);
    make_up(&made_up, 3, 4, 5, 1);
    made_up.options.last = PLAN_DROP;
    assert_int_equal(plan_mix_new(&made_up.options, &plan, &err), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_exact),
        cmocka_unit_test(every_position_is_one_draw),
        cmocka_unit_test(items_are_all_positions),
        cmocka_unit_test(sources_have_anchors),
        cmocka_unit_test(sources_have_cuts),
        cmocka_unit_test(schedules_are_exact),
        cmocka_unit_test(ramps_are_lines),
        cmocka_unit_test(sources_end),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
