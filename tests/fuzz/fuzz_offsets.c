/* Fuzz target for the offsets of ragged fields: any integers are refused with a message, or are
 * cut into rows whose pages have all of their items; and no row or sample is longer than the counts
 * say. */
#include "fuzz.h"

#include "dataset/dataset_internal.h"
#include "dataset/ragged/ragged_offsets.h"
#include "dataset/read/ragged_rows.h"

static const enum dtype dtypes[] = {DTYPE_INT8,  DTYPE_INT16,  DTYPE_INT32,  DTYPE_INT64,
                                    DTYPE_UINT8, DTYPE_UINT16, DTYPE_UINT32, DTYPE_UINT64};

/* A dataset of one ragged field of one column, in one store. */
struct world {
    struct dataset dataset;
    struct dataset_private private;
    struct zarr_array offsets, column;
    uint64_t frames[2], rows[2], items[2];
};

static void set_up(struct world *world, struct input *input, enum dtype dtype, uint64_t count)
{
    struct dataset_private *private = &world->private;
    struct ragged_origin *origin = &private->ragged_origins[0];
    world->offsets = (struct zarr_array){
        .path = "o", .rank = 1, .shape = {count}, .dtype = dtype, .item_bytes = dtype_bytes(dtype)};
    world->column = (struct zarr_array){.path = "v", .rank = 1};
    world->column.shape[0] = world->items[1] = take_number(input, 2);
    world->frames[1] = count - 1;
    world->dataset = (struct dataset){.private = private,
                                      .frame_count = count - 1,
                                      .sample_count = count - 1,
                                      .row_length = 1 + take_byte(input) % 7,
                                      .store_count = 1,
                                      .store_frames = world->frames,
                                      .ragged_count = 1,
                                      .ragged = private->raggeds};
    world->dataset.row_count = (count - 2) / world->dataset.row_length + 1;
    world->rows[1] = world->dataset.row_count;
    private->store_count = 1;
    private->first_frame = world->frames;
    private->first_row = world->rows;
    origin->offsets.views = &world->offsets;
    origin->columns[0].views = &world->column;
    origin->first_item = world->items;
    private->raggeds[0] = (struct ragged){
        .page_items = 1 + take_byte(input), .column_count = 1, .trailer_item_bytes = 3};
}

static void check_rows(struct world *world, const uint64_t *offsets)
{
    static struct ragged_lengths lengths; /* too large for a stack */
    struct dataset *dataset = &world->dataset;
    struct ragged *ragged = &world->private.raggeds[0];
    uint64_t items = 0, pages = 0, longest = 0, trailers = 0;
    memset(&lengths, 0, sizeof lengths);
    ragged->offsets = offsets;
    ragged->lengths = &lengths;
    for (uint64_t row = 0; row < dataset->row_count; row++) {
        struct ragged_row lies = dataset_ragged_row(dataset, 0, row);
        uint64_t end = lies.page_begin + lies.page_count * ragged->page_items;
        CHECK(lies.items.begin == items && lies.items.end >= lies.items.begin);
        CHECK(lies.page_begin <= lies.items.begin);
        CHECK(lies.page_count == 0
                  ? lies.items.begin == lies.items.end
                  : end >= lies.items.end && end - lies.items.end < ragged->page_items);
        CHECK(dataset_row_pages(dataset, row) == lies.page_count);
        lengths_add(&lengths.rows, lies.page_count);
        pages += lies.page_count;
        items = lies.items.end;
    }
    CHECK(items == world->items[1]);
    for (uint64_t frame = 0; frame < dataset->frame_count; frame++) {
        uint64_t count = ragged_sample_items(dataset, ragged, frame);
        lengths_add(&lengths.samples, count);
        longest = count > longest ? count : longest;
        trailers += dataset_trailer_bytes(dataset, frame);
    }
    CHECK(ragged_most_items(ragged, 1) == longest);
    CHECK(ragged_most_items(ragged, dataset->frame_count) >= items);
    CHECK(ragged_most_items(ragged, dataset->frame_count) <= items + items / 32);
    CHECK(dataset_most_pages(dataset, dataset->row_count) >= pages);
    CHECK(dataset_most_trailer(dataset, dataset->frame_count) >= trailers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct input input = {data, size};
    enum dtype dtype = dtypes[take_byte(&input) % (sizeof dtypes / sizeof dtypes[0])];
    size_t item_bytes = dtype_bytes(dtype), header = 4;
    struct error err;
    if (size < 1 + header + 2 * item_bytes)
        return 0;
    uint64_t count = (size - 1 - header) / item_bytes;
    memset(&world, 0, sizeof world);
    set_up(&world, &input, dtype, count);
    uint64_t *offsets = malloc(count * sizeof *offsets); /* of just that size */
    CHECK(offsets);
    unsigned char *items = (unsigned char *)offsets + count * (sizeof *offsets - item_bytes);
    memcpy(items, input.at, count * item_bytes);
    enum status status =
        ragged_take_offsets(&world.private.ragged_origins[0], 0, items, offsets, &err);
    if (status == STATUS_OK)
        check_rows(&world, offsets);
    else
        CHECK(err.status == (int32_t)status && err.message[0]);
    free(offsets);
    return 0;
}
