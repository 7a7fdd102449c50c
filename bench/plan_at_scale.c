/* penstock-bench-plan: what the plan costs at one size, on one core; bench/plan_at_scale.py runs it
 * over many and makes table and plots.
 *
 *     penstock-bench-plan SAMPLES READERS [ROW_LENGTH]
 *
 * Measured are the calls that a job makes, with the sizes of a job: 8 trainers a reader, 32 samples
 * a trainer and step, rounds of 2 steps, windows of 4,096 rows, or of a step if that has more.
 *
 *   rank 0    start-up, then the assignment of windows of an epoch, of 2^24 rows together at most,
 * in three states: nothing in memory yet; all of these rows in the readers' memory; 60% of them a
 * reader  start-up with the tables of two planned windows, then the samples it sends of a window
 * and the counts of a round, for eight readers spread over all
 *
 * Times are of the processor that the program has, so that what else runs does not count. Bytes are
 * what the resident memory of the process has grown by, after the memory has been used, so that
 * nothing is counted before it is touched. Prints one JSON object. Judges nothing.
 */
#include "program.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"
#include "plan/rounds/round.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: penstock-bench-plan SAMPLES READERS [ROW_LENGTH]";

enum {
    WINDOW_ROWS = 4096,      /* at least */
    ASSIGNED_ROWS = 1 << 24, /* at most */
    TRAINERS_PER_READER = 8,
    BATCH = 32, /* of one trainer */
    STEPS_PER_ROUND = 2,
    KEPT_WINDOWS = 6, /* whose assignment the readers' part uses */
    SAMPLED_READERS = 8,
    WINDOWS_PLANNED = 2,
    DEFAULT_ROW_LENGTH = 100,
};

static const struct round_shape shape = {STEPS_PER_ROUND, 1, 2, {0}};

struct scale {
    struct plan plan;
    struct plan local; /* the same with order.placement local, for rank 0 */
    uint32_t reader_count;
    uint32_t *reader_of_trainer;
    uint64_t assigned_count; /* windows that are assigned, from the epoch's first on */
    uint64_t window_count;   /* of these, windows with stored owners */
    uint16_t *owners;        /* [window_count][window_rows] */
};

/* Durations of many calls of the same kind. */
struct series {
    uint64_t count, capacity;
    uint64_t *ns;
};

