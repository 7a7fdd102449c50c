/* Capacity: what readers have of rounds fits nearly always, and passes divide a round whatever a
 * reader has. */
#include "base/number.h"
#include "base/size.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"
#include "plan/rounds/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { READERS = 32, TRAINERS = 4, BATCH = 8, STEPS = 48 };

static struct plan make_plan(uint32_t readers, uint32_t trainers, uint64_t batch, uint64_t steps,
                             uint64_t row_length, bool local)
{
    uint64_t global_batch = (uint64_t)readers * trainers * batch;
    const struct plan_options options = {
        .sample_count = global_batch * steps,
        .row_length = row_length,
        .seed = 7,
        .shuffle = true,
        .global_batch = global_batch,
        .last = PLAN_DROP,
        .trainer_count = readers * trainers,
        .locality = local ? locality_number((struct locality){.nodes = readers, .readers = 1}) : 0};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

/* Who has the sample of each position of an epoch, and whose trainer gets it. */
struct traffic {
    struct plan plan;
    uint16_t *from, *to;
};

static uint16_t reader_of(const struct plan *plan, uint64_t position)
{
    return (uint16_t)(plan_recipient_of(plan, position).trainer / TRAINERS);
}

static void note_window(struct traffic *traffic, const struct plan_epoch *epoch,
                        const struct plan_window *window, const uint16_t *owners,
                        uint32_t *destinations)
{
    struct locality_near near = locality_near(&traffic->plan);
    for (uint64_t i = 0; i < window->sample_count; i++) {
        uint64_t p = window->first_position + i;
        struct plan_location location = plan_location_at(window, p);
        uint64_t row = plan_row_at(epoch, window->first_row_position + location.window_row);
        traffic->from[p] = assign_reader(owners[location.window_row]);
        destinations[p] = locality_trainer(near, row);
    }
}

static void match(struct traffic *traffic, uint64_t epoch, uint32_t *destinations)
{
    const struct plan *plan = &traffic->plan;
    struct matcher *matcher = plan->locality ? matcher_new(plan) : NULL;
    for (uint64_t step = 0; step < plan->steps_per_epoch; step++) {
        uint64_t first = step * plan->global_batch;
        if (matcher)
            matcher_match(matcher, epoch, step, destinations + first);
        for (uint64_t i = 0; i < plan->global_batch; i++)
            traffic->to[first + i] =
                reader_of(plan, first + (matcher ? destinations[first + i] : i));
    }
    matcher_free(matcher);
}

/* Of the second epoch, with all rows kept. */
static struct traffic make_traffic(uint64_t row_length, bool local)
{
    struct traffic traffic = {.plan =
                                  make_plan(READERS, TRAINERS, BATCH, STEPS, row_length, local)};
    const struct plan *plan = &traffic.plan;
    uint32_t reader_of_trainer[READERS * TRAINERS];
    for (uint32_t t = 0; t < READERS * TRAINERS; t++)
        reader_of_trainer[t] = t / TRAINERS;
    const struct assigner_options options = {.plan = plan,
                                             .reader_count = READERS,
                                             .keep_rows = plan->row_count,
                                             .most_rows =
                                                 2 * size_divide_up(plan->window_rows, READERS),
                                             .reader_of_trainer = reader_of_trainer,
                                             .copies = 1};
    struct assigner *assigner;
    assert_int_equal(assigner_new(&options, &assigner, NULL), STATUS_OK);
    traffic.from = calloc(plan->position_count, sizeof *traffic.from);
    traffic.to = calloc(plan->position_count, sizeof *traffic.to);
    uint32_t *destinations = calloc(plan->position_count, sizeof *destinations);
    uint16_t *owners = calloc(plan->window_rows, sizeof *owners);
    assert_true(traffic.from && traffic.to && destinations && owners);
    for (uint64_t e = 0; e < 2; e++) {
        struct plan_epoch epoch;
        plan_epoch_init(&epoch, plan, e);
        for (uint64_t w = 0; w < plan->window_count; w++) {
            struct plan_window window;
            plan_window_at(&window, &epoch, w);
            assigner_window(assigner, &epoch, &window, owners);
            note_window(&traffic, &epoch, &window, owners, destinations);
        }
    }
    match(&traffic, 1, destinations);
    assigner_free(assigner);
    free(destinations);
    free(owners);
    return traffic;
}

static void traffic_free(struct traffic *traffic)
{
    free(traffic->from);
    free(traffic->to);
}

/* What each reader has of a range of positions at most. */
static struct round_capacity most_of(const struct traffic *traffic, struct round_range range)
{
    struct round_capacity of[READERS] = {0}, most = {0};
    for (uint64_t p = range.first; p < range.end; p++) {
        uint16_t from = traffic->from[p], to = traffic->to[p];
        of[from].listed++;
        of[from].sent += from != to;
        of[to].received += from != to;
    }
    for (uint32_t r = 0; r < READERS; r++) {
        most.listed = max_u64(most.listed, of[r].listed);
        most.sent = max_u64(most.sent, of[r].sent);
        most.received = max_u64(most.received, of[r].received);
    }
    return most;
}

static bool fits(struct round_capacity most, struct round_capacity capacity)
{
    return most.listed <= capacity.listed && most.sent <= capacity.sent &&
           most.received <= capacity.received;
}

static bool passes_fit(const struct traffic *traffic, struct round_range all, uint64_t passes,
                       struct round_capacity capacity)
{
    for (uint64_t pass = 0; pass < passes; pass++)
        if (!fits(most_of(traffic, round_range_of_pass(all, passes, pass)), capacity))
            return false;
    return true;
}

/* Rounds of `steps` steps that do not fit, in percent; those that fit into some passes also fit
 * into more. */
static uint64_t check_rounds(const struct traffic *traffic, uint64_t steps,
                             struct round_capacity capacity)
{
    uint64_t records = steps * traffic->plan.global_batch, beyond = 0, rounds = 0;
    for (uint64_t first = 0; first + records <= traffic->plan.position_count; first += records) {
        struct round_range all = {first, first + records};
        uint64_t passes = 1;
        while (!passes_fit(traffic, all, passes, capacity))
            passes *= 2;
        assert_true(passes_fit(traffic, all, 2 * passes, capacity));
        assert_true(passes <= records);
        beyond += passes > 1;
        rounds++;
    }
    return 100 * beyond / rounds;
}

static void hardly_ever_exceeded(void **state)
{
    (void)state;
    const uint64_t row_lengths[] = {1, 8, 100};
    for (size_t i = 0; i < 6; i++) {
        struct traffic traffic = make_traffic(row_lengths[i / 2], i % 2);
        for (uint64_t steps = 1; steps <= 16; steps *= 4) {
            const struct round_peers peers = {.readers = READERS, .rings = TRAINERS};
            uint64_t records = steps * traffic.plan.global_batch, even = records / READERS;
            struct round_capacity capacity =
                round_capacity_expected(&traffic.plan, &peers, (double)steps, records);
            assert_true(capacity.listed > even && capacity.listed < records / 2);
            assert_true(capacity.sent <= capacity.listed);
            assert_int_equal(check_rounds(&traffic, steps, capacity), 0);
            if (row_lengths[i / 2] == 1)
                assert_true(capacity.listed < 2 * even);
            if (row_lengths[i / 2] == 1 && i % 2 == 1 && steps == 16)
                assert_true(capacity.sent < even && capacity.received < even);
        }
        traffic_free(&traffic);
    }
}

/* Little more than the mean: most rounds have several passes. */
static void tight(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct traffic traffic = make_traffic(i / 2 ? 8 : 1, i % 2);
        const struct round_peers peers = {
            .readers = READERS, .rings = TRAINERS, .times_mean = 1.05};
        struct round_capacity capacity =
            round_capacity_expected(&traffic.plan, &peers, 4, 4 * traffic.plan.global_batch);
        assert_int_equal(capacity.listed, 135); /* of 128 */
        assert_true(check_rounds(&traffic, 4, capacity) > 90);
        traffic_free(&traffic);
    }
}

