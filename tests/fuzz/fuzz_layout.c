/* Fuzz target for ring headers: the input's bytes stand where a header does, the rest of it is 0.
 *
 *     byte 0      odd: names, dtypes, shapes and counts are settled, and then the result is
 * checked; even: the bytes are checked as they are the rest    struct ring_layout
 *
 * A layout that passes keeps every part of a slot within it, and all slots within the memory. */
#include "fuzz.h"

#include "delivery/ring/layout.h"

#include <stdbool.h>

/* Whether `count` items and `more` bytes at `offset` lie in a slot, behind *end, which moves behind
 * them. */
static bool within(const struct ring_layout *layout, uint64_t offset, uint64_t count,
                   uint64_t item_bytes, uint64_t more, uint64_t *end)
{
    uint64_t bytes, past;
    if (__builtin_mul_overflow(item_bytes, count, &bytes) ||
        __builtin_add_overflow(bytes, more, &bytes) ||
        __builtin_add_overflow(offset, bytes, &past) || offset < *end || offset % 64 != 0)
        return false;
    *end = past;
    return past <= layout->slot_stride;
}

/* A field's items have their offsets. */
static void check_offsets(const struct ring_layout *layout, const struct ring_field *field)
{
    CHECK(field->capacity > 0 && field->offsets_field < layout->field_count);
    const struct ring_field *offsets = &layout->fields[field->offsets_field];
    CHECK(offsets->kind == RING_OFFSETS && offsets->dtype == DTYPE_INT64);
    CHECK(offsets->sample_bytes == 8 * (offsets->rank ? offsets->shape[0] : 1));
}

static void check_layout(const struct ring_layout *layout)
{
    uint64_t batch = layout->batch_size;
    uint64_t end = sizeof(struct slot_header), slots_end;
    CHECK(layout->control_offset >= sizeof(struct ring_header));
    CHECK(layout->control_offset % 64 == 0 && layout->data_offset % 4096 == 0);
    CHECK(layout->data_offset >= layout->control_offset + sizeof(struct ring_control));
    CHECK(!__builtin_mul_overflow(layout->slot_stride, layout->slot_count, &slots_end));
    CHECK(!__builtin_add_overflow(slots_end, layout->data_offset, &slots_end));
    CHECK(slots_end <= layout->total_bytes);
    CHECK(layout->spare_slots < layout->slot_count && layout->slot_count <= RING_MAX_SLOTS);
    CHECK(within(layout, layout->indices_offset, batch, sizeof(uint64_t), 0, &end));
    CHECK(within(layout, layout->keys_offset, batch, sizeof(uint64_t), 0, &end));
    CHECK(within(layout, layout->valid_offset, batch, sizeof(uint8_t), 0, &end));
    CHECK(layout->field_count > 0 && layout->field_count <= RING_MAX_FIELDS);
    for (uint32_t f = 0; f < layout->field_count; f++) {
        const struct ring_field *field = &layout->fields[f];
        CHECK(strnlen(field->name, sizeof field->name) < sizeof field->name);
        CHECK(field->rank <= RING_MAX_RANK);
        CHECK(field->kind <= RING_PADDED);
        CHECK(within(layout, field->slot_offset, field->capacity > 0 ? field->capacity : batch,
                     field->sample_bytes, field->kind == RING_OFFSETS ? 8 : 0, &end));
        if (field->kind == RING_ITEMS)
            check_offsets(layout, &layout->fields[f]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct ring_layout layout = {0};
    struct error err;
    bool settle = take_byte(&input) % 2 == 1;
    memcpy(&layout, input.at, input.left < sizeof layout ? input.left : sizeof layout);
    enum status status = settle ? ring_layout_settle(&layout, &err)
                                : ring_layout_check(&layout, layout.total_bytes, &err);
    if (status != STATUS_OK) {
        CHECK(err.status == (int32_t)status && err.message[0]);
        return 0;
    }
    CHECK(ring_layout_check(&layout, layout.total_bytes, &err) == STATUS_OK);
    CHECK(ring_layout_check(&layout, layout.total_bytes + 1, &err) == STATUS_PROTOCOL);
    check_layout(&layout);
    return 0;
}
