/* Fragments: whatever the fields' steps, a sample comes whole from its row to a slot, by each of
 * the ways. */
#include "run/fragments.h"

#include "plan/rounds/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_STEPS = 12, ROW = 6, BATCH = 3, HALO = 9, GROUPS = 3 };

/* Row fields of a few arrays, and a validity field for each with steps. An episode is [first, end)
 * in frames of the row, which may begin before the row and end behind it. */
struct world {
    struct dataset dataset;
    struct dataset_field fields[DATASET_MAX_FIELDS];
    int32_t steps[DATASET_MAX_FIELDS][MAX_STEPS];
    int first, end;
    size_t group_frame_bytes[GROUPS];
    unsigned char *row, *slot, *record;
    struct ring_layout layout;
    struct fragments *fragments;
};

static uint64_t state;
static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* The byte at `b` of the frame of a group, which tells frames and groups apart. */
static unsigned char content(size_t group, int frame, size_t b)
{
    return (unsigned char)(1 + (group * 101 + (size_t)(frame + 64) * 31 + b * 7) % 255);
}

static void draw_steps(struct world *world, size_t f)
{
    struct dataset_field *field = &world->fields[f];
    for (int step = -HALO + 1; step < HALO && field->step_count < MAX_STEPS; step++)
        if (draw(3) == 0)
            world->steps[f][field->step_count++] = step;
    field->steps = world->steps[f];
}

static void make_world(struct world *world, uint64_t seed, size_t large)
{
    *world = (struct world){.first = -(int)draw(4)};
    state = seed;
    world->end = 1 + (int)draw(ROW + 4);
    enum samples_fill fill = draw(2) ? SAMPLES_FILL_ZERO : SAMPLES_FILL_EDGE;
    size_t rows = 1 + draw(5), leader[GROUPS] = {SIZE_MAX, SIZE_MAX, SIZE_MAX}, row_bytes = 64;
    for (size_t g = 0; g < GROUPS; g++)
        world->group_frame_bytes[g] = 1 + draw(40) + (draw(2) ? large : 0);
    for (size_t f = 0; f < rows; f++) {
        struct dataset_field *field = &world->fields[f];
        size_t group = draw(GROUPS);
        *field = (struct dataset_field){.dtype = DTYPE_UINT8, .source = FIELD_ROW, .fill = fill};
        if (draw(3))
            draw_steps(world, f);
        field->frame_bytes = world->group_frame_bytes[group];
        if (leader[group] == SIZE_MAX) {
            leader[group] = f;
            field->row_offset = row_bytes + HALO * field->frame_bytes;
            row_bytes += (2 * HALO + ROW) * field->frame_bytes;
        }
        field->row_leader = leader[group];
        field->row_offset = world->fields[leader[group]].row_offset;
        field->halo_before = field->halo_after = HALO;
        field->decode_amplification = (double)group; /* for expected() */
    }
    size_t count = rows;
    for (size_t f = 0; f < rows; f++)
        if (world->fields[f].step_count > 0)
            world->fields[count++] =
                (struct dataset_field){.dtype = DTYPE_UINT8,
                                       .source = FIELD_MADE,
                                       .made = MADE_VALID,
                                       .made_for = f,
                                       .frame_bytes = 1,
                                       .step_count = world->fields[f].step_count,
                                       .steps = world->steps[f]};
    world->dataset = (struct dataset){.fields = world->fields,
                                      .field_count = count,
                                      .mask = draw(2),
                                      .valid_offset = row_bytes,
                                      .row_bytes = row_bytes + ROW};
    world->layout = (struct ring_layout){
        .field_count = (uint32_t)count, .slot_count = 1, .member_count = 1, .batch_size = BATCH};
    for (size_t f = 0; f < count; f++) {
        struct dataset_field *field = &world->fields[f];
        struct ring_field *ring = &world->layout.fields[f];
        size_t steps = field->step_count ? field->step_count : 1;
        field->sample_bytes = steps * field->frame_bytes;
        snprintf(ring->name, sizeof ring->name, "f%02zu", f);
        ring->dtype = DTYPE_UINT8;
        ring->rank = 1;
        ring->shape[0] = field->sample_bytes;
    }
    assert_int_equal(ring_layout_settle(&world->layout, NULL), STATUS_OK);
    assert_int_equal(fragments_new(&world->dataset, NULL, NULL, 0, &world->fragments, NULL),
                     STATUS_OK);
    fragments_set_slots(world->fragments, &world->layout);
    world->row = malloc(world->dataset.row_bytes);
    world->slot = malloc(world->layout.slot_stride);
    world->record = malloc(world->fragments->packed_bytes + 1);
    memset(world->slot, 0xee, world->layout.slot_stride);
    for (size_t f = 0; f < rows; f++)
        for (int i = -HALO; i < ROW + HALO; i++)
            for (size_t b = 0; b < world->fields[f].frame_bytes; b++)
                world->row[(int64_t)world->fields[f].row_offset +
                           i * (int64_t)world->fields[f].frame_bytes + (int64_t)b] =
                    content((size_t)world->fields[f].decode_amplification, i, b);
    memset(world->row + row_bytes, 1, ROW);
}

