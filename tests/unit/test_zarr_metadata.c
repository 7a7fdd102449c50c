/* Metadata documents of arrays, good and bad: what they say, and how what is not read or trusted is
 * refused. */
#include "zarr/metadata/array.h"
#include "zarr_documents.h"
#include "zarr_fixture.h"

static enum status parse_with(enum zarr_format format, const char *name, const char *value,
                              struct zarr_array *array, struct error *err)
{
    struct text document = {0};
    error_clear(err);
    write_document(format, name, value, &document);
    enum status status = zarr_array_parse(format, "a", document.data, document.length, array, err);
    text_done(&document);
    return status;
}

static void test_plain_documents(void **state)
{
    (void)state;
    for (enum zarr_format format = ZARR_V2; format <= ZARR_V3; format++) {
        struct zarr_array array;
        struct error err;
        assert_ok(parse_with(format, NULL, NULL, &array, &err), &err);
        assert_string_equal(array.path, "a");
        assert_int_equal(array.format, format);
        assert_int_equal(array.rank, 2);
        assert_int_equal(array.shape[0], 10);
        assert_int_equal(array.chunk_shape[0], 3);
        assert_int_equal(array.chunk_counts[0], 4);
        assert_int_equal(array.chunk_counts[1], 1);
        assert_int_equal(zarr_array_chunk_count(&array), 4);
        assert_int_equal(array.dtype, DTYPE_FLOAT16);
        assert_int_equal(array.chunk_bytes, 24);
        assert_int_equal(array.total_bytes, 80);
        assert_int_equal(zarr_array_sample_bytes(&array), 8);
        assert_false(array.byte_swapped);
        assert_int_equal(array.key_prefixed, format == ZARR_V3);
        assert_int_equal(array.key_separator, format == ZARR_V3 ? '/' : '.');
    }
}

#define BYTES "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}"
#define TRANSPOSE(order) \
    "[{\"name\": \"transpose\", \"configuration\": {\"order\": " order "}}, " BYTES "]"
#define NUMPY(name, configuration) \
    "{\"name\": \"" name "\", \"configuration\": {" configuration "}}"
#define SHARDING(chunk, codecs, index_codecs, more)                                 \
    "[{\"name\": \"sharding_indexed\", \"configuration\": {\"chunk_shape\": " chunk \
    ", \"codecs\": [" codecs "], \"index_codecs\": [" index_codecs "]" more "}}]"

#define RECTILINEAR(shapes)                                                                    \
    "{\"name\": \"rectilinear\", \"configuration\": {\"kind\": \"inline\", \"chunk_shapes\": " \
    "[" shapes "]}}"

