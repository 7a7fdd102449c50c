/* Fuzz target for shards: any bytes as the shards of an array.
 *
 *     byte 0      which array (modulo their number)
 *     bytes 1, 2  samples [begin, end) to read, modulo what there is
 *     byte 3      how far reads are joined: gap and size
 *     the rest    all shards; the index is taken out of it as it is
 *
 * They are refused with a message that names array and shard, or samples are the same however they
 * are asked for. What is told beforehand of a read is what it does. */
#include "fuzz_samples.h"

#include "zarr/chunk/shard_cache.h"

#define BYTES "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}"
#define SHARDING(chunk, codecs, index, location)                               \
    "{\"name\":\"sharding_indexed\",\"configuration\":{\"chunk_shape\":" chunk \
    ",\"codecs\":[" codecs "],\"index_codecs\":[" index "],\"index_location\":\"" location "\"}}"
#define ARRAY(shape, shard, codecs)                                                     \
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":" shape                       \
    ",\"data_type\":\"int16\",\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{" \
    "\"chunk_shape\":" shard                                                            \
    "}},\"chunk_key_encoding\":\"default\",\"fill_value\":5,\"codecs\":[" codecs "]}"

static const char *const documents[] = {
    ARRAY("[5,3]", "[4,2]", SHARDING("[2,1]", BYTES, BYTES, "end")),
    ARRAY("[5,3]", "[4,2]", SHARDING("[2,1]", BYTES ",\"crc32c\"", BYTES, "start")),
    ARRAY("[5,3]", "[4,4]",
          SHARDING("[2,2]", BYTES ",{\"name\":\"zstd\",\"configuration\":{}}", BYTES, "end")),
    ARRAY("[5,3]", "[4,4]",
          SHARDING("[2,2]", SHARDING("[1,1]", BYTES, BYTES, "start"), BYTES, "end")),
    ARRAY("[5,3]", "[4,4]",
          SHARDING("[4,2]", SHARDING("[1,2]", BYTES, BYTES, "end"), BYTES ",\"crc32c\"", "end")),
    ARRAY("[9]", "[8]", SHARDING("[2]", BYTES, BYTES, "start")),
};

static enum status add_piece(void *argument, const struct zarr_piece *piece, struct error *err)
{
    (void)err;
    CHECK(!piece->is_index && piece->kind == ZARR_PIECE_RANGE);
    *(uint64_t *)argument += piece->bytes;
    return STATUS_OK;
}

/* After the samples were read all indices are known. */
static void check_pieces(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                         uint64_t begin, uint64_t end)
{
    struct zarr_read_stats stats = {0};
    uint64_t bytes = 0;
    unsigned char *samples = malloc((end - begin) * zarr_array_sample_bytes(array));
    CHECK(samples && zarr_read_samples(reader, array, begin, end, samples, &stats, NULL) == 0);
    CHECK(zarr_list_pieces(reader, array, begin, end, add_piece, &bytes, NULL) == 0);
    CHECK(bytes == stats.stored_bytes);
    free(samples);
}

static void put_shards(struct memory_store *memory, const struct zarr_array *array,
                       const struct input *input)
{
    const uint64_t *spans = array->shard_levels[0].spans;
    for (uint64_t i = 0; i < array->chunk_counts[0]; i += spans[0])
        for (uint64_t j = 0;
             j<(array->rank > 1 ? array->chunk_counts[1] : 1); j += array->rank> 1 ? spans[1] : 1) {
            char key[ZARR_KEY_BYTES];
            zarr_chunk_key(array, (uint64_t[ZARR_MAX_RANK]){i, j}, key);
            memory_store_put(memory, key, input->at, input->left);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    size_t index = take_byte(&input) % (sizeof documents / sizeof documents[0]);
    struct zarr_array array = parse_array(ZARR_V3, documents[index]);
    uint64_t begin = take_byte(&input) % array.shape[0];
    uint64_t end = begin + 1 + take_byte(&input) % (array.shape[0] - begin);
    uint8_t joined = take_byte(&input);
    const struct zarr_array *arrays[] = {&array};
    struct zarr_read_options options = {.coalesce_gap = joined & 15, .coalesce_bytes = joined};
    struct zarr_chunk_reader *reader;
    struct memory_store memory;
    CHECK(shard_cache_new(arrays, 1, 4096, &options.indices, NULL) == STATUS_OK);
    memory_store_init(&memory);
    put_shards(&memory, &array, &input);
    CHECK(zarr_chunk_reader_new_with(&memory.store, arrays, 1, &options, &reader, NULL) ==
          STATUS_OK);
    if (check_samples(reader, &array, begin, end, "in shard 'x/c/"))
        check_pieces(reader, &array, begin, end);
    zarr_chunk_reader_free(reader);
    shard_cache_free(options.indices);
    memory_store_done(&memory);
    return 0;
}
