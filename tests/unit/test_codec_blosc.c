/* Blosc frames as libblosc makes them, in every way that it splits and shuffles: decoded whole and
 * in parts, against what went in; and frames that lie about their blocks and streams. */
#include "codec/blosc/blosc_frame.h"
#include "codec_chains.h"

#include <blosc.h>
#include <endian.h>

enum { GUARD_BYTES = 64, GUARD = 0xa5, PARTS = 8, FRAMES = 1500, HEADER_BYTES = 16 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const compressors[] = {"zstd", "lz4", "lz4hc", "zlib", "blosclz"};

struct subject {
    size_t type_bytes, bytes, block_bytes;
    int shuffle;
    const char *compressor;
    uint8_t *data, *stored; /* of just their sizes */
    size_t stored_bytes;
};

static struct subject make_subject(const char *compressor, int shuffle, size_t type_bytes,
                                   size_t bytes, size_t block_bytes, unsigned noise_bits)
{
    struct subject subject = {.type_bytes = type_bytes,
                              .bytes = bytes,
                              .block_bytes = block_bytes,
                              .shuffle = shuffle,
                              .compressor = compressor,
                              .data = make_data(bytes, noise_bits, bytes),
                              .stored = malloc(bytes + HEADER_BYTES)};
    assert_non_null(subject.stored);
    int size = blosc_compress_ctx(5, shuffle, type_bytes, bytes, subject.data, subject.stored,
                                  bytes + HEADER_BYTES, compressor, block_bytes, 1);
    assert_true(size > 0);
    subject.stored_bytes = (size_t)size;
    subject.stored = realloc(subject.stored, subject.stored_bytes);
    assert_non_null(subject.stored);
    return subject;
}

static void drop_subject(struct subject *subject)
{
    free(subject->data);
    free(subject->stored);
}

static void check_part(const struct subject *subject, const struct codec_chain *chain,
                       struct codec_context *context, size_t begin, size_t size)
{
    struct error err;
    bool done = true;
    uint8_t *part = malloc(size + GUARD_BYTES);
    assert_non_null(part);
    memset(part, GUARD, size + GUARD_BYTES);
    enum status status =
        size == subject->bytes
            ? codec_decode(chain, context, subject->stored, subject->stored_bytes,
                           codec_output_of(part, size), &err)
            : codec_decode_partial(chain, context, subject->stored, subject->stored_bytes,
                                   subject->bytes, begin, codec_output_of(part, size), &done, &err);
    if (status != STATUS_OK || (done && memcmp(part, subject->data + begin, size) != 0))
        fail_msg("%s, shuffle %d, elements of %zu, blocks of %zu, %zu from %zu of %zu bytes: %s",
                 subject->compressor, subject->shuffle, subject->type_bytes, subject->block_bytes,
                 size, begin, subject->bytes, status != STATUS_OK ? err.message : "differ");
    assert_true(done || strcmp(subject->compressor, "blosclz") == 0);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(part[size + i], GUARD);
    free(part);
}

/* Whole, to the end, and parts that begin and end anywhere. */
static void check_frame(const struct subject *subject, const struct codec_chain *chain,
                        struct codec_context *context)
{
    check_part(subject, chain, context, 0, subject->bytes);
    for (uint64_t part = 0; part < PARTS; part++) {
        size_t begin = random_below(random_u64(subject->bytes, 1, part), subject->bytes);
        size_t most = subject->bytes - begin;
        size_t size = part ? random_below(random_u64(subject->bytes, 2, part), most + 1) : most;
        if (part % 2)
            size = size < 50 ? size : 50;
        check_part(subject, chain, context, begin, size);
    }
}

static void check_refused(const struct subject *subject, const char *message)
{
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]");
    struct codec_context *context = context_of(&chain, subject->bytes);
    uint8_t *decoded = malloc(subject->bytes);
    struct error err;
    assert_non_null(decoded);
    if (codec_decode(&chain, context, subject->stored, subject->stored_bytes,
                     codec_output_of(decoded, subject->bytes), &err) != STATUS_CORRUPT)
        fail_msg("not refused: %s", message);
    if (!strstr(err.message, message))
        fail_msg("'%s' lacks '%s'", err.message, message);
    free(decoded);
    codec_context_free(context);
}

