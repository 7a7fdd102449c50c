/* Rounds: what readers send is what trainers expect, for any number of both, and sizes never
 * overflow. */
#include "base/size.h"
#include "made_up_anchors.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"
#include "plan/rounds/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct plan make_plan(uint64_t n, uint64_t c, uint64_t w, uint64_t b, uint32_t trainers,
                             enum plan_last last)
{
    struct plan_options options = {.sample_count = n,
                                   .row_length = c,
                                   .window_rows = w,
                                   .seed = 3,
                                   .shuffle = true,
                                   .global_batch = b,
                                   .last = last,
                                   .trainer_count = trainers};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

/* What one epoch delivers: the sample at each position, and how many records each reader sends to
 * each trainer in each round. */
struct delivery {
    uint64_t *samples; /* [position_count] their frames */
    uint32_t *sent;    /* [rounds][readers][trainers] */
};

/* Makes the positions and rounds of an epoch's items relative to the epoch. */
static void make_relative(const struct plan_epoch *epoch, struct round_shape shape,
                          struct round_item *items, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        items[i].position -= round_absolute_position(&epoch->plan, epoch->epoch, 0);
        items[i].round -= round_absolute(&epoch->plan, shape, epoch->epoch, 0);
    }
}

static void check_item(const struct plan *plan, struct round_shape shape,
                       const struct round_item *item, const struct round_item *previous)
{
    struct plan_recipient recipient = plan_recipient_of(plan, item->position);
    struct plan_round round = round_at(plan, shape, item->round);
    struct round_slice slice = round_slice_at(plan, &round, recipient.step, recipient.trainer);
    assert_int_equal(item->round, round_of(plan, shape, recipient));
    assert_true(recipient.step >= round.first_step && recipient.step < round.end_step);
    assert_true(recipient.offset >= slice.first && recipient.offset < slice.end);
    if (previous)
        assert_true(previous->round < item->round ||
                    (previous->round == item->round && previous->position < item->position));
}

/* All items are found by lists of those of some rows after others, too. */
static void check_parts(const struct plan_epoch *epoch, const struct plan_window *window,
                        struct round_shape shape, const uint16_t *owners, uint32_t reader,
                        uint64_t expected)
{
    const struct round_peers peers = {.readers = 16, .times_mean = 0.01};
    uint64_t capacity = round_window_expected(&epoch->plan, 0, &peers), count = 0;
    struct round_item *items = calloc(capacity, sizeof *items);
    struct round_rows rows = {0};
    assert_non_null(items);
    while (rows.end < window->row_count) {
        uint64_t first = rows.end;
        rows = round_rows_from(&epoch->plan, window, owners, reader, first, capacity);
        assert_int_equal(rows.first, first);
        assert_true(rows.end > first && rows.end <= window->row_count);
        uint64_t part = round_window_items(epoch, window, shape, owners, reader, rows, items);
        assert_true(part <= capacity);
        for (uint64_t i = 0; i < part; i++)
            assert_in_range(items[i].window_row, first, rows.end - 1);
        count += part;
    }
    assert_int_equal(count, expected);
    free(items);
}

static void take_window(const struct plan_epoch *epoch, const struct plan_window *window,
                        struct round_shape shape, const uint16_t *owners, uint32_t readers,
                        struct delivery *delivery)
{
    const struct plan *plan = &epoch->plan;
    struct round_item *items = calloc(round_window_capacity(plan), sizeof *items);
    assert_non_null(items);
    for (uint32_t reader = 0; reader < readers; reader++) {
        uint64_t count =
            round_window_items(epoch, window, shape, owners, reader, round_rows_all(window), items);
        assert_true(count <= round_window_capacity(plan));
        check_parts(epoch, window, shape, owners, reader, count);
        make_relative(epoch, shape, items, count);
        for (uint64_t i = 0; i < count; i++) {
            check_item(plan, shape, &items[i], i ? &items[i - 1] : NULL);
            uint64_t row = plan_row_at(epoch, window->first_row_position + items[i].window_row);
            uint32_t trainer = plan_recipient_of(plan, items[i].position).trainer;
            assert_int_equal(delivery->samples[items[i].position], UINT64_MAX);
            delivery->samples[items[i].position] = plan_frame_at(plan, row, items[i].offset);
            delivery->sent[(items[i].round * readers + reader) * plan->trainer_count + trainer]++;
        }
    }
    free(items);
}

