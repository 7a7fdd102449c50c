/* Ways: the busiest resource is busy for little longer than it has to be, whatever is scarce. */
#include "plan/ways.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { READERS = 4, ROWS = 4000 };

static const double even[READERS] = {0.25, 0.25, 0.25, 0.25};

/* Samples of 1,000 bytes. */
static void bench_init(struct ways *ways, enum ways_choice choice, uint64_t row_samples,
                       struct ways_rates rates)
{
    assert_true(ways_init(ways, READERS, choice, 1000, row_samples, even));
    ways_note_shares(ways);
    for (uint32_t r = 0; r < READERS; r++)
        ways_note_rates(ways, r, &rates);
    ways_begin_window(ways, 1);
}

/* Rows of one sample that another reader has: how many are not sent. */
static uint64_t take_single(struct ways *ways, uint64_t counts[READERS])
{
    uint64_t each = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t from = i % READERS, to = (from + 1 + i / READERS % (READERS - 1)) % READERS;
        struct ways_row row = {.from = from};
        bool chosen = ways_choose_single(ways, &row, to, false, true) == WAY_EACH;
        each += chosen;
        counts[to] += chosen;
    }
    return each;
}

/* Rows of several samples, of which each reader has a quarter in memory. */
static uint64_t take_long(struct ways *ways)
{
    uint64_t each = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t from = i % READERS;
        struct ways_row row = {.from = from};
        bool chosen = ways_prefer(ways, &row) == WAY_EACH;
        if (chosen)
            ways_add_each(ways, &row);
        else
            ways_add_sent(ways, &row);
        each += chosen;
    }
    return each;
}

/* With a for sending a row and b for reading it, a/(a+b) of the rows are read in the best of cases,
 * and all take ab/(a+b). If that is little less than a, all rows are sent. */
static void mixes_as_is_best(void **state)
{
    (void)state;
    static const double reading[] = {100, 1000, 8000, 60000, 1000000};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        struct ways ways;
        uint64_t counts[READERS] = {0};
        bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = reading[i], .byte_ns = 8});
        uint64_t each = take_single(&ways, counts);
        double a = 8000, b = reading[i], rows = (double)ROWS / READERS;
        double least = rows * a * b / (a + b);
        if (b > 3 * a) /* the mixture would be faster by less than a third */
            assert_int_equal(each, 0);
        else
            assert_in_range(each, (uint64_t)(0.6 * ROWS * a / (a + b)), ROWS - 1);
        double took = ways_window_ns(&ways, WAYS_CHOSEN);
        assert_true(took >= least * 0.999 && took < least * 1.1);
        assert_true(ways_window_ns(&ways, WAYS_ALL_SEND) > rows * a * 0.999);
        assert_true(ways_window_ns(&ways, WAYS_ALL_EACH) > rows * b * 0.999);
        ways_done(&ways);
    }
}

/* A long row is read by all who do not have it, instead of one: three times the work, less three
 * quarters of its samples sent. */
static void long_rows_mix(void **state)
{
    (void)state;
    static const double reading[] = {100, 8000, 64000, 1000000};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        struct ways ways;
        bench_init(&ways, WAYS_AUTO, 1000,
                   (struct ways_rates){.row_ns = reading[i] * 1000, .byte_ns = 8});
        uint64_t each = take_long(&ways);
        double a = 0.75 * 8e6 / READERS, b = 0.75 * reading[i] * 1000; /* of a reader */
        double least = ROWS * a * b / (a + b);
        double took = ways_window_ns(&ways, WAYS_CHOSEN);
        assert_true(took >= least * 0.99 && took < least * 1.15);
        assert_in_range(each, (uint64_t)(0.6 * ROWS * a / (a + b)), ROWS - 1);
        ways_done(&ways);
    }
}

/* A slow reader reads less for itself than the others do. */
static void slow_readers_read_less(void **state)
{
    (void)state;
    struct ways ways;
    uint64_t counts[READERS] = {0};
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 4000, .byte_ns = 8});
    ways_note_rates(&ways, 2, &(struct ways_rates){.row_ns = 40000});
    (void)take_single(&ways, counts);
    assert_true(counts[2] * 3 < counts[0]);
    ways_done(&ways);
}