static void test_accepted(void **state)
{
    static const struct {
        enum zarr_format format;
        const char *name, *value;
    } cases[] = {
        {ZARR_V2, "filters", "[]"},
        {ZARR_V2, "filters", NULL},
        {ZARR_V2, "fill_value", NULL},
        {ZARR_V2, "fill_value", "NaN"},
        {ZARR_V2, "dimension_separator", "\"/\""},
        {ZARR_V2, "dimension_separator", "null"},
        {ZARR_V2, "something_else", "{\"must\": [\"be\", \"ignored\"]}"},
        {ZARR_V2, "dtype", "\"<u1\""},
        {ZARR_V2, "dtype", "\">b1\""},
        {ZARR_V2, "dtype", "\"bfloat16\""},
        {ZARR_V2, "dtype", "\"<M8[ns]\""},
        {ZARR_V2, "dtype", "\">m8[25s]\""},
        {ZARR_V2, "dtype", "[[\"x\", \"<f4\"]]"},
        {ZARR_V2, "order", "\"F\""},
        {ZARR_V2, "filters", "[{\"id\": \"delta\", \"dtype\": \"<i2\"}]"},
        {ZARR_V2, "chunks", "[100, 100]"},
        {ZARR_V2, "compressor", "{\"id\": \"zstd\", \"level\": 3, \"checksum\": false}"},
        {ZARR_V3, "attributes", NULL},
        {ZARR_V3, "dimension_names", "null"},
        {ZARR_V3, "dimension_names", "[null, \"x\"]"},
        {ZARR_V3, "data_type", "{\"name\": \"float16\", \"configuration\": {}}"},
        {ZARR_V3, "data_type",
         "{\"name\": \"numpy.datetime64\", \"configuration\": {\"unit\": \"s\"}}"},
        {ZARR_V3, "codecs", TRANSPOSE("[1, 0]")},
        {ZARR_V3, "codecs", SHARDING("[1, 4]", BYTES, BYTES ", \"crc32c\"", "")},
        {ZARR_V3, "codecs", SHARDING("[3, 1]", BYTES, BYTES, ", \"index_location\": \"start\"")},
        {ZARR_V3, "chunk_grid", RECTILINEAR("4, 2")},
        {ZARR_V3, "chunk_grid", RECTILINEAR("[4, [4, 2], 9], [2, 2]")},
        {ZARR_V3, "chunk_grid", RECTILINEAR("[[4, 2], 2], 2")},
        {ZARR_V3, "chunk_grid", RECTILINEAR("[6, 5, 7], [3, 1]")},
        {ZARR_V3, "chunk_grid", RECTILINEAR("[12], [[2, 9223372036854775806]]")},
        {ZARR_V3, "data_type", "\"float8_e4m3fn\""},
        {ZARR_V2, "dtype", "\"float8_e5m2\""},
        {ZARR_V3, "dimension_names", NULL},
        {ZARR_V3, "storage_transformers", NULL},
        {ZARR_V3, "storage_transformers", "null"},
        {ZARR_V3, "data_type", "{\"name\": \"bfloat16\"}"},
        {ZARR_V3, "chunk_key_encoding", "\"default\""},
        {ZARR_V3, "chunk_key_encoding", "{\"name\": \"v2\", \"configuration\": {}}"},
        {ZARR_V3, "extra", "{\"must_understand\": false, \"name\": \"x\"}"},
        {ZARR_V3, "codecs",
         "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}, "
         "{\"name\": \"crc32c\"}]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_array array;
        struct error err;
        if (parse_with(cases[i].format, cases[i].name, cases[i].value, &array, &err) != STATUS_OK)
            fail_msg("v%d %s = %s: %s", cases[i].format, cases[i].name,
                     cases[i].value ? cases[i].value : "(absent)", err.message);
    }
}

#define BEHIND_BYTES(codec) \
    "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}, \"" codec "\"]"

/* {format, member, value, status, part of the message} */
static const struct refusal {
    enum zarr_format format;
    const char *name, *value;
    enum status status;
    const char *message;
} refusals[] = {
    {ZARR_V2, "zarr_format", "3", STATUS_UNSUPPORTED, "'zarr_format' is 3, expected 2"},
    {ZARR_V2, "zarr_format", NULL, STATUS_CORRUPT, "'zarr_format' is missing"},
    {ZARR_V2, "shape", NULL, STATUS_CORRUPT, "'shape' is missing"},
    {ZARR_V2, "shape", "7", STATUS_CORRUPT, "'shape' is a JSON int, expected array"},
    {ZARR_V2, "shape", "[]", STATUS_CORRUPT, "chunks have 2 dimensions, the array 0"},
    {ZARR_V2, "shape", "[1,1,1,1,1,1,1,1,1]", STATUS_UNSUPPORTED, "9 dimensions; the limit is 8"},
    {ZARR_V2, "shape", "[10, -4]", STATUS_CORRUPT, "'shape' axis 1 is negative (-4)"},
    {ZARR_V2, "shape", "[0, 4]", STATUS_INVALID, "empty: 'shape' axis 0 is 0"},
    {ZARR_V2, "shape", "[4611686018427387904, 0]", STATUS_CORRUPT, "'shape' overflows"},
    {ZARR_V2, "shape", "[10, 4.5]", STATUS_CORRUPT, "'shape' axis 1 is not an integer"},
    {ZARR_V2, "shape", "[null, 4]", STATUS_CORRUPT, "'shape' axis 0 is not an integer"},
    {ZARR_V2, "shape", "[99999999999999999999999, 4]", STATUS_CORRUPT, "does not fit 63 bits"},
    {ZARR_V2, "shape", "[4611686018427387904, 4]", STATUS_CORRUPT, "'shape' overflows"},
    {ZARR_V2, "shape", "[3000000000, 3000000000]", STATUS_CORRUPT, "'shape' overflows"},
    {ZARR_V2, "chunks", NULL, STATUS_CORRUPT, "'chunks' is missing"},
    {ZARR_V2, "chunks", "[3]", STATUS_CORRUPT, "chunks have 1 dimensions, the array 2"},
    {ZARR_V2, "chunks", "[0, 4]", STATUS_CORRUPT, "'chunks' axis 0 is 0"},
    {ZARR_V2, "chunks", "[3, -1]", STATUS_CORRUPT, "'chunks' axis 1 is negative (-1)"},
    {ZARR_V2, "chunks", "[true, 4]", STATUS_CORRUPT, "'chunks' axis 0 is not an integer"},
    {ZARR_V2, "chunks", "[9223372036854775806, 9223372036854775806]", STATUS_CORRUPT, "overflows"},
    {ZARR_V2, "chunks", "[1073741824, 2]", STATUS_UNSUPPORTED, "a chunk takes 4.00 GiB decoded"},
    {ZARR_V2, "dtype", NULL, STATUS_CORRUPT, "'dtype' is missing"},
    {ZARR_V2, "dtype", "\"\"", STATUS_UNSUPPORTED, "dtype ''"},
    {ZARR_V2, "dtype", "\"<\"", STATUS_UNSUPPORTED, "dtype '<'"},
    {ZARR_V2, "dtype", "\"|O\"", STATUS_UNSUPPORTED, "dtype '|O' (Python objects): rewrite"},
    {ZARR_V2, "dtype", "\"<U257\"", STATUS_UNSUPPORTED, "an item takes more than 1024 bytes"},
    {ZARR_V2, "dtype", "\"|S99999999999999999999\"", STATUS_UNSUPPORTED, "more than 1024 bytes"},
    {ZARR_V2, "dtype", "\"|S0\"", STATUS_UNSUPPORTED, "items without bytes"},
    {ZARR_V2, "dtype", "\"|S-1\"", STATUS_UNSUPPORTED, "dtype '|S-1'"},
    {ZARR_V2, "dtype", "\"|U4\"", STATUS_CORRUPT, "does not say its byte order"},
    {ZARR_V2, "dtype", "[]", STATUS_CORRUPT, "structured dtype without member 0"},
    {ZARR_V2, "dtype", "[[\"x\\u001b]0;\", \"<f4\"]]", STATUS_CORRUPT,
     "the name of a member holds a control character or '/'"},
    {ZARR_V2, "dtype", "[[\"x\", \"<f4\"], [\"y\\u007f\", \"<f4\"]]", STATUS_CORRUPT,
     "the name of a member holds a control character or '/'"},
    {ZARR_V2, "dtype", "[[\"\\u0000x\", \"<f4\"]]", STATUS_CORRUPT,
     "the name of a member holds a control character or '/'"},
    {ZARR_V2, "dtype", "[[\"x/y\", \"<f4\"]]", STATUS_CORRUPT,
     "the name of a member holds a control character or '/'"},
    {ZARR_V2, "dtype", "[[\"..\", \"<f4\"]]", STATUS_CORRUPT, "'..' is not a name for a member"},
    {ZARR_V2, "dtype", "[5]", STATUS_CORRUPT, "a member is not a list of name and type"},
    {ZARR_V2, "dtype", "[[\"x\", 5]]", STATUS_CORRUPT, "member 'x' has no type"},
    {ZARR_V2, "dtype", "[[\"x\", \"|O\"]]", STATUS_UNSUPPORTED, "member 'x': dtype '|O'"},
    {ZARR_V2, "dtype", "[[\"x\", [[\"y\", \"<f4\"]]]]", STATUS_UNSUPPORTED,
     "structured dtype within another: member 'x'"},
    {ZARR_V2, "dtype", "[[\"x\", \"<f4\", 3]]", STATUS_CORRUPT, "is not a list"},
    {ZARR_V2, "dtype", "[[\"x\", \"<f4\", [-1]]]", STATUS_CORRUPT, "not a positive number"},
    {ZARR_V2, "dtype", "[[\"x\", \"<f4\", [99, 99]]]", STATUS_UNSUPPORTED, "more than 1024"},
    {ZARR_V2, "dtype", "[[\"x\", \"|S4\", [2]]]", STATUS_UNSUPPORTED, "sub-array of strings"},
    {ZARR_V2, "order", "\"A\"", STATUS_CORRUPT, "order 'A' is neither C nor F"},
    {ZARR_V2, "filters", "[{\"id\": \"vlen-utf8\"}]", STATUS_UNSUPPORTED,
     "codec 'vlen-utf8' (strings of variable length) is not supported: rewrite the array"},
    {ZARR_V2, "dtype", "\"<f16\"", STATUS_UNSUPPORTED, "dtype '<f16'"},
    {ZARR_V2, "dtype", "\"|f4\"", STATUS_CORRUPT, "does not say its byte order"},
    {ZARR_V2, "order", NULL, STATUS_CORRUPT, "'order' is missing"},
    {ZARR_V2, "filters", "[1]", STATUS_CORRUPT, "'filters' holds something"},
    {ZARR_V2, "filters", "1", STATUS_CORRUPT, "'filters' is neither null nor a list"},
    {ZARR_V2, "compressor", NULL, STATUS_CORRUPT, "'compressor' is missing"},
    {ZARR_V2, "compressor", "\"zstd\"", STATUS_CORRUPT, "'compressor' is neither null"},
    {ZARR_V2, "compressor", "{}", STATUS_CORRUPT, "'compressor': 'id' is missing"},
    {ZARR_V2, "compressor", "{\"id\": \"pcodec\"}", STATUS_UNSUPPORTED, "pcodec"},
    {ZARR_V2, "dimension_separator", "\"-\"", STATUS_CORRUPT, "separator is \"-\""},
    {ZARR_V2, "fill_value", "\"x\"", STATUS_CORRUPT,
     "'fill_value' \"x\" is not a value of type float16"},
    {ZARR_V3, "zarr_format", "2", STATUS_UNSUPPORTED, "'zarr_format' is 2, expected 3"},
    {ZARR_V3, "node_type", "\"group\"", STATUS_CORRUPT, "'node_type' is 'group'"},
    {ZARR_V3, "shape", "{}", STATUS_CORRUPT, "'shape' is a JSON object, expected array"},
    {ZARR_V3, "data_type", NULL, STATUS_CORRUPT, "'data_type' is missing"},
    {ZARR_V3, "data_type", "\"string\"", STATUS_UNSUPPORTED,
     "data type 'string' (strings of variable length) is not supported: rewrite the array; store "},
    {ZARR_V3, "data_type", "\"variable_length_bytes\"", STATUS_UNSUPPORTED, "rewrite the array; "},
    {ZARR_V3, "data_type", NUMPY("zarrs.optional", "\"name\": \"int8\""), STATUS_UNSUPPORTED,
     "data type 'zarrs.optional' (values that may be absent) is not supported: rewrite the "
     "array; "},
    {ZARR_V3, "data_type", "\"none\"", STATUS_UNSUPPORTED, "data type 'none'"},
    {ZARR_V3, "data_type", "{\"name\": \"numpy.void\", \"configuration\": {}}", STATUS_UNSUPPORTED,
     "data type 'numpy.void'"},
    {ZARR_V3, "data_type", "\"r7\"", STATUS_UNSUPPORTED, "data type 'r7'"},
    {ZARR_V3, "data_type", "\"r0\"", STATUS_UNSUPPORTED, "data type 'r0'"},
    {ZARR_V3, "data_type", "\"r8200\"", STATUS_UNSUPPORTED, "data type 'r8200'"},
    {ZARR_V3, "data_type", "\"r16\"", STATUS_CORRUPT, "'fill_value' is not a list of 2 bytes"},
    {ZARR_V3, "data_type", NUMPY("null_terminated_bytes", "\"length_bytes\": -1"), STATUS_CORRUPT,
     "'null_terminated_bytes': 'length_bytes' is -1"},
    {ZARR_V3, "data_type", NUMPY("fixed_length_utf32", "\"length_bytes\": 6"), STATUS_CORRUPT,
     "'length_bytes' is 6"},
    {ZARR_V3, "data_type", NUMPY("raw_bytes", "\"length_bytes\": 1025"), STATUS_UNSUPPORTED,
     "more than 1024 bytes"},
    {ZARR_V3, "data_type", "\"raw_bytes\"", STATUS_CORRUPT, "'length_bytes' is missing"},
    {ZARR_V3, "data_type", NUMPY("numpy.datetime64", "\"unit\": \"fortnight\""), STATUS_CORRUPT,
     "'unit' is none of NumPy's"},
    {ZARR_V3, "data_type", NUMPY("numpy.datetime64", "\"scale_factor\": 2"), STATUS_CORRUPT,
     "'unit' is missing"},
    {ZARR_V3, "data_type", NUMPY("structured", "\"fields\": []"), STATUS_CORRUPT,
     "without member 0"},
    {ZARR_V3, "data_type", NUMPY("structured", "\"fields\": [[\"x\\ny\", \"string\"]]"),
     STATUS_CORRUPT, "the name of a member holds a control character or '/'"},
    {ZARR_V3, "data_type", NUMPY("structured", "\"fields\": [[\"x/y\", \"int8\"]]"), STATUS_CORRUPT,
     "the name of a member holds a control character or '/'"},
    {ZARR_V3, "data_type", NUMPY("structured", "\"fields\": [[\"x\"]]"), STATUS_CORRUPT,
     "not a list of name and type"},
    {ZARR_V3, "data_type", NUMPY("structured", "\"fields\": [[\"x\", \"string\"]]"),
     STATUS_UNSUPPORTED, "field 'x': data type 'string'"},
    {ZARR_V3, "data_type", NUMPY("structured", "\"fields\": [[\"x\", {\"name\": \"structured\"}]]"),
     STATUS_UNSUPPORTED, "structured dtype within another"},
    {ZARR_V3, "data_type", "5", STATUS_CORRUPT, "'data_type' is neither a name nor an object"},
    {ZARR_V3, "data_type", "{}", STATUS_CORRUPT, "'data_type': 'name' is missing"},
    {ZARR_V3, "chunk_grid", NULL, STATUS_CORRUPT, "'chunk_grid' is missing"},
    {ZARR_V3, "chunk_grid", "\"regular\"", STATUS_CORRUPT,
     "'chunk_grid': 'chunk_shape' is missing"},
    {ZARR_V3, "chunk_grid", "{\"name\": \"rectilinear\"}", STATUS_CORRUPT,
     "'chunk_grid': 'kind' is missing"},
    {ZARR_V3, "chunk_grid", "{\"name\": \"hexagonal\"}", STATUS_UNSUPPORTED,
     "chunk grid 'hexagonal' (only regular and rectilinear)"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("4, [1, 3]"), STATUS_UNSUPPORTED,
     "chunks of 1 to 3 along axis 1"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("[4, 2, 4], 2"), STATUS_UNSUPPORTED,
     "chunks of 2 to 4 along axis 0"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("[4, [3, 2]], 2"), STATUS_UNSUPPORTED,
     "chunks of 3 to 4 along axis 0"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("[4, 4], 2"), STATUS_CORRUPT,
     "the chunks of axis 0 end at 8 of 10"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("[], 2"), STATUS_CORRUPT, "end at 0 of 10"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("[[4]], 2"), STATUS_CORRUPT, "not a length and a count"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("[0], 2"), STATUS_CORRUPT, "not a positive number"},
    {ZARR_V3, "chunk_grid", RECTILINEAR("4"), STATUS_CORRUPT, "'chunk_grid' has 1 axes"},
    {ZARR_V3, "chunk_key_encoding", NULL, STATUS_CORRUPT, "'chunk_key_encoding' is missing"},
    {ZARR_V3, "chunk_key_encoding", "\"hilbert\"", STATUS_UNSUPPORTED, "encoding 'hilbert'"},
    {ZARR_V3, "chunk_key_encoding",
     "{\"name\": \"default\", \"configuration\": {\"separator\": 5}}", STATUS_CORRUPT,
     "separator is 5"},
    {ZARR_V3, "chunk_key_encoding", "{\"name\": \"default\", \"configuration\": 5}", STATUS_CORRUPT,
     "'configuration' is not an object"},
    {ZARR_V3, "codecs", "[]", STATUS_CORRUPT, "no codec from array to bytes"},
    {ZARR_V3, "codecs", "[\"bytes\"]", STATUS_CORRUPT, "lacks 'endian', which float16 needs"},
    {ZARR_V3, "codecs", "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"middle\"}}]",
     STATUS_CORRUPT, "neither little nor big"},
    {ZARR_V3, "codecs",
     "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}, \"bytes\"]", STATUS_CORRUPT,
     "'bytes' stands twice"},
    {ZARR_V3, "codecs", "[{\"name\": \"transpose\"}, \"bytes\"]", STATUS_CORRUPT,
     "codec 'transpose': 'order' is missing"},
    {ZARR_V3, "codecs", TRANSPOSE("[0]"), STATUS_CORRUPT, "'order' has 1 of 2 axes"},
    {ZARR_V3, "codecs", TRANSPOSE("[1, 1]"), STATUS_CORRUPT, "not a permutation of 2 axes"},
    {ZARR_V3, "codecs", TRANSPOSE("[0, 2]"), STATUS_CORRUPT, "not a permutation of 2 axes"},
    {ZARR_V3, "codecs", TRANSPOSE("[-1, 0]"), STATUS_CORRUPT, "not a permutation of 2 axes"},
    {ZARR_V3, "codecs", TRANSPOSE("[0, 1.0]"), STATUS_CORRUPT, "not a permutation of 2 axes"},
    {ZARR_V3, "codecs", "[{\"name\": \"sharding_indexed\", \"configuration\": {}}]", STATUS_CORRUPT,
     "codec 'sharding_indexed': 'chunk_shape' is missing"},
    {ZARR_V3, "codecs", SHARDING("[2, 4]", BYTES, BYTES, ""), STATUS_CORRUPT,
     "shards of 3 along axis 0 are not made of inner chunks of 2"},
    {ZARR_V3, "codecs", SHARDING("[1]", BYTES, BYTES, ""), STATUS_CORRUPT,
     "chunks have 1 dimensions, the array 2"},
    {ZARR_V3, "codecs", SHARDING("[0, 4]", BYTES, BYTES, ""), STATUS_CORRUPT, "axis 0 is 0"},
    {ZARR_V3, "codecs", SHARDING("[1, 4]", "", BYTES, ""), STATUS_CORRUPT,
     "no codec from array to bytes"},
    {ZARR_V3, "codecs", SHARDING("[1, 4]", BYTES, "", ""), STATUS_CORRUPT,
     "'index_codecs' is empty"},
    {ZARR_V3, "codecs", SHARDING("[1, 4]", BYTES, "\"bytes\"", ""), STATUS_CORRUPT,
     "'index_codecs': codec 'bytes' lacks 'endian', which uint64 needs"},
    {ZARR_V3, "codecs", SHARDING("[1, 4]", BYTES, BYTES ", {\"name\": \"zstd\"}", ""),
     STATUS_UNSUPPORTED, "'index_codecs' has 'zstd' as number 1 (only bytes, then crc32c)"},
    {ZARR_V3, "codecs", SHARDING("[1, 4]", BYTES, "\"crc32c\"", ""), STATUS_UNSUPPORTED,
     "'index_codecs' has 'crc32c' as number 0"},
    {ZARR_V3, "codecs", SHARDING("[1, 4]", BYTES, BYTES, ", \"index_location\": \"middle\""),
     STATUS_CORRUPT, "'index_location' is neither start nor end"},
    {ZARR_V3, "codecs",
     "[{\"name\": \"sharding_indexed\", \"configuration\": {\"chunk_shape\": [1, 4], \"codecs\": "
     "[" BYTES "], \"index_codecs\": [" BYTES "]}}, \"crc32c\"]",
     STATUS_UNSUPPORTED, "codecs behind 'sharding_indexed'"},
    {ZARR_V3, "dimension_names", "[\"t\"]", STATUS_CORRUPT, "has 1 names for 2 axes"},
    {ZARR_V3, "dimension_names", "[\"t\", 1]", STATUS_CORRUPT, "axis 1 is neither a name nor null"},
    {ZARR_V3, "dimension_names", "\"t\"", STATUS_CORRUPT, "'dimension_names' is not a list"},
    {ZARR_V3, "codecs",
     "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}, {\"name\": \"rot13\"}]",
     STATUS_UNSUPPORTED, "rot13"},
    {ZARR_V3, "codecs", BEHIND_BYTES("bz2"), STATUS_UNSUPPORTED,
     "codec 'bz2' is not one of Zarr v3's: rewrite the array with 'numcodecs.bz2', which is read"},
    {ZARR_V3, "codecs", "[\"numcodecs.pcodec\"]", STATUS_UNSUPPORTED,
     "codec 'numcodecs.pcodec' (values compressed by Pcodec) is not supported: rewrite the "
     "array; "},
    {ZARR_V3, "codecs", "[\"zfp\"]", STATUS_UNSUPPORTED,
     "codec 'zfp' (values compressed by ZFP) is not supported: rewrite the array; store "},
    {ZARR_V3, "codecs", "[\"zarrs.optional\"]", STATUS_UNSUPPORTED,
     "(values that may be absent) is not supported: rewrite the array; "},
    {ZARR_V3, "codecs", "[\"zstd\"]", STATUS_UNSUPPORTED, "codec 'zstd' before 'bytes'"},
    {ZARR_V3, "codecs", "[null]", STATUS_CORRUPT, "'codecs' is neither a name nor an object"},
    {ZARR_V3, "fill_value", NULL, STATUS_CORRUPT, "'fill_value' is missing"},
    {ZARR_V3, "fill_value", "null", STATUS_CORRUPT, "'fill_value' null is not a value"},
    {ZARR_V3, "storage_transformers", "[{\"name\": \"indirect\"}]", STATUS_UNSUPPORTED,
     "storage transformer 'indirect'"},
    {ZARR_V3, "extra", "{\"must_understand\": true}", STATUS_UNSUPPORTED, "extension 'extra'"},
    {ZARR_V3, "extra", "{\"must_understand\": \"no\"}", STATUS_UNSUPPORTED, "extension 'extra'"},
    {ZARR_V3, "extra", "false", STATUS_UNSUPPORTED, "extension 'extra'"},
    {ZARR_V3, "extra", "null", STATUS_UNSUPPORTED, "extension 'extra'"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *refusal = &refusals[i];
        struct zarr_array array;
        struct error err;
        enum status status =
            parse_with(refusal->format, refusal->name, refusal->value, &array, &err);
        if (status != refusal->status || !strstr(err.message, refusal->message))
            fail_msg("v%d %s = %s: got '%s' (%s), expected '%s' (%s)", refusal->format,
                     refusal->name, refusal->value ? refusal->value : "(absent)", err.message,
                     status_text(status), refusal->message, status_text(refusal->status));
    }
}

static void test_not_json(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "it ends early"},
        {"{\"zarr_format\": 2", "it ends early"},
        {"[1, 2]", "not a JSON object"},
        {"{} trailing", "not valid JSON at byte 3"},
        {"{\"a\": 1,}", "not valid JSON"},
        {"{\"a\": \"\xff\"}", "not valid JSON"},
    };
    struct zarr_array array;
    struct error err;
    struct text deep = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            zarr_array_parse(ZARR_V3, "a", cases[i].text, strlen(cases[i].text), &array, &err),
            STATUS_CORRUPT);
        if (!strstr(err.message, cases[i].message))
            fail_msg("'%s': %s", cases[i].text, err.message);
    }
    text_append(&deep, "{\"a\": ");
    for (int i = 0; i < 100000; i++)
        text_append_bytes(&deep, "[", 1);
    assert_int_equal(zarr_array_parse(ZARR_V2, "a", deep.data, deep.length, &array, &err),
                     STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "nesting"));
    text_done(&deep);
}

