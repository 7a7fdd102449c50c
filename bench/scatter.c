/* How fast dense tensors are made of items (run/ragged_scatter.h), against memset of as many bytes:
 * ways to clear a tensor before the items are put there.
 *
 *     penstock-bench-scatter [ROUNDS [TENSORS]]
 *
 *     memset   memset alone: what a tensor of zeros costs
 *     first    memset of all cells, then the items
 *     stream   likewise, by stores that go past the caches
 *     ahead    cells are cleared a little ahead of the items, or, where that is 16 MiB at once, by
 *              stores that go past the caches: ragged_scatter()
 *     undo     only what the tensor held before is cleared, cell by cell
 *     least    memset, and as many items put to cells that all lie in the core's first cache: no
 *              way that clears by memset can be faster
 *
 * Tensors are [20, 360, 640], as of an event camera, and lie one behind another as in a ring that
 * no cache has room for (TENSORS: 64). Items are in order of their bins, as events come, or in
 * none. Prints a JSON object a line: microseconds a tensor, median of the rounds, in which the ways
 * take turns, and the ratio to memset. One thread.
 */
#include "run/ragged_scatter.c" /* the ways share its loops */

#include "base/clock.h"
#include "program.h"

enum {
    BINS = 20,
    HEIGHT = 360,
    WIDTH = 640,
    CELLS = BINS * HEIGHT * WIDTH,
    MAX_ROUNDS = 101,
    NEAR_ROWS = 12, /* 30 KiB of float32 */
};

enum way { MEMSET, FIRST, STREAM, AHEAD, UNDO, LEAST, WAYS };
static const char *const names[WAYS] = {"memset", "first", "stream", "ahead", "undo", "least"};

/* What all tensors are made of. */
struct task {
    struct ragged ragged;
    enum dtype dtype;
    struct ragged_items items;
    struct ragged_items near; /* as many, to cells that lie in a core's first cache */
};

static uint64_t draw(uint64_t below)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

static void make_task(struct task *task, enum dtype dtype, bool in_order, double share)
{
    uint64_t count = (uint64_t)(share * CELLS);
    uint8_t *bins = allocate(count, 1);
    uint16_t *ys = allocate(count, 2), *xs = allocate(count, 2), *near_ys = allocate(count, 2);
    unsigned char *values = allocate(count, dtype_bytes(dtype));
    unsigned char *zeros = allocate(count, dtype_bytes(dtype));
    *task = (struct task){
        .ragged = {.form = RAGGED_DENSE,
                   .combine = RAGGED_SUM,
                   .dense_rank = 3,
                   .dense_shape = {BINS, HEIGHT, WIDTH},
                   .dense_items = CELLS,
                   .values = 3,
                   .column_count = 4,
                   .columns = {{.dtype = DTYPE_UINT8, .item_bytes = 1},
                               {.dtype = DTYPE_UINT16, .item_bytes = 2},
                               {.dtype = DTYPE_UINT16, .item_bytes = 2},
                               {.dtype = dtype, .item_bytes = dtype_bytes(dtype)}}},
        .dtype = dtype,
        .items = {.count = count,
                  .columns = {bins, (unsigned char *)ys, (unsigned char *)xs, values}},
        .near = {.count = count,
                 .columns = {zeros, (unsigned char *)near_ys, (unsigned char *)xs, zeros}},
    };
    memset(zeros, 0, count * dtype_bytes(dtype));
    for (uint64_t i = 0; i < count; i++) {
        bins[i] = (uint8_t)(in_order ? i * BINS / count : draw(BINS));
        ys[i] = (uint16_t)draw(HEIGHT);
        xs[i] = (uint16_t)draw(WIDTH);
        near_ys[i] = (uint16_t)draw(NEAR_ROWS);
        memcpy(values + i * dtype_bytes(dtype), kinds[dtype].one, dtype_bytes(dtype));
    }
}

/* Zeros the cells of the items alone. */
static void undo(const struct task *task, unsigned char *cells)
{
    struct scatter scatter = {.ragged = &task->ragged, .loops = best_loops()};
    struct ragged_piece piece;
    struct block block;
    unsigned char zero[DTYPE_MAX_BYTES] = {0};
    ragged_items_piece(&task->ragged, &task->items, 0, &piece);
    set_strides(&scatter);
    for (uint64_t at = 0; at < piece.count; at += block.count) {
        block.count = min_u64(piece.count - at, BLOCK);
        find_cells(&scatter, &piece, at, &block);
        kinds[task->dtype].put[RAGGED_LAST](&block, zero, false, cells);
    }
}

static void make_tensor(const struct task *task, enum way way, unsigned char *cells)
{
    size_t bytes = CELLS * dtype_bytes(task->dtype);
    struct scatter scatter = {.ragged = &task->ragged,
                              .kind = &kinds[task->dtype],
                              .loops = best_loops(),
                              .item_bytes = dtype_bytes(task->dtype),
                              .cells = cells};
    if (way == MEMSET || way == FIRST || way == LEAST)
        memset(cells, 0, bytes);
    if (way == STREAM)
        clear_stream(cells, bytes);
    if (way == UNDO)
        undo(task, cells);
    if (way == AHEAD)
        ragged_scatter(&task->ragged, task->dtype, &task->items, cells);
    set_strides(&scatter);
    if (way == FIRST || way == STREAM || way == UNDO)
        put_items(&scatter, &task->items, RAGGED_SUM);
    if (way == LEAST)
        put_items(&scatter, &task->near, RAGGED_SUM);
    __asm__ volatile("" : : "r"(cells) : "memory");
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, uint64_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void measure(const struct task *task, bool in_order, uint64_t rounds, uint64_t tensors,
                    unsigned char *ring)
{
    static double us[WAYS][MAX_ROUNDS], ratio[WAYS][MAX_ROUNDS];
    size_t bytes = CELLS * dtype_bytes(task->dtype);
    for (uint64_t r = 0; r < rounds; r++)
        for (int way = 0; way < WAYS; way++) {
            uint64_t start_ns = clock_now_ns();
            for (uint64_t t = 0; t < tensors; t++)
                make_tensor(task, (enum way)way, ring + t * bytes);
            us[way][r] = (double)(clock_now_ns() - start_ns) / 1e3 / (double)tensors;
            ratio[way][r] = us[way][r] / us[MEMSET][r];
        }
    printf("{\"dtype\":\"%s\",\"items\":%llu,\"in_order\":%s", dtype_name(task->dtype),
           (unsigned long long)task->items.count, in_order ? "true" : "false");
    for (int way = 0; way < WAYS; way++) {
        double ratio_of_way = median(ratio[way], rounds);
        printf(",\"%s\":[%.0f,%.2f]", names[way], median(us[way], rounds), ratio_of_way);
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    const char *usage = "usage: penstock-bench-scatter [ROUNDS [TENSORS]]";
    uint64_t rounds = argc > 1 ? parse_number(argv[1], MAX_ROUNDS, usage) : 9;
    uint64_t tensors = argc > 2 ? parse_number(argv[2], 4096, usage) : 64;
    const enum dtype dtypes[] = {DTYPE_UINT8, DTYPE_FLOAT16, DTYPE_FLOAT32};
    unsigned char *ring = allocate(tensors, CELLS * sizeof(float));
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (int in_order = 1; in_order >= 0; in_order--) {
            struct task task;
            make_task(&task, dtypes[d], in_order, 0.02);
            measure(&task, in_order, rounds, tensors, ring);
        }
    free(ring);
    return 0;
}
