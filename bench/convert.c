/* How fast items are converted and swapped, against memcpy of as many bytes: each variant that this
 * machine has, one thread, blocks that stay in the second-level cache, as chunks just decoded do.
 *
 *     penstock-bench-convert [ROUNDS]
 *
 * Prints a JSON object a line: GB/s read and written, median of the rounds, in which the variants
 * take turns, and the ratio to memcpy in the same round. Floating-point items are numbers as they
 * are found in data, from -100 to 100: denormal ones cost many times as much.
 */
#include "base/convert.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 256 << 10, REPEATS = 200, MAX_ROUNDS = 101, COPY = CONVERT_VARIANTS };

struct task {
    const char *name;
    struct convert convert;
    size_t swap_bytes; /* 0: convert */
};

static const struct task tasks[] = {
    {"uint8 to float16", {DTYPE_UINT8, DTYPE_FLOAT16, 1, 0}, 0},
    {"uint8 to float32 scaled", {DTYPE_UINT8, DTYPE_FLOAT32, 1 / 255.0, -0.5}, 0},
    {"int16 to float32 scaled", {DTYPE_INT16, DTYPE_FLOAT32, 0.1, -5}, 0},
    {"float16 to float32", {DTYPE_FLOAT16, DTYPE_FLOAT32, 1, 0}, 0},
    {"float32 to float16", {DTYPE_FLOAT32, DTYPE_FLOAT16, 1, 0}, 0},
    {"float32 to bfloat16", {DTYPE_FLOAT32, DTYPE_BFLOAT16, 1, 0}, 0},
    {"float32 to bfloat16 scaled", {DTYPE_FLOAT32, DTYPE_BFLOAT16, 0.1, -5}, 0},
    {"float64 to float32", {DTYPE_FLOAT64, DTYPE_FLOAT32, 1, 0}, 0},
    {"float64 to float16", {DTYPE_FLOAT64, DTYPE_FLOAT16, 1, 0}, 0},
    {"int64 to float32", {DTYPE_INT64, DTYPE_FLOAT32, 1, 0}, 0},
    {"swap 2", {0}, 2},
    {"swap 4", {0}, 4},
    {"swap 8", {0}, 8},
};

/* GB/s of one round. */
static double measure(const struct task *task, int variant, unsigned char *in, unsigned char *out)
{
    const struct convert_loops *loops =
        variant == COPY ? NULL : convert_variant((enum convert_variant)variant);
    size_t in_bytes = task->swap_bytes ? task->swap_bytes : dtype_bytes(task->convert.from);
    uint64_t start_ns = clock_now_ns();
    for (int i = 0; i < REPEATS; i++) {
        if (variant == COPY)
            memcpy(out, in, BLOCK_BYTES);
        else if (task->swap_bytes)
            convert_swap_by(loops, in, BLOCK_BYTES, task->swap_bytes);
        else
            convert_items_by(loops, &task->convert, in, BLOCK_BYTES / in_bytes, out);
        __asm__ volatile("" : : "r"(in), "r"(out) : "memory");
    }
    size_t out_bytes = BLOCK_BYTES;
    if (variant != COPY && !task->swap_bytes)
        out_bytes = BLOCK_BYTES / in_bytes * dtype_bytes(task->convert.to);
    return (double)(BLOCK_BYTES + out_bytes) * REPEATS / (double)(clock_now_ns() - start_ns);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Random bytes, or floating-point numbers made of them; `out` is room for twice as many floats. */
static void fill(const struct task *task, unsigned char *in, unsigned char *out)
{
    enum dtype from = task->convert.from;
    size_t count = BLOCK_BYTES / (from == DTYPE_NONE ? 1 : dtype_bytes(from));
    struct convert convert = {DTYPE_INT16, DTYPE_FLOAT32, 100.0 / 32768, 0};
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        in[i] = (unsigned char)(i * 2654435761u >> 13);
    if (from < DTYPE_FLOAT16)
        return;
    convert_items(&convert, in, BLOCK_BYTES / 2, out);
    if (from == DTYPE_FLOAT32)
        memcpy(in, out, BLOCK_BYTES);
    else
        convert_items(&(struct convert){DTYPE_FLOAT32, from, 1, 0}, out, count, in);
}

static void run(const struct task *task, int rounds, unsigned char *in, unsigned char *out)
{
    fill(task, in, out);
    double speeds[CONVERT_VARIANTS + 1][MAX_ROUNDS], ratios[CONVERT_VARIANTS + 1][MAX_ROUNDS];

    for (int round = 0; round < rounds; round++)
        for (int v = COPY; v >= 0; v--) {
            if (v != COPY && !convert_variant((enum convert_variant)v))
                continue;
            speeds[v][round] = measure(task, v, in, out);
            ratios[v][round] = speeds[v][round] / speeds[COPY][round];
        }
    for (int v = 0; v < CONVERT_VARIANTS; v++)
        if (convert_variant((enum convert_variant)v))
            printf("{\"task\": \"%s\", \"variant\": \"%s\", \"gb_per_s\": %.2f, \"memcpy\": %.2f, "
                   "\"ratio\": %.3f}\n",
                   task->name, convert_variant_name((enum convert_variant)v),
                   median(speeds[v], rounds), median(speeds[COPY], rounds),
                   median(ratios[v], rounds));
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    unsigned char *in = aligned_alloc(64, BLOCK_BYTES), *out = aligned_alloc(64, 8 * BLOCK_BYTES);
    if (rounds < 1 || rounds > MAX_ROUNDS || !in || !out) {
        fprintf(stderr, "usage: penstock-bench-convert [ROUNDS], 1 to %d\n", MAX_ROUNDS);
        return 2;
    }
    memset(out, 0, 8 * BLOCK_BYTES);
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        run(&tasks[i], rounds, in, out);
    free(in);
    free(out);
    return 0;
}