/* All readers share the store: what one reads, the others cannot. */
static void the_store_is_shared(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct ways ways;
        uint64_t counts[READERS] = {0};
        bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 100, .byte_ns = 8});
        ways_note_store(&ways, &(struct ways_store){.row_ns = shared ? 5000 : 0});
        ways_begin_window(&ways, 1);
        uint64_t each = take_single(&ways, counts);
        if (shared) /* 4 links send in 8,000 ns each, one store gives a row in 5,000 */
            assert_in_range(each, ROWS / 5, ROWS / 3);
        else
            assert_true(each > ROWS * 9 / 10);
        ways_done(&ways);
    }
}

/* Windows of rows of one sample, after which rounds wait as `waits` says. How many rows of the last
 * window are not sent. */
static uint64_t take_windows(struct ways *ways, int windows, const struct ways_waits *waits)
{
    uint64_t each = 0;
    for (int w = 0; w < windows; w++) {
        uint64_t counts[READERS] = {0};
        ways_begin_window(ways, 1);
        each = take_single(ways, counts);
        ways_note_waits(ways, waits);
    }
    return each;
}

static const struct ways_waits for_links = {.links = 1}, for_reads = {.reads = 1},
                               for_both = {.reads = 0.5, .links = 0.5};

/* Where the mixture gains little, because the store is slow, or as what comes from it comes over
 * the link, too, all rows are sent. */
static void little_is_not_worth_it(void **state)
{
    (void)state;
    static const struct ways_store stores[] = {{.row_ns = 20000, .row_bytes = 100},
                                               {.row_ns = 100, .row_bytes = 900}};
    for (size_t i = 0; i < 2; i++) {
        struct ways ways;
        bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 100, .byte_ns = 8});
        assert_true(take_windows(&ways, 2, &for_both) > ROWS * 9 / 10);
        ways_note_store(&ways, &stores[i]);
        assert_int_equal(take_windows(&ways, 1, &for_both), 0);
        ways_note_store(&ways, &(struct ways_store){.row_ns = 100, .row_bytes = 100});
        assert_true(take_windows(&ways, 4, &for_both) > ROWS * 9 / 10);
        ways_done(&ways);
    }
}

/* Rows of one sample that stay with whoever loads them, in a run of so many epochs: how many of
 * them are loaded in the first. */
static uint64_t take_staying(struct ways *ways, uint64_t epochs)
{
    uint64_t each = 0;
    ways->stays = 1;
    ways_begin_window(ways, epochs);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct ways_row row = {.from = i % READERS, .stays = true};
        uint32_t to = (row.from + 1 + i / READERS % (READERS - 1)) % READERS;
        each += ways_choose_single(ways, &row, to, false, true) == WAY_EACH;
    }
    return each;
}

/* What little is not worth in one epoch, many epochs are: the store gives rows while links send,
 * and these rows are not sent again. The epoch takes little longer for that. */
static void what_stays_is_worth_it(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 100, .byte_ns = 8});
    ways_note_store(&ways, &(struct ways_store){.row_ns = 12000, .row_bytes = 100});
    assert_int_equal(take_staying(&ways, 1), 0);
    assert_in_range(take_staying(&ways, 16), ROWS / 8, ROWS / 4);
    assert_true(ways_window_ns(&ways, WAYS_CHOSEN) < 1.3 * ways_window_ns(&ways, WAYS_ALL_SEND));
    ways_done(&ways);
}

/* Where loading all takes less than sending all, sending only puts off a load; but not in the last
 * epoch. */
static void what_stays_is_loaded_at_once(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 6000, .byte_ns = 8});
    assert_in_range(take_staying(&ways, 1), ROWS / 2, ROWS * 3 / 4);
    assert_int_equal(take_staying(&ways, 2), ROWS);
    ways_done(&ways);
}

/* Rates that are wrong: what rounds wait for puts them right, and rows are not read again for long.
 */