/* The receiver's side: it walks a round's positions and looks up who owns each. */
static void check_received(const struct plan_epoch *epoch, struct round_shape shape,
                           const uint16_t *const *owners, uint32_t readers,
                           const struct delivery *delivery)
{
    const struct plan *plan = &epoch->plan;
    for (uint64_t k = 0; k < rounds_per_epoch(plan, shape); k++) {
        struct plan_round round = round_at(plan, shape, k);
        uint64_t records = 0;
        for (uint32_t trainer = 0; trainer < plan->trainer_count; trainer++) {
            uint32_t expected[16] = {0}, total = 0;
            for (uint64_t step = round.first_step; step < round.end_step; step++) {
                struct plan_local_batch local = plan_local_batch_at(plan, step, trainer);
                struct round_slice slice = round_slice_at(plan, &round, step, trainer);
                for (uint32_t o = slice.first; o < slice.end; o++, total++) {
                    uint64_t position = plan_unpad(epoch, local.first + o);
                    uint64_t j = plan_window_of(epoch, position);
                    struct plan_window window;
                    plan_window_at(&window, epoch, j);
                    uint64_t window_row = plan_location_at(&window, position).window_row;
                    expected[assign_reader(owners[j][window_row])]++;
                }
            }
            for (uint32_t r = 0; r < readers; r++)
                assert_int_equal(delivery->sent[(k * readers + r) * plan->trainer_count + trainer],
                                 expected[r]);
            assert_true(total <= round_max_trainer_records(plan, shape));
            records += total;
        }
        assert_true(records <= round_max_records(plan, shape));
    }
}

static void check_epoch(const struct plan *plan, struct round_shape shape, uint32_t readers,
                        uint64_t e)
{
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, plan, e);
    uint64_t rounds = rounds_per_epoch(plan, shape);
    struct delivery delivery = {
        .samples = malloc(plan->position_count * sizeof(uint64_t)),
        .sent = calloc(rounds * readers * plan->trainer_count, sizeof(uint32_t)),
    };
    uint16_t **owners = calloc(plan->window_count, sizeof *owners);
    struct assigner *assigner;
    assert_true(delivery.samples && delivery.sent && owners);
    memset(delivery.samples, 0xff, plan->position_count * sizeof(uint64_t));
    uint32_t *reader_of_trainer = calloc(plan->trainer_count, sizeof *reader_of_trainer);
    struct assigner_options options = {.plan = plan,
                                       .reader_count = readers,
                                       .most_rows = plan->window_rows,
                                       .reader_of_trainer = reader_of_trainer,
                                       .copies = 1};
    assert_non_null(reader_of_trainer);
    for (uint32_t t = 0; t < plan->trainer_count; t++)
        reader_of_trainer[t] = t % readers;
    assert_int_equal(assigner_new(&options, &assigner, NULL), STATUS_OK);
    for (uint64_t j = 0; j < plan->window_count; j++) {
        struct plan_window window;
        plan_window_at(&window, &epoch, j);
        owners[j] = calloc(window.row_count, sizeof *owners[j]);
        assert_non_null(owners[j]);
        assigner_window(assigner, &epoch, &window, owners[j]);
        take_window(&epoch, &window, shape, owners[j], readers, &delivery);
    }
    for (uint64_t p = 0; p < plan->position_count; p++)
        assert_int_equal(delivery.samples[p], plan_sample_at(&epoch, p));
    check_received(&epoch, shape, (const uint16_t *const *)owners, readers, &delivery);
    for (uint64_t j = 0; j < plan->window_count; j++)
        free(owners[j]);
    free(owners);
    assigner_free(assigner);
    free(reader_of_trainer);
    free(delivery.sent);
    free(delivery.samples);
}

/* All that readers send, merged by position, is the order itself: whoever reads, whoever trains. */
static void same_order_for_any_machine(void **state)
{
    (void)state;
    const struct round_shape shapes[] = {
        {1, 1, 2, {0}}, {3, 1, 2, {0}}, {1, 2, 2, {0}}, {1, 5, 2, {0}}};
    for (uint32_t readers = 1; readers <= 9; readers++) {
        for (uint32_t trainers = 1; trainers <= 8; trainers++) {
            struct round_shape shape = shapes[(readers + trainers) % 4];
            enum plan_last last = (enum plan_last)(readers % 3);
            struct plan plan = make_plan(1003, 7, 10, trainers * 6, trainers, last);
            check_epoch(&plan, shape, readers, trainers);
        }
    }
}

