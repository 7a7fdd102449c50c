/* The order where only some frames are anchors, against one worked out sample by sample. */
#include "base/number.h"
#include "made_up_anchors.h"
#include "plan/order/keys.h"
#include "plan/permutation/permutation.h"

#include <stdio.h>
#include <string.h>

enum { CASES = 300, SEED = 17 };

/* Rows that have samples, in order, and their frames. */
struct listed {
    uint64_t row_count, most;
    uint64_t rows[MADE_UP_FRAMES], begins[MADE_UP_FRAMES + 1], frames[MADE_UP_FRAMES];
};

static void list_rows(const struct made_up_anchors *made_up, struct listed *listed)
{
    uint64_t row = 0, count = 0;
    listed->row_count = listed->most = 0;
    for (int s = 0; s < MADE_UP_STORES; s++) {
        uint64_t end = made_up->store_frames[s + 1];
        for (uint64_t i = made_up->store_frames[s]; i < end; i += made_up->row_length, row++) {
            uint64_t begin = count;
            for (uint64_t t = i; t < min_u64(i + made_up->row_length, end); t++)
                if (made_up_has(made_up, t))
                    listed->frames[count++] = t;
            if (count == begin)
                continue;
            listed->rows[listed->row_count] = row;
            listed->begins[listed->row_count++] = begin;
            listed->most = max_u64(listed->most, count - begin);
        }
    }
    listed->begins[listed->row_count] = count;
}

/* The frames of an epoch in order, as docs/inside/order.md says. */
static void work_out(const struct plan *plan, const struct listed *listed, uint64_t e,
                     uint64_t *ret_frames)
{
    static uint64_t frames[MADE_UP_FRAMES];
    struct permutation rows, samples;
    uint64_t done = 0, window = 0, window_key = random_u64(SEED, KEY_WINDOWS, e);
    permutation_init(&rows, listed->row_count, random_u64(SEED, KEY_ROWS, e));
    for (uint64_t i = 0; i < listed->row_count; i += plan->window_rows, window++) {
        uint64_t count = 0;
        for (uint64_t k = i; k < min_u64(i + plan->window_rows, listed->row_count); k++) {
            uint64_t row = plan->shuffle ? permutation_apply(&rows, k) : k;
            for (uint64_t j = listed->begins[row]; j < listed->begins[row + 1]; j++)
                frames[count++] = listed->frames[j];
        }
        permutation_init(&samples, count, random_u64(window_key, 0, window));
        for (uint64_t p = 0; p < count; p++)
            ret_frames[done++] = frames[plan->shuffle ? permutation_apply(&samples, p) : p];
    }
    assert_int_equal(done, plan->sample_count);
}

static void check_row(const struct plan_epoch *epoch, const struct plan_window *window,
                      uint64_t window_row, const struct listed *listed)
{
    uint64_t row = plan_row_at(epoch, window->first_row_position + window_row), i = 0;
    while (listed->rows[i] != row)
        assert_true(++i < listed->row_count);
    uint64_t samples = plan_window_row_samples(window, window_row);
    assert_int_equal(samples, listed->begins[i + 1] - listed->begins[i]);
    for (uint64_t offset = 0; offset < samples; offset++)
        assert_int_equal(plan_frame_at(&epoch->plan, row, offset),
                         listed->frames[listed->begins[i] + offset]);
}

/* Windows tile positions and rows; locations lead back; many at a time say what one at a time says.
 */
static void check_window(const struct plan_epoch *epoch, uint64_t index, uint64_t position,
                         struct plan_window *ret_window)
{
    static struct plan_location locations[MADE_UP_FRAMES];
    static uint64_t positions[MADE_UP_FRAMES], rows[MADE_UP_FRAMES];
    struct plan_window window;
    plan_window_at(&window, epoch, index);
    assert_int_equal(window.first_position, position);
    assert_int_equal(window.first_row_position, index * epoch->plan.window_rows);
    assert_true(window.sample_count <= epoch->plan.window_most);
    if (index + 1 < epoch->plan.window_count)
        assert_true(window.sample_count >= epoch->plan.window_least);
    plan_locations_at(&window, position, window.sample_count, locations);
    plan_positions_of(&window, locations, window.sample_count, positions);
    for (uint64_t i = 0; i < window.sample_count; i++) {
        struct plan_location location = plan_location_at(&window, position + i);
        assert_int_equal(plan_window_of(epoch, position + i), index);
        assert_int_equal(location.window_row, locations[i].window_row);
        assert_int_equal(location.offset, locations[i].offset);
        assert_true(location.window_row < window.row_count);
        assert_true(location.offset < plan_window_row_samples(&window, location.window_row));
        assert_int_equal(plan_position_of(&window, location), position + i);
        assert_int_equal(positions[i], position + i);
    }
    for (uint64_t i = 0; i < window.row_count; i++)
        rows[i] = window.first_row_position + i;
    plan_rows_at(epoch, rows, window.row_count);
    for (uint64_t i = 0; i < window.row_count; i++)
        assert_int_equal(rows[i], plan_row_at(epoch, window.first_row_position + i));
    *ret_window = window;
}