/* libblosc splits small elements and large ones alike if it is told to, and then cannot decode what
 * it made. */
static bool libblosc_decodes(const struct subject *subject)
{
    uint8_t *decoded = malloc(subject->bytes);
    assert_non_null(decoded);
    int size = blosc_decompress_ctx(subject->stored, decoded, subject->bytes, 1);
    free(decoded);
    return size == (int)subject->bytes;
}

/* Settings drawn by chance: all that there are would take long. */
static void test_frames_decode_whole_and_in_parts(void **state)
{
    (void)state;
    static const int splits[] = {BLOSC_FORWARD_COMPAT_SPLIT, BLOSC_ALWAYS_SPLIT, BLOSC_NEVER_SPLIT,
                                 BLOSC_AUTO_SPLIT};
    static const size_t types[] = {1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 33, 255};
    static const size_t blocks[] = {0, 0, 256, 1000, 4096, 4104, 65536};
    static const unsigned noise[] = {0, 2, 4, 8};
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]");
    struct codec_context *context = context_of(&chain, 200000);
    for (uint64_t i = 0; i < FRAMES; i++) {
        uint64_t draw = random_u64(3, 4, i), size = random_u64(3, 5, i);
        blosc_set_splitmode(splits[draw % 4]);
        struct subject subject = make_subject(
            compressors[(draw >> 8) % COUNT(compressors)], (int)((draw >> 16) % 3),
            types[(draw >> 24) % COUNT(types)], 1 + random_below(size, i % 8 ? 20000 : 200000),
            blocks[(draw >> 32) % COUNT(blocks)], noise[(draw >> 40) % COUNT(noise)]);
        if (libblosc_decodes(&subject))
            check_frame(&subject, &chain, context);
        else
            check_refused(&subject, "damaged");
        drop_subject(&subject);
    }
    blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT);
    codec_context_free(context);
}

/* As writers made them before there was a flag for blocks of one stream: decoders know by the
 * sizes. */
static void test_frames_without_the_split_flag(void **state)
{
    (void)state;
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]");
    struct codec_context *context = context_of(&chain, 9000);
    blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT);
    static const size_t types[] = {17, 100};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct subject subject = make_subject("lz4", BLOSC_SHUFFLE, types[i], 9000, 0, 2);
        assert_true(subject.stored[2] & 0x10);
        subject.stored[2] &= (uint8_t)~0x10;
        check_frame(&subject, &chain, context);
        drop_subject(&subject);
    }
    codec_context_free(context);
}

/* Narrow elements
 * ------------------------------------------------------------------------------------------------
 */

enum { NARROW_FRAMES = 1200, NARROW_BYTES = 20000 };

/* How many ranges were found in each width, and how many could have been. */
struct narrow_counts {
    unsigned widths[NARROW_HIGH_4 + 1], all;
};

/* Zeros in stretches: in the upper or the lower half of each element, in three quarters, or
 * nowhere. `kind` 4: as it comes, so that blocks differ. */
static void clear_parts(uint8_t *data, size_t elements, size_t bytes, size_t stretch, uint64_t kind)
{
    for (size_t i = 0; i < elements; i++) {
        uint8_t *element = data + i * bytes;
        uint64_t here = kind == 4 ? random_below(random_u64(6, 7, i / stretch), 4) : kind;
        if (here == 1)
            memset(element, 0, bytes / 2);
        else if (here == 2)
            memset(element + bytes / 2, 0, bytes / 2);
        else if (here == 3)
            memset(element + bytes / 4, 0, bytes - bytes / 4);
    }
}