/* What could be read of an array that is refused is kept for listings. */
static void test_partial(void **state)
{
    struct zarr_array array;
    struct error err;
    (void)state;
    assert_int_equal(parse_with(ZARR_V2, "order", "\"A\"", &array, &err), STATUS_CORRUPT);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.shape[0], 10);
    assert_int_equal(array.total_bytes, 80);
    assert_int_equal(parse_with(ZARR_V2, "dtype", "\"|O\"", &array, &err), STATUS_UNSUPPORTED);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.total_bytes, 0);
}

/* Two transposes are one permutation; shards within it have their axes turned round. */
static void test_transposed_shards(void **state)
{
    static const char text[] =
        "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [50, 60, 70], \"data_type\": "
        "\"int8\", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": "
        "[8, "
        "12, 20]}}, \"chunk_key_encoding\": \"default\", \"fill_value\": 0, \"codecs\": "
        "[{\"name\": "
        "\"transpose\", \"configuration\": {\"order\": [1, 2, 0]}}, {\"name\": "
        "\"sharding_indexed\", \"configuration\": {\"chunk_shape\": [3, 10, 4], \"index_codecs\": "
        "[" BYTES ", \"crc32c\"], \"codecs\": [{\"name\": \"transpose\", \"configuration\": "
        "{\"order\": [1, 2, "
        "0]}}, \"bytes\"]}}]}";
    struct zarr_array array;
    struct error err;
    char key[ZARR_KEY_BYTES];
    (void)state;
    assert_ok(zarr_array_parse(ZARR_V3, "a", text, strlen(text), &array, &err), &err);
    assert_memory_equal(array.chunk_shape, ((uint64_t[]){4, 3, 10}), 3 * sizeof(uint64_t));
    assert_memory_equal(array.chunk_counts, ((uint64_t[]){13, 20, 7}), 3 * sizeof(uint64_t));
    assert_memory_equal(array.storage_axes, ((uint8_t[]){2, 0, 1}), 3);
    assert_int_equal(array.shard_level_count, 1);
    assert_memory_equal(array.shard_levels[0].counts, ((uint64_t[]){2, 4, 2}),
                        3 * sizeof(uint64_t));
    assert_memory_equal(array.shard_levels[0].axes, ((uint8_t[]){1, 2, 0}), 3);
    assert_int_equal(array.shard_levels[0].entry_count, 16);
    assert_int_equal(array.shard_levels[0].index_bytes, 16 * 16 + 4);
    zarr_chunk_key(&array, (uint64_t[]){12, 19, 6}, key);
    assert_string_equal(key, "a/c/6/4/3");
}