static void waits_have_the_last_word(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 1000, .byte_ns = 8});
    assert_true(take_windows(&ways, 4, &for_links) > ROWS * 8 / 10);
    assert_int_equal(take_windows(&ways, 12, &for_reads), 0);
    assert_int_equal(take_windows(&ways, 8, &for_links), 0);
    ways_done(&ways);

    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 16000, .byte_ns = 8});
    uint64_t first = take_windows(&ways, 4, &for_both);
    assert_true(take_windows(&ways, 8, &for_links) > 2 * first);
    ways_done(&ways);
}

/* With order.placement local readers load few rows, once: rounds that wait for reads, as where
 * processors are the limit, do not wait for these. */
static void waits_do_not_end_local_loads(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 1000, .byte_ns = 8});
    ways.moved = 0.05;
    ways.replicas = 1e6;
    for (int w = 0; w < 30; w++) {
        ways_begin_window(&ways, 16);
        assert_true(ways_loads_local(&ways));
        for (uint32_t i = 0; i < ROWS; i++)
            ways_add_local(&ways);
        ways_note_waits(&ways, &for_reads);
    }
    ways_done(&ways);
}

/* While trainers are what all wait for, rows are read again less and less. */
static void slow_trainers_need_no_reading(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 8000, .byte_ns = 8});
    uint64_t first = take_windows(&ways, 1, &for_links);
    assert_true(take_windows(&ways, 40, &(struct ways_waits){0}) < first / 2);
    ways_done(&ways);
}

static void nothing_is_known_and_forced(void **state)
{
    (void)state;
    static const enum ways_choice choices[] = {WAYS_AUTO, WAYS_SEND, WAYS_EACH};
    for (size_t i = 0; i < 3; i++) {
        struct ways ways;
        uint64_t counts[READERS] = {0};
        bench_init(&ways, choices[i], 1, (struct ways_rates){.byte_ns = 8});
        assert_int_equal(take_single(&ways, counts), choices[i] == WAYS_EACH ? ROWS : 0);
        assert_int_equal(take_long(&ways), choices[i] == WAYS_EACH ? ROWS : 0);
        assert_true(ways_window_ns(&ways, WAYS_CHOSEN) == 0);
        ways_done(&ways);
    }
}

/* Small changes of a rate change no choice. */
static void rates_do_not_swing(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = 4000, .byte_ns = 8});
    ways_note_rates(&ways, 0, &(struct ways_rates){.row_ns = 4400, .byte_ns = 7.5});
    assert_true(ways.rates[0].row_ns == 4000 && ways.rates[0].byte_ns == 8);
    ways_note_rates(&ways, 0, &(struct ways_rates){.row_ns = 5000, .byte_ns = 0});
    assert_true(ways.rates[0].row_ns == 5000 && ways.rates[0].byte_ns == 8);
    ways_done(&ways);
}

/* Stored bytes are a quarter of the decoded ones: where links are scarce, tapes take a quarter of
 * the time; where decoding is, rows are sent; and what is chosen takes no longer than the better of
 * both. */
static void tapes_where_links_are_scarce(void **state)
{
    (void)state;
    static const double reading[] = {100, 2000, 8000, 60000};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        struct ways ways;
        uint64_t tapes = 0;
        bench_init(&ways, WAYS_AUTO, 1, (struct ways_rates){.row_ns = reading[i], .byte_ns = 8});
        ways_note_store(&ways, &(struct ways_store){.row_ns = 20000, .row_bytes = 250});
        ways.tape_bytes = 250;
        for (uint32_t row = 0; row < ROWS; row++) {
            uint32_t from = row % READERS,
                     to = (from + 1 + row / READERS % (READERS - 1)) % READERS;
            struct ways_row given = {.from = from, .decodes = true};
            tapes += ways_choose_single(&ways, &given, to, false, true) == WAY_TAPE;
        }
        double rows = (double)ROWS / READERS, took = ways_window_ns(&ways, WAYS_CHOSEN);
        double send = rows * (reading[i] > 8000 ? reading[i] : 8000);
        double tape = rows * (reading[i] > 2000 ? reading[i] : 2000);
        assert_true(took < 1.15 * (send < tape ? send : tape));
        assert_true(reading[i] > 8000 || tapes > ROWS / 2);
        ways_done(&ways);
    }
}