static struct subject make_narrow(uint64_t i, size_t *ret_stretch)
{
    static const size_t blocks[] = {0, 256, 1024, 4096, 1000};
    uint64_t draw = random_u64(4, 4, i);
    size_t type_bytes = draw % 2 ? 4 : 8, bytes = 64 + random_below(draw, NARROW_BYTES - 64);
    struct subject subject = make_subject(
        compressors[(draw >> 8) % 4], (draw >> 10) % 8 ? BLOSC_SHUFFLE : BLOSC_BITSHUFFLE,
        type_bytes, bytes, blocks[(draw >> 32) % COUNT(blocks)], 8);
    *ret_stretch = subject.block_bytes ? subject.block_bytes / type_bytes : 300;
    clear_parts(subject.data, bytes / type_bytes, type_bytes, *ret_stretch, (draw >> 16) % 5);
    subject.stored = realloc(subject.stored, bytes + HEADER_BYTES);
    assert_non_null(subject.stored);
    int size =
        blosc_compress_ctx(5, subject.shuffle, type_bytes, bytes, subject.data, subject.stored,
                           bytes + HEADER_BYTES, subject.compressor, subject.block_bytes, 1);
    assert_true(size > 0);
    subject.stored_bytes = (size_t)size;
    return subject;
}

/* The elements from byte `begin` on, made whole, are those that went in. The range's end is the end
 * of what is written. */
static void check_narrow(const struct subject *subject, const struct codec_chain *chain,
                         struct codec_context *context, size_t begin, size_t size,
                         struct narrow_counts *counts)
{
    struct error err;
    enum narrow_width width = NARROW_HIGH_4;
    bool done = true;
    size_t element_bytes = subject->type_bytes;
    uint8_t *memory = malloc(begin + size + GUARD_BYTES), *whole = malloc(size + 1);
    assert_non_null(memory);
    assert_non_null(whole);
    memset(memory, GUARD, begin + size + GUARD_BYTES);
    const struct codec_output room = {
        .data = memory + begin, .capacity = size, .element_bytes = element_bytes, .width = &width};
    enum status status =
        size == subject->bytes
            ? codec_decode(chain, context, subject->stored, subject->stored_bytes, room, &err)
            : codec_decode_partial(chain, context, subject->stored, subject->stored_bytes,
                                   subject->bytes, begin, room, &done, &err);
    assert_int_equal(status, STATUS_OK);
    assert_true(done && width <= NARROW_HIGH_4);
    memcpy(whole, memory + begin, size);
    if (width != NARROW_NOT) {
        size_t kept = narrow_kept(width, element_bytes);
        assert_true(kept < element_bytes);
        narrow_copy(whole, memory + begin / element_bytes * kept, size / element_bytes,
                    element_bytes, width, NULL, 0);
    }
    if (memcmp(whole, subject->data + begin, size) != 0)
        fail_msg("%s, shuffle %d, elements of %zu, blocks of %zu, %zu from %zu of %zu bytes, width "
                 "%d: differ",
                 subject->compressor, subject->shuffle, element_bytes, subject->block_bytes, size,
                 begin, subject->bytes, (int)width);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(memory[begin + size + i], GUARD);
    for (size_t i = 0; i < begin / element_bytes * 2; i++) /* two bytes of each element, at least */
        assert_int_equal(memory[i], GUARD);
    counts->widths[width]++;
    counts->all++;
    free(memory);
    free(whole);
}

