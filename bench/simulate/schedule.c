/* penstock-bench-schedule: writes who sends how many records to whom, for a simulation of the
 * exchange.
 *
 *     penstock-bench-schedule FILE READERS STEPS ROW_LENGTH SEED cold|warm
 *     penstock-bench-schedule shape READERS RECORD_BYTES SLOTS BUFFER_LIMIT_BYTES
 *
 * A job of READERS readers with 8 trainers each and 32 samples a trainer and step, shuffled in
 * windows of the default size. cold: the first epoch, rows go to readers as rank 0 gives them out.
 * warm: the second epoch, all rows are in the readers' memory and are sent from where they lie.
 * shape prints how such a job's rounds would be chosen, as one JSON object.
 */
#include "schedule.h"

#include "base/size.h"
#include "plan/assign.h"
#include "plan/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINERS_PER_READER = 8, BATCH = 32 };

struct job {
    struct plan plan;
    uint32_t reader_count, step_count;
    uint32_t *reader_of_trainer;
    struct assigner *assigner;
    uint16_t *owners; /* of the window's rows */
    uint8_t *counts;  /* [reader_count][reader_count] of one step */
};

static void fail(const char *what)
{
    fprintf(stderr, "penstock-bench-schedule: error: %s\n", what);
    exit(EXIT_FAILURE);
}

static void check(enum status status, const struct error *err)
{
    if (status != STATUS_OK)
        fail(err->message);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        fail("out of memory");
    return memory;
}

static uint64_t parse_number(const char *text, uint64_t most)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*end || number < 1 || number > most)
        fail("usage: penstock-bench-schedule FILE READERS STEPS ROW_LENGTH SEED cold|warm");
    return number;
}

/* A dataset of exactly `steps` steps. */
static void settle_plan(struct job *job, uint64_t row_length, uint64_t seed)
{
    uint64_t batch = (uint64_t)job->reader_count * TRAINERS_PER_READER * BATCH;
    const struct plan_options options = {
        .sample_count = batch * job->step_count,
        .row_length = row_length,
        .seed = seed,
        .shuffle = true,
        .global_batch = batch,
        .last = PLAN_DROP,
        .trainer_count = job->reader_count * TRAINERS_PER_READER,
    };
    struct error err;
    error_clear(&err);
    check(plan_init(&job->plan, &options, &err), &err);
    job->reader_of_trainer = allocate(job->plan.trainer_count, sizeof *job->reader_of_trainer);
    for (uint32_t t = 0; t < job->plan.trainer_count; t++)
        job->reader_of_trainer[t] = t / TRAINERS_PER_READER;
}

static void make_assigner(struct job *job)
{
    const struct assigner_options options = {
        .plan = &job->plan,
        .reader_count = job->reader_count,
        .keep_rows = size_divide_up(job->plan.row_count, job->reader_count),
        .most_rows = 2 * size_divide_up(job->plan.window_rows, job->reader_count),
        .reader_of_trainer = job->reader_of_trainer,
    };
    struct error err;
    error_clear(&err);
    check(assigner_new(&options, &job->assigner, &err), &err);
    job->owners = allocate(job->plan.window_rows, sizeof(uint16_t));
    job->counts = allocate((size_t)job->reader_count * job->reader_count, 1);
}

static void write_step(struct job *job, FILE *file)
{
    size_t bytes = (size_t)job->reader_count * job->reader_count;
    if (fwrite(job->counts, 1, bytes, file) != bytes)
        fail("the schedule cannot be written");
    memset(job->counts, 0, bytes);
}

/* Goes through the positions of a window; writes the steps that end in it. */
static void count_window(struct job *job, const struct plan_window *window, FILE *file)
{
    uint64_t end = window->first_position + window->sample_count;
    for (uint64_t position = window->first_position; position < end; position++) {
        struct plan_location location = plan_location_at(window, position);
        uint32_t from = job->owners[location.window_row] & ASSIGN_READER_MASK;
        uint32_t to = job->reader_of_trainer[plan_recipient_of(&job->plan, position).trainer];
        uint8_t *count = &job->counts[(size_t)from * job->reader_count + to];
        if (*count == UINT8_MAX)
            fail("more than 255 records from one reader to another in a step: take more readers");
        *count += from != to;
        if ((position + 1) % job->plan.global_batch == 0)
            write_step(job, file);
    }
}

static void run_epoch(struct job *job, uint64_t index, FILE *file)
{
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &job->plan, index);
    for (uint64_t w = 0; w < job->plan.window_count; w++) {
        struct plan_window window;
        plan_window_at(&window, &epoch, w);
        assigner_window(job->assigner, &epoch, &window, job->owners);
        if (file)
            count_window(job, &window, file);
    }
}

static void print_shape(char **numbers)
{
    struct job job = {.reader_count = (uint32_t)parse_number(numbers[0], ASSIGN_MAX_READERS),
                      .step_count = 1 << 16};
    settle_plan(&job, 1, 1);
    free(job.reader_of_trainer);
    struct round_shape shape;
    struct error err;
    error_clear(&err);
    uint64_t record = parse_number(numbers[1], UINT32_MAX);
    uint64_t packed = record < ROUND_ZERO_COPY_BYTES ? record : 0;
    if (round_shape_choose(&job.plan, job.reader_count, (uint32_t)parse_number(numbers[2], 1 << 20),
                           record, packed, 0, parse_number(numbers[3], UINT64_MAX), &shape,
                           &err) == STATUS_OK)
        printf("{\"steps\":%u,\"stripes\":%u}\n", shape.steps_per_round, shape.stripes_per_step);
    else
        printf("{\"error\":\"%s\"}\n", err.message);
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "shape") == 0) {
        print_shape(argv + 2);
        return EXIT_SUCCESS;
    }
    if (argc != 7 || (strcmp(argv[6], "cold") != 0 && strcmp(argv[6], "warm") != 0))
        fail("usage: penstock-bench-schedule FILE READERS STEPS ROW_LENGTH SEED cold|warm");
    struct job job = {.reader_count = (uint32_t)parse_number(argv[2], ASSIGN_MAX_READERS),
                      .step_count = (uint32_t)parse_number(argv[3], 1 << 20)};
    bool warm = strcmp(argv[6], "warm") == 0;
    settle_plan(&job, parse_number(argv[4], UINT32_MAX), parse_number(argv[5], UINT64_MAX));
    make_assigner(&job);
    FILE *file = fopen(argv[1], "wb");
    struct schedule_header header = {.reader_count = job.reader_count,
                                     .step_count = job.step_count};
    memcpy(header.magic, SCHEDULE_MAGIC, sizeof header.magic);
    if (!file || fwrite(&header, sizeof header, 1, file) != 1)
        fail("the schedule cannot be written");
    run_epoch(&job, 0, warm ? NULL : file);
    if (warm)
        run_epoch(&job, 1, file);
    if (fclose(file) != 0)
        fail("the schedule cannot be written");
    assigner_free(job.assigner);
    free(job.owners);
    free(job.counts);
    free(job.reader_of_trainer);
    return EXIT_SUCCESS;
}
