/* Fuzz target for reading chunks into samples: bytes of two chunks through the codecs, byte order
 * and strides of an array.
 *
 *     byte 0      which array (modulo their number)
 *     bytes 1, 2  samples [begin, end) to read, modulo what there is
 *     the rest    both chunks along axis 0; one byte short of it for the second, so that the two
 *                 differ
 *
 * They are refused with a message that names the array, or samples are the same however they are
 * asked for. */
#include "fuzz_samples.h"

static const struct {
    enum zarr_format format;
    const char *document;
} documents[] = {
#define V2(dtype, shape, chunks, codec)                                                            \
    {                                                                                              \
        ZARR_V2, "{\"zarr_format\":2,\"shape\":" shape ",\"chunks\":" chunks ",\"dtype\":\"" dtype \
                 "\",\"compressor\":" codec ",\"fill_value\":1,\"order\":\"C\",\"filters\":null}"  \
    }
#define V3(dtype, shape, chunks, endian, codecs)                                                 \
    {                                                                                            \
        ZARR_V3,                                                                                 \
            "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":" shape                        \
            ",\"data_type\":\"" dtype                                                            \
            "\",\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":" chunks \
            "}},\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":0,\"codecs\":[{"    \
            "\"name\":"                                                                          \
            "\"bytes\",\"configuration\":{\"endian\":\"" endian "\"}}" codecs "]}"               \
    }
    V2("<i4", "[5,3]", "[3,3]", "null"),
    V2(">f8", "[4,2,2]", "[2,2,1]", "{\"id\":\"blosc\"}"),
    V2("|u1", "[70]", "[40]", "{\"id\":\"zstd\"}"),
    V2("<f2", "[6,4]", "[4,4]", "{\"id\":\"gzip\"}"),
    V2(">i2", "[6,4]", "[4,3]", "{\"id\":\"zlib\"}"),
    V2("<u8", "[9]", "[8]", "{\"id\":\"lz4\"}"),
    V3("float32", "[5,3]", "[3,2]", "little",
       ",{\"name\":\"zstd\",\"configuration\":{\"level\":0,\"checksum\":false}},{\"name\":"
       "\"crc32c\"}"),
    V3("float64", "[3,2]", "[2,2]", "big", ",{\"name\":\"crc32c\"}"),
    V3("int16", "[40,3]", "[30,3]", "big",
       ",{\"name\":\"gzip\",\"configuration\":{\"level\":1}},{\"name\":\"crc32c\"}"),
    V3("uint16", "[8,4]", "[4,4]", "little",
       ",{\"name\":\"blosc\",\"configuration\":{\"cname\":\"lz4\",\"clevel\":5,\"shuffle\":"
       "\"shuffle\",\"typesize\":2,\"blocksize\":0}}"),
    {ZARR_V2,
     "{\"zarr_format\":2,\"shape\":[5,3],\"chunks\":[3,2],\"dtype\":\">i4\",\"compressor\":"
     "{\"id\":\"bz2\"},\"fill_value\":1,\"order\":\"F\",\"filters\":[{\"id\":\"delta\","
     "\"dtype\":\">i4\",\"astype\":\"<i2\"}]}"},
    {ZARR_V2,
     "{\"zarr_format\":2,\"shape\":[5,3],\"chunks\":[3,2],\"dtype\":[[\"a\",\">i2\",[2]],"
     "[\"b\",\"|S3\"]],\"compressor\":null,\"fill_value\":\"AQIDBAUGBw==\",\"order\":\"C\","
     "\"filters\":[{\"id\":\"adler32\"}]}"},
    {ZARR_V2, "{\"zarr_format\":2,\"shape\":[17],\"chunks\":[9],\"dtype\":\"|b1\",\"compressor\":"
              "{\"id\":\"packbits\"},\"fill_value\":true,\"order\":\"C\",\"filters\":[]}"},
    {ZARR_V2,
     "{\"zarr_format\":2,\"shape\":[7,2],\"chunks\":[4,2],\"dtype\":\">U3\",\"compressor\":"
     "null,\"fill_value\":\"ab\",\"order\":\"F\",\"filters\":[{\"id\":\"shuffle\","
     "\"elementsize\":4}]}"},
};

static void put_chunk(struct memory_store *memory, const struct zarr_array *array, uint64_t first,
                      const uint8_t *bytes, size_t size)
{
    uint64_t index[ZARR_MAX_RANK] = {first};
    char key[ZARR_KEY_BYTES];
    zarr_chunk_key(array, index, key);
    memory_store_put(memory, key, bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    size_t index = take_byte(&input) % (sizeof documents / sizeof documents[0]);
    struct zarr_array array = parse_array(documents[index].format, documents[index].document);
    uint64_t begin = take_byte(&input) % array.shape[0];
    uint64_t end = begin + 1 + take_byte(&input) % (array.shape[0] - begin);
    const struct zarr_array *arrays[] = {&array};
    struct zarr_chunk_reader *reader;
    struct memory_store memory;
    memory_store_init(&memory);
    put_chunk(&memory, &array, 0, input.at, input.left);
    put_chunk(&memory, &array, 1, input.at, input.left - (input.left > 0));
    CHECK(zarr_chunk_reader_new(&memory.store, arrays, 1, &reader, NULL) == STATUS_OK);
    check_samples(reader, &array, begin, end, "");
    zarr_chunk_reader_free(reader);
    memory_store_done(&memory);
    return 0;
}
