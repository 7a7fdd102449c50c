/* Cutting: frames of random shapes, crops, steps and cuts come to the parts of a slot as loops over
 * all indices say, straight from a row and by a record, and what a slot does not need stays out. */
#include "run/cutting.h"

#include "dataset/crop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STEPS = 6, MOST_LENGTH = 8, BATCH = 2, WORLDS = 4000, ITEM_BYTES = 2 };
static const unsigned char UNTOUCHED = 0xee;

static uint64_t state_of_draws;
static uint64_t draw(uint64_t below)
{
    state_of_draws = state_of_draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state_of_draws >> 33) % below;
}

/* A field of uint16, its frames as they are in a row, and how it is cut. */
struct world {
    struct dataset dataset;
    struct dataset_field field;
    struct dataset_crop crop;
    uint64_t whole[DATASET_MAX_RANK]; /* of a frame in a row */
    int rank;                         /* of a frame */
    size_t steps;                     /* 0: the field has no axis of steps */
    struct shares shares;
    struct needs needs;
    struct ring_layout layout;
    struct cutting *cutting;
    unsigned char *slot;
    uint64_t key;
};

static void draw_cut(struct cut *cut, uint64_t length)
{
    uint32_t parts = 1 + (uint32_t)draw(4);
    *cut = (struct cut){.axis_count = 1, .part_count = parts};
    if (length % (2 * parts) == 0 && draw(2)) {
        cut->order = CUT_ZIGZAG;
    } else if (draw(2) == 0) {
        cut->split = CUT_SIZES;
        for (uint64_t i = 0; i < length; i++)
            cut->sizes[draw(parts)]++;
    } else {
        cut->split = draw(2) ? CUT_CHUNK : CUT_EVEN;
    }
    assert_int_equal(cut_check(cut, length, NULL), STATUS_OK);
}

static void draw_shape(struct world *world)
{
    struct dataset_field *field = &world->field;
    uint64_t wanted[DATASET_MAX_RANK] = {0};
    bool crops = false;
    world->rank = 1 + (int)draw(3);
    world->steps = draw(2) ? 1 + draw(MOST_STEPS) : 0;
    *field = (struct dataset_field){.name = "x",
                                    .dtype = DTYPE_UINT16,
                                    .rank = world->rank + (world->steps > 0),
                                    .step_count = world->steps,
                                    .frame_bytes = ITEM_BYTES,
                                    .sample_bytes = ITEM_BYTES};
    for (int axis = 0; axis < world->rank; axis++) {
        uint64_t whole = 1 + draw(MOST_LENGTH), shown = whole;
        if (draw(4) == 0) {
            shown = wanted[axis] = 1 + draw(whole);
            crops = true;
        }
        world->whole[axis] = whole;
        field->shape[axis + (world->steps > 0)] = shown;
        field->frame_bytes *= whole;
        field->sample_bytes *= shown;
    }
    if (world->steps > 0) {
        field->shape[0] = world->steps;
        field->sample_bytes *= world->steps;
    }
    if (crops)
        crop_lay_out(&world->crop, 3, world->rank, world->whole, wanted, ITEM_BYTES);
    field->crop = crops ? &world->crop : NULL;
}

/* One axis of the field, or two, and a cut for each. */
static void draw_shares(struct world *world)
{
    struct shares *shares = &world->shares;
    struct share_field *share = &shares->fields[0];
    *shares = (struct shares){.field_count = 1};
    uint32_t rank = (uint32_t)world->field.rank, first = (uint32_t)draw(rank);
    share->axes[share->axis_count++] = first;
    if (first + 1 < rank && draw(2))
        share->axes[share->axis_count++] = first + 1 + (uint32_t)draw(rank - first - 1);
    for (uint32_t k = 0; k < share->axis_count; k++) {
        share->cuts[k] = k;
        share->lengths[k] = world->field.shape[share->axes[k]];
        draw_cut(&shares->cuts[k], share->lengths[k]);
    }
    world->needs = (struct needs){.fields = 1};
    for (uint32_t p = 0; p < shares_part_count(shares, 0); p++)
        if (draw(4) > 0)
            world->needs.parts[p / 64] |= UINT64_C(1) << p % 64;
}

