/* Values of variable length that are read with their rows: random tables against a model; and
 * chunks that are not what they were, or are said to be. */
#include "base/number.h"
#include "base/size.h"
#include "dataset/read/bad_log.h"
#include "dataset/read/row_pieces.h"
#include "ragged_world.h"
#include "zarr_fixture.h"

enum { MOST = 200, STORES = 2 };

/* One or two stores of values, with or without frames of chunks of 12 beside. */
struct table {
    char uri[256];
    uint64_t store_count, chunk, beyond, frames[STORES + 1];
    size_t item_bytes;
    bool has_frames, has_offsets;
    uint64_t offsets[MOST + 1]; /* in items */
    int32_t steps[4];
};

static unsigned char byte_of(uint64_t item, size_t k)
{
    return (unsigned char)(item * 31 + k * 7 + item / 200);
}

static void put_number(struct text *out, uint32_t number)
{
    text_append_bytes(out, (const char *)&number, sizeof number);
}

static void put_value(const struct table *table, uint64_t frame, struct text *out)
{
    uint64_t begin = table->offsets[frame], end = table->offsets[frame + 1];
    put_number(out, (uint32_t)((end - begin) * table->item_bytes));
    for (uint64_t item = begin; item < end; item++)
        for (size_t k = 0; k < table->item_bytes; k++) {
            char byte = (char)byte_of(item, k);
            text_append_bytes(out, &byte, 1);
        }
}

/* As it is in the store: `beyond` bytes are of each value behind the array's last one. */
static void make_chunk(const struct table *table, uint64_t store, uint64_t chunk, struct text *out)
{
    uint64_t first = table->frames[store] + chunk * table->chunk;
    *out = (struct text){0};
    put_number(out, (uint32_t)table->chunk);
    for (uint64_t frame = first; frame < first + table->chunk; frame++) {
        if (frame < table->frames[store + 1]) {
            put_value(table, frame, out);
            continue;
        }
        put_number(out, (uint32_t)table->beyond);
        for (uint64_t k = 0; k < table->beyond; k++)
            text_append_bytes(out, "?", 1);
    }
}

static void put_bytes(const struct fixture *fixture, uint64_t store, uint64_t chunk,
                      const char *data, size_t size)
{
    char key[64];
    struct error err;
    snprintf(key, sizeof key, "s%" PRIu64 "/v/%" PRIu64, store, chunk);
    assert_ok(store_put(fixture->store, key, data, size, &err), &err);
}

/* If it is there. */
static void remove_chunk(const struct fixture *fixture, uint64_t store, uint64_t chunk)
{
    char path[128];
    snprintf(path, sizeof path, "%s/s%" PRIu64 "/v/%" PRIu64, fixture->path, store, chunk);
    (void)remove(path);
}

static uint64_t frames_of(const struct table *table, uint64_t store)
{
    return table->frames[store + 1] - table->frames[store];
}

static void put_document(const struct fixture *fixture, const struct table *table, uint64_t store)
{
    char key[64], text[512];
    bool is_bytes = table->item_bytes == 1;
    snprintf(key, sizeof key, "s%" PRIu64 "/v/.zarray", store);
    snprintf(text, sizeof text,
             "{\"zarr_format\": 2, \"shape\": [%" PRIu64 "], \"chunks\": [%" PRIu64
             "], \"dtype\": \"|O\", \"fill_value\": \"\", \"order\": \"C\", \"compressor\": null, "
             "\"filters\": [{\"id\": \"vlen-%s\"%s}]}",
             frames_of(table, store), table->chunk, is_bytes ? "bytes" : "array",
             is_bytes ? "" : ", \"dtype\": \"<i4\"");
    fixture_put(fixture, key, text);
}