static void test_column_order_of_one_dimension(void **state)
{
    static const char text[] =
        "{\"zarr_format\": 2, \"shape\": [4], \"chunks\": [2], \"dtype\": \"<i4\", \"order\": "
        "\"F\", \"compressor\": null, \"fill_value\": null, \"filters\": null}";
    struct zarr_array array;
    struct error err;
    (void)state;
    assert_ok(zarr_array_parse(ZARR_V2, "a", text, strlen(text), &array, &err), &err);
}

static void test_column_order_turns_axes_round(void **state)
{
    struct zarr_array array;
    struct error err;
    (void)state;
    assert_ok(parse_with(ZARR_V2, "order", "\"F\"", &array, &err), &err);
    assert_int_equal(array.storage_axes[0], 1);
    assert_int_equal(array.storage_axes[1], 0);
    assert_ok(parse_with(ZARR_V2, "order", "\"C\"", &array, &err), &err);
    assert_int_equal(array.storage_axes[0], 0);
}

/* An array [4] of that dtype and fill value, in chunks of 2. */
static enum status parse_typed(const char *dtype, const char *fill, size_t member,
                               struct zarr_array *array, struct error *err)
{
    struct text text = {0};
    text_append(&text,
                "{\"zarr_format\": 2, \"shape\": [4], \"chunks\": [2], \"dtype\": %s, \"order\": "
                "\"C\", \"compressor\": null, \"fill_value\": %s, \"filters\": null}",
                dtype, fill);
    enum status status =
        zarr_array_parse_member(ZARR_V2, "g/a", text.data, strlen(text.data), member, array, err);
    text_done(&text);
    return status;
}