static uint64_t resident_bytes(void)
{
    unsigned long long total, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu %llu", &total, &resident) != 2)
        fail("/proc/self/statm cannot be read");
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t growth(uint64_t before)
{
    uint64_t now = resident_bytes();
    return now > before ? now - before : 0;
}

static struct series series_new(uint64_t capacity)
{
    return (struct series){.capacity = capacity, .ns = allocate(capacity, sizeof(uint64_t))};
}

static void series_add(struct series *series, uint64_t start_ns)
{
    if (series->count < series->capacity)
        series->ns[series->count++] = clock_process_cpu_ns() - start_ns;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double series_ms(const struct series *series, uint64_t percent)
{
    uint64_t index = (series->count - 1) * percent / 100;
    return (double)series->ns[index] / 1e6;
}

static void series_print(const char *name, struct series *series)
{
    qsort(series->ns, series->count, sizeof *series->ns, by_size);
    printf(",\"%s_ms\":{\"count\":%" PRIu64 ",\"median\":%.4f,\"p99\":%.4f,\"max\":%.4f}", name,
           series->count, series_ms(series, 50), series_ms(series, 99), series_ms(series, 100));
    free(series->ns);
}

/* ---- rank 0 ---- */

static struct assigner *make_assigner(const struct scale *scale, uint64_t keep_rows)
{
    const struct assigner_options options = {
        .plan = &scale->local,
        .reader_count = scale->reader_count,
        .keep_rows = keep_rows,
        .most_rows = 2 * size_divide_up(scale->plan.window_rows, scale->reader_count),
        .reader_of_trainer = scale->reader_of_trainer,
        .copies = 1,
    };
    struct assigner *assigner;
    struct error err;
    error_clear(&err);
    check(assigner_new(&options, &assigner, &err), &err);
    return assigner;
}

/* The windows of an epoch, each timed, and of that the first part, which workers share. */
static struct series assign_windows(const struct scale *scale, struct assigner *assigner,
                                    uint16_t *owners, struct series *looked_up)
{
    struct series series = series_new(scale->assigned_count);
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &scale->local, 0);
    assigner_go_on(assigner, scale->reader_of_trainer);
    for (uint64_t w = 0; w < scale->assigned_count; w++) {
        uint64_t start_ns = clock_process_cpu_ns();
        struct plan_window window;
        plan_window_at(&window, &epoch, w);
        assigner_look_up(assigner, &epoch, &window, 0, window.row_count, owners);
        series_add(looked_up, start_ns);
        assigner_decide(assigner, &epoch, &window, owners);
        series_add(&series, start_ns);
        if (w < scale->window_count)
            memcpy(scale->owners + w * scale->plan.window_rows, owners,
                   window.row_count * sizeof *owners);
    }
    return series;
}

/* Twice through the rows. `keep_all` false: with room for 60%. */
static void measure_assigner(const struct scale *scale, bool keep_all)
{
    const struct plan *plan = &scale->plan;
    uint64_t rows = min_u64(scale->assigned_count * plan->window_rows, plan->row_count);
    uint64_t share = size_divide_up(rows, scale->reader_count);
    uint64_t keep_rows = keep_all ? 2 * share : max_u64(rows * 6 / 10 / scale->reader_count, 1);
    uint16_t *owners = allocate(scale->plan.window_rows, sizeof *owners);
    uint64_t before = resident_bytes(), start_ns = clock_process_cpu_ns();
    struct assigner *assigner = make_assigner(scale, keep_rows);
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &scale->plan, 0);
    uint64_t start_up_ns = clock_process_cpu_ns() - start_ns;
    struct series looked_up = series_new(2 * scale->assigned_count);
    struct series first = assign_windows(scale, assigner, owners, &looked_up);
    struct series second = assign_windows(scale, assigner, owners, &looked_up);
    if (keep_all) {
        printf(",\"rank0_start_ms\":%.4f,\"rank0_bytes\":%" PRIu64, (double)start_up_ns / 1e6,
               growth(before));
        series_print("window_first", &first);
        series_print("window_kept", &second);
        series_print("window_look_up", &looked_up);
    } else {
        free(looked_up.ns);
        free(first.ns);
        series_print("window_partly_kept", &second);
    }
    assigner_free(assigner);
    malloc_trim(0);
    free(owners);
}

/* ---- a reader ---- */

/* What a reader holds of a planned window. */
struct planned {
    struct plan_window window;
    uint16_t *owners;
    struct round_item *items;
    uint64_t item_count;
};

struct reader {
    const struct scale *scale;
    struct plan_epoch epoch;
    uint32_t rank;
    struct planned planned[KEPT_WINDOWS];
    uint64_t *sent, *received; /* [readers] records */
    uint64_t checksum;         /* so that nothing is left out as unused */
};

static uint64_t list_capacity(const struct scale *scale)
{
    const struct round_peers peers = {.readers = scale->reader_count, .rings = TRAINERS_PER_READER};
    return round_window_expected(&scale->plan, 0, &peers);
}

static uint64_t reader_start(struct reader *reader, const struct scale *scale,
                             uint64_t window_count)
{
    uint64_t start_ns = clock_process_cpu_ns();
    *reader = (struct reader){.scale = scale};
    plan_epoch_init(&reader->epoch, &scale->plan, 0);
    for (uint64_t w = 0; w < window_count; w++) {
        reader->planned[w].owners = allocate(scale->plan.window_rows, sizeof(uint16_t));
        reader->planned[w].items = allocate(list_capacity(scale), sizeof(struct round_item));
    }
    reader->sent = allocate(scale->reader_count, sizeof *reader->sent);
    reader->received = allocate(scale->reader_count, sizeof *reader->received);
    return clock_process_cpu_ns() - start_ns;
}

static void reader_done(struct reader *reader)
{
    free(reader->received);
    free(reader->sent);
    for (size_t w = 0; w < KEPT_WINDOWS; w++) {
        free(reader->planned[w].items);
        free(reader->planned[w].owners);
    }
}

