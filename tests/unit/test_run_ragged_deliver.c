/* Items of one frame in a slot: csr, pad and dense give what a plain model gives, wherever the
 * items lie: in pages of any size, or together at any address. */
#include "run/ragged_deliver.h"

#include "base/float16.h"
#include "base/size.h"
#include "run/ragged_scatter.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ITEMS = 5000, MAX_PAGES = MAX_ITEMS + 2, GUARD = 0xe7, EDGE = 20 };

static uint64_t state = 7;
static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* The same items twice: one after another in each column, and in pages. */
struct world {
    struct ragged ragged;
    struct ragged_items together, paged;
    unsigned char *columns[RAGGED_MAX_COLUMNS];
    struct dataset_pages pages;
    unsigned char *page[MAX_PAGES];
    size_t page_count;
};

static unsigned char *page_at(const struct dataset_pages *pages, uint32_t page)
{
    const struct world *world =
        (const void *)((const unsigned char *)pages - offsetof(struct world, pages));
    assert_true(page < world->page_count);
    return world->page[page];
}

/* `fill` writes item i of a column. */
typedef void fill_item(const struct ragged *ragged, size_t column, uint64_t i, unsigned char *item);

static void add_column(struct ragged *ragged, enum dtype dtype, size_t item_bytes)
{
    struct ragged_column *column = &ragged->columns[ragged->column_count++];
    *column = (struct ragged_column){
        .dtype = dtype, .item_bytes = item_bytes, .page_offset = ragged->page_bytes};
    ragged->page_bytes += (ragged->page_items * item_bytes + 63) / 64 * 64;
}

/* Lets the items of some columns be narrow. */
static void add_widths(struct ragged *ragged)
{
    for (size_t c = 0; c < ragged->column_count; c++) {
        struct ragged_column *column = &ragged->columns[c];
        if (!narrow_takes(column->item_bytes) || draw(3) == 0)
            continue;
        column->width_items = ragged->page_items % 2 ? ragged->page_items : ragged->page_items / 2;
        column->widths_offset = ragged->page_bytes;
        ragged->page_bytes += 64;
    }
}

/* Of odd columns the lower half of each item is zero, of others the upper one. */
static enum narrow_width narrow_width_of(const struct ragged *ragged, size_t c)
{
    if (ragged->columns[c].item_bytes == 4)
        return c % 2 ? NARROW_HIGH_2 : NARROW_LOW_2;
    return c % 2 ? NARROW_HIGH_4 : NARROW_LOW_4;
}

static void put_widths(const struct ragged *ragged, unsigned char *page)
{
    for (size_t c = 0; c < ragged->column_count; c++) {
        const struct ragged_column *column = &ragged->columns[c];
        enum narrow_width *widths = (enum narrow_width *)(page + column->widths_offset);
        for (uint64_t k = 0;
             column->width_items > 0 && k < ragged->page_items / column->width_items; k++)
            widths[k] = draw(2) ? NARROW_NOT : narrow_width_of(ragged, c);
    }
}

static void put_item(const struct ragged *ragged, size_t c, unsigned char *page, uint64_t number,
                     const unsigned char *item)
{
    struct ragged_extent extent = ragged_page_extent(ragged, c, page, number);
    size_t item_bytes = ragged->columns[c].item_bytes;
    memcpy(page + (extent.items - page), item + narrow_first(extent.width, item_bytes),
           narrow_kept(extent.width, item_bytes));
}

static void make_items(struct world *world, uint64_t count, fill_item *fill)
{
    struct ragged *ragged = &world->ragged;
    uint64_t first = draw(ragged->page_items);
    world->page_count = (first + count + ragged->page_items - 1) / ragged->page_items + 1;
    for (size_t p = 0; p < world->page_count; p++) {
        world->page[p] = malloc(ragged->page_bytes + 1);
        memset(world->page[p], GUARD, ragged->page_bytes + 1);
        put_widths(ragged, world->page[p]);
    }
    world->pages.at = page_at;
    world->paged = (struct ragged_items){
        .count = count, .pages = &world->pages, .page_item = first, .first_page = 1};
    world->together = (struct ragged_items){.count = count};
    world->page_count++; /* the first one is not theirs */
    memmove(world->page + 1, world->page, (world->page_count - 1) * sizeof world->page[0]);
    world->page[0] = malloc(1);
    for (size_t c = 0; c < ragged->column_count; c++) {
        size_t bytes = ragged->columns[c].item_bytes;
        world->columns[c] = malloc(count * bytes + 1);
        world->together.columns[c] = world->columns[c] + 1; /* at an odd address */
        for (uint64_t i = 0; i < count; i++) {
            unsigned char item[64];
            uint64_t at = first + i;
            fill(ragged, c, i, item);
            memcpy(world->columns[c] + 1 + i * bytes, item, bytes);
            put_item(ragged, c, world->page[1 + at / ragged->page_items], at % ragged->page_items,
                     item);
        }
    }
}