/* Whole, and parts that begin and end at elements, or anywhere. */
static void test_narrow_elements(void **state)
{
    (void)state;
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]");
    struct codec_context *context = context_of(&chain, NARROW_BYTES);
    struct narrow_counts counts = {0};
    assert_true(codec_chain_may_be_narrow(&chain));
    for (uint64_t i = 0; i < NARROW_FRAMES && narrow_takes(4); i++) {
        size_t stretch;
        struct subject subject = make_narrow(i, &stretch);
        size_t unit = i % 3 ? subject.type_bytes : 1;
        check_narrow(&subject, &chain, context, 0, subject.bytes, &counts);
        for (uint64_t part = 0; part < PARTS; part++) {
            uint64_t draw = random_u64(i, 8, part);
            size_t begin = random_below(draw, subject.bytes) / unit * unit;
            size_t most = subject.bytes - begin;
            size_t size = random_below(random_u64(i, 9, part), most + 1) / unit * unit;
            check_narrow(&subject, &chain, context, begin, size, &counts);
        }
        drop_subject(&subject);
    }
    for (enum narrow_width width = NARROW_NOT; width <= NARROW_HIGH_4; width++)
        assert_true(!narrow_takes(4) || counts.widths[width] > counts.all / 100);
    codec_context_free(context);
}

/* Other sizes of elements are whole, and what does not decode is. */
static void test_what_is_not_narrow(void **state)
{
    (void)state;
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]"),
                       other = chain_of("[{'name': 'zstd'}]");
    struct codec_context *context = context_of(&chain, NARROW_BYTES);
    struct subject subject = make_subject("zstd", BLOSC_SHUFFLE, 4, 16000, 1024, 8);
    uint8_t *decoded = malloc(subject.bytes);
    enum narrow_width width = NARROW_LOW_2;
    struct error err;
    assert_non_null(decoded);
    memset(subject.data, 0, subject.bytes);
    int size = blosc_compress_ctx(5, BLOSC_SHUFFLE, 4, 16000, subject.data, subject.stored,
                                  subject.stored_bytes, "zstd", 1024, 1);
    assert_true(size > 0);
    assert_false(codec_chain_may_be_narrow(&other));
    struct codec_output room = {
        .data = decoded, .capacity = subject.bytes, .element_bytes = 8, .width = &width};
    assert_int_equal(codec_decode(&chain, context, subject.stored, (size_t)size, room, &err),
                     STATUS_OK);
    assert_int_equal(width, NARROW_NOT);
    assert_memory_equal(decoded, subject.data, 16000);
    room.element_bytes = 4;
    assert_int_equal(codec_decode(&chain, context, subject.stored, (size_t)size, room, &err),
                     STATUS_OK);
    assert_int_equal(width, narrow_takes(4) ? NARROW_LOW_2 : NARROW_NOT);
    width = NARROW_LOW_2; /* one that is cut short */
    assert_int_equal(codec_decode(&chain, context, subject.stored, (size_t)size - 3, room, &err),
                     STATUS_CORRUPT);
    assert_int_equal(width, NARROW_NOT);
    width = NARROW_LOW_2; /* a frame of fewer bytes than the chunk has */
    room.capacity += 4;
    assert_int_equal(codec_decode(&chain, context, subject.stored, (size_t)size, room, &err),
                     STATUS_CORRUPT);
    assert_int_equal(width, NARROW_NOT);
    drop_subject(&subject);
    codec_context_free(context);
    free(decoded);
}

/* A block that is larger than the room that a thread keeps is libblosc's. */
static void test_blocks_beyond_the_room(void **state)
{
    (void)state;
    enum { BYTES = 6 << 20 };
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]");
    const struct codec_chain *chains[] = {&chain};
    struct codec_context *context = context_of(&chain, BYTES);
    assert_true(blosc_decoder_room(BYTES) < BYTES);
    assert_true(codec_context_bytes(chains, 1, BYTES) > blosc_decoder_room(BYTES));
    struct subject subject = make_subject("lz4", BLOSC_SHUFFLE, 4, BYTES, BYTES, 2);
    check_part(&subject, &chain, context, 0, BYTES);
    check_part(&subject, &chain, context, BYTES / 2, 4000);
    drop_subject(&subject);
    codec_context_free(context);
}

static void set_u32(uint8_t *number, uint32_t value)
{
    value = htole32(value);
    memcpy(number, &value, sizeof value);
}

