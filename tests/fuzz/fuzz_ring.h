/* What the targets of the server and of the client share: a small ring, a folder, and hands that
 * write where they should not. */
#ifndef PENSTOCK_TESTS_FUZZ_FUZZ_RING_H
#define PENSTOCK_TESTS_FUZZ_FUZZ_RING_H

#include "fuzz.h"

#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"

enum { FUZZ_RING_BATCH = 3, FUZZ_RING_STEPS = 5, FUZZ_RING_SLOTS = 3, FUZZ_RING_EPOCHS = 1000000 };

static inline struct ring_layout fuzz_ring_layout(void)
{
    struct ring_layout layout = {.field_count = 4,
                                 .slot_count = FUZZ_RING_SLOTS,
                                 .spare_slots = 1,
                                 .member_count = 1,
                                 .batch_size = FUZZ_RING_BATCH};
    layout.fields[0] =
        (struct ring_field){.name = "image", .dtype = DTYPE_FLOAT16, .rank = 2, .shape = {2, 3}};
    layout.fields[1] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    layout.fields[2] = (struct ring_field){.name = "text",
                                           .dtype = DTYPE_UINT8,
                                           .kind = RING_ITEMS,
                                           .capacity = 9,
                                           .offsets_field = 3};
    layout.fields[3] =
        (struct ring_field){.name = "text.offsets", .dtype = DTYPE_INT64, .kind = RING_OFFSETS};
    CHECK(ring_layout_settle(&layout, NULL) == STATUS_OK);
    return layout;
}

static inline struct ring_service fuzz_ring_service(uint32_t world_size)
{
    return (struct ring_service){.world_size = world_size,
                                 .mesh = {.rank_count = world_size},
                                 .dataset_samples = 1000,
                                 .steps_per_epoch = FUZZ_RING_STEPS,
                                 .epochs = FUZZ_RING_EPOCHS,
                                 .order = {.id = 0x1d,
                                           .fingerprint = 0xfeed,
                                           .seed = 17,
                                           .global_batch = world_size * FUZZ_RING_BATCH,
                                           .row_length = 8,
                                           .window_rows = 64,
                                           .shuffle = 1}};
}

/* Writes a few bytes of the input into a ring: header, control block or slots. */
static inline void fuzz_ring_scribble(const struct ring *ring, struct input *input)
{
    size_t size, at = (size_t)take_number(input, 2), room;
    uint64_t parts[] = {0, (uint64_t)((unsigned char *)ring->control - ring->memory),
                        ring->data_offset};
    uint64_t start = parts[take_byte(input) % 3];
    const uint8_t *bytes = take_bytes(input, take_byte(input) % 16, &size);
    room = (size_t)(ring->bytes - start);
    at %= room;
    memcpy(ring->memory + start + at, bytes, size < room - at ? size : room - at);
}

/* A message of any type, its body from the input. */
static inline struct protocol_message fuzz_protocol(struct input *input)
{
    size_t size;
    struct protocol_message message = {.type = take_byte(input) % 16};
    const uint8_t *bytes = take_bytes(input, take_number(input, 2), &size);
    size_t room = sizeof message - offsetof(struct protocol_message, hello);
    memcpy(&message.hello, bytes, size < room ? size : room);
    return message;
}

static inline void fuzz_folder_remove(void)
{
    rmdir(fuzz_folder());
}

#endif