static void list_windows(struct reader *reader, struct series *items, uint64_t *item_count)
{
    const struct scale *scale = reader->scale;
    for (uint64_t w = 0; w < scale->window_count; w++) {
        struct planned *planned = &reader->planned[w];
        memcpy(planned->owners, scale->owners + w * scale->plan.window_rows,
               scale->plan.window_rows * sizeof *planned->owners);
        uint64_t start_ns = clock_process_cpu_ns();
        plan_window_at(&planned->window, &reader->epoch, w);
        struct round_rows rows = round_rows_from(&scale->plan, &planned->window, planned->owners,
                                                 reader->rank, 0, list_capacity(scale));
        if (rows.end < planned->window.row_count)
            fail("a reader has more of a window than its list has room for");
        planned->item_count =
            round_window_items(&reader->epoch, &planned->window, shape, planned->owners,
                               reader->rank, rows, planned->items);
        series_add(items, start_ns);
        *item_count += planned->item_count;
    }
}

/* Records that the reader sends in a round: its samples that are due, by whose trainer gets them.
 */
static void count_sent(struct reader *reader, uint64_t round, uint64_t next[KEPT_WINDOWS])
{
    const struct scale *scale = reader->scale;
    for (uint64_t w = 0; w < scale->window_count; w++) {
        const struct planned *planned = &reader->planned[w];
        for (; next[w] < planned->item_count && planned->items[next[w]].round == round; next[w]++) {
            struct plan_recipient recipient =
                plan_recipient_of(&scale->plan, planned->items[next[w]].position);
            reader->sent[scale->reader_of_trainer[recipient.trainer]]++;
        }
    }
}

/* One trainer's positions [first, end) of a step, all of a window at once. */
static void count_slice(struct reader *reader, uint64_t first, uint64_t end)
{
    struct plan_location locations[BATCH];
    uint64_t rows[BATCH];
    while (first < end) {
        uint64_t position = plan_unpad(&reader->epoch, first);
        const struct planned *planned = &reader->planned[plan_window_of(&reader->epoch, position)];
        const struct plan_window *window = &planned->window;
        uint64_t left = window->first_position + window->sample_count - position;
        uint64_t count = end - first < left ? end - first : left;
        plan_locations_at(window, position, count, locations);
        for (uint64_t i = 0; i < count; i++) {
            rows[i] = window->first_row_position + locations[i].window_row;
            reader->received[planned->owners[locations[i].window_row] & ASSIGN_READER_MASK]++;
        }
        plan_rows_at(&reader->epoch, rows, count);
        reader->checksum += rows[0];
        first += count;
    }
}

/* Records that it receives: the positions of its trainers, by whose rows they are in; and, as the
 * service does, which samples they are. */
static void count_received(struct reader *reader, const struct plan_round *round)
{
    const struct plan *plan = &reader->scale->plan;
    for (uint64_t step = round->first_step; step < round->end_step; step++)
        for (uint32_t t = 0; t < TRAINERS_PER_READER; t++) {
            uint32_t trainer = reader->rank * TRAINERS_PER_READER + t;
            uint64_t first = plan_local_batch_at(plan, step, trainer).first;
            struct round_slice slice = round_slice_at(plan, round, step, trainer);
            count_slice(reader, first + slice.first, first + slice.end);
        }
}

static void count_rounds(struct reader *reader, struct series *counts)
{
    const struct scale *scale = reader->scale;
    const struct plan_window *last = &reader->planned[scale->window_count - 1].window;
    uint64_t end = last->first_position + last->sample_count;
    uint64_t next[KEPT_WINDOWS] = {0};
    size_t bytes = scale->reader_count * sizeof(uint64_t);
    for (uint64_t index = 0; index < rounds_per_epoch(&scale->plan, shape); index++) {
        struct plan_round round = round_at(&scale->plan, shape, index);
        if (round.end_step * scale->plan.global_batch > end)
            break;
        uint64_t start_ns = clock_process_cpu_ns();
        memset(reader->sent, 0, bytes);
        memset(reader->received, 0, bytes);
        count_received(reader, &round);
        count_sent(reader, index, next);
        series_add(counts, start_ns);
        reader->checksum += reader->received[0] + reader->sent[0];
    }
}