static void put_array(const struct fixture *fixture, uint64_t store, const char *name,
                      enum dtype dtype, uint64_t count, uint64_t chunk, const void *items)
{
    char path[64];
    struct zarr_array array;
    snprintf(path, sizeof path, "s%" PRIu64 "/%s", store, name);
    struct recipe recipe = {
        .path = path, .rank = 1, .shape = {count}, .chunks = {chunk}, .dtype = dtype};
    recipe_put(fixture, &recipe, items, &array);
}

static void put_store(const struct fixture *fixture, const struct table *table, uint64_t store)
{
    uint64_t frames = frames_of(table, store), own[MOST + 1];
    unsigned char numbers[MOST] = {0};
    char key[64];
    snprintf(key, sizeof key, "s%" PRIu64 "/.zgroup", store);
    fixture_put(fixture, key, "{\"zarr_format\": 2}");
    put_document(fixture, table, store);
    for (uint64_t chunk = 0; chunk < size_divide_up(frames, table->chunk); chunk++) {
        struct text bytes;
        uint64_t first = table->frames[store] + chunk * table->chunk;
        uint64_t end = min_u64(first + table->chunk, table->frames[store + 1]);
        if (table->offsets[first] == table->offsets[end] && table->beyond == 0) {
            remove_chunk(fixture, store, chunk); /* as writers leave it out */
            continue;
        }
        make_chunk(table, store, chunk, &bytes);
        put_bytes(fixture, store, chunk, bytes.data, bytes.length);
        text_done(&bytes);
    }
    for (uint64_t i = 0; i <= frames; i++)
        own[i] = table->offsets[table->frames[store] + i] - table->offsets[table->frames[store]];
    put_array(fixture, store, "o", DTYPE_UINT64, frames + 1, 64, own);
    put_array(fixture, store, "x", DTYPE_UINT8, frames, 12, numbers);
}

/* `chunk` 0: any. */
static void make_table(const struct fixture *fixture, uint64_t seed, uint64_t chunk,
                       struct table *table)
{
    *table = (struct table){.store_count = 1 + seed % 2,
                            .chunk = chunk > 0 ? chunk : 1 + random_u64(seed, 2, 0) % 9,
                            .item_bytes = seed % 3 == 2 ? 4 : 1,
                            .beyond = seed % 5 == 1 ? 40 : 0,
                            .has_frames = seed % 4 < 2,
                            .has_offsets = seed % 5 > 2,
                            .steps = {-1, 0, 2, 3}};
    for (uint64_t s = 0; s < table->store_count; s++)
        table->frames[s + 1] = table->frames[s] + 30 + random_u64(seed, 3, s) % 60;
    for (uint64_t f = 0; f < table->frames[table->store_count]; f++) {
        uint64_t random = random_u64(seed, 4, f);
        uint64_t most = random % 17 == 5 ? 30000 : 300;
        uint64_t length = f / 20 % 3 == 1 ? 0 : random_u64(seed, 5, f) % most;
        table->offsets[f + 1] = table->offsets[f] + length;
    }
    for (uint64_t s = 0; s < table->store_count; s++) {
        put_store(fixture, table, s);
        snprintf(table->uri + strlen(table->uri), sizeof table->uri - strlen(table->uri),
                 "%s%s/s%" PRIu64, s > 0 ? "," : "", fixture->path, s);
    }
}

struct opened {
    struct dataset *dataset;
    struct bad_log *log;
    void *held;
};

static enum status open_table(const struct table *table, uint64_t seed, bool mask,
                              struct opened *ret_opened, struct error *err)
{
    struct dataset_field_spec fields[] = {{.name = "v", .array = "v"}, {.name = "x", .array = "x"}};
    bool has_steps = seed % 7 == 3;
    if (table->has_offsets)
        fields[0].ragged = (struct dataset_ragged_spec){.offsets = "o", .values = "v"};
    fields[0].steps = has_steps ? table->steps : NULL;
    fields[0].step_count = has_steps ? 4 : 0;
    struct dataset_options options = {.uri = table->uri,
                                      .fields = fields,
                                      .field_count = table->has_frames ? 2 : 1,
                                      .samples.row_chunks = seed % 4,
                                      .samples.pad_before = has_steps ? 1 : 0,
                                      .samples.pad_after = has_steps ? 2 : 0,
                                      .mask = mask};
    struct dataset *dataset;
    enum status status = dataset_open(&options, &dataset, err);
    if (status != STATUS_OK)
        return status;
    *ret_opened = (struct opened){.dataset = dataset};
    assert_ok(bad_log_new(&ret_opened->log, err), err);
    dataset_log_bad(dataset, ret_opened->log);
    ret_opened->held = aligned_alloc(64, size_round_up(dataset->held_bytes, 64));
    status = dataset_hold(dataset, ret_opened->held, err);
    assert_ok(status, err);
    return status;
}

