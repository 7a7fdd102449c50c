/* The budget: never above the limit, never below what a run needs, everything kept where everything
 * fits. */
#include "plan/budget/budget.h"

#include "base/size.h"
#include "made_up_anchors.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t MIB = 1 << 20, GIB = 1 << 30;

static struct plan make_plan(uint64_t n, uint64_t c, uint64_t w, uint64_t b, uint32_t trainers)
{
    struct plan_options options = {.sample_count = n,
                                   .row_length = c,
                                   .window_rows = w,
                                   .shuffle = true,
                                   .global_batch = b,
                                   .trainer_count = trainers};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

/* 1,000 rows of 100 samples of 10 KiB, 4 readers that serve 2 trainers each, 100 rows a window. */
static struct budget_demand usual(const struct plan *plan)
{
    return (struct budget_demand){
        .plan = plan,
        .shape = {.steps_per_round = 1, .stripes_per_step = 1, .in_flight = 2},
        .reader_count = 4,
        .ring_count = 2,
        .copies = 1,
        .worker_count = 8,
        .row_bytes = 1000 * 1024,
        .packed_bytes = 10 * 1024,
        .held_bytes = 3 * MIB,
        .scratch_bytes = MIB,
        .ring_bytes = 20 * MIB,
        .keep = BUDGET_KEEP_DECODED,
        .limit_bytes = 2 * GIB,
    };
}

static uint64_t buffer_bytes(const struct budget_demand *demand)
{
    return demand->row_bytes + BUDGET_BUFFER_TABLE_BYTES;
}

static struct budget settle(const struct budget_demand *demand)
{
    struct budget b;
    assert_int_equal(budget_settle(demand, &b, NULL), STATUS_OK);
    assert_true(b.total_bytes <= demand->limit_bytes);
    assert_true(b.least_bytes <= demand->limit_bytes);
    assert_int_equal(b.total_bytes, b.rows_bytes + b.held_bytes + b.rings_bytes + b.exchange_bytes +
                                        b.scratch_bytes + b.plan_bytes + b.stored_bytes);
    assert_int_equal(b.rows_bytes, b.buffer_rows * buffer_bytes(demand));
    assert_true(b.buffer_rows >= b.transient_rows);
    uint64_t even = size_divide_up(demand->plan->window_rows, demand->reader_count);
    assert_true(b.keep_rows <= size_divide_up(demand->plan->row_count, demand->reader_count) + 1);
    assert_true(b.most_rows >= even && b.most_rows <= demand->plan->window_rows);
    return b;
}

static void purposes(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    struct budget b = settle(&demand);
    assert_int_equal(b.held_bytes, 3 * MIB);
    assert_int_equal(b.rings_bytes, 40 * MIB);
    assert_int_equal(b.scratch_bytes, 8 * MIB);
    assert_int_equal(b.exchange_bytes, 2 * (256 + 2 * 32) * 10 * 1024);
    assert_int_equal(b.planned_windows, 4);
    assert_int_equal(b.source_items[0], 5000 + 2166); /* twice a quarter, and a margin */
    uint64_t windows = 4 * (7166 * sizeof(struct round_item) + 100 * BUDGET_WINDOW_ROW_BYTES +
                            sizeof(struct plan_epoch));
    uint64_t rounds = 2 * (256 * BUDGET_FILL_BYTES + 2 * 32 * BUDGET_ARRIVAL_BYTES);
    assert_int_equal(b.plan_bytes, windows + rounds + assigner_bytes(&plan, 4, true));
    demand.reader_count = 1;
    assert_int_equal(settle(&demand).exchange_bytes, 0);
    demand = usual(&plan);
    demand.packed_bytes = 0;
    demand.messages = 3;
    demand.shape.in_flight = 4;
    assert_int_equal(settle(&demand).exchange_bytes,
                     4 * 3 * (256 * BUDGET_SEND_BYTES + 2 * 32 * BUDGET_RECEIVE_BYTES));
    demand.shape.in_flight = 2;
    struct plan small_windows = make_plan(100000, 100, 2, 1000, 8);
    demand.plan = &small_windows;
    assert_int_equal(settle(&demand).planned_windows, 1 + 15 + 8); /* 8 workers, a row of each */
}

/* Chunks of values that are held come before rings and exchange are in use, and beside fetches that
 * are no less. */
static void room_to_hold(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    struct budget b = settle(&demand);
    uint64_t idle_bytes = b.rings_bytes + b.exchange_bytes;
    demand.hold_room_bytes = idle_bytes;
    assert_int_equal(settle(&demand).fetch_bytes, 0);
    demand.hold_room_bytes = idle_bytes + 5 * MIB;
    assert_int_equal(budget_settle(&demand, &b, NULL), STATUS_OK);
    assert_int_equal(b.fetch_bytes, 5 * MIB);
    assert_true(b.total_bytes <= demand.limit_bytes);
    demand.fetch_bytes = 6 * MIB;
    assert_int_equal(budget_settle(&demand, &b, NULL), STATUS_OK);
    assert_int_equal(b.fetch_bytes, 6 * MIB);
    demand.hold_room_bytes = demand.limit_bytes;
    assert_int_equal(budget_settle(&demand, &b, NULL), STATUS_NO_MEMORY);
}

/* 64 frames a row, of which every third row has 60 samples, the others one or none. */
static void tables_of_anchors(void **state)
{
    (void)state;
    enum { ROWS = 3000, FRAMES = ROWS * 64 };
    static uint64_t wanted[ROWS];
    const uint64_t stores[] = {0, FRAMES};
    for (size_t row = 0; row < ROWS; row++)
        wanted[row] = row % 3 == 0 ? UINT64_MAX >> 4 : row % 3 == 1;
    const struct anchors_options options = {
        .store_frames = stores, .store_count = 1, .row_length = 64, .stride = 1, .wanted = wanted};
    struct anchors *anchors;
    struct anchors_counts counts;
    assert_int_equal(anchors_build(&options, &anchors, &counts, NULL), STATUS_OK);
    const struct plan_options of_plan = {.sample_count = 61000,
                                         .row_length = 64,
                                         .anchors = anchors,
                                         .window_rows = 100,
                                         .shuffle = true,
                                         .global_batch = 256,
                                         .trainer_count = 8};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &of_plan, NULL), STATUS_OK);
    assert_int_equal(plan.window_most, 100 * 60);
    assert_int_equal(plan.window_least, 100);
    struct budget_demand demand = usual(&plan);
    demand.anchor_bytes = 12345;
    struct budget b = settle(&demand);
    assert_int_equal(b.planned_windows, 2 + 8); /* three rounds may touch as many */
    assert_int_equal(plan_epochs_at_once(&plan, 10), 2);
    uint64_t tables = 2000 * 4 + 2 * (2000 * 4 + 21 * 8);
    assert_in_range(plan_tables_bytes(&plan, 2, 1), tables, tables + 128);
    uint64_t windows = 10 * (4300 * sizeof(struct round_item) + 100 * BUDGET_WINDOW_ROW_BYTES +
                             sizeof(struct plan_epoch));
    uint64_t rounds = 2 * (256 * BUDGET_FILL_BYTES + 2 * 32 * BUDGET_ARRIVAL_BYTES);
    assert_int_equal(b.plan_bytes, windows + rounds + assigner_bytes(&plan, 4, true) +
                                       plan_tables_bytes(&plan, 2, 1) + 12345);
    anchors_free(anchors);
}

