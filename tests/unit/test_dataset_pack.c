/* Packing: what rank 0 opened is the same dataset on the others, without the store's metadata. And
 * what the fingerprint tells apart. */
#include "dataset/dataset_internal.h"
#include "zarr_fixture.h"

#include <unistd.h>

static void put_array(const struct fixture *fixture, const char *path, const char *shape,
                      const char *chunks, const char *type)
{
    document_put(fixture,
                 (struct document){
                     .path = path, .shape = shape, .type = type, .chunks = chunks, .fill = "NaN"});
}

static void put_group(const struct fixture *fixture)
{
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    put_array(fixture, "a", "[100, 8]", "[8, 8]", "<f2");
    put_array(fixture, "b", "[7, 5]", "[7, 5]", "<f4");
    fixture_put(fixture, "i/.zarray",
                "{\"zarr_format\": 2, \"shape\": [100], \"chunks\": [50], \"dtype\": \"<i8\", "
                "\"compressor\": null, \"fill_value\": 3, \"order\": \"C\", \"filters\": null}");
}

static const struct dataset_field_spec fields[] = {{.name = "x", .array = "a"},
                                                   {.name = "text", .array = "b", .index = "i"}};

static struct dataset *open_fields(const struct fixture *fixture,
                                   const struct dataset_field_spec *specs, size_t count)
{
    struct dataset_options options = {
        .uri = fixture->path, .fields = specs, .field_count = count, .hold_limit_bytes = 1 << 20};
    struct dataset *dataset;
    struct error err;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    return dataset;
}

static void assert_same(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->sample_count, b->sample_count);
    assert_int_equal(a->row_length, b->row_length);
    assert_int_equal(a->row_count, b->row_count);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_int_equal(a->record_bytes, b->record_bytes);
    assert_int_equal(a->sample_bytes, b->sample_bytes);
    assert_int_equal(a->held_bytes, b->held_bytes);
    assert_int_equal(a->scratch_bytes, b->scratch_bytes);
    assert_int_equal(a->fingerprint, b->fingerprint);
    assert_int_equal(a->field_count, b->field_count);
    for (size_t i = 0; i < a->field_count; i++) {
        assert_string_equal(a->fields[i].name, b->fields[i].name);
        assert_int_equal(a->fields[i].source, b->fields[i].source);
        assert_int_equal(a->fields[i].row_offset, b->fields[i].row_offset);
    }
}