static void close_table(struct opened *opened)
{
    dataset_free(opened->dataset);
    bad_log_free(opened->log);
    free(opened->held);
}

static void check_items(const struct table *table, const struct dataset *dataset,
                        const struct ragged_row *lies, const struct world_pages *pages)
{
    for (uint64_t item = lies->items.begin; item < lies->items.end; item++) {
        const unsigned char *found = world_item(pages, &dataset->ragged[0], lies, 0, item);
        for (size_t k = 0; k < table->item_bytes; k++)
            assert_int_equal(found[k], byte_of(item, k));
    }
}

static enum status read_row(const struct dataset *dataset, struct dataset_reader *reader,
                            uint64_t row, unsigned char *buffer, struct world_pages *pages,
                            struct error *err)
{
    struct zarr_read_stats stats = {0};
    world_pages_init(pages, dataset, dataset_row_pages(dataset, row));
    return dataset_read_row_with(reader, row, buffer, &pages->pages, NULL, NULL, &stats, err);
}

static void check_rows(const struct table *table, const struct dataset *dataset)
{
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    struct dataset_reader *reader;
    struct world_pages pages;
    struct error err = {0};
    uint64_t most = 0;
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t row = 0; row < dataset->row_count; row++) {
        struct ragged_row lies = dataset_ragged_row(dataset, 0, row);
        uint64_t first = dataset_row_first(dataset, row);
        uint64_t end = first + dataset_row_frames(dataset, row);
        assert_true(dataset->anchors || lies.items.begin <= table->offsets[first]);
        assert_true(dataset->anchors || lies.items.end >= table->offsets[end] ||
                    table->offsets[first] == table->offsets[end]);
        assert_ok(read_row(dataset, reader, row, buffer, &pages, &err), &err);
        check_items(table, dataset, &lies, &pages);
        most = max_u64(most, pages.count);
        world_pages_done(&pages);
    }
    assert_int_equal(dataset_most_row_pages(dataset), most);
    dataset_reader_free(reader);
    free(buffer);
}

static void check_unpacked(const struct table *table, const struct dataset *dataset)
{
    struct dataset *other;
    struct error err = {0};
    void *bytes;
    size_t size;
    assert_ok(dataset_pack(dataset, &bytes, &size, &err), &err);
    assert_ok(dataset_unpack(bytes, size, NULL, &other, &err), &err);
    free(bytes);
    assert_true(other->fingerprint == dataset->fingerprint);
    assert_int_equal(other->held_bytes, dataset->held_bytes);
    assert_int_equal(other->page_bytes, dataset->page_bytes);
    assert_int_equal(other->scratch_bytes, dataset->scratch_bytes);
    assert_int_equal(other->anchor_bytes, dataset->anchor_bytes);
    assert_int_equal(other->order_row_bytes, dataset->order_row_bytes);
    assert_int_equal(other->row_length, dataset->row_length);
    void *held = aligned_alloc(64, size_round_up(other->held_bytes, 64));
    assert_ok(dataset_hold(other, held, &err), &err);
    check_rows(table, other);
    dataset_free(other);
    free(held);
}

