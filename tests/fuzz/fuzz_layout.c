/* Fuzz target for ring headers: the input's bytes stand where a header does, the rest of it is 0.
 *
 *     byte 0      odd: names, dtypes, shapes and counts are settled, and then the result is
 * checked; even: the bytes are checked as they are the rest    struct ring_layout
 *
 * A layout that passes keeps every part of a slot within it, and all slots within the memory. */
#include "fuzz.h"

#include "delivery/layout.h"

#include <stdbool.h>

/* Whether `count` items at `offset` lie in a slot, behind *end, which moves behind them. */
static bool within(const struct ring_layout *layout, uint64_t offset, uint64_t item_bytes,
                   uint64_t *end)
{
    uint64_t bytes, past;
    if (__builtin_mul_overflow(item_bytes, layout->batch_size, &bytes) ||
        __builtin_add_overflow(offset, bytes, &past) || offset < *end || offset % 64 != 0)
        return false;
    *end = past;
    return past <= layout->slot_stride;
}

static void check_layout(const struct ring_layout *layout)
{
    uint64_t end = sizeof(struct slot_header), slots_end;
    CHECK(layout->control_offset >= sizeof(struct ring_header));
    CHECK(layout->control_offset % 64 == 0 && layout->data_offset % 4096 == 0);
    CHECK(layout->data_offset >= layout->control_offset + sizeof(struct ring_control));
    CHECK(!__builtin_mul_overflow(layout->slot_stride, layout->slot_count, &slots_end));
    CHECK(!__builtin_add_overflow(slots_end, layout->data_offset, &slots_end));
    CHECK(slots_end <= layout->total_bytes);
    CHECK(layout->spare_slots < layout->slot_count && layout->slot_count <= RING_MAX_SLOTS);
    CHECK(within(layout, layout->indices_offset, sizeof(uint64_t), &end));
    CHECK(within(layout, layout->keys_offset, sizeof(uint64_t), &end));
    CHECK(within(layout, layout->valid_offset, sizeof(uint8_t), &end));
    CHECK(layout->field_count > 0 && layout->field_count <= RING_MAX_FIELDS);
    for (uint32_t f = 0; f < layout->field_count; f++) {
        const struct ring_field *field = &layout->fields[f];
        CHECK(strnlen(field->name, sizeof field->name) < sizeof field->name);
        CHECK(field->rank <= RING_MAX_RANK);
        CHECK(within(layout, field->slot_offset, field->sample_bytes, &end));
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
    if (status) {
        CHECK(err.status == (int32_t)status && err.message[0]);
        return 0;
    }
    CHECK(ring_layout_check(&layout, layout.total_bytes, &err) == STATUS_OK);
    CHECK(ring_layout_check(&layout, layout.total_bytes + 1, &err) == STATUS_PROTOCOL);
    check_layout(&layout);
    return 0;
}
