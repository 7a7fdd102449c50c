/* The layout of a ring: what settle() makes, and that check() takes nothing else. */
#include "delivery/ring/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct ring_layout two_fields(void)
{
    struct ring_layout layout = {
        .field_count = 2, .slot_count = 4, .member_count = 1, .batch_size = 5};
    layout.fields[0] = (struct ring_field){
        .name = "latents", .dtype = DTYPE_FLOAT16, .rank = 4, .shape = {20, 4, 32, 32}};
    layout.fields[1] =
        (struct ring_field){.name = "text", .dtype = DTYPE_FLOAT16, .rank = 1, .shape = {512}};
    return layout;
}

/* Documents of 3 steps, points of two columns. */
static struct ring_layout ragged_fields(void)
{
    struct ring_layout layout = {
        .field_count = 3, .slot_count = 4, .member_count = 1, .batch_size = 5};
    layout.fields[0] = (struct ring_field){
        .name = "xyz", .dtype = DTYPE_FLOAT32, .rank = 1, .shape = {3}, .kind = RING_ITEMS};
    layout.fields[1] = (struct ring_field){
        .name = "xyz.cell", .dtype = DTYPE_UINT16, .kind = RING_ITEMS, .capacity = 2000};
    layout.fields[2] =
        (struct ring_field){.name = "xyz.offsets", .dtype = DTYPE_INT64, .rank = 1, .shape = {3}};
    layout.fields[0].capacity = 1000;
    layout.fields[0].offsets_field = layout.fields[1].offsets_field = 2;
    layout.fields[2].kind = RING_OFFSETS;
    return layout;
}

static struct ring_layout settled(void)
{
    struct ring_layout layout = two_fields();
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    return layout;
}

static void offsets_follow_the_picture(void **state)
{
    (void)state;
    struct ring_layout layout = settled();
    assert_int_equal(layout.fields[0].sample_bytes, 20 * 4 * 32 * 32 * 2);
    assert_int_equal(layout.fields[1].sample_bytes, 1024);
    assert_int_equal(layout.indices_offset, 64);
    assert_int_equal(layout.keys_offset, 128);
    assert_int_equal(layout.valid_offset, 192);
    assert_int_equal(layout.fields[0].slot_offset, 256);
    assert_int_equal(layout.fields[1].slot_offset, 256 + 5 * 163840);
    assert_int_equal(layout.control_offset % 4096, 0);
    assert_true(layout.control_offset >= sizeof(struct ring_header));
    assert_true(layout.data_offset >= layout.control_offset + sizeof(struct ring_control));
    assert_int_equal(layout.slot_stride % 4096, 0);
    assert_int_equal(layout.total_bytes, layout.data_offset + 4 * layout.slot_stride);
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes, NULL), STATUS_OK);
}

static void ragged_fields_have_room_for_their_items(void **state)
{
    (void)state;
    struct ring_layout layout = ragged_fields();
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    assert_int_equal(layout.fields[0].sample_bytes, 12);
    assert_int_equal(layout.fields[0].slot_offset, 256);
    assert_int_equal(layout.fields[1].slot_offset, 256 + 12032);
    assert_int_equal(layout.fields[2].slot_offset, 256 + 12032 + 4032);
    assert_int_equal(layout.fields[2].sample_bytes, 24);
    assert_true(layout.slot_stride >= layout.fields[2].slot_offset + (5 * 3 + 1) * 8);
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes, NULL), STATUS_OK);

    /* 16 samples of 8 bytes fill lines: one more offset needs one more line. */
    layout = ragged_fields();
    layout.batch_size = 16;
    layout.fields[2].rank = 0;
    memcpy(layout.fields[2].name, "offsets", sizeof "offsets"); /* first */
    struct ring_field offsets = layout.fields[2];
    layout.fields[2] = layout.fields[1];
    layout.fields[1] = layout.fields[0];
    layout.fields[0] = offsets;
    layout.fields[1].offsets_field = layout.fields[2].offsets_field = 0;
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    assert_int_equal(layout.fields[1].slot_offset - layout.fields[0].slot_offset, 192);
}

/* Samples of the second field, "text", have other steps from epoch 4 on; one member has it alone.
 */
static void phases_say_how_many_steps(void **state)
{
    (void)state;
    struct ring_layout layout = two_fields(), own;
    const struct ring_member member = {.is_there = 1, .fields = 2};
    layout.phase_count = 2;
    layout.phases[0].steps[1] = 2;
    layout.phases[1] = (struct ring_phase){.epoch = 4, .steps[1] = 512};
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes, NULL), STATUS_OK);
    assert_int_equal(layout.total_bytes, settled().total_bytes);
    ring_layout_of_member(&layout, &member, &own);
    const uint64_t steps[] = {2, 2, 2, 2, 512, 512};
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        assert_int_equal(ring_field_steps(&layout, 0, epoch), 0);
        assert_int_equal(ring_field_steps(&layout, 1, epoch), steps[epoch]);
        assert_int_equal(ring_field_steps(&own, 0, epoch), steps[epoch]);
    }
    layout.phases[1].steps[1] = 0; /* in all or in none */
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes, NULL), STATUS_PROTOCOL);
}

