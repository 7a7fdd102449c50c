/* Weights of samples: bounds that memory is settled by, and two ways to the same sample. Which
 * sample it is, tests/mpi/test_weights.py compares. */
#include "base/number.h"
#include "made_up_anchors.h"
#include "plan/rounds/round.h"

#include <math.h>
#include <string.h>

enum { CASES = 60, SEED = 23, READERS = 3 };

static double weights[MADE_UP_FRAMES];

static uint64_t draw(uint64_t key, uint64_t i, uint64_t bound)
{
    return random_below(random_u64(key, 7, i), bound);
}

static double make_weight(uint64_t key, uint64_t frame)
{
    double any = (double)(random_u64(key, 5, frame) >> 11) * 0x1p-53;
    switch (key % 6) {
    case 0:
        return 0.5;
    case 1:
        return 1 + floor(3 * any);
    case 2:
        return any / 30 + 1e-9;
    case 3:
        return frame % 7 == 0 ? 20 * any : 0.01;
    case 4:
        return pow(10, -9 * any);
    default:
        return 2.5 * any + 1e-6;
    }
}

static void weigh(struct made_up_anchors *made_up, uint64_t key, uint64_t draws)
{
    struct anchors_counts counts;
    struct error err;
    for (uint64_t t = 0; t < MADE_UP_FRAMES; t++)
        weights[t] = make_weight(key, t);
    const struct anchors_options options = {.store_frames = made_up->store_frames,
                                            .store_count = MADE_UP_STORES,
                                            .row_length = made_up->row_length,
                                            .stride = 1,
                                            .wanted = made_up->wanted,
                                            .weights = weights,
                                            .draws = draws};
    anchors_free(made_up->anchors);
    if (anchors_build(&options, &made_up->anchors, &counts, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

/* Sums are whole; of whole weights nothing changes; the block travels. */
static void check_anchors(const struct made_up_anchors *made_up, uint64_t draws)
{
    const uint64_t one = UINT64_C(1) << 32;
    const struct anchors *anchors = made_up->anchors;
    struct anchors *copy;
    uint64_t light = 0, heavy = 0;
    for (uint64_t row = 0; row < anchors_row_count(anchors); row++) {
        uint32_t count = anchors_row_samples(anchors, row);
        const uint64_t *sums = count > 0 ? anchors_row_weights(anchors, row) : NULL;
        if (count == 0)
            continue;
        *(sums[count] - sums[0] < one ? &light : &heavy) += sums[count] - sums[0];
        for (uint32_t k = 0; k < count && draws == 0; k++) {
            double weight = weights[anchors_frame_at(anchors, row, k)];
            double own = (double)(sums[k + 1] - sums[k]) / (double)one;
            assert_true(floor(weight) <= own && own <= ceil(weight));
        }
    }
    assert_int_equal(light % one, 0);
    assert_int_equal(heavy % one, 0);
    assert_int_equal(anchors_draws(anchors), (light + heavy) / one);
    if (draws > 0)
        assert_int_equal(anchors_draws(anchors), draws);
    assert_int_equal(
        anchors_unpack(anchors_packed(anchors), anchors_bytes(anchors), true, &copy, NULL),
        STATUS_OK);
    assert_int_equal(anchors_hash(copy), anchors_hash(anchors));
    assert_true(anchors_are_weighted(copy) && anchors_are_replaced(copy) == (draws > 0));
    anchors_free(copy);
}

/* Of one window: the bounds, and what the positions of a row's samples lead back to. */
static void check_window(const struct plan_epoch *epoch, uint64_t index, uint32_t *copies)
{
    const struct plan *plan = &epoch->plan;
    struct plan_window window;
    plan_window_at(&window, epoch, index);
    bool is_last = index + 1 == plan->window_count;
    assert_in_range(window.sample_count, is_last ? plan->last_least : plan->window_least,
                    plan->window_most);
    for (uint64_t r = 0; r < window.row_count; r++) {
        uint64_t count = plan_window_row_samples(&window, r);
        uint64_t row = plan_row_at(epoch, window.first_row_position + r);
        assert_in_range(count, 1, plan->row_samples);
        if (!plan->shuffle && window.first_row_position + r > 0)
            assert_true(row > plan_row_at(epoch, window.first_row_position + r - 1));
        for (uint64_t i = 0; i < count; i++) {
            struct plan_location location = {r, i}, found;
            uint64_t position = plan_position_of(&window, location), many;
            plan_positions_of(&window, &location, 1, &many);
            assert_int_equal(many, position);
            assert_int_equal(plan_window_of(epoch, position), index);
            plan_offsets_settle(&window, &location, 1);
            found = plan_location_at(&window, position);
            assert_memory_equal(&found, &location, sizeof found);
            plan_locations_of(&window, &position, 1, &found);
            assert_memory_equal(&found, &location, sizeof found);
            uint64_t frame = plan_frame_at(plan, row, location.offset);
            assert_int_equal(plan_sample_at(epoch, position), frame);
            copies[frame]++;
        }
    }
}

static void check_epoch(const struct plan *plan, uint64_t number)
{
    static uint32_t copies[MADE_UP_FRAMES];
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, plan, number);
    memset(copies, 0, sizeof copies);
    for (uint64_t w = 0; w < plan->window_count; w++)
        check_window(&epoch, w, copies);
    for (uint64_t t = 0; t < MADE_UP_FRAMES; t++) {
        assert_true(copies[t] <= plan->copies);
        if (anchors_are_replaced(plan->anchors) || copies[t] == 0)
            continue;
        assert_true(copies[t] >= floor(weights[t]) && copies[t] <= ceil(weights[t]));
    }
}

/* Of the positions of each step, and of two, as often as one frame comes. */
static void check_copies(const struct plan *plan)
{
    static uint64_t last[MADE_UP_FRAMES], count[MADE_UP_FRAMES];
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, plan, 2);
    for (uint64_t length = plan->global_batch; length <= 2 * plan->global_batch; length *= 2) {
        memset(last, 0, sizeof last);
        for (uint64_t p = 0; p < plan->position_count; p++) {
            uint64_t frame = plan_sample_at(&epoch, p), piece = 1 + p / length;
            count[frame] = last[frame] == piece ? count[frame] + 1 : 1;
            last[frame] = piece;
            assert_true(count[frame] <= plan_most_copies(plan, length));
        }
    }
}

/* All readers' items together are all positions, each once, with what is there; in stripes, too. */
static void check_items(const struct plan *plan, uint64_t key)
{
    const struct round_shape shape = {
        .steps_per_round = 1, .stripes_per_step = 1 + (uint32_t)draw(key, 30, 3), .in_flight = 2};
    uint64_t capacity = round_window_capacity(plan);
    struct round_item *items = calloc(capacity, sizeof *items);
    uint16_t *owners = calloc(plan->window_rows, sizeof *owners);
    unsigned char *seen = calloc(plan->position_count, 1);
    struct plan_epoch epoch;
    assert_true(items && owners && seen);
    plan_epoch_init(&epoch, plan, 1);
    for (uint64_t w = 0; w < plan->window_count; w++) {
        struct plan_window window;
        plan_window_at(&window, &epoch, w);
        for (uint64_t r = 0; r < window.row_count; r++)
            owners[r] = (uint16_t)(draw(key, 100 + w + r, 9) == 0 ? 0 : 1 + r % 2);
        for (uint32_t reader = 0; reader < READERS; reader++) {
            uint64_t count = round_window_items(&epoch, &window, shape, owners, reader,
                                                round_rows_all(&window), items);
            assert_true(count <= capacity);
            for (uint64_t i = 0; i < count; i++) {
                uint64_t position = items[i].position - plan->position_count;
                assert_int_equal(seen[position]++, 0);
                struct plan_location at = plan_location_at(&window, plan_unpad(&epoch, position));
                assert_int_equal(items[i].window_row, at.window_row);
                assert_int_equal(items[i].offset, at.offset);
                assert_int_equal(owners[at.window_row], reader);
            }
        }
    }
    for (uint64_t p = 0; p < plan->position_count; p++)
        assert_int_equal(seen[p], 1);
    free(items);
    free(owners);
    free(seen);
}

static void test_random_weights(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < CASES; key++) {
        struct made_up_anchors made_up;
        made_up_anchors_init(&made_up, 50 + draw(key, 0, MADE_UP_FRAMES / 8), 1 + draw(key, 1, 20),
                             key);
        uint64_t draws = draw(key, 2, 3) == 0 ? 1 + draw(key, 3, 3000) : 0;
        weigh(&made_up, key / 5, draws);
        check_anchors(&made_up, draws);
        const struct plan_options options = {.window_rows = draw(key, 4, 12),
                                             .seed = SEED,
                                             .shuffle = draw(key, 6, 4) > 0,
                                             .global_batch = 6,
                                             .trainer_count = 2,
                                             .last = draw(key, 8, 2) ? PLAN_PAD : PLAN_PARTIAL};
        struct plan plan = made_up_plan(&made_up, options, 2);
        assert_true(plan.weighted);
        assert_in_range(plan.row_count, 1, plan.ever_rows);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_epoch(&plan, epoch * 1000);
        check_copies(&plan);
        check_items(&plan, key);
        plan_tables_free(plan.tables);
        anchors_free(made_up.anchors);
    }
}

static void test_too_much(void **state)
{
    static const struct {
        double weight;
        uint64_t frames;
        const char *message;
    } cases[] = {{3e9, 1, "the greatest weight is 3e+09"},
                 {1e9, 3, "more than 2147483647 samples"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t frames[] = {0, cases[i].frames};
        const double of[] = {cases[i].weight, cases[i].weight, cases[i].weight};
        const struct anchors_options options = {
            .store_frames = frames, .store_count = 1, .row_length = 2, .stride = 1, .weights = of};
        struct anchors *anchors;
        struct anchors_counts counts;
        struct error err;
        assert_int_equal(anchors_build(&options, &anchors, &counts, &err), STATUS_INVALID);
        if (!strstr(err.message, cases[i].message) || !strstr(err.message, "samples.draws"))
            fail_msg("%s", err.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