/* Steps larger than windows, tiny last windows that padding repeats several times, one sample a
 * row. */
static void unusual_sizes(void **state)
{
    (void)state;
    const struct round_shape shapes[] = {
        {1, 1, 2, {0}}, {2, 1, 2, {0}}, {1, 3, 2, {0}}, {1, 64, 2, {0}}};
    for (size_t i = 0; i < 4 * 3; i++) {
        enum plan_last last = (enum plan_last)(i % 3);
        struct plan large_step = make_plan(500, 5, 2, 192, 3, last);
        struct plan tiny_tail = make_plan(81, 8, 2, 64, 1, last);
        struct plan single_rows = make_plan(300, 1, 40, 64, 1, last);
        check_epoch(&large_step, shapes[i / 3], 4, 0);
        check_epoch(&tiny_tail, shapes[i / 3], 3, 1);
        check_epoch(&single_rows, shapes[i / 3], 5, 2);
    }
}

/* Rows have unequal numbers of samples, some have none. */
static void anchors(void **state)
{
    (void)state;
    const struct round_shape shapes[] = {
        {1, 1, 2, {0}}, {3, 1, 2, {0}}, {1, 2, 2, {0}}, {1, 5, 2, {0}}};
    const uint64_t lengths[] = {1, 5, 16, 64};
    for (uint64_t i = 0; i < 40; i++) {
        struct made_up_anchors made_up;
        uint32_t trainers = 1 + (uint32_t)i % 5;
        made_up_anchors_init(&made_up, 500 + i, lengths[i % 4], i);
        struct plan plan =
            made_up_plan(&made_up,
                         (struct plan_options){.window_rows = 2 + i % 9 * 4,
                                               .seed = i,
                                               .shuffle = i % 10 != 9,
                                               .global_batch = trainers * 6 + i % trainers,
                                               .last = 1 + i % 2,
                                               .trainer_count = trainers},
                         1);
        check_epoch(&plan, shapes[i / 4 % 4], 1 + (uint32_t)i % 7, i);
        plan_tables_free(plan.tables);
        anchors_free(made_up.anchors);
    }
}

/* With order.placement local all readers' items together are each position once, in its round. */
static void check_local(const struct plan *plan, struct round_shape shape, uint32_t readers)
{
    static uint16_t owners[MADE_UP_FRAMES];
    struct plan_epoch epoch;
    struct assigner *assigner;
    uint32_t reader_of_trainer[8];
    uint8_t *seen = calloc(plan->position_count, 1);
    struct round_item *items = calloc(round_window_capacity(plan), sizeof *items);
    assert_true(seen && items);
    for (uint32_t t = 0; t < plan->trainer_count; t++)
        reader_of_trainer[t] = t * readers / plan->trainer_count;
    const struct assigner_options options = {.plan = plan,
                                             .reader_count = readers,
                                             .keep_rows = plan->row_count / readers,
                                             .most_rows = plan->window_rows,
                                             .reader_of_trainer = reader_of_trainer,
                                             .copies = 1};
    assert_int_equal(assigner_new(&options, &assigner, NULL), STATUS_OK);
    plan_epoch_init(&epoch, plan, 3);
    for (uint64_t j = 0; j < plan->window_count; j++) {
        struct plan_window window;
        plan_window_at(&window, &epoch, j);
        assigner_window(assigner, &epoch, &window, owners);
        for (uint32_t r = 0; r < readers; r++) {
            uint64_t count = round_window_items(&epoch, &window, shape, owners, r,
                                                round_rows_all(&window), items);
            make_relative(&epoch, shape, items, count);
            for (uint64_t i = 0; i < count; i++) {
                assert_int_equal(seen[items[i].position]++, 0);
                assert_int_equal(items[i].round, round_of_position(plan, shape, items[i].position));
                assert_true(i == 0 || items[i - 1].position < items[i].position);
            }
        }
    }
    assert_null(memchr(seen, 0, plan->position_count));
    assigner_free(assigner);
    free(items);
    free(seen);
}