static void free_items(struct world *world)
{
    for (size_t p = 0; p < world->page_count; p++)
        free(world->page[p]);
    for (size_t c = 0; c < world->ragged.column_count; c++)
        free(world->columns[c]);
}

static void fill_bytes(const struct ragged *ragged, size_t column, uint64_t i, unsigned char *item)
{
    for (size_t b = 0; b < ragged->columns[column].item_bytes; b++)
        item[b] = (unsigned char)(1 + (column * 83 + i * 29 + b * 7) % 251);
    if (ragged->columns[column].width_items > 0)
        memset(item + (column % 2 ? 0 : ragged->columns[column].item_bytes / 2), 0,
               ragged->columns[column].item_bytes / 2);
}

/* Checks columns of a slot that begin with item `first`: the items, then `zeros` zeros, and nothing
 * else is written. */
static void check_column(const struct ragged *ragged, size_t c, const unsigned char *array,
                         uint64_t length, uint64_t first, uint64_t count, uint64_t zeros, bool good)
{
    size_t bytes = ragged->columns[c].item_bytes;
    for (uint64_t i = 0; i < length; i++) {
        unsigned char expected[64];
        memset(expected, GUARD, sizeof expected);
        if (i >= first && i < first + count)
            fill_bytes(ragged, c, i - first, expected);
        if (i >= first && i < first + count + zeros && (!good || i >= first + count))
            memset(expected, 0, sizeof expected);
        assert_memory_equal(array + i * bytes, expected, bytes);
    }
}

static void items_lie_one_after_another_or_padded(void **unused)
{
    (void)unused;
    for (int round = 0; round < 300; round++) {
        struct world world = {
            .ragged = {.form = round % 2 ? RAGGED_CSR : RAGGED_PAD, .page_items = 1 + draw(40)}};
        struct ragged *ragged = &world.ragged;
        const size_t item_bytes[] = {1, 2, 4, 8, 12, 24};
        size_t columns = 1 + draw(4);
        for (size_t c = 0; c < columns; c++)
            add_column(ragged, DTYPE_UINT8, item_bytes[draw(6)]);
        add_widths(ragged);
        uint64_t count = draw(3) ? draw(100) : 0;
        ragged->pad_items = count + draw(20) + (count == 0);
        make_items(&world, count, fill_bytes);
        bool csr = ragged->form == RAGGED_CSR;
        uint64_t step = draw(3), start = draw(50);
        uint64_t first = csr ? start : step * ragged->pad_items;
        uint64_t length = first + ragged->pad_items + 20;
        unsigned char *slot = malloc(columns * length * 24);
        struct ragged_target target = {.ragged = ragged};
        size_t undelivered = draw(columns + 2);
        for (size_t c = 0; c < columns; c++) {
            target.delivers[c] = c != undelivered;
            target.column_offsets[c] = c * length * 24;
        }
        for (int way = 0; way < 3; way++) {
            memset(slot, GUARD, columns * length * 24);
            ragged_deliver(&target, slot, step, start,
                           way == 0   ? &world.paged
                           : way == 1 ? &world.together
                                      : NULL,
                           count);
            for (size_t c = 0; c < columns; c++)
                check_column(ragged, c, slot + target.column_offsets[c], length,
                             target.delivers[c] ? first : length, count,
                             csr ? 0 : ragged->pad_items - count, way < 2);
        }
        free(slot);
        free_items(&world);
    }
}

/* Item j of a frame of `length` items, which begins at `start` in the batch: at which item of which
 * part it is. */
static uint64_t place_in_parts(const struct ragged_target *target, uint64_t start, uint64_t length,
                               uint64_t j, uint64_t *ret_part)
{
    uint64_t parts = target->part_count, pieces = target->is_zigzag ? 2 * parts : parts;
    uint64_t own = length / pieces, piece = j / own;
    bool is_second = piece >= parts;
    *ret_part = is_second ? pieces - 1 - piece : piece;
    return start / parts + (is_second ? own : 0) + j % own;
}