static void random_tables(void **state)
{
    struct table table;
    for (uint64_t seed = 0; seed < 28; seed++) {
        struct opened opened;
        struct error err = {0};
        make_table(*state, seed, 0, &table);
        if (table.has_offsets && table.beyond > 0)
            table.has_offsets = false;
        assert_ok(open_table(&table, seed, false, &opened, &err), &err);
        assert_false(opened.dataset->ragged[0].is_held);
        assert_memory_equal(opened.dataset->ragged[0].offsets, table.offsets,
                            (opened.dataset->frame_count + 1) * sizeof table.offsets[0]);
        check_rows(&table, opened.dataset);
        check_unpacked(&table, opened.dataset);
        close_table(&opened);
    }
}

/* The order does not depend on whether they are held. */
static void hold_or_not(void **state, uint64_t chunk)
{
    const uint64_t limits[] = {0, 1 << 30};
    struct table table;
    struct error err = {0};
    uint64_t orders[2], lengths[2], prints[2];
    make_table(*state, 4, chunk, &table);
    for (int i = 0; i < 2; i++) {
        struct dataset_field_spec fields[] = {{.name = "v", .array = "v"},
                                              {.name = "x", .array = "x"}};
        struct dataset_options options = {
            .uri = table.uri, .fields = fields, .field_count = 2, .hold_limit_bytes = limits[i]};
        struct dataset *dataset;
        assert_ok(dataset_open(&options, &dataset, &err), &err);
        assert_int_equal(dataset->ragged[0].is_held, 12 % table.chunk != 0 && i == 1);
        orders[i] = dataset->order_row_bytes;
        lengths[i] = dataset->row_length;
        prints[i] = dataset->fingerprint;
        dataset_free(dataset);
    }
    assert_true(orders[0] == orders[1] && prints[0] == prints[1]);
    assert_int_equal(lengths[0], 12);
    assert_int_equal(lengths[1], 12);
}

static void held_or_not(void **state)
{
    hold_or_not(state, 4);
    hold_or_not(state, 5);
}

/* What is wrong with chunk 1 of a table, once it is open. */
static void spoil(const struct fixture *fixture, const struct table *table, int what)
{
    struct text good;
    uint32_t length;
    make_chunk(table, 0, 1, &good);
    memcpy(&length, good.data + 4, sizeof length);
    switch (what) {
    case 0: /* cut short */
        put_bytes(fixture, 0, 1, good.data, good.length - 1);
        break;
    case 1: /* a length that lies, in as many bytes */
        assert_true(length > 0);
        length--;
        memcpy(good.data + 4, &length, sizeof length);
        put_bytes(fixture, 0, 1, good.data, good.length);
        break;
    case 2: /* longer */
        put_bytes(fixture, 0, 1, good.data, good.length + 1);
        break;
    case 3: /* gone */
        remove_chunk(fixture, 0, 1);
        break;
    default: /* another array, whose metadata says so */
        put_bytes(fixture, 0, 1, "", 0);
        put_document(fixture, table, 0);
        break;
    }
    text_done(&good);
}

static void make_plain(const struct fixture *fixture, struct table *table)
{
    *table = (struct table){
        .store_count = 1, .chunk = 5, .item_bytes = 1, .frames = {0, 20}, .has_frames = true};
    for (uint64_t f = 0; f < 20; f++)
        table->offsets[f + 1] = table->offsets[f] + 10 + f;
    put_store(fixture, table, 0);
    snprintf(table->uri, sizeof table->uri, "%s/s0", fixture->path);
}