static void check_epoch(const struct plan *plan, const struct listed *listed, uint64_t e)
{
    static uint64_t frames[MADE_UP_FRAMES];
    struct plan_epoch epoch;
    struct plan_window window = {0};
    uint64_t position = 0;
    plan_epoch_init(&epoch, plan, e);
    work_out(plan, listed, e, frames);
    for (uint64_t j = 0; j < plan->window_count; j++) {
        check_window(&epoch, j, position, &window);
        for (uint64_t window_row = 0; window_row < window.row_count; window_row++)
            check_row(&epoch, &window, window_row, listed);
        position += window.sample_count;
    }
    assert_int_equal(position, plan->sample_count);
    for (uint64_t p = 0; p < plan->position_count; p++) {
        uint64_t source = p;
        if (p >= plan->sample_count)
            source = window.first_position + (p - window.first_position) % window.sample_count;
        assert_int_equal(plan_sample_at(&epoch, p), frames[source]);
    }
}

static struct plan_options some_options(uint64_t i)
{
    const uint64_t windows[] = {1, 3, 16, 5000, 0}, batches[] = {1, 6, 60};
    return (struct plan_options){.window_rows = windows[i % 5],
                                 .seed = SEED,
                                 .shuffle = i % 7 != 0,
                                 .global_batch = batches[i / 5 % 3],
                                 .last = i % 2 ? PLAN_PAD : PLAN_PARTIAL,
                                 .trainer_count = 1};
}

static void orders_as_worked_out(void **state)
{
    (void)state;
    const uint64_t lengths[] = {1, 2, 7, 16, 64, 2000};
    static struct listed listed;
    bool empty_rows = false, single = false, unequal = false;
    for (uint64_t i = 0; i < CASES; i++) {
        struct made_up_anchors made_up;
        made_up_anchors_init(&made_up, 1 + random_u64(SEED, 9, i) % 700, lengths[i % 6], i);
        list_rows(&made_up, &listed);
        struct plan plan = made_up_plan(&made_up, some_options(i), 2);
        assert_int_equal(plan.row_count, listed.row_count);
        assert_int_equal(plan.all_rows, made_up.store_rows[MADE_UP_STORES]);
        assert_int_equal(plan.row_samples, listed.most);
        check_epoch(&plan, &listed, 0);
        check_epoch(&plan, &listed, 5);
        empty_rows |= plan.row_count < plan.all_rows;
        single |= plan.row_samples == 1 && plan.row_length > 1;
        unequal |= plan.row_samples > 1 && plan.row_count < plan.sample_count;
        plan_tables_free(plan.tables);
        anchors_free(made_up.anchors);
    }
    assert_true(empty_rows && single && unequal);
}

/* Every frame of one store: the order is the one without anchors, and so are all numbers. */
static void all_frames(void **state)
{
    (void)state;
    uint64_t stores[] = {0, 1003}, rows[] = {0, 126};
    const struct anchors_options all = {
        .store_frames = stores, .store_count = 1, .row_length = 8, .stride = 1};
    struct plan_options options = {.sample_count = 1003,
                                   .row_length = 8,
                                   .store_frames = stores,
                                   .store_rows = rows,
                                   .store_count = 1,
                                   .seed = SEED,
                                   .shuffle = true,
                                   .global_batch = 24,
                                   .last = PLAN_PARTIAL,
                                   .trainer_count = 4};
    struct anchors *anchors;
    struct anchors_counts counts;
    struct plan without, with;
    assert_int_equal(anchors_build(&all, &anchors, &counts, NULL), STATUS_OK);
    assert_int_equal(plan_init(&without, &options, NULL), STATUS_OK);
    options.anchors = anchors;
    assert_int_equal(plan_init(&with, &options, NULL), STATUS_OK);
    assert_int_equal(plan_tables_new(&with, 1, 1, NULL), STATUS_OK);
    assert_int_equal(with.window_count, without.window_count);
    assert_int_equal(with.position_count, without.position_count);
    assert_true(plan_order_id(&with, 1) != plan_order_id(&without, 1));
    for (uint64_t e = 0; e < 3; e++) {
        struct plan_epoch a, b;
        plan_epoch_init(&a, &with, e);
        plan_epoch_init(&b, &without, e);
        for (uint64_t p = 0; p < 1003; p++)
            assert_int_equal(plan_sample_at(&a, p), plan_sample_at(&b, p));
    }
    plan_tables_free(with.tables);
    anchors_free(anchors);
}

