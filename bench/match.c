/* penstock-bench-match: what order.placement local costs a reader, on one core;
 * bench/plan_at_scale.py runs it over numbers of readers.
 *
 *     penstock-bench-match READERS [ROW_LENGTH]
 *
 * Every reader looks up all positions of a step, gives them destinations, and lists those that its
 * trainers get, as mpi/rounds/round_plan.c does: with 8 trainers a reader, 32 samples a trainer and
 * step, and windows of the default size. Times are of the processor that the program has, so that
 * what else runs does not count. Prints one JSON object: medians over steps, in ms. Judges nothing.
 */
#include "program.h"

#include "base/clock.h"
#include "base/divide.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "usage: penstock-bench-match READERS [ROW_LENGTH]";

enum { TRAINERS_PER_READER = 8, BATCH = 32, STEPS = 7, BLOCK = 256 };

struct location {
    uint32_t window_row, offset;
};

struct bench {
    struct plan plan;
    struct plan_epoch epoch;
    struct matcher *matcher;
    uint32_t me;
    uint32_t *reader_of_trainer;
    struct plan_window window;  /* the epoch's first, which has all steps that are measured */
    uint64_t *rows;             /* [rows of the window] */
    uint16_t *owners;           /* [rows of the window] */
    struct location *locations; /* [positions of a step] */
    uint32_t *destinations;     /* [positions of a step] */
    uint64_t checksum;          /* so that nothing is left out as unused */
};

enum stage { LOOK_UP, MATCH, LIST, STAGE_COUNT };

static void settle(struct bench *bench, uint32_t readers, uint64_t row_length)
{
    uint32_t trainers = readers * TRAINERS_PER_READER;
    const struct plan_options options = {
        .sample_count = (uint64_t)trainers * BATCH * (STEPS + 2),
        .row_length = row_length,
        .seed = 17,
        .shuffle = true,
        .global_batch = (uint64_t)trainers * BATCH,
        .last = PLAN_DROP,
        .trainer_count = trainers,
        .locality = locality_number((struct locality){.nodes = readers, .readers = 1}),
    };
    struct error err;
    error_clear(&err);
    check(plan_init(&bench->plan, &options, &err), &err);
    bench->me = readers / 2;
    bench->reader_of_trainer = allocate(trainers, sizeof *bench->reader_of_trainer);
    for (uint32_t t = 0; t < trainers; t++)
        bench->reader_of_trainer[t] = t / TRAINERS_PER_READER;
    bench->rows = allocate(bench->plan.window_rows, sizeof *bench->rows);
    bench->owners = allocate(bench->plan.window_rows, sizeof *bench->owners);
    bench->locations = allocate(bench->plan.global_batch, sizeof *bench->locations);
    bench->destinations = allocate(bench->plan.global_batch, sizeof *bench->destinations);
    bench->matcher = matcher_new(&bench->plan);
    if (!bench->matcher)
        fail("out of memory");
}

/* All rows are at the readers of the trainers that they are near. */
static void open_window(struct bench *bench)
{
    struct locality_near near = locality_near(&bench->plan);
    plan_epoch_init(&bench->epoch, &bench->plan, 0);
    plan_window_at(&bench->window, &bench->epoch, 0);
    for (uint64_t i = 0; i < bench->window.row_count; i++)
        bench->rows[i] = bench->window.first_row_position + i;
    plan_rows_at(&bench->epoch, bench->rows, bench->window.row_count);
    for (uint64_t i = 0; i < bench->window.row_count; i++)
        bench->owners[i] =
            (uint16_t)bench->reader_of_trainer[locality_trainer(near, bench->rows[i])];
}

static void look_up(struct bench *bench, uint64_t first, uint64_t count)
{
    struct locality_near near = locality_near(&bench->plan);
    struct plan_location locations[BLOCK];
    for (uint64_t at = 0; at < count; at += BLOCK) {
        uint64_t block = count - at < BLOCK ? count - at : BLOCK;
        plan_locations_at(&bench->window, first + at, block, locations);
        for (uint64_t i = 0; i < block; i++) {
            uint64_t row = bench->rows[locations[i].window_row];
            bench->locations[at + i] =
                (struct location){(uint32_t)locations[i].window_row, (uint32_t)locations[i].offset};
            bench->destinations[at + i] = locality_trainer(near, row);
        }
    }
}

static void list(struct bench *bench)
{
    const struct plan *plan = &bench->plan;
    struct divider samples = divider_of(plan->global_batch);
    for (uint64_t i = 0; i < plan->global_batch; i++) {
        uint64_t trainer =
            divide(samples, (bench->destinations[i] + UINT64_C(1)) * plan->trainer_count - 1);
        if (bench->reader_of_trainer[trainer] != bench->me)
            continue;
        struct location at = bench->locations[i];
        bench->checksum += plan_row_first(plan, bench->rows[at.window_row]) + at.offset +
                           (bench->owners[at.window_row] & ASSIGN_READER_MASK);
    }
}

static void run_step(struct bench *bench, uint64_t step, double ret_ms[STAGE_COUNT])
{
    uint64_t first = step * bench->plan.global_batch, count = bench->plan.global_batch;
    uint64_t times[STAGE_COUNT + 1];
    times[LOOK_UP] = clock_process_cpu_ns();
    look_up(bench, first, count);
    times[MATCH] = clock_process_cpu_ns();
    matcher_match(bench->matcher, 0, step, bench->destinations);
    times[LIST] = clock_process_cpu_ns();
    list(bench);
    times[STAGE_COUNT] = clock_process_cpu_ns();
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        ret_ms[stage] = (double)(times[stage + 1] - times[stage]) / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double ms[STEPS])
{
    qsort(ms, STEPS, sizeof *ms, by_size);
    return ms[STEPS / 2];
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3)
        fail("usage: penstock-bench-match READERS [ROW_LENGTH]");
    struct bench bench = {.me = 0};
    settle(&bench, (uint32_t)parse_number(argv[1], 8191, usage),
           argc > 2 ? parse_number(argv[2], UINT32_MAX, usage) : 1);
    open_window(&bench);
    double times[STAGE_COUNT][STEPS], all[STEPS] = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        double ms[STAGE_COUNT];
        run_step(&bench, step, ms);
        for (int stage = 0; stage < STAGE_COUNT; stage++) {
            times[stage][step] = ms[stage];
            all[step] += ms[stage];
        }
    }
    printf("{\"readers\":%s,\"positions\":%" PRIu64 ",\"step_ms\":%.4f", argv[1],
           bench.plan.global_batch, median(all));
    static const char *const names[] = {"look_up_ms", "match_ms", "list_ms"};
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        printf(",\"%s\":%.4f", names[stage], median(times[stage]));
    printf("}\n");
    fprintf(stderr, "checksum %" PRIu64 "\n", bench.checksum);
    matcher_free(bench.matcher);
    free(bench.destinations);
    free(bench.locations);
    free(bench.owners);
    free(bench.rows);
    free(bench.reader_of_trainer);
    return EXIT_SUCCESS;
}