static uint32_t get_u32(const uint8_t *number)
{
    uint32_t value;
    memcpy(&value, number, sizeof value);
    return le32toh(value);
}

/* Each of what a frame says, with what a trusting decoder would follow out of bounds. */
static void test_lies_are_named(void **state)
{
    (void)state;
    enum { VERSION = 0, STREAM_VERSION = 1, FLAGS = 2, TYPE = 3, STARTS = 16 };
    struct subject subject = make_subject("lz4", BLOSC_SHUFFLE, 4, 150000, 16384, 0);
    uint8_t *stored = malloc(subject.stored_bytes);
    assert_non_null(stored);
    memcpy(stored, subject.stored, subject.stored_bytes);
    uint32_t last = (uint32_t)subject.stored_bytes - 3;
    uint32_t second = get_u32(stored + STARTS + 4);
    const struct {
        size_t at, size;
        uint32_t value;
        const char *message;
    } lies[] = {
        {VERSION, 1, 1, "blosc: header has format version 1, not 2"},
        {STREAM_VERSION, 1, 2, "blosc: header has compressor version 2, not 1"},
        {FLAGS, 1, stored[FLAGS] | 0x08u, "unknown flags 0x29"},
        {FLAGS, 1, 0xa1, "unknown compressor 5"},
        {FLAGS, 1, stored[FLAGS] | BLOSC_MEMCPYED, "bytes that are not compressed"},
        {TYPE, 1, 0, "elements of 0 bytes"},
        {TYPE, 1, 3, "block 0 of 3 is damaged: its 65536 bytes are no whole elements of 3"},
        {8, 4, 0, "header says blocks of 0 bytes, of 150000 bytes"},
        {8, 4, 150001, "header says blocks of 150001 bytes, of 150000 bytes"},
        {8, 4, 1, "header says 150000 blocks in "},
        {STARTS, 4, 12, "block 0 of 3 is damaged: its place is byte 12, before the first block's"},
        {STARTS + 4, 4, 27, "block 1 of 3 is damaged: its place is byte 27, before"},
        {STARTS + 8, 4, UINT32_MAX, "block 2 of 3 is damaged: a stream begins at byte 4294967295"},
        {STARTS + 8, 4, last, "block 2 of 3 is damaged: a stream begins at byte "},
        {second, 4, UINT32_MAX, "block 1 of 3 is damaged: a stream has 4294967295 bytes, there"},
        {second, 4, 5, "block 1 of 3 is damaged: an lz4 stream of 5 bytes does not decode to "},
        {second, 4, 0,
         "block 1 of 3 is damaged: an lz4 stream of 0 bytes does not decode to 16384"},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        if (lies[i].size == 4)
            set_u32(subject.stored + lies[i].at, lies[i].value);
        else
            subject.stored[lies[i].at] = (uint8_t)lies[i].value;
        check_refused(&subject, lies[i].message);
        memcpy(subject.stored, stored, subject.stored_bytes);
    }
    free(stored);
    drop_subject(&subject);
}

static void test_damaged_streams_are_named(void **state)
{
    (void)state;
    static const char *const expected[] = {"a zstd stream of ", "", "", "a zlib stream of ", ""};
    for (size_t i = 0; i < COUNT(compressors); i += 3) {
        struct subject subject = make_subject(compressors[i], BLOSC_NOSHUFFLE, 1, 9000, 4096, 2);
        memset(subject.stored + get_u32(subject.stored + HEADER_BYTES) + 4, 0xff, 8);
        check_refused(&subject, expected[i]);
        drop_subject(&subject);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_decode_whole_and_in_parts),
        cmocka_unit_test(test_frames_without_the_split_flag),
        cmocka_unit_test(test_narrow_elements),
        cmocka_unit_test(test_what_is_not_narrow),
        cmocka_unit_test(test_blocks_beyond_the_room),
        cmocka_unit_test(test_lies_are_named),
        cmocka_unit_test(test_damaged_streams_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