static void everything_fits(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    struct budget b = settle(&demand);
    assert_int_equal(b.keep_rows, 251);
    assert_int_equal(b.transient_rows, 0);
    assert_int_equal(b.most_rows, 100);
    assert_int_equal(b.buffer_rows, 251);
    demand.keep = BUDGET_KEEP_NOTHING;
    b = settle(&demand);
    assert_int_equal(b.keep_rows, 0);
    assert_int_equal(b.transient_rows, 75);
    assert_int_equal(b.most_rows, 50);
    demand.keep = BUDGET_KEEP_DECODED;
    demand.last_epoch = true;
    b = settle(&demand);
    assert_int_equal(b.keep_rows, 0);
    assert_int_equal(b.transient_rows, 75);
    assert_int_equal(b.most_rows, 50);
}

static void reading_ahead_before_keeping(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    struct budget b = settle(&demand);
    uint64_t fixed = b.total_bytes - b.rows_bytes;
    assert_int_equal(b.least_bytes, fixed + 25 * buffer_bytes(&demand));
    demand.limit_bytes = b.least_bytes;
    assert_int_equal(settle(&demand).transient_rows, 25);
    assert_int_equal(settle(&demand).keep_rows, 0);
    assert_int_equal(settle(&demand).most_rows, 25);
    demand.limit_bytes = fixed + 60 * buffer_bytes(&demand);
    assert_int_equal(settle(&demand).transient_rows, 60);
    assert_int_equal(settle(&demand).most_rows, 35);
    assert_int_equal(settle(&demand).keep_rows, 0);
    demand.limit_bytes = fixed + 150 * buffer_bytes(&demand) + 7;
    assert_int_equal(settle(&demand).transient_rows, 75);
    assert_int_equal(settle(&demand).keep_rows, 75);
    demand.limit_bytes = fixed + 251 * buffer_bytes(&demand);
    assert_int_equal(settle(&demand).transient_rows, 0);
    assert_int_equal(settle(&demand).keep_rows, 251);
}