static void local_anchors(void **state)
{
    (void)state;
    const struct round_shape shapes[] = {{1, 1, 2, {0}}, {3, 1, 2, {0}}, {1, 4, 2, {0}}};
    for (uint64_t i = 0; i < 30; i++) {
        struct made_up_anchors made_up;
        made_up_anchors_init(&made_up, 700, 1 + i % 20, i);
        const struct plan_options options = {
            .window_rows = 1 + i * 3,
            .seed = i,
            .shuffle = true,
            .global_batch = 24,
            .last = 1 + i % 2,
            .trainer_count = 4,
            .locality = locality_number((struct locality){.nodes = 2, .readers = 1})};
        struct plan plan = made_up_plan(&made_up, options, 1);
        check_local(&plan, shapes[i % 3], 1 + (uint32_t)i % 4);
        plan_tables_free(plan.tables);
        anchors_free(made_up.anchors);
    }
}

/* Large enough for several levels of radix sort; 70,000 items of one reader. */
static void large_windows_are_sorted(void **state)
{
    (void)state;
    struct plan plan = make_plan(70001, 1000, 71, 700, 7, PLAN_PAD);
    check_epoch(&plan, (struct round_shape){1, 1, 2, {0}}, 1, 0);
    check_epoch(&plan, (struct round_shape){1, 9, 2, {0}}, 2, 0);
}

static struct round_shape choose(const struct plan *plan, uint32_t readers, uint32_t slots,
                                 uint64_t record_bytes, uint32_t steps, uint64_t limit)
{
    const struct round_record record = {.bytes = record_bytes, .packed_bytes = record_bytes};
    const struct round_peers peers = {.readers = readers};
    uint64_t trainers = size_divide_up(plan->trainer_count, readers);
    struct round_shape shape;
    assert_int_equal(round_shape_choose(plan, &peers, slots, &record, steps, limit, &shape, NULL),
                     STATUS_OK);
    assert_true(shape.steps_per_round == 1 || shape.stripes_per_step == 1);
    uint64_t records = round_max_sent(plan, shape) + round_max_received(plan, shape, trainers);
    assert_true(records * record_bytes <= limit || readers == 1);
    return shape;
}

/* Zero-copy fields take no buffers: no limit on those cuts a step. */
static void zero_copy(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    struct plan plan = make_plan(1000000, 100, 0, 256, 8, PLAN_DROP);
    const struct round_peers four = {.readers = 4}, sixteen = {.readers = 16};
    struct round_shape shape;
    struct round_record record = {.bytes = 150 * mib};
    assert_int_equal(round_shape_choose(&plan, &four, 8, &record, 0, mib, &shape, NULL), STATUS_OK);
    assert_int_equal(shape.steps_per_round, 1);
    assert_int_equal(shape.stripes_per_step, 1);
    record = (struct round_record){.bytes = 150 * 1024, .packed_bytes = 16};
    assert_int_equal(round_shape_choose(&plan, &sixteen, 8, &record, 0, mib, &shape, NULL),
                     STATUS_OK);
    assert_int_equal(shape.steps_per_round, 4);
    assert_int_equal(shape.in_flight, 4);
    record = (struct round_record){.bytes = 150 * mib, .packed_bytes = 8192};
    assert_int_equal(round_shape_choose(&plan, &four, 8, &record, 0, mib, &shape, NULL), STATUS_OK);
    assert_int_equal(shape.stripes_per_step, 2);
}