static void large_slots_lie_on_huge_pages(void **state)
{
    (void)state;
    struct ring_layout layout = two_fields();
    layout.batch_size = 256;
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    assert_int_equal(layout.slot_stride % (2 << 20), 0);
    assert_int_equal(layout.data_offset % (2 << 20), 0);
}

static void scalars_and_every_dtype_fit(void **state)
{
    (void)state;
    for (uint32_t dtype = DTYPE_BOOL; dtype <= DTYPE_COMPLEX128; dtype++) {
        struct ring_layout layout = {
            .field_count = 1, .slot_count = 1, .member_count = 1, .batch_size = 1};
        layout.fields[0] = (struct ring_field){.name = "x", .dtype = dtype};
        assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
        assert_int_equal(layout.fields[0].sample_bytes, dtype_bytes((enum dtype)dtype));
    }
}

/* Each case spoils one thing of a good layout. */
static void no_fields(struct ring_layout *l)
{
    l->field_count = 0;
}
static void many_fields(struct ring_layout *l)
{
    l->field_count = RING_MAX_FIELDS + 1;
}
static void no_slots(struct ring_layout *l)
{
    l->slot_count = 0;
}
static void many_slots(struct ring_layout *l)
{
    l->slot_count = RING_MAX_SLOTS + 1;
}
static void all_spare(struct ring_layout *l)
{
    l->spare_slots = l->slot_count;
}
static void late_phase(struct ring_layout *l)
{
    l->phase_count = 1;
    l->phases[0].epoch = 1;
}
static void same_phases(struct ring_layout *l)
{
    l->phase_count = 2;
}
static void hidden_phase(struct ring_layout *l)
{
    l->phase_count = 1;
    l->phases[1].steps[0] = 1;
}
static void long_phase(struct ring_layout *l)
{
    l->phase_count = 1;
    l->phases[0].steps[0] = (uint32_t)l->fields[0].shape[0] + 1;
}
static void many_phases(struct ring_layout *l)
{
    l->phase_count = RING_MAX_PHASES + 1;
}
static void no_batch(struct ring_layout *l)
{
    l->batch_size = 0;
}
static void huge_batch(struct ring_layout *l)
{
    l->batch_size = UINT32_MAX;
}
static void long_name(struct ring_layout *l)
{
    memset(l->fields[1].name, 'z', RING_NAME_BYTES);
}
static void no_name(struct ring_layout *l)
{
    l->fields[0].name[0] = '\0';
}
static void equal_names(struct ring_layout *l)
{
    strcpy(l->fields[1].name, l->fields[0].name);
}
static void no_dtype(struct ring_layout *l)
{
    l->fields[0].dtype = 99;
}
static void many_dimensions(struct ring_layout *l)
{
    l->fields[0].rank = RING_MAX_RANK + 1;
}
static void empty_dimension(struct ring_layout *l)
{
    l->fields[0].shape[2] = 0;
}
static void overflowing_shape(struct ring_layout *l)
{
    l->fields[0].shape[0] = l->fields[0].shape[1] = UINT64_C(1) << 33;
}
static void huge_sample(struct ring_layout *l)
{
    l->fields[1].shape[0] = UINT64_C(1) << 46;
}

static void no_kind(struct ring_layout *l)
{
    l->fields[0].kind = RING_PADDED + 1;
}
static void no_room_for_items(struct ring_layout *l)
{
    l->fields[0].capacity = 0;
}
static void room_without_items(struct ring_layout *l)
{
    l->fields[2].capacity = 1;
}
static void offsets_of_samples(struct ring_layout *l)
{
    l->fields[2].offsets_field = 1;
}
static void offsets_beyond_the_fields(struct ring_layout *l)
{
    l->fields[0].offsets_field = 3;
}
static void offsets_in_items(struct ring_layout *l)
{
    l->fields[0].offsets_field = 1;
}
static void offsets_of_another_dtype(struct ring_layout *l)
{
    l->fields[2].dtype = DTYPE_UINT64;
}
static void offsets_of_two_dimensions(struct ring_layout *l)
{
    l->fields[2].rank = 2;
    l->fields[2].shape[1] = 1;
}
static void too_many_items(struct ring_layout *l)
{
    l->fields[0].capacity = UINT64_C(1) << 45;
}
static void overflowing_items(struct ring_layout *l)
{
    l->fields[0].capacity = UINT64_MAX;
}