/* One window is in use, the next one is there, and each worker reads a row of windows behind. */
static void workers_have_rows_to_read(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 8, 256, 8);
    struct budget_demand demand = usual(&plan);
    demand.keep = BUDGET_KEEP_NOTHING;
    demand.reader_count = 1;
    demand.worker_count = 2;
    assert_int_equal(settle(&demand).transient_rows, 8 + 8 + 2);
    assert_int_equal(settle(&demand).planned_windows, 4);
    demand.worker_count = 64;
    assert_int_equal(settle(&demand).transient_rows, 8 + 8 + 64);
    assert_int_equal(settle(&demand).planned_windows, 1 + 1 + 64 / 8);
    demand.reader_count = 2;
    assert_int_equal(settle(&demand).transient_rows, 4 + 4 + 64);
    demand.limit_bytes = settle(&demand).least_bytes + 3 * buffer_bytes(&demand);
    assert_int_equal(settle(&demand).transient_rows, 4 + 3);
    /* Windows of one row of 100,000 samples: those to read ahead take a 32nd of the limit. */
    struct plan large = make_plan(100000000, 100000, 1, 256, 1);
    demand = usual(&large);
    demand.reader_count = 1;
    demand.worker_count = 64;
    uint64_t fit = demand.limit_bytes / 32 / (100000 * sizeof(struct round_item));
    assert_in_range(fit, 2, 63);
    assert_int_equal(settle(&demand).planned_windows, 1 + 1 + fit);
}

static void row_rules(void **state)
{
    (void)state;
    struct plan single = make_plan(100000, 1, 1000, 256, 8);
    struct budget_demand demand = usual(&single);
    demand.keep = BUDGET_KEEP_NOTHING;
    struct budget b = settle(&demand);
    assert_int_equal(b.transient_rows, 2 * 64); /* two rounds of 256 over 4 readers */
    demand.fetch_rows = 300;
    assert_int_equal(settle(&demand).transient_rows, 2 * 64 + 300);
    demand.fetch_rows = 0;
    assert_int_equal(b.most_rows, 500);
    assert_int_equal(b.least_bytes,
                     b.total_bytes - b.rows_bytes + (2 * 8 + 2) * buffer_bytes(&demand));

    struct plan padded = single; /* the last step repeats 96 rows, of which a reader may own all */
    padded.last = PLAN_PAD;
    padded.position_count = padded.sample_count + 96;
    demand.plan = &padded;
    b = settle(&demand);
    assert_int_equal(b.least_bytes,
                     b.total_bytes - b.rows_bytes + (2 * 8 + 2 + 96) * buffer_bytes(&demand));

    struct plan stripes = make_plan(100000, 10, 20, 1000, 8); /* a step touches up to 6 windows */
    demand.plan = &stripes;
    demand.shape = (struct round_shape){1, 4, 2, {0}};
    b = settle(&demand);
    assert_int_equal(b.least_bytes,
                     b.total_bytes - b.rows_bytes + 5 * (1 + 6) * buffer_bytes(&demand));
    assert_int_equal(b.transient_rows, 3 * 5 * (1 + 6));
    assert_int_equal(b.most_rows, 10);

    struct plan one_window = make_plan(1000, 10, 100, 50, 1);
    demand.plan = &one_window;
    demand.shape = (struct round_shape){1, 1, 2, {0}};
    assert_int_equal(settle(&demand).transient_rows, 75);
}

static void rows_kept_as_stored(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    demand.keep = BUDGET_KEEP_STORED;
    demand.stored_row_bytes = 100 * 1024;
    struct budget b = settle(&demand);
    /* All of them are: so a whole window may have to be read at one home. */
    assert_int_equal(b.transient_rows, 125);
    assert_int_equal(b.buffer_rows, 125);
    assert_int_equal(b.most_rows, 100);
    assert_int_equal(b.keep_rows, 251);
    assert_int_equal(b.stored_bytes, 251 * 100 * 1024);
    demand.limit_bytes = b.total_bytes - 10 * buffer_bytes(&demand);
    assert_int_equal(settle(&demand).transient_rows, 115);
    assert_int_equal(settle(&demand).most_rows, 90);
    demand.limit_bytes = b.total_bytes - 50 * buffer_bytes(&demand) - 51 * 100 * 1024;
    assert_int_equal(settle(&demand).keep_rows, 200);
    assert_int_equal(settle(&demand).transient_rows, 75);
    assert_int_equal(settle(&demand).most_rows, 50);
    demand.last_epoch = true;
    assert_int_equal(settle(&demand).stored_bytes, 0);
}

