/* Fuzz target for Blosc frames: what Penstock decodes itself is what libblosc decodes, or both
 * refuse; and any part is that part of the whole.
 *
 *     bytes 0, 1  decoded size, little-endian
 *     bytes 2, 3  where a part begins
 *     bytes 4, 5  how long it is
 *     byte 6      odd: the header is made to say the sizes that are there
 *     the rest    the frame
 *
 * libblosc takes blocks that begin within the header or the list of blocks, which is refused here.
 */
#include "codec/codec.h"
#include "fuzz.h"

#include <blosc.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_BYTES = 7, HEADER_BYTES = 16, GUARD_BYTES = 64, GUARD = 0xa5 };

struct subject {
    struct codec_chain chain;
    struct codec_context *context;
    uint8_t *stored;
    size_t stored_size, decoded_size, begin, size;
};

static uint32_t get_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void set_u32(uint8_t *at, size_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint8_t *make_room(size_t size)
{
    uint8_t *room = malloc(size + GUARD_BYTES);
    CHECK(room);
    memset(room + size, GUARD, GUARD_BYTES);
    return room;
}

static void check_guard(const uint8_t *room, size_t size)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        CHECK(room[size + i] == GUARD);
}

/* Of a header that was found good. */
static bool begins_before_blocks(const uint8_t *frame)
{
    uint32_t block_bytes = get_u32(frame + 8);
    uint32_t count = get_u32(frame + 4) / block_bytes + (get_u32(frame + 4) % block_bytes > 0);
    for (uint32_t i = 0; i < count; i++)
        if (get_u32(frame + HEADER_BYTES + 4 * i) < HEADER_BYTES + 4 * count)
            return true;
    return false;
}

static bool libblosc_decodes(const struct subject *subject, uint8_t *decoded)
{
    size_t size = 0;
    const uint8_t *frame = subject->stored;
    if (subject->stored_size < HEADER_BYTES || get_u32(frame + 12) > subject->stored_size ||
        blosc_cbuffer_validate(frame, get_u32(frame + 12), &size) < 0 ||
        size != subject->decoded_size)
        return false;
    return size == 0 || blosc_decompress_ctx(frame, decoded, size, 1) == (int)size;
}

static void check_part(const struct subject *subject, const uint8_t *whole)
{
    struct error err;
    bool done = false;
    uint8_t *part = make_room(subject->size);
    enum status status = codec_decode_partial(
        &subject->chain, subject->context, subject->stored, subject->stored_size,
        subject->decoded_size, subject->begin, codec_output_of(part, subject->size), &done, &err);
    check_guard(part, subject->size);
    CHECK(status == STATUS_OK || (err.status == (int)status && err.message[0]));
    CHECK(!whole || status == STATUS_OK);
    CHECK(!whole || !done || memcmp(part, whole + subject->begin, subject->size) == 0);
    free(part);
}

/* A part of them, whose kept bytes may lie before it. */
static void check_narrow_part(const struct subject *subject, size_t element_bytes,
                              const uint8_t *whole)
{
    size_t begin = subject->begin / element_bytes * element_bytes;
    size_t size = subject->size / element_bytes * element_bytes;
    enum narrow_width width = NARROW_NOT;
    bool done = false;
    uint8_t *decoded = make_room(begin + size), *elements = make_room(size);
    const struct codec_output room = {
        .data = decoded + begin, .capacity = size, .element_bytes = element_bytes, .width = &width};
    enum status status =
        codec_decode_partial(&subject->chain, subject->context, subject->stored,
                             subject->stored_size, subject->decoded_size, begin, room, &done, NULL);
    check_guard(decoded, begin + size);
    CHECK(status == STATUS_OK || width == NARROW_NOT);
    if (status == STATUS_OK && done && whole) {
        if (width == NARROW_NOT)
            memcpy(elements, decoded + begin, size);
        else
            narrow_copy(elements,
                        decoded + begin / element_bytes * narrow_kept(width, element_bytes),
                        size / element_bytes, element_bytes, width, NULL, 0);
        CHECK(memcmp(elements, whole + begin, size) == 0);
    }
    free(elements);
    free(decoded);
}

/* Elements that may be narrow are the same ones. */
static void check_narrow(const struct subject *subject, const uint8_t *whole)
{
    static const size_t sizes[] = {4, 8};
    for (size_t s = 0; s < 2; s++) {
        enum narrow_width width = NARROW_NOT;
        uint8_t *decoded = make_room(subject->decoded_size),
                *elements = make_room(subject->decoded_size);
        const struct codec_output room = {.data = decoded,
                                          .capacity = subject->decoded_size,
                                          .element_bytes = sizes[s],
                                          .width = &width};
        enum status status = codec_decode(&subject->chain, subject->context, subject->stored,
                                          subject->stored_size, room, NULL);
        check_guard(decoded, subject->decoded_size);
        CHECK((status == STATUS_OK) == (whole != NULL) &&
              (status == STATUS_OK || width == NARROW_NOT));
        if (whole && width != NARROW_NOT) {
            narrow_copy(elements, decoded, subject->decoded_size / sizes[s], sizes[s], width, NULL,
                        0);
            CHECK(memcmp(elements, whole, subject->decoded_size) == 0);
        }
        check_narrow_part(subject, sizes[s], whole);
        free(elements);
        free(decoded);
    }
}

static void check_frame(const struct subject *subject)
{
    struct error err;
    uint8_t *decoded = make_room(subject->decoded_size),
            *expected = make_room(subject->decoded_size);
    enum status status =
        codec_decode(&subject->chain, subject->context, subject->stored, subject->stored_size,
                     codec_output_of(decoded, subject->decoded_size), &err);
    bool decodes = libblosc_decodes(subject, expected);
    check_guard(decoded, subject->decoded_size);
    CHECK(status == STATUS_OK || (err.status == (int)status && err.message[0]));
    if (status != STATUS_OK)
        CHECK(!decodes || begins_before_blocks(subject->stored));
    else
        CHECK(decodes && memcmp(decoded, expected, subject->decoded_size) == 0);
    check_part(subject, status != STATUS_OK ? NULL : decoded);
    check_narrow(subject, status != STATUS_OK ? NULL : decoded);
    free(expected);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < INPUT_BYTES)
        return 0;
    struct subject subject = {.stored_size = size - INPUT_BYTES,
                              .decoded_size = data[0] | (size_t)data[1] << 8};
    struct json_object *json = json_object_new_object();
    CHECK(codec_chain_add(&subject.chain, CODEC_ZARR_V2, "blosc", json, 1, NULL) == STATUS_OK);
    json_object_put(json);
    const struct codec_chain *chains[] = {&subject.chain};
    CHECK(codec_context_new(chains, 1, subject.decoded_size, &subject.context, NULL) == STATUS_OK);
    subject.begin = (data[2] | (size_t)data[3] << 8) % (subject.decoded_size + 1);
    subject.size = (data[4] | (size_t)data[5] << 8) % (subject.decoded_size - subject.begin + 1);
    subject.stored = malloc(subject.stored_size + 1);
    CHECK(subject.stored);
    memcpy(subject.stored, data + INPUT_BYTES, subject.stored_size);
    if (data[6] & 1 && subject.stored_size >= HEADER_BYTES) {
        set_u32(subject.stored + 4, subject.decoded_size);
        set_u32(subject.stored + 12, subject.stored_size);
    }
    subject.stored = realloc(subject.stored, subject.stored_size ? subject.stored_size : 1);
    CHECK(subject.stored);
    check_frame(&subject);
    codec_context_free(subject.context);
    free(subject.stored);
    return 0;
}