static void items_that_are_cut_lie_part_after_part(void **unused)
{
    (void)unused;
    for (int round = 0; round < 300; round++) {
        struct world world = {.ragged = {.form = RAGGED_CSR, .page_items = 1 + draw(40)}};
        struct ragged *ragged = &world.ragged;
        struct ragged_target target = {.ragged = ragged,
                                       .part_count = 1 + (uint32_t)draw(4),
                                       .is_zigzag = round % 2,
                                       .delivers = {true}};
        ragged->multiple =
            (1 + draw(3)) * target.part_count * (target.is_zigzag ? 2 : 1); /* of the pieces */
        add_column(ragged, DTYPE_UINT8, 1 + draw(12));
        add_widths(ragged);
        uint64_t count = draw(4) ? draw(100) : 0, start = ragged->multiple * draw(4);
        uint64_t length = size_round_up(count, ragged->multiple);
        make_items(&world, count, fill_bytes);
        size_t bytes = ragged->columns[0].item_bytes;
        target.part_strides[0] = (start + length) * bytes + 64;
        size_t slot_bytes = target.part_count * target.part_strides[0];
        unsigned char *slot = malloc(slot_bytes), *expected = malloc(slot_bytes);
        for (int way = 0; way < 3; way++) {
            memset(slot, GUARD, slot_bytes);
            memset(expected, GUARD, slot_bytes);
            for (uint64_t j = 0, part; j < length; j++) {
                uint64_t at = place_in_parts(&target, start, length, j, &part);
                unsigned char *item = expected + part * target.part_strides[0] + at * bytes;
                memset(item, 0, bytes);
                if (j < count && way < 2)
                    fill_bytes(ragged, 0, j, item);
            }
            ragged_deliver(&target, slot, 0, start,
                           way == 0   ? &world.paged
                           : way == 1 ? &world.together
                                      : NULL,
                           count);
            assert_memory_equal(slot, expected, slot_bytes);
        }
        free(slot);
        free(expected);
        free_items(&world);
    }
}

/* A value in a form that has room for all dtypes. */
struct value {
    __int128 integer;
    double real, imaginary;
};

static struct value value_of(enum dtype dtype, const unsigned char *item)
{
    struct value value = {0};
    uint64_t bits = 0;
    float parts[2];
    memcpy(&bits, item, dtype_bytes(dtype) < 8 ? dtype_bytes(dtype) : 8);
    memcpy(parts, &bits, sizeof parts);
    value.integer = dtype_is_integer(dtype) ? dtype_integer(dtype, item, 0) : 0;
    if (dtype == DTYPE_UINT64 || dtype == DTYPE_BOOL)
        value.integer = (__int128)bits;
    value.real = dtype == DTYPE_FLOAT16    ? float16_to_float((uint16_t)bits)
                 : dtype == DTYPE_BFLOAT16 ? bfloat16_to_float((uint16_t)bits)
                                           : parts[0];
    if (dtype == DTYPE_COMPLEX64)
        value.imaginary = parts[1];
    if (dtype == DTYPE_FLOAT64 || dtype == DTYPE_COMPLEX128)
        memcpy(&value.real, item, 8);
    if (dtype == DTYPE_COMPLEX128)
        memcpy(&value.imaginary, item + 8, 8);
    return value;
}

static bool is_float(enum dtype dtype)
{
    return dtype >= DTYPE_FLOAT16;
}

static __int128 clamp(enum dtype dtype, __int128 value)
{
    if (is_float(dtype))
        return 0;
    bool is_signed = dtype >= DTYPE_INT8 && dtype <= DTYPE_INT64;
    int bits = (int)dtype_bytes(dtype) * 8;
    __int128 one = 1, least = is_signed ? -(one << (bits - 1)) : 0;
    __int128 most = dtype == DTYPE_BOOL ? 1 : (one << (bits - is_signed)) - 1;
    return value < least ? least : value > most ? most : value;
}

static struct value combine(enum dtype dtype, enum ragged_combine how, bool is_first,
                            struct value old, struct value value)
{
    if (is_first || how == RAGGED_LAST)
        return value;
    if (how == RAGGED_SUM)
        return (struct value){clamp(dtype, old.integer + value.integer), old.real + value.real,
                              old.imaginary + value.imaginary};
    if (!is_float(dtype))
        return value.integer > old.integer ? value : old;
    if (isnan(old.real) || isnan(value.real))
        return isnan(old.real) ? old : value;
    bool is_above =
        value.real > old.real || (value.real == old.real && value.imaginary > old.imaginary);
    return is_above ? value : old;
}

static const uint64_t shape[RAGGED_MAX_RANK] = {3, 2, 4, 5, 1, 2, 3, 2};