/* A window of long rows that their homes have as stored, after which rounds wait as `waits` says.
 * How many of them are to travel so. */
static uint64_t take_tapes(struct ways *ways, const struct ways_waits *waits)
{
    uint64_t tapes = 0;
    ways_begin_window(ways, 1);
    for (uint32_t row = 0; row < ROWS; row++) {
        struct ways_row given = {.from = row % READERS, .decodes = true};
        enum ways_way way = ways_prefer(ways, &given);
        bool allowed = ways_allows_each(ways, &given);
        tapes += allowed && way == WAY_TAPE;
        if (way == WAY_EACH)
            ways_add_each(ways, &given);
        else if (way == WAY_TAPE)
            ways_add_tape(ways, &given);
        else
            ways_add_sent(ways, &given);
    }
    ways_note_waits(ways, waits);
    return tapes;
}

/* A tape goes to three readers, which all decode the row; sending takes three quarters of its
 * samples. */
static void tapes_of_long_rows(void **state)
{
    (void)state;
    static const double reading[] = {1000, 400000, 10000000};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        struct ways ways;
        uint64_t tapes = 0;
        bench_init(&ways, WAYS_AUTO, 1000, (struct ways_rates){.row_ns = reading[i], .byte_ns = 8});
        ways_note_store(&ways, &(struct ways_store){.row_ns = 30000, .row_bytes = 5000000});
        ways.tape_bytes = 50000; /* a twentieth */
        for (uint32_t row = 0; row < ROWS; row++) {
            struct ways_row given = {.from = row % READERS, .decodes = true};
            enum ways_way way = ways_prefer(&ways, &given);
            tapes += way == WAY_TAPE;
            if (way == WAY_EACH)
                ways_add_each(&ways, &given);
            else if (way == WAY_TAPE)
                ways_add_tape(&ways, &given);
            else
                ways_add_sent(&ways, &given);
        }
        double rows = (double)ROWS / READERS;
        double send = rows * (reading[i] > 750 * 8000 ? reading[i] : 750 * 8000.0);
        double tape = rows * (4 * reading[i] > 3 * 400000 ? 4 * reading[i] : 3 * 400000.0);
        double took = ways_window_ns(&ways, WAYS_CHOSEN), best = send < tape ? send : tape;
        assert_true(took > 0.9 * best && took < 1.15 * best);
        assert_true(i == 2 ? tapes < ROWS / 4 : tapes > ROWS / 2);
        ways_done(&ways);
    }
}

/* Where rows are only sent as stored, what rounds wait for counts, too. */
static void waits_speak_of_tapes(void **state)
{
    (void)state;
    struct ways ways;
    bench_init(&ways, WAYS_AUTO, 1000, (struct ways_rates){.row_ns = 100000, .byte_ns = 8});
    ways_note_store(&ways, &(struct ways_store){.row_ns = 30000000, .row_bytes = 5000000});
    ways.tape_bytes = 50000;
    uint64_t first = take_tapes(&ways, &for_reads);
    assert_true(first > ROWS * 9 / 10);
    for (int w = 0; w < 12; w++)
        (void)take_tapes(&ways, &for_reads);
    assert_true(take_tapes(&ways, &for_reads) < first / 2);
    ways_done(&ways);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tapes_where_links_are_scarce),
        cmocka_unit_test(tapes_of_long_rows),
        cmocka_unit_test(waits_speak_of_tapes),
        cmocka_unit_test(mixes_as_is_best),
        cmocka_unit_test(long_rows_mix),
        cmocka_unit_test(slow_readers_read_less),
        cmocka_unit_test(the_store_is_shared),
        cmocka_unit_test(little_is_not_worth_it),
        cmocka_unit_test(what_stays_is_worth_it),
        cmocka_unit_test(what_stays_is_loaded_at_once),
        cmocka_unit_test(waits_have_the_last_word),
        cmocka_unit_test(waits_do_not_end_local_loads),
        cmocka_unit_test(slow_trainers_need_no_reading),
        cmocka_unit_test(nothing_is_known_and_forced),
        cmocka_unit_test(rates_do_not_swing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
