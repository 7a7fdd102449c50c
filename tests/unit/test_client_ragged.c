/* Ragged fields as a trainer sees them: what penstock_describe() says, how many items a batch has,
 * and offsets that cannot be. The test fills the ring itself. */
#include "delivery_support.h"

enum { STEPS = 2, ROOM = 12 };

/* "text" uint8 with column "text.rank" int32 [2], sequences of two steps; "words" uint16. */
static struct ring_layout ragged_layout(void)
{
    struct ring_layout layout = {.field_count = 5,
                                 .slot_count = SUPPORT_SLOTS,
                                 .member_count = 1,
                                 .batch_size = SUPPORT_BATCH};
    struct ring_field items = {.kind = RING_ITEMS, .capacity = ROOM, .offsets_field = 1};
    struct ring_field offsets = {.dtype = DTYPE_INT64, .kind = RING_OFFSETS};
    static const char *const names[] = {"text", "text.offsets", "text.rank", "words",
                                        "words.offsets"};
    for (uint32_t f = 0; f < layout.field_count; f++) {
        layout.fields[f] = f % 3 == 1 ? offsets : items;
        snprintf(layout.fields[f].name, RING_NAME_BYTES, "%s", names[f]);
    }
    layout.fields[0].dtype = DTYPE_UINT8;
    layout.fields[1].rank = 1;
    layout.fields[1].shape[0] = STEPS;
    layout.fields[2].dtype = DTYPE_INT32;
    layout.fields[2].rank = 1;
    layout.fields[2].shape[0] = 2;
    layout.fields[3].dtype = DTYPE_UINT16;
    layout.fields[3].offsets_field = 4;
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    return layout;
}

static struct pair ragged_pair(const struct ring_layout *layout)
{
    struct pair pair = {.folder = run_folder_new()};
    struct ring_service service = support_service(1);
    struct server_options options = {
        .run_dir = pair.folder.path, .max_trainers = 1, .layout = layout, .service = &service};
    assert_int_equal(server_new(&options, &pair.server, NULL), STATUS_OK);
    assert_int_equal(server_listen(pair.server, NULL), STATUS_OK);
    pair_connect(&pair, 0);
    return pair;
}

/* Publishes a batch with these offsets of text; words have one item a sample. */
static void publish_offsets(struct pair *pair, const struct ring_layout *layout, uint32_t samples,
                            const int64_t *offsets)
{
    unsigned char *slot = server_slot(pair->server, 0, pair->filled);
    *(struct slot_header *)slot =
        (struct slot_header){.step = pair->filled, .sample_count = samples};
    memcpy(slot + layout->fields[1].slot_offset, offsets,
           (samples * STEPS + 1) * sizeof offsets[0]);
    int64_t *words = (void *)(slot + layout->fields[4].slot_offset);
    for (uint32_t i = 0; i <= samples; i++)
        words[i] = i;
    server_publish(pair->server, 0);
    pair->filled++;
}

static void fields_say_that_they_are_ragged(void **state)
{
    (void)state;
    struct ring_layout layout = ragged_layout();
    struct pair pair = ragged_pair(&layout);
    const struct penstock_field *fields = penstock_describe(pair.client)->fields;
    const uint64_t most[] = {ROOM, 0, ROOM, ROOM, 0}, steps[] = {STEPS, STEPS, STEPS, 1, 1};
    const uint32_t offsets[] = {1, 0, 1, 4, 0};
    for (int f = 0; f < 5; f++) {
        assert_int_equal(fields[f].most_items, most[f]);
        assert_int_equal(fields[f].steps, steps[f]);
        assert_int_equal(fields[f].offsets_field, offsets[f]);
    }
    assert_int_equal(fields[2].sample_bytes, 8);
    pair_done(&pair);
}

