/* Locality: every sample of a step has one destination, shares are exact, as few samples as
 * possible leave the node that they are near, and chance decides which do. */
#include "base/random.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_TRAINERS = 64, MOST_POSITIONS = 4096 };

static struct plan make_plan(uint64_t n, uint64_t b, uint32_t trainers, enum plan_last last,
                             struct locality locality)
{
    struct plan_options options = {.sample_count = n,
                                   .row_length = 1,
                                   .window_rows = n,
                                   .seed = 3,
                                   .shuffle = true,
                                   .global_batch = b,
                                   .last = last,
                                   .trainer_count = trainers,
                                   .locality = locality_number(locality)};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

static void numbers_come_back(void **state)
{
    (void)state;
    const struct locality some[] = {{1, 1, false}, {4, 2, true}, {300, 1, false}, {65535, 4, true}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct locality back;
        assert_true(locality_number(some[i]) != 0);
        assert_true(locality_of_number(locality_number(some[i]), 65535, &back));
        assert_int_equal(back.nodes, some[i].nodes);
        assert_int_equal(back.readers, some[i].readers);
        assert_int_equal(back.in_turn, some[i].in_turn);
    }
}

static void large_nodes_and_many_have_numbers(void **state)
{
    (void)state;
    const struct locality large = {65536, 40000, true};
    struct locality back;
    assert_true(locality_of_number(locality_number(large), 65536, &back));
    assert_int_equal(back.nodes, 65535);
    assert_int_equal(back.readers, 32767);
    assert_true(back.in_turn);
}

static void nonsense_is_no_locality(void **state)
{
    (void)state;
    struct locality locality;
    assert_false(locality_of_number(0, 8, &locality));
    assert_false(locality_of_number(1, 8, &locality));           /* no nodes */
    assert_false(locality_of_number(4 << 16, 8, &locality));     /* no readers */
    assert_false(locality_of_number(9 << 16 | 2, 8, &locality)); /* more nodes than trainers */
    assert_true(locality_of_number(8 << 16 | 2, 8, &locality));
}

/* The locality of trainers on these nodes, with `readers` a node, trainers given to them in turn.
 */
static struct locality found(const uint32_t *nodes, uint32_t trainers, uint32_t readers)
{
    uint32_t reader_of_trainer[MOST_TRAINERS];
    for (uint32_t t = 0; t < trainers; t++)
        reader_of_trainer[t] = nodes[t] * readers + t % readers;
    struct locality locality;
    assert_true(
        locality_of_number(locality_find(nodes, reader_of_trainer, trainers), trainers, &locality));
    return locality;
}

static void a_locality_is_found(void **state)
{
    (void)state;
    const uint32_t blocks[] = {7, 7, 7, 2, 2, 2, 5, 5, 5}, turns[] = {4, 0, 9, 4, 0, 9, 4, 0};
    const uint32_t one[] = {3, 3, 3}, uneven[] = {0, 0, 0, 0, 0, 1, 2, 2};
    struct locality locality = found(blocks, 9, 1);
    assert_int_equal(locality.nodes, 3);
    assert_int_equal(locality.readers, 1);
    assert_false(locality.in_turn);
    locality = found(turns, 8, 1);
    assert_int_equal(locality.nodes, 3);
    assert_true(locality.in_turn);
    locality = found(one, 3, 2);
    assert_int_equal(locality.nodes, 1);
    assert_int_equal(locality.readers, 2);
    assert_int_equal(found(uneven, 8, 1).nodes, 3);
}

/* Of one way of sharing trainers out (nodes, or readers), as locality.h says it. */
static uint32_t node_of(const struct plan *plan, struct locality locality, uint32_t trainer)
{
    return locality.in_turn ? trainer % locality.nodes
                            : (uint32_t)((uint64_t)trainer * locality.nodes / plan->trainer_count);
}

static uint32_t trainer_at(const struct plan *plan, uint64_t step, uint32_t destination)
{
    return plan_recipient_of(plan, step * plan->global_batch + destination).trainer;
}

/* How many positions could not stay on their node, whatever the matching. */
static uint64_t least_moved(const struct plan *plan, struct locality locality, uint64_t step,
                            const uint32_t *near, uint32_t count)
{
    uint64_t has[MOST_TRAINERS] = {0}, gets[MOST_TRAINERS] = {0}, moved = 0;
    for (uint32_t i = 0; i < count; i++)
        has[node_of(plan, locality, near[i])]++;
    for (uint32_t t = 0; t < plan->trainer_count; t++)
        gets[node_of(plan, locality, t)] += plan_local_batch_at(plan, step, t).count;
    for (uint32_t n = 0; n < locality.nodes; n++)
        moved += has[n] > gets[n] ? has[n] - gets[n] : 0;
    return moved;
}

/* Every destination of the step once; as few as possible leave their node. */
static void check_step(const struct plan *plan, struct locality locality, struct matcher *matcher,
                       uint64_t step)
{
    uint32_t count = (uint32_t)plan_step_samples(plan, step);
    uint32_t near[MOST_POSITIONS], destinations[MOST_POSITIONS];
    bool taken[MOST_POSITIONS] = {false};
    assert_true(count <= MOST_POSITIONS);
    for (uint32_t i = 0; i < count; i++)
        near[i] = destinations[i] = (uint32_t)(random_u64(7, step, i) % plan->trainer_count);
    matcher_match(matcher, 5, step, destinations);
    uint64_t moved = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(destinations[i] < count);
        assert_false(taken[destinations[i]]);
        taken[destinations[i]] = true;
        uint32_t trainer = trainer_at(plan, step, destinations[i]);
        moved += node_of(plan, locality, trainer) != node_of(plan, locality, near[i]);
    }
    assert_int_equal(moved, least_moved(plan, locality, step, near, count));
}