static void too_low_a_limit(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    uint64_t least = settle(&demand).least_bytes;
    struct budget b = {.keep_rows = 42};
    struct error err;
    demand.limit_bytes = least - 1;
    assert_int_equal(budget_settle(&demand, &b, &err), STATUS_NO_MEMORY);
    assert_int_equal(b.keep_rows, 42);
    const char *const words[] = {"readers.memory_limit",
                                 "at least",
                                 "row buffers",
                                 "held arrays",
                                 "rings",
                                 "exchange",
                                 "scratch",
                                 "plan",
                                 "order.window_rows",
                                 "delivery.slots",
                                 "raise",
                                 "25 x"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(strstr(err.message, words[i]));
    unsigned long long mib;
    assert_int_equal(sscanf(strstr(err.message, "at least"), "at least %lluMiB", &mib), 1);
    demand.limit_bytes = mib * MIB;
    (void)settle(&demand);
    assert_true((mib - 1) * MIB < least);
}

/* 10^10 samples of 150 MB over 1,024 readers: refused with a sum, not accepted through an overflow.
 */
static void large_sizes_saturate(void **state)
{
    (void)state;
    struct plan plan = make_plan(UINT64_C(10000000000), 16, 0, 8192 * 16, 8192);
    struct budget_demand demand = usual(&plan);
    demand.reader_count = 1024;
    demand.ring_count = 8;
    demand.row_bytes = UINT64_C(16) * 150000000;
    demand.packed_bytes = 150000000;
    demand.ring_bytes = UINT64_C(4) * 16 * 150000000;
    demand.shape = (struct round_shape){1, 6, 2, {0}};
    struct error err;
    struct budget b;
    assert_int_equal(budget_settle(&demand, &b, &err), STATUS_NO_MEMORY);
    demand.limit_bytes = UINT64_C(1) << 50;
    b = settle(&demand);
    assert_true(b.exchange_bytes == UINT64_C(2) * (8192 * 3 + 8 * 3) * 150000000);
    demand.row_bytes = UINT64_MAX / 2;
    demand.limit_bytes = UINT64_MAX / 2;
    assert_int_equal(budget_settle(&demand, &b, &err), STATUS_NO_MEMORY);
}

/* What rows leave is for values that stay inflated, and what is for them alone is named. */
static void deflated_values(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    uint64_t total = settle(&demand).total_bytes;
    demand.inflated_bytes = 50 * MIB;
    assert_int_equal(settle(&demand).inflated_bytes, 50 * MIB);
    assert_int_equal(settle(&demand).total_bytes, total + 50 * MIB);
    demand.limit_bytes = total + 5 * MIB;
    assert_int_equal(settle(&demand).inflated_bytes, 5 * MIB);
    demand.inflate_bytes = 300 * MIB;
    demand.scratch_bytes += demand.inflate_bytes;
    struct budget b;
    struct error err;
    assert_int_equal(budget_settle(&demand, &b, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "deflated values of a zip archive, up to 300.0 MiB"));
}

/* Manifests are in memory once, however many threads read. */
static void manifests(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    struct budget b;
    struct text out = {0};
    uint64_t scratch = settle(&demand).scratch_bytes;
    demand.catalogue_bytes = 30 * MIB;
    b = settle(&demand);
    assert_int_equal(b.scratch_bytes, scratch + 30 * MIB);
    budget_describe(&demand, &b, &out);
    assert_non_null(strstr(out.data, "30.0 MiB for manifests, references and directories"));
    text_done(&out);
    demand.catalogue_bytes = demand.limit_bytes;
    struct error err;
    assert_int_equal(budget_settle(&demand, &b, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "of it says where chunks lie"));
}

static void description(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, 8);
    struct budget_demand demand = usual(&plan);
    struct budget b = settle(&demand);
    struct text out = {0};
    budget_describe(&demand, &b, &out);
    assert_non_null(strstr(out.data, "  0 transient + 251 kept"));
    assert_non_null(strstr(out.data, "total"));
    assert_non_null(strstr(out.data, "2.00 GiB"));
    text_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(purposes),
        cmocka_unit_test(room_to_hold),
        cmocka_unit_test(tables_of_anchors),
        cmocka_unit_test(everything_fits),
        cmocka_unit_test(reading_ahead_before_keeping),
        cmocka_unit_test(rows_kept_as_stored),
        cmocka_unit_test(workers_have_rows_to_read),
        cmocka_unit_test(row_rules),
        cmocka_unit_test(too_low_a_limit),
        cmocka_unit_test(large_sizes_saturate),
        cmocka_unit_test(deflated_values),
        cmocka_unit_test(manifests),
        cmocka_unit_test(description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