/* Epochs that are in use together keep their tables, whichever was asked for first. */
static void epochs_in_use_together(void **state)
{
    (void)state;
    enum { TOGETHER = 3 };
    struct made_up_anchors made_up;
    static struct listed listed;
    static uint64_t frames[MADE_UP_FRAMES];
    struct plan_epoch epochs[TOGETHER];
    made_up_anchors_init(&made_up, 500, 8, 5);
    list_rows(&made_up, &listed);
    struct plan plan = made_up_plan(&made_up, some_options(1), TOGETHER);
    for (uint64_t first = 0; first < 7; first++) {
        for (uint64_t e = TOGETHER; e-- > 0;)
            plan_epoch_init(&epochs[e], &plan, first + e);
        for (uint64_t e = 0; e < TOGETHER; e++) {
            work_out(&plan, &listed, first + e, frames);
            for (uint64_t p = 0; p < plan.sample_count; p++)
                assert_int_equal(plan_sample_at(&epochs[e], p), frames[p]);
        }
    }
    plan_tables_free(plan.tables);
    anchors_free(made_up.anchors);
}

/* The smallest numbers that do: windows of one epoch, or of several; a round that looks beyond an
 * epoch whose last windows PLAN_DROP leaves out. */
static void epochs_at_once(void **state)
{
    (void)state;
    struct plan plan = {.global_batch = 10, .window_least = 100, .window_count = 1000};
    assert_int_equal(plan_epochs_at_once(&plan, 4), 2);
    plan.window_count = 1;
    assert_int_equal(plan_epochs_at_once(&plan, 4), 7);
    plan.window_count = 3;
    assert_int_equal(plan_epochs_at_once(&plan, 4), 3);
    plan.window_least = 1;
    assert_int_equal(plan_epochs_at_once(&plan, 4), 6);
}

/* Few samples a row: windows have more rows, so that they have as many samples. */
static void default_windows_have_samples(void **state)
{
    (void)state;
    enum { FRAMES = 1 << 20 };
    uint64_t *wanted = calloc(FRAMES / 64, sizeof *wanted);
    uint64_t stores[] = {0, FRAMES};
    assert_non_null(wanted);
    for (uint64_t i = 0; i < FRAMES / 64; i++)
        wanted[i] = i % 2 ? 0x0101 : 0;
    const struct anchors_options options = {
        .store_frames = stores, .store_count = 1, .row_length = 64, .stride = 1, .wanted = wanted};
    struct anchors *anchors;
    struct anchors_counts counts;
    assert_int_equal(anchors_build(&options, &anchors, &counts, NULL), STATUS_OK);
    struct plan_options of_plan = {.sample_count = FRAMES / 64,
                                   .row_length = 64,
                                   .anchors = anchors,
                                   .global_batch = 256,
                                   .trainer_count = 1};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &of_plan, NULL), STATUS_OK);
    assert_int_equal(plan.row_count, FRAMES / 128);
    assert_int_equal(plan.row_samples, 2);
    assert_int_equal(plan.window_rows, 8 * 256 / 2);
    assert_int_equal(plan.window_least, 8 * 256);
    assert_int_equal(plan.window_most, 8 * 256);
    of_plan.sample_count--;
    struct error err;
    assert_int_equal(plan_init(&plan, &of_plan, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "anchors"));
    anchors_free(anchors);
    free(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_as_worked_out),         cmocka_unit_test(all_frames),
        cmocka_unit_test(epochs_in_use_together),       cmocka_unit_test(epochs_at_once),
        cmocka_unit_test(default_windows_have_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
