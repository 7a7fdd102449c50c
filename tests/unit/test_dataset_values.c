/* Values of variable length, read by several threads in a room: the same in any room that has
 * enough for each chunk alone, and refused in a smaller one. */
#include "base/number.h"
#include "base/size.h"
#include "dataset/ragged/ragged_values.h"
#include "zarr_fixture.h"

enum { VALUES = 333, CHUNK = 7, CHUNKS = (VALUES + CHUNK - 1) / CHUNK };

struct world {
    struct dataset *dataset;
    const struct zarr_array *view;
    uint32_t lengths[VALUES];
    uint64_t most; /* of a chunk on its way */
};

static unsigned char byte_of(uint64_t value, uint32_t i)
{
    return (unsigned char)(value * 7 + i);
}

static bool is_value(const unsigned char *bytes, uint64_t value, uint32_t length)
{
    bool same = true;
    for (uint32_t i = 0; i < length; i++)
        same &= bytes[i] == byte_of(value, i);
    return same;
}

/* A few chunks are far larger than the others, or all are of about one size, so that they stand in
 * each other's way; every 11th is missing. */
static uint32_t length_of(uint64_t seed, uint64_t value)
{
    uint64_t chunk = value / CHUNK, random = random_u64(seed, 1, value);
    if (seed % 2)
        return chunk % 11 == 3 ? 0 : 3000 + (uint32_t)(random % 50);
    return chunk % 11 == 3 ? 0 : (uint32_t)(random % (chunk % 5 == 1 ? 90000 : 900));
}

static void put_number(struct text *out, uint32_t number)
{
    text_append_bytes(out, (const char *)&number, sizeof number);
}

static void put_chunk(struct fixture *fixture, struct world *world, uint64_t chunk)
{
    struct text out = {0};
    struct error err = {0};
    char name[64];
    put_number(&out, CHUNK);
    for (uint64_t v = chunk * CHUNK; v < (chunk + 1) * CHUNK; v++) {
        uint32_t length = v < VALUES ? world->lengths[v] : 0;
        put_number(&out, length);
        for (uint32_t i = 0; i < length; i++) {
            char byte = (char)byte_of(v, i);
            text_append_bytes(&out, &byte, 1);
        }
    }
    snprintf(name, sizeof name, "v/text/%" PRIu64, chunk);
    assert_ok(store_put(fixture->store, name, out.data, out.length, &err), &err);
    world->most = max_u64(world->most, 2 * out.length);
    text_done(&out);
}

static void put_text(struct fixture *fixture, const char *fill)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"zarr_format\": 2, \"shape\": [333], \"chunks\": [7], \"dtype\": \"|O\", "
             "\"fill_value\": \"%s\", \"order\": \"C\", \"compressor\": null, "
             "\"filters\": [{\"id\": \"vlen-bytes\"}]}",
             fill);
    fixture_put(fixture, "v/text/.zarray", text);
}

static enum status open_world(const struct fixture *fixture, struct world *world, struct error *err)
{
    struct dataset_field_spec fields[] = {{.name = "text", .array = "text"},
                                          {.name = "x", .array = "x"}};
    char uri[512];
    snprintf(uri, sizeof uri, "%s/v", fixture->path);
    struct dataset_options options = {
        .uri = uri, .fields = fields, .field_count = 2, .hold_limit_bytes = 1 << 30};
    return dataset_open(&options, &world->dataset, err);
}

static void make_world(struct fixture *fixture, uint64_t seed, struct world *world)
{
    static const char group[] = "{\"zarr_format\": 2}";
    static const char frames[] =
        "{\"zarr_format\": 2, \"shape\": [333], \"chunks\": [100], \"dtype\": \"|u1\", "
        "\"fill_value\": 0, \"order\": \"C\", \"compressor\": null, \"filters\": null}";
    struct error err = {0};
    *world = (struct world){0};
    for (uint64_t v = 0; v < VALUES; v++)
        world->lengths[v] = length_of(seed, v);
    fixture_put(fixture, "v/.zgroup", group);
    put_text(fixture, "");
    fixture_put(fixture, "v/x/.zarray", frames);
    for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
        if (chunk % 11 != 3)
            put_chunk(fixture, world, chunk);
    assert_ok(open_world(fixture, world, &err), &err);
    world->view = &world->dataset->private->ragged_origins[0].columns[0].views[0];
}