/* One record fits into some number of passes, even if it is the only one that does. */
static void one_reader_has_all(void **state)
{
    (void)state;
    struct traffic traffic = make_traffic(1, false);
    memset(traffic.from, 0, traffic.plan.position_count * sizeof *traffic.from);
    const struct round_capacity capacity = {1, 1, UINT64_MAX};
    assert_int_equal(check_rounds(&traffic, 2, capacity), 100);
    traffic_free(&traffic);
}

static void passes_divide_a_round(void **state)
{
    (void)state;
    const struct round_range ranges[] = {{0, 1}, {5, 12}, {1000, 1333}, {7, 1ULL << 50}};
    for (size_t i = 0; i < 4; i++)
        for (uint64_t passes = 1; passes <= 1024; passes *= 2) {
            uint64_t end = ranges[i].first;
            for (uint64_t p = 0; p < passes; p++) {
                struct round_range pass = round_range_of_pass(ranges[i], passes, p);
                assert_int_equal(pass.first, end);
                assert_true(pass.end >= pass.first);
                assert_int_equal(round_range_of_pass(ranges[i], 2 * passes, 2 * p).first,
                                 pass.first);
                end = pass.end;
            }
            assert_int_equal(end, ranges[i].end);
        }
}

/* Two readers, or a step of few samples: any of them may have all. */
static void no_capacity_where_all_fit(void **state)
{
    (void)state;
    const struct round_peers peers = {.readers = 4, .rings = 1};
    struct plan plan = make_plan(4, 1, 2, 100, 1, false);
    struct round_capacity capacity = round_capacity_expected(&plan, &peers, 1, 8);
    assert_int_equal(capacity.listed, 0);
}