static void shapes(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    struct plan plan = make_plan(1000000, 100, 0, 256, 8, PLAN_DROP);
    struct round_shape shape = choose(&plan, 1, 4, mib, 0, 128 * mib);
    assert_int_equal(shape.steps_per_round, 1);
    assert_int_equal(shape.stripes_per_step, 1);
    assert_int_equal(shape.in_flight, 3);
    assert_int_equal(choose(&plan, 1, 16, 1024, 0, mib).steps_per_round, 8); /* of 256 KiB */
    assert_int_equal(choose(&plan, 1, 16, 0, 0, mib).steps_per_round, 8);    /* half the slots */
    assert_int_equal(choose(&plan, 1, 4, 1024, 0, mib).steps_per_round, 2);
    assert_int_equal(choose(&plan, 1, 3, 1024, 5, mib).steps_per_round, 1);
    assert_int_equal(choose(&plan, 1, 16, 1024, 1, mib).steps_per_round, 1);
    shape = choose(&plan, 4, 16, 8192, 0, 128 * mib); /* 16 pairs, 2 MiB a step: 8 steps */
    assert_int_equal(shape.steps_per_round, 8);
    assert_int_equal(shape.in_flight, 4);
    assert_false(round_has_passes(shape)); /* there is room for all that travels */
    shape = choose(&plan, 16, 64, 8192, 0, 128 * mib);
    assert_int_equal(shape.steps_per_round, 32);
    assert_int_equal(shape.in_flight, 3);
    assert_true(round_has_passes(shape));
    assert_true(shape.capacity.sent < 2 * 8192 / 4);
    shape = choose(&plan, 4, 6, 8192, 0, 128 * mib); /* at most half the slots */
    assert_int_equal(shape.steps_per_round, 3);
    shape = choose(&plan, 4, 16, 8192, 0, 40 * mib); /* at most a quarter of the limit */
    assert_int_equal(shape.steps_per_round, 7);
    assert_int_equal(shape.in_flight, 2);
    assert_true(round_has_passes(shape));
    shape = choose(&plan, 4, 16, 8192, 0, 5 * mib); /* or all of it, for one step */
    assert_int_equal(shape.steps_per_round, 1);
    assert_int_equal(shape.stripes_per_step, 1);
    shape = choose(&plan, 4, 4, mib, 0, 128 * mib); /* 256 MiB a step: two stripes of 16 each */
    assert_int_equal(shape.stripes_per_step, 2);
    shape = choose(&plan, 4, 4, mib, 0, 8 * mib); /* one record a trainer */
    assert_int_equal(shape.stripes_per_step, 32);
    shape = choose(&plan, 4, 8, 8192, 2, 128 * mib);
    assert_int_equal(shape.steps_per_round, 2);
    shape = choose(&plan, 4, 4, 0, 0, 128 * mib); /* all fields held: empty records */
    assert_int_equal(shape.stripes_per_step, 1);
}

static void expect_invalid(const struct plan *plan, uint64_t record_bytes, uint32_t steps,
                           uint64_t limit, const char *words)
{
    struct round_shape shape = {42, 42, 42, {0}};
    struct error err;
    const struct round_record record = {.bytes = record_bytes, .packed_bytes = record_bytes};
    const struct round_peers peers = {.readers = 4};
    assert_int_equal(round_shape_choose(plan, &peers, 8, &record, steps, limit, &shape, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, words));
    assert_int_equal(shape.stripes_per_step, 42);
}

static void impossible_shapes(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    struct plan plan = make_plan(1000000, 100, 0, 256, 8, PLAN_DROP);
    expect_invalid(&plan, mib, 0, 8 * mib - 1, "one record of 1.00 MiB for each of the 8 trainers");
    expect_invalid(&plan, 8192, 5, 128 * mib, "delivery.slots");
    expect_invalid(&plan, 8192, 4, 5 * mib, "exceed exchange.buffer_limit");
}

/* 10^10 samples of 150 MB over 1,024 readers, each with 8 trainers. */
static void large_runs_do_not_overflow(void **state)
{
    (void)state;
    const uint64_t record_bytes = 150000000, limit = UINT64_C(16) << 30;
    struct plan plan = make_plan(UINT64_C(10000000000), 16, 0, UINT64_C(8192) * 16, 8192, PLAN_PAD);
    struct round_shape shape = choose(&plan, 1024, 4, record_bytes, 0, limit);
    assert_int_equal(shape.stripes_per_step, 4);
    assert_int_equal(round_max_trainer_records(&plan, shape), 4);
    uint64_t rounds = rounds_per_epoch(&plan, shape);
    assert_int_equal(rounds, plan.steps_per_epoch * 4);
    struct plan_round last = round_at(&plan, shape, rounds - 1);
    assert_int_equal(last.first_step, plan.steps_per_epoch - 1);
    assert_int_equal(last.stripe, 3);
    struct plan_recipient recipient = plan_recipient_of(&plan, plan.position_count - 1);
    assert_int_equal(recipient.trainer, 8191);
    assert_int_equal(round_of(&plan, shape, recipient), rounds - 1);
    shape = choose(&plan, 32767, 1024, 1, 0, UINT64_MAX / 2);
    assert_int_equal(shape.steps_per_round, 17); /* of 128Ki samples: lists are not too long */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_order_for_any_machine),
        cmocka_unit_test(unusual_sizes),
        cmocka_unit_test(anchors),
        cmocka_unit_test(local_anchors),
        cmocka_unit_test(large_windows_are_sorted),
        cmocka_unit_test(shapes),
        cmocka_unit_test(zero_copy),
        cmocka_unit_test(impossible_shapes),
        cmocka_unit_test(large_runs_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