static void measure_readers(const struct scale *scale)
{
    struct reader reader;
    uint64_t before = resident_bytes();
    uint64_t start_up_ns = reader_start(&reader, scale, WINDOWS_PLANNED);
    printf(",\"reader_start_ms\":%.4f,\"reader_bytes\":%" PRIu64, (double)start_up_ns / 1e6,
           growth(before));
    reader_done(&reader);

    reader_start(&reader, scale, scale->window_count);
    enum { MOST_ROUNDS = 4096 };
    struct series items = series_new(SAMPLED_READERS * KEPT_WINDOWS);
    struct series counts = series_new(SAMPLED_READERS * MOST_ROUNDS);
    uint64_t item_count = 0, items_ns = 0;
    for (uint32_t i = 0; i < SAMPLED_READERS; i++) {
        reader.rank = (uint32_t)((uint64_t)i * scale->reader_count / SAMPLED_READERS);
        list_windows(&reader, &items, &item_count);
        count_rounds(&reader, &counts);
    }
    for (uint64_t i = 0; i < items.count; i++)
        items_ns += items.ns[i];
    printf(",\"item_ns\":%.1f", (double)items_ns / (double)item_count);
    series_print("items", &items);
    series_print("counts", &counts);
    fprintf(stderr, "checksum %" PRIu64 "\n", reader.checksum);
    reader_done(&reader);
}

/* ---- */

static double settle_plan(struct scale *scale, uint64_t samples, uint64_t row_length)
{
    uint64_t batch = (uint64_t)scale->reader_count * TRAINERS_PER_READER * BATCH;
    const struct plan_options options = {
        .sample_count = samples,
        .row_length = row_length,
        .window_rows = max_u64(WINDOW_ROWS, batch / row_length),
        .seed = 17,
        .shuffle = true,
        .global_batch = batch,
        .last = PLAN_DROP,
        .trainer_count = scale->reader_count * TRAINERS_PER_READER,
    };
    struct error err;
    error_clear(&err);
    uint64_t start_ns = clock_process_cpu_ns();
    check(plan_init(&scale->plan, &options, &err), &err);
    scale->local = scale->plan;
    scale->local.locality =
        locality_number((struct locality){.nodes = scale->reader_count, .readers = 1});
    return (double)(clock_process_cpu_ns() - start_ns) / 1e6;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4)
        fail("usage: penstock-bench-plan SAMPLES READERS [ROW_LENGTH]");
    struct scale scale = {.reader_count =
                              (uint32_t)parse_number(argv[2], ASSIGN_MAX_READERS, usage)};
    uint64_t samples = parse_number(argv[1], UINT64_C(1) << 48, usage);
    uint64_t row_length = argc > 3 ? parse_number(argv[3], UINT32_MAX, usage) : DEFAULT_ROW_LENGTH;
    double plan_ms = settle_plan(&scale, samples, row_length);
    const struct plan *plan = &scale.plan;
    scale.assigned_count = min_u64(plan->window_count, ASSIGNED_ROWS / plan->window_rows + 1);
    scale.window_count = min_u64(scale.assigned_count, KEPT_WINDOWS);
    scale.reader_of_trainer = allocate(plan->trainer_count, sizeof *scale.reader_of_trainer);
    for (uint32_t t = 0; t < plan->trainer_count; t++)
        scale.reader_of_trainer[t] = t / TRAINERS_PER_READER;
    scale.owners = allocate(scale.window_count * plan->window_rows, sizeof *scale.owners);
    printf("{\"samples\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"readers\":%" PRIu32
           ",\"window_rows\":%" PRIu64 ",\"round_records\":%" PRIu32 ",\"plan_ms\":%.4f",
           plan->sample_count, plan->row_count, scale.reader_count, plan->window_rows,
           (uint32_t)(TRAINERS_PER_READER * BATCH * STEPS_PER_ROUND), plan_ms);
    measure_assigner(&scale, true);
    measure_assigner(&scale, false);
    measure_readers(&scale);
    printf("}\n");
    free(scale.owners);
    free(scale.reader_of_trainer);
    return EXIT_SUCCESS;
}