static struct round_shape shape_at_scale(uint64_t record_bytes, bool local, uint64_t *ret_bytes)
{
    struct plan plan = make_plan(1024, 8, 32, 400, 1, local);
    const struct round_peers peers = {.readers = 1024, .rings = 8};
    const struct round_record record = {.bytes = record_bytes, .packed_bytes = record_bytes};
    struct round_shape shape;
    assert_int_equal(round_shape_choose(&plan, &peers, 32, &record, 0, 128 << 20, &shape, NULL),
                     STATUS_OK);
    *ret_bytes = shape.in_flight * record_bytes *
                 (round_max_sent(&plan, shape) + round_max_received(&plan, shape, 8));
    return shape;
}

/* 1,024 readers with 8 trainers each, 32 samples for each of them. 8 steps of 16 KiB that all
 * travel are 32 MiB to receive in each round. */
static void at_scale(void **state)
{
    (void)state;
    for (int local = 0; local < 2; local++)
        for (uint64_t kib = 1; kib <= 16; kib *= 4) {
            uint64_t bytes;
            struct round_shape shape = shape_at_scale(kib << 10, local, &bytes);
            assert_int_equal(shape.stripes_per_step, 1);
            assert_true(shape.steps_per_round >= (kib == 16 && !local ? 3 : 8));
            assert_true(bytes <= 64 << 20);
        }
}

/* The list of a window is as long as one reader's part at scale, but never shorter than a row. */
static void windows_at_scale(void **state)
{
    (void)state;
    const struct round_peers two = {.readers = 2, .rings = 4}, many = {.readers = 1024, .rings = 8};
    struct plan plan = make_plan(1024, 8, 32, 400, 1, true);
    uint64_t share = plan.window_most / 1024, expected = round_window_expected(&plan, 0, &many);
    assert_in_range(expected, 2 * share, 3 * share);
    assert_int_equal(round_window_expected(&plan, 0, &two), plan.window_most);
    struct plan long_rows = make_plan(1024, 8, 32, 400, 4000, true);
    assert_true(round_window_expected(&long_rows, 0, &many) >= 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardly_ever_exceeded),      cmocka_unit_test(tight),
        cmocka_unit_test(one_reader_has_all),        cmocka_unit_test(passes_divide_a_round),
        cmocka_unit_test(no_capacity_where_all_fit), cmocka_unit_test(at_scale),
        cmocka_unit_test(windows_at_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