static void free_world(struct world *world)
{
    fragments_free(world->fragments);
    free(world->row);
    free(world->slot);
    free(world->record);
}

static bool is_missing(const struct world *world, int frame)
{
    return frame < world->first || frame >= world->end;
}

/* As the rounds dress a sample. */
static void put_validity(const struct world *world, int anchor, uint32_t batch_index)
{
    world->slot[world->layout.valid_offset + batch_index] = 1;
    for (size_t f = 0; f < world->dataset.field_count; f++) {
        const struct dataset_field *field = &world->fields[f];
        if (field->source != FIELD_MADE)
            continue;
        unsigned char *valid =
            world->slot + world->layout.fields[f].slot_offset + batch_index * field->sample_bytes;
        for (size_t k = 0; k < field->step_count; k++)
            valid[k] = !is_missing(world, anchor + field->steps[k]);
    }
}

static struct fragment_room room_at(const struct world *world, int anchor)
{
    return (struct fragment_room){.before = (uint32_t)(anchor - world->first),
                                  .behind = (uint32_t)(world->end - 1 - anchor)};
}

/* Packed fragments by way of the record, the others by a message, or all of them at once. */
static void bring(struct world *world, int anchor, uint32_t batch_index, bool remote)
{
    const struct fragments *fragments = world->fragments;
    const struct fragment_room room = room_at(world, anchor);
    uint32_t offset = (uint32_t)anchor;
    for (size_t i = 0; i < fragments->count; i++) {
        const struct fragment *fragment = &fragments->all[i];
        const unsigned char *from =
            fragment_in_row(fragment, world->row, offset, fragments->shifts ? &room : NULL);
        assert_true(from >= world->row &&
                    from + fragment->bytes <= world->row + world->dataset.row_bytes);
        assert_true((fragment->bytes < ROUND_ZERO_COPY_BYTES) == (i < fragments->packed_count));
        if (remote && i < fragments->packed_count) {
            assert_true(fragment->record_offset + fragment->bytes <= fragments->packed_bytes);
            memcpy(world->record + fragment->record_offset, from, fragment->bytes);
        } else {
            fragment_fill(fragment, fragment_in_slot(fragment, world->slot, batch_index), from,
                          i % 2 ? world->row : NULL);
        }
    }
    for (size_t i = 0; remote && i < fragments->packed_count; i++)
        memcpy(fragment_in_slot(&fragments->all[i], world->slot, batch_index),
               world->record + fragments->all[i].record_offset, fragments->all[i].bytes);
}

static int edge(const struct world *world, int frame)
{
    return frame < world->first ? world->first : frame >= world->end ? world->end - 1 : frame;
}

static void expect_field(const struct world *world, size_t f, int anchor, uint32_t batch_index,
                         bool good)
{
    const struct dataset_field *field = &world->fields[f];
    const unsigned char *at =
        world->slot + world->layout.fields[f].slot_offset + batch_index * field->sample_bytes;
    size_t steps = field->step_count ? field->step_count : 1;
    for (size_t k = 0; k < steps; k++, at += field->frame_bytes) {
        int frame = anchor + (field->step_count ? field->steps[k] : 0);
        bool zero = !good || (is_missing(world, frame) && field->fill == SAMPLES_FILL_ZERO);
        for (size_t b = 0; b < field->frame_bytes; b++)
            assert_int_equal(
                at[b],
                zero ? 0 : content((size_t)field->decode_amplification, edge(world, frame), b));
    }
}

static void try_world(uint64_t seed, size_t large)
{
    struct world world;
    make_world(&world, seed, large);
    for (uint32_t b = 0; b < BATCH; b++) {
        int low = world.first > 0 ? world.first : 0, high = world.end < ROW ? world.end : ROW;
        int anchor = low + (int)draw((uint64_t)(high - low));
        bool good = !world.dataset.mask || draw(3) > 0;
        put_validity(&world, anchor, b);
        bring(&world, anchor, b, draw(2));
        if (world.fragments->finishes)
            fragments_finish(world.fragments, world.slot, b, good);
        assert_int_equal(world.slot[world.layout.valid_offset + b], good);
        for (size_t f = 0; f < world.dataset.field_count; f++)
            if (world.fields[f].source == FIELD_ROW)
                expect_field(&world, f, anchor, b, good);
    }
    free_world(&world);
}

static void random_fields(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 3000; seed++)
        try_world(seed, 0);
}

static void large_fields(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 60; seed++)
        try_world(seed, ROUND_ZERO_COPY_BYTES / 3);
}

/* Two fields of one array: a frame that both have is sent once. */
static void shared_frames_travel_once(void **unused)
{
    (void)unused;
    static const int32_t inputs[] = {-1, 0, 1}, targets[] = {0, 1, 2, 5};
    struct dataset_field fields[2] = {
        {.sample_bytes = 300, .frame_bytes = 100, .step_count = 3, .steps = inputs},
        {.sample_bytes = 400, .frame_bytes = 100, .step_count = 4, .steps = targets}};
    const struct dataset dataset = {.field_count = 2, .fields = fields};
    struct fragments *fragments;
    assert_int_equal(fragments_new(&dataset, NULL, NULL, 0, &fragments, NULL), STATUS_OK);
    assert_int_equal(fragments->count, 3); /* -1 to 1; 2; 5 */
    assert_int_equal(fragments->repeat_count, 1);
    assert_int_equal(fragments->repeats[0].bytes, 200);
    assert_int_equal(fragments->record_bytes, 304 + 112 + 112);
    assert_int_equal(fragments->packed_bytes, fragments->record_bytes);
    fragments_free(fragments);
}

