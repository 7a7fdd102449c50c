/* Ragged fields in budget and rounds: rows and samples of unequal lengths, against models that look
 * at each number of rows, and at each sample that is padding. */
#include "base/number.h"
#include "base/size.h"
#include "base/random.h"
#include "plan/assign/assign.h"
#include "plan/budget/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_ROWS = 1000, KIB = 1024, PAGE = 64 * KIB };
static const uint64_t MIB = 1 << 20, GIB = 1 << 30;

/* Rows, or samples, of unequal lengths, as a dataset says of them: the most that any of them take
 * together. */
static uint64_t page_sums[MOST_ROWS + 1];

static uint64_t most_pages(const struct dataset *dataset, uint64_t rows)
{
    (void)dataset;
    return page_sums[min_u64(rows, MOST_ROWS)];
}

/* One sample of 1 MiB, the others have 1 KiB. */
static uint64_t most_trailer(const struct dataset *dataset, uint64_t samples)
{
    (void)dataset;
    return samples == 0 ? 0 : MIB + (samples - 1) * KIB;
}

static int falling(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void set_pages(uint64_t counts[MOST_ROWS])
{
    qsort(counts, MOST_ROWS, sizeof counts[0], falling);
    for (int row = 0; row < MOST_ROWS; row++)
        page_sums[row + 1] = page_sums[row] + counts[row];
}

/* 1,000 rows of 20 pages, but for one that has 5,000. */
static void set_one_giant(void)
{
    uint64_t counts[MOST_ROWS] = {0};
    for (int row = 0; row < 1000; row++)
        counts[row] = row == 0 ? 5000 : 20;
    set_pages(counts);
}

static void set_random(uint64_t seed)
{
    uint64_t counts[MOST_ROWS];
    for (uint64_t row = 0; row < MOST_ROWS; row++) {
        uint64_t number = random_u64(seed, 0, row);
        counts[row] = number % 30 + (number >> 32 & 63 ? 0 : number >> 40 & 1023);
    }
    set_pages(counts);
}

static struct plan make_plan(uint64_t n, uint64_t c, uint64_t w, uint64_t b, enum plan_last last)
{
    struct plan_options options = {.sample_count = n,
                                   .row_length = c,
                                   .window_rows = w,
                                   .shuffle = true,
                                   .global_batch = b,
                                   .last = last,
                                   .trainer_count = 1};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

static struct budget_demand make_demand(const struct plan *plan, uint32_t readers)
{
    return (struct budget_demand){
        .plan = plan,
        .shape = {.steps_per_round = 2, .stripes_per_step = 1, .in_flight = 2},
        .reader_count = readers,
        .ring_count = 1,
        .copies = 1,
        .worker_count = 2,
        .row_bytes = 64,
        .packed_bytes = 16,
        .ragged = {.page_bytes = PAGE,
                   .sample_steps = 3, /* of two fields */
                   .last_starts = 2,
                   .most_pages = most_pages,
                   .most_trailer = most_trailer},
        .ring_bytes = 20 * MIB,
        .scratch_bytes = MIB,
        .keep = BUDGET_KEEP_DECODED,
        .limit_bytes = 16 * GIB,
    };
}

/* What so many row buffers take. */
static uint64_t buffers_bytes(uint64_t buffers)
{
    return buffers * (64 + BUDGET_BUFFER_TABLE_BYTES + BUDGET_BUFFER_PAGES_BYTES) +
           most_pages(NULL, buffers) * (PAGE + BUDGET_PAGE_TABLE_BYTES);
}

static struct budget settle(const struct budget_demand *demand)
{
    struct budget b;
    struct error err;
    if (budget_settle(demand, &b, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_true(b.total_bytes <= demand->limit_bytes);
    assert_true(b.pages == most_pages(NULL, b.buffer_rows)); /* whatever rows are in the buffers */
    assert_int_equal(b.rows_bytes + b.pages_bytes, buffers_bytes(b.buffer_rows));
    assert_int_equal(b.total_bytes, b.rows_bytes + b.pages_bytes + b.rings_bytes +
                                        b.exchange_bytes + b.scratch_bytes + b.plan_bytes +
                                        b.stored_bytes);
    return b;
}

static uint64_t settle_plan(const struct budget_demand *demand)
{
    struct budget b;
    assert_int_equal(budget_settle(demand, &b, NULL), STATUS_OK);
    return b.plan_bytes;
}

/* All but buffers, and what grows with them. */
static uint64_t fixed_bytes(const struct budget *b)
{
    return b->total_bytes - b->rows_bytes - b->pages_bytes - b->stored_bytes;
}

/* The least limit is exact, and the message has all sizes. */
static void least_limit(void **state)
{
    (void)state;
    set_one_giant();
    for (uint32_t readers = 1; readers <= 5; readers++) {
        struct plan plan = make_plan(100000, 100, 100, 256, PLAN_DROP);
        struct budget_demand demand = make_demand(&plan, readers);
        struct budget b = settle(&demand), untouched = b;
        struct error err;
        uint64_t even = (100 + readers - 1) / readers;
        assert_int_equal(b.least_bytes, fixed_bytes(&b) + buffers_bytes(even));
        demand.limit_bytes = b.least_bytes;
        b = settle(&demand);
        assert_int_equal(b.buffer_rows, even);
        assert_int_equal(b.total_bytes, demand.limit_bytes);
        demand.limit_bytes--;
        assert_int_equal(budget_settle(&demand, &untouched, &err), STATUS_NO_MEMORY);
        assert_non_null(strstr(err.message, " pages of 64.0 KiB for ragged fields "));
        assert_non_null(strstr(err.message, "samples.row_chunks"));
    }
}

/* One giant row of 1,000 sizes no other: all rows take their own pages, and not 1,000 x 5,000. */
static void giant_row(void **state)
{
    (void)state;
    set_one_giant();
    struct plan plan = make_plan(100000, 100, 100, 256, PLAN_DROP);
    struct budget_demand demand = make_demand(&plan, 1);
    struct budget b = settle(&demand);
    assert_int_equal(b.keep_rows, 1001);
    assert_int_equal(b.pages, 5000 + 999 * 20);
    demand.limit_bytes = b.total_bytes - 1;
    assert_true(settle(&demand).keep_rows < 1000);
    demand.limit_bytes = 4 * GIB; /* of equal rows of 5,000 pages 13 would fit */
    assert_true(settle(&demand).keep_rows == 1001);
    assert_true(5000ULL * 14 * PAGE > 4 * GIB);
}

/* With random rows and limits: as many buffers as a model counts one by one, that has room for the
 * largest rows. */
static void random_limits(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        set_random(seed % 10);
        uint32_t readers = 1 + (uint32_t)(seed % 5);
        struct plan plan = make_plan(1000 * 37, 37, 64, 64, PLAN_DROP);
        struct budget_demand demand = make_demand(&plan, readers);
        struct budget b = settle(&demand);
        uint64_t fixed = fixed_bytes(&b), even = (64 + readers - 1) / readers;
        uint64_t all = (1000 + readers - 1) / readers + 1;
        demand.limit_bytes =
            b.least_bytes + random_u64(seed, 1, 0) % (b.total_bytes - b.least_bytes + MIB);
        uint64_t fits = 0;
        while (fixed + buffers_bytes(fits + 1) <= demand.limit_bytes && fits < 5000)
            fits++;
        b = settle(&demand);
        assert_int_equal(fixed_bytes(&b), fixed);
        assert_int_equal(b.buffer_rows, min_u64(fits, all));
        assert_true(b.buffer_rows >= even);
        demand.keep = BUDGET_KEEP_NOTHING;
        b = settle(&demand);
        assert_int_equal(b.keep_rows, 0);
        uint64_t ahead = readers == 1 ? demand.worker_count : max_u64(even, demand.worker_count);
        assert_int_equal(b.buffer_rows, min_u64(fits, 2 * even + ahead));
    }
}

/* Rows kept as stored or decoded: within any limit, and more rows are in memory the more there is
 * of it. */
static void all_ways_to_keep(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        set_random(seed % 10);
        struct plan plan = make_plan(1000 * 37, seed % 3 == 0 ? 1 : 37, 64, 64, PLAN_DROP);
        struct budget_demand demand = make_demand(&plan, 1 + (uint32_t)(seed % 5));
        if (seed % 2 == 0) {
            demand.keep = BUDGET_KEEP_STORED;
            demand.stored_row_bytes = 300 * KIB;
        }
        struct budget b = settle(&demand), before = {0};
        uint64_t most = 2 * b.total_bytes;
        for (uint64_t i = 0; i < 20; i++) {
            demand.limit_bytes = b.least_bytes + i * (most - b.least_bytes) / 20;
            struct budget next = settle(&demand);
            assert_true(next.keep_rows + next.transient_rows >=
                        before.keep_rows + before.transient_rows);
            before = next;
        }
        assert_true(before.keep_rows >= 1000 / demand.reader_count);
    }
}

/* The trailers of a round, to send and to receive. */
static void exchange(void **state)
{
    (void)state;
    set_one_giant();
    struct plan plan = make_plan(100000, 100, 100, 256, PLAN_DROP);
    struct budget_demand demand = make_demand(&plan, 4);
    struct budget b = settle(&demand);
    assert_int_equal(b.send_trailer_bytes, MIB + 511 * KIB);
    assert_int_equal(b.receive_trailer_bytes, MIB + 511 * KIB);
    assert_int_equal(b.exchange_bytes, 2 * (2 * 512 * 16 + 2 * (MIB + 511 * KIB)));
    demand.reader_count = 1;
    assert_int_equal(settle(&demand).exchange_bytes, 0);
    assert_int_equal(settle(&demand).send_trailer_bytes, 0);
    /* 100 samples in rows of 50: the last step of 64 has 36, and then 28 of the last window's 50.
     */
    plan = make_plan(100, 50, 1, 64, PLAN_PAD);
    demand = make_demand(&plan, 4);
    demand.shape.steps_per_round = 1;
    b = settle(&demand);
    assert_int_equal(b.send_trailer_bytes, 2 * (MIB + 31 * KIB));
}

/* Starts of each slot of a round, what the round notes of records, and what threads remember of
 * rows, also where all ragged fields are held whole. */
static void starts(void **state)
{
    (void)state;
    set_one_giant();
    struct plan plan = make_plan(100000, 100, 100, 256, PLAN_DROP);
    struct budget_demand demand = make_demand(&plan, 4), without;
    uint64_t records = 2 * 2 * 512 + 512 * (demand.ring_count - 1);
    for (int held = 0; held < 2; held++) {
        if (held)
            demand.ragged.page_bytes = 0;
        without = demand;
        without.ragged.sample_steps = 0;
        uint64_t trailers = settle_plan(&demand) - settle_plan(&without);
        assert_int_equal(trailers, 2 * (2 * (256 * 3 + 2) * BUDGET_START_BYTES) +
                                       records * BUDGET_TRAILER_BYTES +
                                       (demand.worker_count + 1) * BUDGET_FOUND_BYTES);
    }
}

/* Counts how often a sample comes among positions that follow one another. */
static uint64_t count_copies(const struct plan *plan, uint64_t epoch, uint64_t positions)
{
    uint16_t counts[512] = {0};
    struct plan_epoch at;
    uint64_t most = 0, first = plan->position_count - min_u64(positions, plan->position_count);
    plan_epoch_init(&at, plan, epoch);
    for (uint64_t p = first; p < plan->position_count; p++)
        most = max_u64(most, ++counts[plan_sample_at(&at, p)]);
    return most;
}

static void copies(void **state)
{
    (void)state;
    uint64_t exact = 0, several = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        uint64_t number = random_u64(seed, 2, 0);
        uint64_t n = 1 + number % 300, c = 1 + (number >> 10) % 40, w = 1 + (number >> 20) % 8,
                 b = 1 + (number >> 30) % 80;
        struct plan plan = make_plan(n, c, w, b, seed % 8 == 0 ? PLAN_PARTIAL : PLAN_PAD);
        uint64_t positions = b * (1 + (number >> 40) % 3), found = 0;
        for (uint64_t epoch = 0; epoch < 8; epoch++)
            found = max_u64(found, count_copies(&plan, epoch, positions));
        uint64_t most = plan_most_copies(&plan, positions);
        assert_true(found <= most);
        exact += found == most;
        several += most > 1;
    }
    assert_true(several > 500);
    assert_true(exact > 1500);
}

static const struct round_peers four = {.readers = 4};

static enum status choose(const struct plan *plan, uint64_t mean, uint32_t steps, uint64_t limit,
                          struct round_shape *ret_shape, struct error *err)
{
    const struct round_record record = {.bytes = 16,
                                        .packed_bytes = 16,
                                        .ragged = {.page_bytes = PAGE,
                                                   .sample_steps = 1,
                                                   .mean_trailer_bytes = mean,
                                                   .most_trailer = most_trailer}};
    return round_shape_choose(plan, &four, 16, &record, steps, limit, ret_shape, err);
}

/* What a reader has in its buffers for so many steps, with samples of the longest trailers. */
static uint64_t buffer_bytes(const struct plan *plan, uint64_t steps, bool trailers)
{
    struct round_capacity capacity =
        round_capacity_expected(plan, &four, (double)steps, steps * plan->global_batch);
    uint64_t received = size_divide_up(plan->trainer_count, 4) * plan->batch * steps;
    return (capacity.sent + received) * 16 +
           (trailers ? most_trailer(NULL, capacity.sent) + most_trailer(NULL, received) : 0);
}

/* Steps are not cut: a reader's part of a step, of the longest samples, must fit. */
static void shapes(void **state)
{
    (void)state;
    struct plan plan = make_plan(100000, 100, 100, 256, PLAN_DROP);
    const uint64_t step = buffer_bytes(&plan, 1, true), two = buffer_bytes(&plan, 2, true);
    const uint64_t held_step = buffer_bytes(&plan, 1, false);
    struct round_shape shape;
    struct error err;
    assert_int_equal(choose(&plan, KIB, 0, 128 * MIB, &shape, NULL), STATUS_OK);
    assert_int_equal(shape.steps_per_round, 8); /* half the slots; 16 MiB would be 63 steps */
    assert_int_equal(shape.stripes_per_step, 1);
    assert_int_equal(shape.in_flight, 4);
    assert_int_equal(choose(&plan, 16 * KIB, 0, 128 * MIB, &shape, NULL), STATUS_OK);
    assert_int_equal(shape.steps_per_round, 4);
    assert_int_equal(choose(&plan, KIB, 0, 4 * buffer_bytes(&plan, 3, true), &shape, NULL),
                     STATUS_OK);
    assert_int_equal(shape.steps_per_round, 3);
    assert_int_equal(shape.in_flight, 2);
    assert_int_equal(choose(&plan, KIB, 0, step, &shape, NULL), STATUS_OK);
    assert_int_equal(shape.steps_per_round, 1);
    assert_int_equal(choose(&plan, KIB, 0, step - 1, &shape, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "raise the limit to at least 3MiB"));
    struct round_record held = {.bytes = 16, .packed_bytes = 16, .ragged.sample_steps = 1};
    assert_int_equal(round_shape_choose(&plan, &four, 16, &held, 0, held_step, &shape, NULL),
                     STATUS_OK);
    assert_int_equal(round_shape_choose(&plan, &four, 16, &held, 0, held_step - 1, &shape, &err),
                     STATUS_INVALID); /* starts are of whole steps, wherever the items are */
    assert_int_equal(choose(&plan, KIB, 2, two, &shape, NULL), STATUS_OK);
    assert_int_equal(shape.steps_per_round, 2);
    assert_int_equal(choose(&plan, KIB, 2, two - 1, &shape, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "exceed exchange.buffer_limit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_limit),   cmocka_unit_test(giant_row),
        cmocka_unit_test(random_limits), cmocka_unit_test(all_ways_to_keep),
        cmocka_unit_test(exchange),      cmocka_unit_test(copies),
        cmocka_unit_test(shapes),        cmocka_unit_test(starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