static void fill_dense(const struct ragged *ragged, size_t column, uint64_t i, unsigned char *item)
{
    (void)i;
    enum dtype dtype = ragged->columns[column].dtype;
    if (column != ragged->values) {
        uint64_t index = draw(ragged->dense_shape[column]);
        memset(item, 0, 8);
        memcpy(item, &index, 8); /* little-endian */
        return;
    }
    float real = (float)draw(7) - 3, imaginary = (float)draw(3);
    double wide[2] = {real, imaginary};
    float narrow[2] = {real, imaginary};
    uint16_t half = dtype == DTYPE_FLOAT16 ? float16_from_float(real) : bfloat16_from_float(real);
    uint64_t bits = draw(4) ? draw(100) : UINT64_MAX / 2 - draw(2) + (draw(2) << 63);
    if (dtype == DTYPE_BOOL)
        bits %= 2;
    memcpy(item, &bits, 8);
    if (draw(4) && !is_float(dtype) && dtype != DTYPE_BOOL)
        memset(item, (int)draw(2) * 0x7f + (int)draw(2) * 0x80, 7); /* near the ends */
    if (dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16)
        memcpy(item, &half, 2);
    if (dtype == DTYPE_FLOAT32 || dtype == DTYPE_COMPLEX64)
        memcpy(item, narrow, 8);
    if (dtype == DTYPE_FLOAT64 || dtype == DTYPE_COMPLEX128)
        memcpy(item, wide, 16);
}

static void check_dense(const struct world *world, enum dtype dtype, const unsigned char *cells)
{
    const struct ragged *ragged = &world->ragged;
    struct value *model = calloc(ragged->dense_items, sizeof *model);
    bool *is_set = calloc(ragged->dense_items, 1);
    unsigned char ones[16] = {1};
    float one = 1;
    double wide_one = 1;
    uint16_t half = dtype == DTYPE_FLOAT16 ? 0x3c00 : 0x3f80;
    if (dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16)
        memcpy(ones, &half, 2);
    if (dtype == DTYPE_FLOAT32 || dtype == DTYPE_COMPLEX64)
        memcpy(ones, &one, 4);
    if (dtype == DTYPE_FLOAT64 || dtype == DTYPE_COMPLEX128)
        memcpy(ones, &wide_one, 8);
    for (uint64_t i = 0; i < world->together.count; i++) {
        uint64_t cell = 0;
        const unsigned char *item = ones;
        for (size_t c = 0; c < ragged->column_count; c++) {
            size_t bytes = ragged->columns[c].item_bytes;
            const unsigned char *at = world->together.columns[c] + i * bytes;
            if (c == ragged->values)
                item = at;
            else
                cell = cell * ragged->dense_shape[c] +
                       (uint64_t)dtype_integer(ragged->columns[c].dtype, at, 0);
        }
        model[cell] =
            combine(dtype, ragged->combine, !is_set[cell], model[cell], value_of(dtype, item));
        is_set[cell] = true;
    }
    for (uint64_t cell = 0; cell < ragged->dense_items; cell++) {
        struct value is = value_of(dtype, cells + cell * dtype_bytes(dtype));
        if (is_float(dtype)) {
            assert_true(is.real == model[cell].real || (isnan(is.real) && isnan(model[cell].real)));
            assert_true(is.imaginary == model[cell].imaginary);
        } else {
            assert_true(is.integer == model[cell].integer);
        }
    }
    free(is_set);
    free(model);
}

static void make_dense(struct world *world, enum dtype dtype, enum ragged_combine how, int rank,
                       bool has_values, uint64_t page_items)
{
    *world = (struct world){.ragged = {.form = RAGGED_DENSE,
                                       .combine = how,
                                       .page_items = page_items,
                                       .dense_rank = rank,
                                       .dense_items = 1,
                                       .values = (size_t)rank}};
    struct ragged *ragged = &world->ragged;
    for (int axis = 0; axis < rank; axis++) {
        enum dtype index = (enum dtype)(DTYPE_INT8 + draw(8));
        ragged->dense_shape[axis] = shape[axis];
        ragged->dense_items *= shape[axis];
        add_column(ragged, index, dtype_bytes(index));
    }
    if (has_values)
        add_column(ragged, dtype, dtype_bytes(dtype));
}