static void refused_chunks(void **state)
{
    static const char *const messages[] = {
        "array 'v' chunk 1: chunk holds 108 bytes, its values take 109",
        "array 'v' chunk 1: value 0 has 14 items, and 15 by the array's offsets, or when",
        "array 'v' chunk 1: ",
        "array 'v' chunk 1: the store has no 'v/1', and its values are not empty: restore it",
        "the dataset was changed during the run: the metadata of array 'v' was written anew"};
    for (int what = 0; what < 5; what++) {
        struct table table;
        struct opened opened;
        struct error err = {0};
        struct dataset_reader *reader;
        struct world_pages pages;
        make_plain(*state, &table);
        assert_ok(open_table(&table, 0, false, &opened, &err), &err);
        assert_int_equal(opened.dataset->row_length, 12);
        spoil(*state, &table, what);
        assert_ok(dataset_reader_new(opened.dataset, &reader, &err), &err);
        unsigned char *buffer = aligned_alloc(64, opened.dataset->row_bytes);
        assert_int_equal(read_row(opened.dataset, reader, 0, buffer, &pages, &err),
                         what == 4 ? STATUS_INVALID : STATUS_CORRUPT);
        if (!strstr(err.message, messages[what]))
            fail_msg("%d: %s", what, err.message);
        world_pages_done(&pages);
        free(buffer);
        dataset_reader_free(reader);
        close_table(&opened);
    }
}

static void masked_chunks(void **state)
{
    for (int what = 0; what < 4; what++) {
        struct table table;
        struct opened opened;
        struct error err = {0};
        struct dataset_reader *reader;
        struct world_pages pages;
        struct bad_chunk bad;
        make_plain(*state, &table);
        assert_ok(open_table(&table, 0, true, &opened, &err), &err);
        const struct dataset *dataset = opened.dataset;
        spoil(*state, &table, what);
        assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
        unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
        assert_ok(read_row(dataset, reader, 0, buffer, &pages, &err), &err);
        struct ragged_row lies = dataset_ragged_row(dataset, 0, 0);
        for (uint64_t f = 0; f < 12; f++) {
            bool is_good = f < 5 || f >= 10;
            assert_int_equal(buffer[dataset->valid_offset + f], is_good);
            for (uint64_t i = table.offsets[f]; i < table.offsets[f + 1]; i++)
                assert_int_equal(world_item(&pages, &dataset->ragged[0], &lies, 0, i)[0],
                                 is_good ? byte_of(i, 0) : 0);
        }
        assert_true(bad_log_take(opened.log, &bad));
        assert_int_equal(bad.first_sample, 5);
        assert_int_equal(bad.sample_count, 5);
        assert_false(bad_log_take(opened.log, &bad));
        world_pages_done(&pages);
        free(buffer);
        dataset_reader_free(reader);
        close_table(&opened);
    }
}

/* Offsets that are given, and are not those of the chunks. */
static void offsets_that_lie(void **state)
{
    static const uint64_t few[20] = {0}, falls[21] = {0, 5, 4};
    struct fixture *fixture = *state;
    struct table table, other;
    struct opened opened;
    struct error err = {0};
    make_plain(fixture, &table);
    table.has_offsets = true;
    put_array(fixture, 0, "o", DTYPE_UINT64, 20, 64, few);
    assert_int_equal(open_table(&table, 0, false, &opened, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "array 'o' has 20 offsets, and array 'v' has 20 values"));
    put_array(fixture, 0, "o", DTYPE_UINT64, 21, 64, falls);
    assert_int_equal(open_table(&table, 0, false, &opened, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "array 'o': item 2 is 4, and the one before is 5"));
    other = table;
    other.offsets[1]++;
    put_array(fixture, 0, "o", DTYPE_UINT64, 21, 64, other.offsets);
    assert_ok(open_table(&other, 0, false, &opened, &err), &err);
    struct dataset_reader *reader;
    struct world_pages pages;
    assert_ok(dataset_reader_new(opened.dataset, &reader, &err), &err);
    unsigned char *buffer = aligned_alloc(64, opened.dataset->row_bytes);
    assert_int_equal(read_row(opened.dataset, reader, 0, buffer, &pages, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'v' chunk 0: value 0 has 10 items, and 11 by the "
                                        "array's offsets"));
    world_pages_done(&pages);
    free(buffer);
    dataset_reader_free(reader);
    close_table(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_tables, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(held_or_not, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(refused_chunks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(masked_chunks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(offsets_that_lie, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