/* What spoils a layout made by `make` is refused by settle(), and by check(). */
static void refuses(struct ring_layout (*make)(void), void (*const spoil[])(struct ring_layout *),
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ring_layout layout = make();
        spoil[i](&layout);
        struct ring_layout before = layout;
        struct error error = {0};
        if (ring_layout_settle(&layout, &error) != STATUS_INVALID || !error.message[0])
            fail_msg("case %zu was settled", i);
        assert_memory_equal(&before, &layout, sizeof layout);

        layout = make();
        assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
        spoil[i](&layout);
        if (ring_layout_check(&layout, layout.total_bytes, &error) != STATUS_PROTOCOL)
            fail_msg("case %zu passed the check", i);
        assert_int_equal(error.status, STATUS_PROTOCOL);
        assert_int_equal(ring_layout_check(&layout, layout.total_bytes, NULL), STATUS_PROTOCOL);
    }
}

static void settle_refuses(void **state)
{
    (void)state;
    static void (*const spoil[])(struct ring_layout *) = {
        no_fields,  many_fields,     no_slots,        many_slots,        all_spare,
        late_phase, same_phases,     hidden_phase,    long_phase,        many_phases,
        no_batch,   huge_batch,      long_name,       no_name,           equal_names,
        no_dtype,   many_dimensions, empty_dimension, overflowing_shape, huge_sample};
    static void (*const spoil_ragged[])(struct ring_layout *) = {no_kind,
                                                                 no_room_for_items,
                                                                 room_without_items,
                                                                 offsets_of_samples,
                                                                 offsets_beyond_the_fields,
                                                                 offsets_in_items,
                                                                 offsets_of_another_dtype,
                                                                 offsets_of_two_dimensions,
                                                                 too_many_items,
                                                                 overflowing_items};
    refuses(two_fields, spoil, sizeof spoil / sizeof spoil[0]);
    refuses(ragged_fields, spoil_ragged, sizeof spoil_ragged / sizeof spoil_ragged[0]);
}

/* Every single bit of a settled layout counts, but those of fields that are not in use. */
static void check_sees_every_flipped_bit(void **state)
{
    (void)state;
    struct ring_layout layout = settled();
    uint64_t bytes = layout.total_bytes;
    size_t used = offsetof(struct ring_layout, fields[2]);
    for (size_t bit = 0; bit < used * 8; bit++) {
        unsigned char *byte = (unsigned char *)&layout + bit / 8;
        unsigned char mask = (unsigned char)(1u << bit % 8);
        const struct ring_field *field = layout.fields;
        size_t byte_index = bit / 8;
        bool free_text = false, unused_shape = false;
        for (int f = 0; f < 2; f++) {
            size_t at = offsetof(struct ring_layout, fields) + (size_t)f * sizeof *field;
            free_text |= byte_index >= at && byte_index < at + RING_NAME_BYTES;
            size_t shape = at + offsetof(struct ring_field, shape) + field[f].rank * 8;
            unused_shape |=
                byte_index >= shape && byte_index < at + offsetof(struct ring_field, sample_bytes);
        }
        size_t dtype = offsetof(struct ring_layout, fields) + offsetof(struct ring_field, dtype);
        bool spare = byte_index == offsetof(struct ring_layout, spare_slots) ||
                     byte_index == offsetof(struct ring_layout, member_count); /* of a page */
        bool may_be_valid =
            free_text || unused_shape || spare || byte_index == dtype ||
            byte_index == dtype + sizeof *field; /* another dtype of the same size */
        *byte ^= mask;
        if (!may_be_valid && ring_layout_check(&layout, bytes, NULL) == STATUS_OK)
            fail_msg("bit %zu flipped, and nobody saw it", bit);
        *byte ^= mask;
    }
}

static void check_compares_the_memory(void **state)
{
    (void)state;
    struct ring_layout layout = settled();
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes - 1, NULL), STATUS_PROTOCOL);
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes + 4096, NULL), STATUS_PROTOCOL);
    layout.version = RING_VERSION + 1;
    struct error error;
    assert_int_equal(ring_layout_check(&layout, layout.total_bytes, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "version 8"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_follow_the_picture),
        cmocka_unit_test(ragged_fields_have_room_for_their_items),
        cmocka_unit_test(phases_say_how_many_steps),
        cmocka_unit_test(large_slots_lie_on_huge_pages),
        cmocka_unit_test(scalars_and_every_dtype_fit),
        cmocka_unit_test(settle_refuses),
        cmocka_unit_test(check_sees_every_flipped_bit),
        cmocka_unit_test(check_compares_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