struct seen {
    const struct world *world;
    uint64_t next;
};

static enum status see(void *argument, const struct values *values, struct error *err)
{
    struct seen *seen = argument;
    const unsigned char *bytes = values->bytes;
    (void)err;
    assert_int_equal(values->first, seen->next);
    assert_int_equal(!bytes, values->first / CHUNK % 11 == 3);
    for (uint64_t i = 0; i < values->count; i++, seen->next++) {
        uint32_t length = bytes ? values->lengths[i] : 0;
        assert_int_equal(length, seen->world->lengths[seen->next]);
        if (!bytes)
            continue;
        bytes += i == 0 ? 8 : 4;
        assert_true(is_value(bytes, seen->next, length));
        bytes += length;
    }
    return STATUS_OK;
}

static enum status read_in(const struct world *world, uint64_t threads, uint64_t room,
                           uint64_t *ret_seen, struct error *err)
{
    struct seen seen = {.world = world};
    struct values_reading values = {.dataset = world->dataset,
                                    .view = world->view,
                                    .threads = threads,
                                    .room = room,
                                    .visit = see,
                                    .argument = &seen};
    enum status status = values_read(&values, err);
    *ret_seen = seen.next;
    if (status == STATUS_OK)
        assert_int_equal(values.most, world->most);
    return status;
}

static void any_room(void **state)
{
    struct world world;
    uint64_t seen;
    for (uint64_t seed = 0; seed < 3; seed++) {
        make_world(*state, seed, &world);
        assert_int_equal(dataset_hold_room(world.dataset), world.most);
        for (uint64_t threads = 1; threads <= 16; threads *= 4)
            for (uint64_t more = 0; more < 6; more++) {
                struct error err = {0};
                uint64_t room = world.most + more * more * world.most / 4;
                assert_ok(read_in(&world, threads, room, &seen, &err), &err);
                assert_int_equal(seen, VALUES);
            }
        dataset_free(world.dataset);
    }
}

/* The chunks before the first one that is too large are visited. */
static void too_small_a_room(void **state)
{
    struct world world;
    uint64_t seen, before;
    make_world(*state, 5, &world);
    for (uint64_t threads = 1; threads <= 16; threads *= 4) {
        struct error err = {0};
        assert_int_equal(read_in(&world, threads, world.most - 1, &seen, &err), STATUS_INVALID);
        assert_non_null(strstr(err.message, "raise dataset.hold_limit"));
        assert_non_null(strstr(err.message, size_format(world.most).text));
        if (threads > 1)
            assert_int_equal(seen, before);
        before = seen;
    }
    dataset_free(world.dataset);
}

/* zarr-python 3.0 writes "0" for each array of strings. */
static void a_fill_that_is_not_empty(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct world world;
    make_world(fixture, 0, &world);
    dataset_free(world.dataset);
    put_text(fixture, "0");
    assert_int_equal(open_world(fixture, &world, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "text/3'"));
    assert_non_null(strstr(err.message, "fill value is not empty"));
    for (uint64_t chunk = 3; chunk < CHUNKS; chunk += 11)
        put_chunk(fixture, &world, chunk);
    assert_ok(open_world(fixture, &world, &err), &err);
    dataset_free(world.dataset);
}

static void held_in_little_memory(void **state)
{
    const struct dataset_hold_options options = {.thread_count = 8, .memory_bytes = 1};
    struct error err = {0};
    struct world world;
    make_world(*state, 7, &world);
    void *memory = aligned_alloc(64, size_round_up(world.dataset->held_bytes, 64));
    assert_ok(dataset_hold_with(world.dataset, &options, memory, &err), &err);
    const struct ragged *ragged = &world.dataset->ragged[0];
    for (uint64_t v = 0; v < VALUES; v++) {
        uint64_t first = ragged->offsets[v];
        assert_int_equal(ragged->offsets[v + 1] - first, world.lengths[v]);
        assert_true(is_value(ragged->held_items[0] + first, v, world.lengths[v]));
    }
    dataset_free(world.dataset);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_room, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(too_small_a_room, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_fill_that_is_not_empty, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(held_in_little_memory, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