static void a_batch_says_how_many_items_it_has(void **state)
{
    (void)state;
    static const int64_t some[] = {0, 2, 2, 7, 7, 8, 8}, none[7] = {0};
    struct ring_layout layout = ragged_layout();
    struct pair pair = ragged_pair(&layout);
    const struct penstock_info *info = penstock_describe(pair.client);
    publish_offsets(&pair, &layout, SUPPORT_BATCH, some);
    publish_offsets(&pair, &layout, SUPPORT_BATCH, none);
    assert_int_equal(SUPPORT_BATCH, 3);
    struct penstock_batch batch = take(&pair);
    const uint64_t counts[] = {8, 3, 8, 3, 3};
    for (uint32_t f = 0; f < 5; f++)
        assert_int_equal(penstock_item_count(info, &batch, f), counts[f]);
    struct penstock_stats stats;
    penstock_stats(pair.client, &stats, sizeof stats);
    assert_int_equal(stats.bytes, 8 + 6 * 8 + 8 * 8 + 3 * 2 + 3 * 8);
    give(&pair, &batch);
    batch = take(&pair);
    assert_int_equal(penstock_item_count(info, &batch, 0), 0);
    give(&pair, &batch);
    pair_done(&pair);
}

static void impossible_offsets_stop_the_trainer(void **state)
{
    (void)state;
    static const int64_t wild[][7] = {
        {1, 1, 1, 1, 1, 1, 1},                                       /* the first one is 0 */
        {-1, 0, 0, 0, 0, 0, 0},        {0, 2, 1, 3, 3, 3, 3},        /* falls */
        {0, 0, 0, 0, 0, 1, 0},                                       /* falls at the end */
        {0, 0, 0, 0, 0, 0, -1},        {0, 0, 0, 0, 0, 0, ROOM + 1}, /* too many */
        {0, 0, 0, 0, 0, 0, INT64_MAX}, {0, 0, INT64_MIN, 0, 0, 0, 0},
    };
    struct ring_layout layout = ragged_layout();
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        struct pair pair = ragged_pair(&layout);
        struct penstock_batch batch;
        publish_offsets(&pair, &layout, SUPPORT_BATCH, wild[i]);
        assert_int_equal(penstock_next(pair.client, &batch, 0), PENSTOCK_PROTOCOL);
        assert_non_null(strstr(penstock_last_error(pair.client), "'text"));
        pair_done(&pair);
    }
    struct pair pair = ragged_pair(&layout);
    publish_offsets(&pair, &layout, SUPPORT_BATCH, (const int64_t[7]){0, 0, 0, 0, 0, 0, ROOM});
    struct penstock_batch batch = take(&pair);
    assert_int_equal(penstock_item_count(penstock_describe(pair.client), &batch, 2), ROOM);
    pair_done(&pair);
}

/* "tokens" uint16, padded to the bound of a batch. */
static void padded_samples_have_the_bound_of_their_batch(void **state)
{
    (void)state;
    struct ring_layout layout = {.field_count = 1,
                                 .slot_count = SUPPORT_SLOTS,
                                 .member_count = 1,
                                 .batch_size = SUPPORT_BATCH};
    layout.fields[0] = (struct ring_field){
        .name = "tokens", .dtype = DTYPE_UINT16, .kind = RING_PADDED, .capacity = ROOM};
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    const uint64_t bounds[] = {ROOM / SUPPORT_BATCH, 1, ROOM / SUPPORT_BATCH + 1, UINT64_MAX / 2};
    for (int i = 0; i < 4; i++) {
        struct pair pair = ragged_pair(&layout);
        const struct penstock_info *info = penstock_describe(pair.client);
        assert_int_equal(info->fields[0].is_padded, 1);
        assert_int_equal(info->fields[0].most_items, ROOM);
        assert_int_equal(info->fields[0].steps, 0);
        *(struct slot_header *)server_slot(pair.server, 0, 0) =
            (struct slot_header){.sample_count = SUPPORT_BATCH, .bound = bounds[i]};
        server_publish(pair.server, 0);
        struct penstock_batch batch;
        bool fits = bounds[i] * SUPPORT_BATCH <= ROOM;
        assert_int_equal(penstock_next(pair.client, &batch, 0),
                         fits ? PENSTOCK_OK : PENSTOCK_PROTOCOL);
        if (fits) {
            assert_int_equal(batch.bound, bounds[i]);
            assert_int_equal(penstock_item_count(info, &batch, 0), bounds[i] * SUPPORT_BATCH);
        } else {
            assert_non_null(strstr(penstock_last_error(pair.client), "items of field 'tokens'"));
        }
        pair_done(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_say_that_they_are_ragged),
        cmocka_unit_test(a_batch_says_how_many_items_it_has),
        cmocka_unit_test(impossible_offsets_stop_the_trainer),
        cmocka_unit_test(padded_samples_have_the_bound_of_their_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