/* Without steps a field is one fragment, and a record is field after field. */
static void fields_without_steps(void **unused)
{
    (void)unused;
    struct dataset_field fields[3] = {
        {.sample_bytes = 20, .row_leader = 0, .row_offset = 64},
        {.sample_bytes = 40000, .row_leader = 1, .row_offset = 1024},
        {.sample_bytes = 8, .row_leader = 2, .row_offset = 512, .source = FIELD_HELD}};
    const struct dataset dataset = {
        .field_count = 3, .fields = fields, .mask = true, .valid_offset = 77};
    struct fragments *fragments;
    assert_int_equal(fragments_new(&dataset, NULL, NULL, 0, &fragments, NULL), STATUS_OK);
    assert_int_equal(fragments->count, 2);
    assert_int_equal(fragments->packed_count, 1);
    assert_int_equal(fragments->all[0].row_offset, 64);
    assert_int_equal(fragments->all[0].row_stride, 20);
    assert_int_equal(fragments->all[1].bytes, 40000);
    assert_int_equal(fragments->packed_bytes, 32 + 16);
    assert_int_equal(fragments->valid_record_offset, 32);
    assert_int_equal(fragments->record_bytes, 32 + 16 + 40000);
    assert_int_equal(fragments->messages, 1);
    assert_false(fragments->shifts);
    fragments_free(fragments);
}

/* A crop is as large as the sample has it in records and slots, and packed, however large. */
static void crops_are_packed(void **unused)
{
    (void)unused;
    const uint64_t shape[] = {256, 256, 3}, wanted[] = {224, 224, 0}, other[] = {128, 128, 0};
    const size_t whole = 256 * 256 * 3, part = 224 * 224 * 3, small = 128 * 128 * 3;
    static const int32_t steps[] = {0, 1}, one[] = {1};
    struct dataset_crop crop, other_crop;
    crop_lay_out(&crop, 0, 3, shape, wanted, 1);
    crop_lay_out(&other_crop, 1, 3, shape, other, 1);
    struct dataset_field fields[3] = {
        {.sample_bytes = 2 * part, .frame_bytes = whole, .step_count = 2, .steps = steps},
        {.sample_bytes = part, .frame_bytes = whole, .step_count = 1, .steps = one},
        {.sample_bytes = small, .frame_bytes = whole, .step_count = 1, .steps = one}};
    fields[0].crop = fields[1].crop = &crop;
    fields[2].crop = &other_crop;
    const struct dataset dataset = {.field_count = 3, .fields = fields};
    struct fragments *fragments;
    assert_int_equal(fragments_new(&dataset, NULL, NULL, 0, &fragments, NULL), STATUS_OK);
    assert_true(fragments->crops);
    assert_int_equal(fragments->count, 2);
    assert_int_equal(fragments->packed_count, 2);
    assert_int_equal(fragments->repeat_count, 1); /* of the same part */
    assert_int_equal(fragments->packed_bytes, 2 * part + small);
    assert_int_equal(fragments->record_bytes, 2 * part + small);
    assert_int_equal(fragments->messages, 0);
    assert_int_equal(fragments->all[0].row_stride, whole);
    assert_int_equal(fragments->all[0].slot_stride, 2 * part);
    fragments_free(fragments);
}

/* Large ones, to a large ring. */
static void large_fragments_stream(void **unused)
{
    (void)unused;
    struct dataset_field fields[2] = {{.sample_bytes = COPY_STREAM_BYTES, .row_leader = 0},
                                      {.sample_bytes = COPY_STREAM_BYTES - 1, .row_leader = 1}};
    const struct dataset dataset = {.field_count = 2, .fields = fields};
    const uint64_t ring_bytes[] = {1 << 20, 256 << 20};
    for (size_t i = 0; i < 2; i++) {
        const struct ring_layout layout = {.field_count = 2, .total_bytes = ring_bytes[i]};
        struct fragments *fragments;
        assert_int_equal(fragments_new(&dataset, NULL, NULL, 0, &fragments, NULL), STATUS_OK);
        fragments_set_slots(fragments, &layout);
        assert_int_equal(fragments->all[0].streams, i == 1);
        assert_false(fragments->all[1].streams);
        fragments_free(fragments);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_fields),
        cmocka_unit_test(large_fields),
        cmocka_unit_test(shared_frames_travel_once),
        cmocka_unit_test(fields_without_steps),
        cmocka_unit_test(crops_are_packed),
        cmocka_unit_test(large_fragments_stream),
    };
    return cmocka_run_group_tests_name("run/fragments", tests, NULL, NULL);
}