static void make_world(struct world *world, uint64_t seed)
{
    *world = (struct world){0};
    state_of_draws = seed;
    draw_shape(world);
    draw_shares(world);
    world->key = draw(1u << 30) << 30;
    world->dataset = (struct dataset){.fields = &world->field, .field_count = 1};
    world->layout = (struct ring_layout){.field_count = 1, .slot_count = 1, .batch_size = BATCH};
    struct ring_field *ring = &world->layout.fields[0];
    *ring = (struct ring_field){
        .name = "x", .dtype = DTYPE_UINT16, .rank = (uint32_t)world->field.rank};
    memcpy(ring->shape, world->field.shape, sizeof ring->shape);
    world->shares.mesh = (struct mesh){.rank_count = 1};
    shares_lay_out(&world->shares, &world->layout);
    needs_lay_out(&world->needs, &world->layout);
    struct error err;
    if (ring_layout_settle(&world->layout, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(
        cutting_new(&world->shares, &world->needs, &world->dataset, 0, &world->cutting, NULL),
        STATUS_OK);
    cutting_set_slots(world->cutting, &world->layout, 0);
    world->slot = malloc(world->layout.slot_stride);
    assert_non_null(world->slot);
    memset(world->slot, UNTOUCHED, world->layout.slot_stride);
}

static void free_world(struct world *world)
{
    cutting_free(world->cutting);
    free(world->slot);
}

/* What a frame has at an index of a row's frame. */
static uint16_t content(uint32_t sample, size_t step, uint64_t number)
{
    return (uint16_t)(1 + (sample * 20011 + step * 3001 + number * 7) % 65535);
}

static void fill_frame(const struct world *world, uint32_t sample, size_t step, uint16_t *frame)
{
    for (uint64_t i = 0; i < world->field.frame_bytes / ITEM_BYTES; i++)
        frame[i] = content(sample, step, i);
}

/* The i-th index of a part along an axis of the field's sample, and how many there are. */
static uint64_t index_at(const struct world *world, uint32_t axis, uint32_t part, uint64_t i,
                         uint64_t *ret_count)
{
    const struct share_field *share = &world->shares.fields[0];
    *ret_count = world->field.shape[axis];
    for (uint32_t k = 0; k < share->axis_count; k++)
        if (share->axes[k] == axis) {
            struct cut_run run = shares_run_of(&world->shares, 0, k, part);
            *ret_count = cut_run_indices(run);
            return i < run.length ? run.begin + i : run.second + i - run.length;
        }
    return i;
}

/* The item of a row's frame at these indices of a sample (without that of steps). */
static uint64_t number_at(const struct world *world, const uint64_t *indices)
{
    uint64_t number = 0;
    size_t begin = world->field.crop ? crop_begin(world->field.crop, world->key) : 0;
    for (int axis = 0; axis < world->rank; axis++)
        number = number * world->whole[axis] + indices[axis];
    return number + begin / ITEM_BYTES;
}

/* All items of a part, one after another, as loops over the part's indices say. `zeros`: of that
 * step. Returns how many. */
static size_t expect_part(const struct world *world, uint32_t sample, uint32_t part, size_t zeros,
                          uint16_t *ret_items)
{
    uint64_t counts[DATASET_MAX_RANK], at[DATASET_MAX_RANK] = {0}, total = 1;
    int rank = world->field.rank, steps = world->steps > 0;
    for (int axis = 0; axis < rank; axis++) {
        index_at(world, (uint32_t)axis, part, 0, &counts[axis]);
        total *= counts[axis];
    }
    for (uint64_t i = 0; i < total; i++) {
        uint64_t rest = i, indices[DATASET_MAX_RANK], unused;
        for (int axis = rank - 1; axis >= 0; axis--) {
            at[axis] = rest % counts[axis];
            rest /= counts[axis];
            indices[axis] = index_at(world, (uint32_t)axis, part, at[axis], &unused);
        }
        size_t step = steps ? indices[0] : 0;
        ret_items[i] = step == zeros ? 0 : content(sample, step, number_at(world, indices + steps));
    }
    return total;
}

static void check_slot(const struct world *world, size_t zeros)
{
    static uint16_t expected[MOST_STEPS * MOST_LENGTH * MOST_LENGTH * MOST_LENGTH];
    size_t touched = 0, count = 0;
    for (uint32_t part = 0; part < world->layout.part_count; part++) {
        const struct ring_part *ring = &world->layout.parts[part];
        for (uint32_t sample = 0; sample < BATCH && !ring->is_absent; sample++) {
            size_t bytes = expect_part(world, sample, part, zeros, expected) * sizeof expected[0];
            assert_int_equal(bytes, ring->sample_bytes);
            assert_memory_equal(world->slot + ring->slot_offset + sample * bytes, expected, bytes);
            touched += bytes;
        }
    }
    for (size_t i = 0; i < world->layout.slot_stride; i++)
        count += world->slot[i] != UNTOUCHED;
    assert_in_range(count, 0, touched); /* absent parts, and what is between, stay as they were */
}

/* The frames of all steps and samples, the step `zeros` as zeros: to the slot, or to a record and
 * from there. */
static void put_all(const struct world *world, bool by_record, size_t zeros)
{
    static uint16_t frame[MOST_LENGTH * MOST_LENGTH * MOST_LENGTH];
    static unsigned char record[2 * MOST_LENGTH * MOST_LENGTH * MOST_LENGTH];
    size_t begin = world->field.crop ? crop_begin(world->field.crop, world->key) : 0;
    for (uint32_t sample = 0; sample < BATCH; sample++)
        for (size_t step = 0; step < world->cutting->step_count; step++) {
            fill_frame(world, sample, step, frame);
            const unsigned char *from = step == zeros ? NULL : (const unsigned char *)frame + begin;
            if (!by_record) {
                cutting_put(world->cutting, world->slot, sample, step, from);
                continue;
            }
            size_t bytes = cutting_step_bytes(world->cutting, step);
            assert_in_range(bytes, 0, sizeof record - 1);
            memset(record, UNTOUCHED, sizeof record);
            cutting_pack(world->cutting, step, from, record);
            assert_int_equal(record[bytes], UNTOUCHED);
            cutting_unpack(world->cutting, world->slot, sample, step, record);
        }
}

static void frames_come_to_parts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world world;
        make_world(&world, seed);
        size_t zeros = draw(3) ? SIZE_MAX : draw(world.cutting->step_count);
        put_all(&world, false, zeros);
        check_slot(&world, zeros);
        memset(world.slot, UNTOUCHED, world.layout.slot_stride);
        put_all(&world, true, zeros);
        check_slot(&world, zeros);
        free_world(&world);
    }
}

/* Together, the parts of a field have each item of a sample once. */
static void parts_are_the_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world world;
        make_world(&world, seed);
        uint64_t bytes = 0;
        for (uint32_t part = 0; part < world.layout.part_count; part++)
            bytes += world.layout.parts[part].sample_bytes;
        assert_int_equal(bytes, world.field.sample_bytes);
        free_world(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_to_parts),
        cmocka_unit_test(parts_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