static void test_strings_and_dates(void **state)
{
    const struct {
        const char *dtype, *fill;
        enum dtype made_of;
        size_t length, item_bytes;
        const void *expected;
    } cases[] = {
        {"\"|S3\"", "\"YWI=\"", DTYPE_UINT8, 3, 3, "ab"},
        {"\"|S3\"", "null", DTYPE_UINT8, 3, 3, "\0\0"},
        {"\"|S3\"", "\"\"", DTYPE_UINT8, 3, 3, "\0\0"},
        {"\"|V5\"", "\"AQID/wU=\"", DTYPE_UINT8, 5, 5, "\1\2\3\xff\5"},
        {"\"|S1\"", "0", DTYPE_UINT8, 1, 1, ""},
        {"\"<U2\"", "\"a\"", DTYPE_UINT32, 2, 8, (const uint32_t[]){'a', 0}},
        {"\">U2\"", "\"\\u20acx\"", DTYPE_UINT32, 2, 8, (const uint32_t[]){0x20ac, 'x'}},
        {"\"<U1\"", "\"\U0001f600\"", DTYPE_UINT32, 1, 4, (const uint32_t[]){0x1f600}},
        {"\"<M8[ns]\"", "-5", DTYPE_INT64, 0, 8, (const int64_t[]){-5}},
        {"\">m8[s]\"", "\"NaT\"", DTYPE_INT64, 0, 8, (const int64_t[]){INT64_MIN}},
        {"\"<M8[ns]\"", "-9223372036854775808", DTYPE_INT64, 0, 8, (const int64_t[]){INT64_MIN}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_array array;
        struct error err;
        if (parse_typed(cases[i].dtype, cases[i].fill, 0, &array, &err) != STATUS_OK)
            fail_msg("%s with %s: %s", cases[i].dtype, cases[i].fill, err.message);
        assert_int_equal(array.dtype, cases[i].made_of);
        assert_int_equal(array.item_length, cases[i].length);
        assert_int_equal(array.item_bytes, cases[i].item_bytes);
        assert_int_equal(array.stored_item_bytes, cases[i].item_bytes);
        assert_int_equal(array.total_bytes, 4 * cases[i].item_bytes);
        assert_int_equal(array.chunk_bytes, 2 * cases[i].item_bytes);
        assert_int_equal(strncmp(cases[i].dtype + 1, array.stored_type, strlen(array.stored_type)),
                         0);
        if (memcmp(array.fill, cases[i].expected, cases[i].item_bytes) != 0)
            fail_msg("%s with %s: another fill value", cases[i].dtype, cases[i].fill);
    }
}

static void test_texts_that_are_no_fill_values(void **state)
{
    static const char *const cases[][2] = {
        {"\"|S3\"", "\"YWJjZA==\""}, {"\"|S3\"", "\"YW\""},   {"\"|S3\"", "\"Y*I=\""},
        {"\"|S3\"", "\"====\""},     {"\"|S3\"", "5"},        {"\"<U2\"", "\"abc\""},
        {"\"<U2\"", "[]"},           {"\"<M8[s]\"", "\"x\""}, {"[[\"x\", \"|i1\"]]", "true"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_array array;
        struct error err;
        if (parse_typed(cases[i][0], cases[i][1], 0, &array, &err) != STATUS_CORRUPT)
            fail_msg("%s with %s is taken", cases[i][0], cases[i][1]);
        assert_non_null(strstr(err.message, "'fill_value'"));
    }
}

static void test_members_of_a_structured_dtype(void **state)
{
    const struct {
        const char *path;
        enum dtype dtype;
        size_t length, bytes, offset;
        bool swapped;
        const void *fill;
    } members[] = {
        {"g/a.x", DTYPE_INT32, 0, 4, 0, true, (const int32_t[]){0x01020304}},
        {"g/a.tag", DTYPE_UINT8, 1, 1, 5, false, "\6"},
        {"g/a.p", DTYPE_INT16, 2, 4, 6, false, (const int16_t[]){0x0807, 0x0a09}},
    };
    struct zarr_array array;
    struct error err;
    char key[ZARR_KEY_BYTES];
    uint64_t chunk_index[] = {1};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_ok(parse_typed(record_type, record_fill, i, &array, &err), &err);
        assert_string_equal(array.path, members[i].path);
        assert_int_equal(array.member_count, 3);
        assert_int_equal(array.dtype, members[i].dtype);
        assert_int_equal(array.item_length, members[i].length);
        assert_int_equal(array.item_bytes, members[i].bytes);
        assert_int_equal(array.item_offset, members[i].offset);
        assert_int_equal(array.stored_item_bytes, 10);
        assert_int_equal(array.chunk_bytes, 20);
        assert_int_equal(array.byte_swapped, members[i].swapped);
        assert_memory_equal(array.fill, members[i].fill, members[i].bytes);
        zarr_chunk_key(&array, chunk_index, key);
        assert_string_equal(key, "g/a/1");
    }
    assert_int_equal(parse_typed(record_type, record_fill, 3, &array, &err), STATUS_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_documents),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_transposed_shards),
        cmocka_unit_test(test_column_order_of_one_dimension),
        cmocka_unit_test(test_column_order_turns_axes_round),
        cmocka_unit_test(test_strings_and_dates),
        cmocka_unit_test(test_texts_that_are_no_fill_values),
        cmocka_unit_test(test_members_of_a_structured_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