static void test_pack(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    struct dataset *copy;
    struct error err;
    void *bytes;
    size_t size;
    put_group(fixture);
    struct dataset *dataset = open_fields(fixture, fields, 2);
    assert_ok(dataset_pack(dataset, &bytes, &size, &err), &err);
    static const char *const documents[] = {".zgroup", "a/.zarray", "b/.zarray", "i/.zarray"};
    for (size_t i = 0; i < 4; i++) { /* nobody may look at them again */
        snprintf(path, sizeof path, "%s/%s", fixture->path, documents[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_ok(dataset_unpack(bytes, size, NULL, &copy, &err), &err);
    assert_same(dataset, copy);

    /* Filled by one, used by the other: all chunks are missing, so every index is the fill value 3.
     */
    void *held = aligned_alloc(64, copy->held_bytes);
    assert_ok(dataset_hold(dataset, held, &err), &err);
    dataset_attach(copy, held);
    assert_string_equal(copy->fields[0].name, "text");
    assert_ptr_equal((const char *)dataset_held_sample(copy, 0, 99),
                     (const char *)dataset_held_sample(dataset, 0, 0));
    free(held);
    dataset_free(copy);
    dataset_free(dataset);
    free(bytes);
}

static void test_damaged_pack(void **state)
{
    struct error err;
    void *bytes;
    size_t size;
    put_group(*state);
    struct dataset *copy = NULL, *dataset = open_fields(*state, fields, 2);
    assert_ok(dataset_pack(dataset, &bytes, &size, &err), &err);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(dataset_unpack(bytes, cut, NULL, &copy, &err), STATUS_CORRUPT);
    assert_null(copy);
    free(bytes);
    dataset_free(dataset);
}

static uint64_t fingerprint_with(const struct fixture *fixture,
                                 const struct dataset_field_spec *specs, size_t count)
{
    struct dataset *dataset = open_fields(fixture, specs, count);
    uint64_t fingerprint = dataset->fingerprint;
    dataset_free(dataset);
    return fingerprint;
}

static void expect_differing(uint64_t a, uint64_t b, const char *words)
{
    struct text text = {0};
    dataset_compare_fingerprints(a, b, &text);
    assert_string_equal(text.data, words);
    text_done(&text);
}

static void test_fingerprint(void **state)
{
    static const struct dataset_field_spec swapped[] = {
        {.name = "text", .array = "b", .index = "i"}, {.name = "x", .array = "a"}};
    static const struct dataset_field_spec renamed[] = {
        {.name = "y", .array = "a"}, {.name = "text", .array = "b", .index = "i"}};
    uint64_t first;
    put_group(*state);
    first = fingerprint_with(*state, fields, 2);
    assert_int_equal(fingerprint_with(*state, swapped, 2), first);
    assert_int_not_equal(fingerprint_with(*state, renamed, 2), first);
    assert_int_not_equal(fingerprint_with(*state, fields, 1), first);
    expect_differing(fingerprint_with(*state, renamed, 2), first, "names of fields or arrays");
    put_array(*state, "a", "[100, 8]", "[4, 8]", "<f2");
    assert_int_not_equal(fingerprint_with(*state, fields, 2), first);
    expect_differing(fingerprint_with(*state, fields, 2), first, "chunk shapes");
    put_array(*state, "a", "[100, 8]", "[8, 8]", "<f4");
    assert_int_not_equal(fingerprint_with(*state, fields, 2), first);
    expect_differing(fingerprint_with(*state, fields, 2), first, "dtypes or scaling");
    put_array(*state, "a", "[100, 8]", "[8, 8]", "<f2");
    assert_int_equal(fingerprint_with(*state, fields, 2), first);
}

/* Steps count twice: in the bits that say what differs, and in the hash of everything above these.
 */
static void test_fingerprint_of_steps(void **state)
{
    enum { NAMED_BITS = 5 * 4 };
    static const int32_t one[] = {0, 1, 3}, other[] = {0, 2, 3};
    const struct dataset_field_spec specs[2] = {
        {.name = "x", .array = "a", .steps = one, .step_count = 3},
        {.name = "x", .array = "a", .steps = other, .step_count = 3}};
    put_group(*state);
    uint64_t a = fingerprint_with(*state, &specs[0], 1), b = fingerprint_with(*state, &specs[1], 1);
    expect_differing(a, b, "shapes or steps of samples");
    assert_true(a >> NAMED_BITS != b >> NAMED_BITS);
}

#define in_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* Reads are joined by what the store costs unless that is said, and by all ranks alike. */
static void test_coalescing(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_options options = {.uri = fixture->path, .fields = fields, .field_count = 1};
    put_group(fixture);
    for (int given = 0; given < 2; given++) {
        struct dataset *dataset, *copy;
        struct error err;
        void *bytes;
        size_t size;
        options.coalesce_gap_bytes = given ? 5 : 0;
        options.coalesce_bytes = given ? 7 : 0;
        assert_ok(dataset_open(&options, &dataset, &err), &err);
        assert_ok(dataset_pack(dataset, &bytes, &size, &err), &err);
        assert_ok(dataset_unpack(bytes, size, NULL, &copy, &err), &err);
        assert_int_equal(dataset->private->read.coalesce_gap, given ? 5 : 16 << 10);
        assert_int_equal(dataset->private->read.coalesce_bytes, given ? 7 : 256 << 10);
        assert_int_equal(copy->private->read.coalesce_gap, given ? 5 : 16 << 10);
        assert_int_equal(copy->private->read.coalesce_bytes, given ? 7 : 256 << 10);
        free(bytes);
        dataset_free(dataset);
        dataset_free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_store(test_pack),        in_store(test_damaged_pack),
        in_store(test_fingerprint), in_store(test_fingerprint_of_steps),
        in_store(test_coalescing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
