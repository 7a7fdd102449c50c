/* Arrays that are held whole, loaded by several threads: the same bytes, the same errors, and
 * progress. */
#include "dataset/dataset.h"

#include "zarr_fixture.h"

#include <unistd.h>

enum { SAMPLES = 500, WORDS = 203 };

static const struct dataset_field_spec specs[] = {
    {.name = "a", .array = "a"},
    {.name = "text", .array = "words", .index = "which"},
    {.name = "voice", .array = "sounds", .index = "which"}};

static int32_t indices[SAMPLES];
static unsigned char *words, *sounds;

static void put_joined(const struct fixture *fixture)
{
    const struct recipe a = {
        .path = "a", .rank = 1, .shape = {SAMPLES}, .chunks = {50}, .dtype = DTYPE_INT32};
    const struct recipe which = {
        .path = "which", .rank = 1, .shape = {SAMPLES}, .chunks = {7}, .dtype = DTYPE_INT32};
    const struct recipe text = {.path = "words",
                                .rank = 2,
                                .shape = {WORDS, 10},
                                .chunks = {2, 3},
                                .dtype = DTYPE_FLOAT32,
                                .codec = "{\"id\": \"zlib\", \"level\": 1}"};
    const struct recipe voice = {.path = "sounds",
                                 .rank = 2,
                                 .shape = {WORDS, 4},
                                 .chunks = {WORDS, 4},
                                 .dtype = DTYPE_INT16};
    struct zarr_array array;
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    for (int i = 0; i < SAMPLES; i++)
        indices[i] = i * 31 % WORDS;
    words = random_items(1, WORDS * 40);
    sounds = random_items(2, WORDS * 8);
    recipe_put(fixture, &a, indices, &array);
    recipe_put(fixture, &which, indices, &array);
    recipe_put(fixture, &text, words, &array);
    recipe_put(fixture, &voice, sounds, &array);
}

static struct dataset *open_dataset(const struct fixture *fixture)
{
    struct dataset_options options = {
        .uri = fixture->path, .fields = specs, .field_count = 3, .hold_limit_bytes = 1 << 20};
    struct dataset *dataset;
    struct error err;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    return dataset;
}

struct told {
    uint64_t chunks, count, bytes, times;
};

static void tell(void *argument, uint64_t chunks, uint64_t count, uint64_t bytes)
{
    struct told *told = argument;
    assert_true(chunks >= told->chunks && chunks <= count && bytes >= told->bytes);
    *told = (struct told){chunks, count, bytes, told->times + 1};
}

static enum status hold(const struct fixture *fixture, uint32_t threads, uint64_t memory_bytes,
                        struct told *told, struct error *err)
{
    struct dataset_hold_options options = {
        .thread_count = threads, .memory_bytes = memory_bytes, .progress = tell, .argument = told};
    struct dataset *dataset = open_dataset(fixture);
    void *held = aligned_alloc(64, dataset->held_bytes);
    enum status status = dataset_hold_with(dataset, &options, held, err);
    for (uint64_t i = 0; status == STATUS_OK && i < SAMPLES; i++) {
        assert_memory_equal(dataset_held_sample(dataset, 1, i), words + indices[i] * 40, 40);
        assert_memory_equal(dataset_held_sample(dataset, 2, i), sounds + indices[i] * 8, 8);
    }
    dataset_free(dataset);
    free(held);
    return status;
}

static void test_any_number_of_threads(void **state)
{
    const struct fixture *fixture = *state;
    put_joined(fixture);
    for (uint32_t threads = 1; threads <= 16; threads += threads / 2 + 1)
        for (int little = 0; little < 2; little++) {
            struct told told = {0};
            struct error err;
            assert_ok(hold(fixture, threads, little ? 0 : 1 << 30, &told, &err), &err);
            assert_int_equal(told.count, 2 * 72 + 102 * 4 + 1);
            assert_int_equal(told.chunks, told.count);
            assert_int_equal(told.bytes, 2 * 4 * SAMPLES + WORDS * 48);
            assert_true(told.times > 0);
        }
    free(words);
    free(sounds);
}

static void cut_chunk(const struct fixture *fixture, const char *key)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", fixture->path, key);
    assert_int_equal(truncate(path, 3), 0);
}

/* Whatever thread comes upon what: the error is the first in the order of arrays and chunks. */
static void test_the_first_error_counts(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *cut, *message;
    } cases[] = {{"sounds/0.0", "'sounds'"},     {"which/60", "array 'which' chunk"},
                 {"words/100.2", "chunk 100.2"}, {"words/41.1", "chunk 41.1"},
                 {"words/41.0", "chunk 41.0"},   {"words/0.3", "chunk 0.3"}};
    put_joined(fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cut_chunk(fixture, cases[i].cut);
        for (uint32_t turn = 0; turn < 20; turn++) {
            struct told told = {0};
            struct error err;
            assert_int_equal(hold(fixture, 1 + turn % 7, 1 << 30, &told, &err), STATUS_CORRUPT);
            if (!strstr(err.message, cases[i].message))
                fail_msg("not of '%s': %s", cases[i].cut, err.message);
        }
    }
    free(words);
    free(sounds);
}

/* An index that points nowhere comes before what cannot be read of a later array, and after what
 * cannot be read of an earlier one. */
static void test_indices_in_their_order(void **state)
{
    const struct fixture *fixture = *state;
    const struct recipe which = {
        .path = "which", .rank = 1, .shape = {SAMPLES}, .chunks = {7}, .dtype = DTYPE_INT32};
    struct zarr_array array;
    put_joined(fixture);
    indices[400] = WORDS;
    recipe_put(fixture, &which, indices, &array);
    cut_chunk(fixture, "sounds/0.0");
    for (uint32_t threads = 1; threads < 5; threads++) {
        struct told told = {0};
        struct error err;
        assert_int_equal(hold(fixture, threads, 1 << 30, &told, &err), STATUS_INVALID);
        assert_non_null(strstr(err.message, "position 400: index 203 is out of range"));
    }
    cut_chunk(fixture, "words/7.2");
    for (uint32_t threads = 1; threads < 5; threads++) {
        struct told told = {0};
        struct error err;
        assert_int_equal(hold(fixture, threads, 1 << 30, &told, &err), STATUS_CORRUPT);
        assert_non_null(strstr(err.message, "chunk 7.2"));
    }
    free(words);
    free(sounds);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_any_number_of_threads),
        TEST(test_the_first_error_counts),
        TEST(test_indices_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