static void check_plan(const struct plan *plan, struct locality locality)
{
    struct matcher *matcher = matcher_new(plan);
    assert_non_null(matcher);
    for (uint64_t step = 0; step < plan->steps_per_epoch; step++)
        check_step(plan, locality, matcher, step);
    matcher_free(matcher);
}

/* Groups of a node follow each other from the turn on, modulo their number, even where turn + k is
 * beyond 32 bits: this step's turn is 2^32 - 1, 3 modulo 7. All seven positions are near trainer 0.
 */
static void the_last_turn_is_no_other(void **state)
{
    (void)state;
    enum { READERS = 7 };
    const uint64_t step = 35572810;
    const uint32_t expected[READERS] = {0, 3, 4, 5, 6, 1, 2};
    const struct locality locality = {1, READERS, false};
    struct plan plan = make_plan(READERS * (step + 1), READERS, READERS, PLAN_DROP, locality);
    uint32_t destinations[READERS] = {0};
    plan.seed = 5;
    uint64_t key = random_u64(random_u64(plan.seed, 4, 0), 0, step);
    assert_int_equal(key >> 32, UINT32_MAX);
    struct matcher *matcher = matcher_new(&plan);
    assert_non_null(matcher);
    matcher_match(matcher, 0, step, destinations);
    for (uint32_t i = 0; i < READERS; i++)
        assert_int_equal(destinations[(key % READERS + i) % READERS], expected[i]);
    matcher_free(matcher);
}

/* Plans and localities at random. */
static void steps_are_shared_out(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        uint64_t bits = random_u64(11, 0, i);
        uint32_t trainers = 1 + bits % 24;
        uint64_t batch = trainers + (bits >> 8) % (40 * trainers);
        uint32_t nodes = 1 + (bits >> 16) % trainers;
        struct locality locality = {nodes, 1 + (bits >> 24) % 4, bits >> 40 & 1};
        struct plan plan = make_plan(3 * batch + (bits >> 48) % batch, batch, trainers,
                                     (enum plan_last)((bits >> 32) % 3), locality);
        check_plan(&plan, locality);
    }
}

/* The round of a position is the one whose stripe has it. */
static void stripes_hold_their_positions(void **state)
{
    (void)state;
    const struct locality locality = {3, 1, false};
    struct plan plan = make_plan(105, 25, 6, PLAN_PARTIAL, locality); /* 5 in the last step */
    const struct round_shape shape = {.steps_per_round = 1, .stripes_per_step = 7, .in_flight = 2};
    uint64_t counted = 0;
    for (uint64_t r = 0; r < rounds_per_epoch(&plan, shape); r++) {
        struct plan_round round = round_at(&plan, shape, r);
        struct round_slice stripe = round_stripe_at(&plan, &round, round.first_step);
        assert_true(stripe.end - stripe.first <= round_max_records(&plan, shape));
        for (uint64_t p = stripe.first; p < stripe.end; p++, counted++)
            assert_int_equal(
                round_of_position(&plan, shape, round.first_step * plan.global_batch + p), r);
    }
    assert_int_equal(counted, plan.position_count);
}