static void dense_cells_have_what_their_items_say(void **unused)
{
    (void)unused;
    for (int round = 0; round < 600; round++) {
        enum dtype dtype = (enum dtype)(1 + round % 15);
        struct world world;
        make_dense(&world, dtype, (enum ragged_combine)(round / 15 % 3), 1 + (int)draw(8), draw(4),
                   1 + draw(60));
        make_items(&world, draw(4) ? draw(200) : 0, fill_dense);
        size_t bytes = world.ragged.dense_items * dtype_bytes(dtype);
        unsigned char *slot = malloc(3 * bytes + 2);
        const struct ragged_target target = {
            .ragged = &world.ragged, .dense_dtype = dtype, .slot_offset = 1};
        for (int way = 0; way < 2; way++) {
            memset(slot, GUARD, 3 * bytes + 2);
            ragged_deliver(&target, slot, 1, 0, way ? &world.together : &world.paged,
                           world.paged.count);
            check_dense(&world, dtype, slot + 1 + bytes);
            assert_int_equal(slot[bytes], GUARD);
            assert_int_equal(slot[1 + 2 * bytes], GUARD);
        }
        ragged_deliver(&target, slot, 1, 0, NULL, world.paged.count);
        for (size_t b = 0; b < bytes; b++)
            assert_int_equal(slot[1 + bytes + b], 0);
        free(slot);
        free_items(&world);
    }
}

/* Clearing goes ahead of the items, in whatever order they come: here in order of runs that begin
 * anywhere, or in none; some cells have several. */
static void fill_large(const struct ragged *ragged, size_t column, uint64_t i, unsigned char *item)
{
    uint64_t cells = ragged->dense_shape[0];
    uint64_t index = draw(3) ? i * 97 % cells : draw(3) ? draw(cells) : cells - 1 - draw(5);
    if (column == ragged->values)
        fill_dense(ragged, column, i, item);
    else
        memcpy(item, &index, 4);
}

static void large_tensors_are_cleared_ahead_of_their_items(void **unused)
{
    (void)unused;
    const enum dtype dtypes[] = {DTYPE_UINT8, DTYPE_FLOAT16, DTYPE_INT32};
    for (int round = 0; round < 12; round++) {
        struct world world;
        enum dtype dtype = dtypes[round < 9 ? round % 3 : 2];
        make_dense(&world, dtype, (enum ragged_combine)(round < 9 ? round / 3 : round % 3), 1, true,
                   1000);
        struct ragged *ragged = &world.ragged;
        uint64_t least = round < 9 ? 200000 : 4200000; /* the last ones are beyond 16 MiB */
        ragged->dense_shape[0] = ragged->dense_items = least + draw(400000);
        ragged->column_count = 0;
        ragged->page_bytes = 0;
        add_column(ragged, DTYPE_UINT32, 4);
        add_column(ragged, dtype, dtype_bytes(dtype));
        make_items(&world, MAX_ITEMS / 2 + draw(MAX_ITEMS / 2), fill_large);
        size_t bytes = ragged->dense_items * dtype_bytes(dtype);
        unsigned char *cells = malloc(bytes + 2 * EDGE);
        for (int way = 0; way < 2; way++) {
            memset(cells, GUARD, bytes + 2 * EDGE);
            ragged_scatter(ragged, dtype, way ? &world.together : &world.paged, cells + EDGE);
            check_dense(&world, dtype, cells + EDGE);
            for (size_t b = 0; b < EDGE; b++)
                assert_true(cells[b] == GUARD && cells[EDGE + bytes + b] == GUARD);
        }
        free(cells);
        free_items(&world);
    }
}

static void nan_is_the_largest_value(void **unused)
{
    (void)unused;
    const float orders[][3] = {{NAN, 1, 2}, {1, NAN, 2}, {1, 2, NAN}, {-5, -7, -6}};
    for (int round = 0; round < 4; round++) {
        uint8_t indices[3] = {1, 1, 1};
        float cells[3] = {9, 9, 9};
        const struct ragged ragged = {.combine = RAGGED_MAX,
                                      .dense_rank = 1,
                                      .dense_shape = {3},
                                      .dense_items = 3,
                                      .values = 1,
                                      .column_count = 2,
                                      .columns = {{.dtype = DTYPE_UINT8, .item_bytes = 1},
                                                  {.dtype = DTYPE_FLOAT32, .item_bytes = 4}}};
        const struct ragged_items items = {
            .count = 3, .columns = {indices, (const unsigned char *)orders[round]}};
        ragged_scatter(&ragged, DTYPE_FLOAT32, &items, (unsigned char *)cells);
        assert_true(round < 3 ? isnan(cells[1]) : cells[1] == -5);
        assert_true(cells[0] == 0 && cells[2] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_lie_one_after_another_or_padded),
        cmocka_unit_test(items_that_are_cut_lie_part_after_part),
        cmocka_unit_test(dense_cells_have_what_their_items_say),
        cmocka_unit_test(large_tensors_are_cleared_ahead_of_their_items),
        cmocka_unit_test(nan_is_the_largest_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