/* Of a step's samples: what leaves its node, of rows of one sample in a random order. */
static double moved_share(uint32_t nodes, uint32_t samples_of_node, uint64_t steps)
{
    const struct locality locality = {nodes, 1, false};
    uint64_t batch = (uint64_t)nodes * samples_of_node, moved = 0;
    struct plan plan = make_plan(steps * batch, batch, nodes, PLAN_DROP, locality);
    struct matcher *matcher = matcher_new(&plan);
    struct plan_epoch epoch;
    uint32_t destinations[MOST_POSITIONS];
    assert_non_null(matcher);
    plan_epoch_init(&epoch, &plan, 0);
    for (uint64_t step = 0; step < steps; step++) {
        for (uint64_t i = 0; i < batch; i++)
            destinations[i] = locality_trainer((struct locality_near){divider_of(nodes), false},
                                               plan_sample_at(&epoch, step * batch + i));
        uint32_t near[MOST_POSITIONS];
        memcpy(near, destinations, batch * sizeof *near);
        matcher_match(matcher, 0, step, destinations);
        for (uint64_t i = 0; i < batch; i++)
            moved += trainer_at(&plan, step, destinations[i]) != near[i];
    }
    matcher_free(matcher);
    return (double)moved / (double)(steps * batch);
}

static void only_the_imbalance_moves(void **state)
{
    (void)state;
    const uint32_t shapes[][2] = {{2, 64}, {4, 64}, {16, 32}, {16, 256}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        double nodes = shapes[i][0], samples = shapes[i][1];
        double formula = sqrt((1 - 1 / nodes) / (2 * acos(-1) * samples));
        double share = moved_share(shapes[i][0], shapes[i][1], 200);
        if (share < 0.85 * formula || share > 1.15 * formula)
            fail_msg("%g nodes of %g samples: %g of the samples move, not %g", nodes, samples,
                     share, formula);
    }
}

/* What a node has too much of goes to each of the others, now and then, and comes from anywhere in
 * the step. */
static void chance_decides_what_moves(void **state)
{
    (void)state;
    enum { TRAINERS = 4, BATCH = 64, STEPS = 400 };
    const struct locality locality = {TRAINERS, 1, false};
    struct plan plan = make_plan(STEPS * BATCH, BATCH, TRAINERS, PLAN_DROP, locality);
    struct matcher *matcher = matcher_new(&plan);
    unsigned to[TRAINERS] = {0}, from[4] = {0};
    assert_non_null(matcher);
    for (uint64_t step = 0; step < STEPS; step++) {
        uint32_t
            destinations[BATCH]; /* trainer 0 is near four more than it gets, the others fewer */
        for (uint32_t i = 0; i < BATCH; i++)
            destinations[i] = i % 16 < 5 ? 0 : 1 + i % 3;
        uint32_t near[BATCH];
        memcpy(near, destinations, sizeof near);
        matcher_match(matcher, 0, step, destinations);
        for (uint32_t i = 0; i < BATCH; i++)
            if (near[i] == 0 && trainer_at(&plan, step, destinations[i]) != 0) {
                to[trainer_at(&plan, step, destinations[i])]++;
                from[i / 16]++;
            }
    }
    matcher_free(matcher);
    for (uint32_t t = 1; t < TRAINERS; t++)
        assert_true(to[t] > 0);
    for (size_t i = 0; i < 4; i++)
        assert_in_range(from[i], STEPS * 4 / 4 / 2, STEPS * 4 / 4 * 2);
}

/* Whatever the stride, about as many of the rows are near one trainer as near another, in each
 * turn. */
static void strides_are_near_all_trainers(void **state)
{
    (void)state;
    enum { ROWS = 4096, TURNS = 4 };
    for (uint32_t trainers = 1; trainers <= 16; trainers++) {
        for (uint64_t stride = 1; stride <= 256; stride++) {
            struct locality_near near = {divider_of(trainers), true};
            uint32_t counts[MOST_TRAINERS] = {0}, turns[MOST_TRAINERS * TURNS] = {0};
            for (uint64_t i = 0; i < ROWS; i++) {
                uint32_t trainer = locality_trainer(near, i * stride);
                counts[trainer]++;
                turns[trainer * TURNS + locality_turn(near, i * stride, TURNS)]++;
            }
            for (uint32_t t = 0; t < trainers; t++)
                assert_in_range(counts[t], ROWS / trainers - ROWS / 32,
                                ROWS / trainers + ROWS / 32);
            for (uint32_t t = 0; t < trainers * TURNS; t++)
                assert_in_range(turns[t] + ROWS / 32, ROWS / trainers / TURNS,
                                ROWS / trainers / TURNS + ROWS / 16);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_are_near_all_trainers),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(large_nodes_and_many_have_numbers),
        cmocka_unit_test(nonsense_is_no_locality),
        cmocka_unit_test(a_locality_is_found),
        cmocka_unit_test(the_last_turn_is_no_other),
        cmocka_unit_test(steps_are_shared_out),
        cmocka_unit_test(stripes_hold_their_positions),
        cmocka_unit_test(only_the_imbalance_moves),
        cmocka_unit_test(chance_decides_what_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
