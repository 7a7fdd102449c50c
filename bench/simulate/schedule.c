/* penstock-bench-schedule: writes who sends how many records to whom, for a simulation of the
 * exchange.
 *
 *     penstock-bench-schedule FILE READERS STEPS ROW_LENGTH SEED cold|warm fixed|local
 *     penstock-bench-schedule shape READERS RECORD_BYTES SLOTS BUFFER_LIMIT_BYTES fixed|local
 *
 * A job of READERS readers with 8 trainers each and 32 samples a trainer and step, shuffled in
 * windows of the default size. cold: the first epoch, rows go to readers as rank 0 gives them out.
 * warm: the second epoch, all rows are in the readers' memory and are sent from where they lie.
 * fixed, local: order.placement. shape prints how such a job's rounds would be chosen, as one JSON
 * object.
 */
#include "schedule.h"

#include "../program.h"

#include "base/divide.h"
#include "base/size.h"
#include "plan/assign/assign.h"
#include "plan/rounds/locality.h"
#include "plan/rounds/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINERS_PER_READER = 8, BATCH = 32 };

static const char usage[] =
    "usage: penstock-bench-schedule FILE READERS STEPS ROW_LENGTH SEED cold|warm fixed|local";

struct job {
    struct plan plan;
    uint32_t reader_count, step_count;
    uint32_t *reader_of_trainer;
    struct assigner *assigner;
    uint16_t *owners;        /* of the window's rows */
    uint8_t *counts;         /* [reader_count][reader_count] of one step */
    struct matcher *matcher; /* NULL: order.placement is fixed */
    uint16_t *sources;       /* [global batch] readers that send the samples of a step */
    uint32_t *destinations;  /* [global batch] */
};

/* Whether a word is the second of two that are allowed. */
static bool choose(const char *text, const char *first, const char *second)
{
    bool is_second = strcmp(text, second) == 0;
    if (!is_second && strcmp(text, first) != 0)
        fail(usage);
    return is_second;
}

/* A dataset of exactly `steps` steps. */
static void settle_plan(struct job *job, uint64_t row_length, uint64_t seed, bool local)
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
        .locality =
            local ? locality_number((struct locality){.nodes = job->reader_count, .readers = 1})
                  : 0,
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
        .copies = 1,
    };
    struct error err;
    error_clear(&err);
    check(assigner_new(&options, &job->assigner, &err), &err);
    job->owners = allocate(job->plan.window_rows, sizeof(uint16_t));
    job->counts = allocate((size_t)job->reader_count * job->reader_count, 1);
    job->sources = allocate(job->plan.global_batch, sizeof *job->sources);
    job->destinations = allocate(job->plan.global_batch, sizeof *job->destinations);
    job->matcher = job->plan.locality ? matcher_new(&job->plan) : NULL;
    if (job->plan.locality && !job->matcher)
        fail("out of memory");
}

static void write_step(struct job *job, FILE *file)
{
    size_t bytes = (size_t)job->reader_count * job->reader_count;
    if (fwrite(job->counts, 1, bytes, file) != bytes)
        fail("the schedule cannot be written");
    memset(job->counts, 0, bytes);
}

static void count_step(struct job *job, uint64_t epoch, uint64_t step)
{
    uint64_t first = step * job->plan.global_batch;
    if (job->matcher)
        matcher_match(job->matcher, epoch, step, job->destinations);
    for (uint64_t i = 0; i < job->plan.global_batch; i++) {
        uint64_t destination = first + (job->matcher ? job->destinations[i] : i);
        uint32_t from = job->sources[i];
        uint32_t to = job->reader_of_trainer[plan_recipient_of(&job->plan, destination).trainer];
        uint8_t *count = &job->counts[(size_t)from * job->reader_count + to];
        if (*count == UINT8_MAX && from != to)
            fail("more than 255 records from one reader to another in a step: take more readers");
        *count += from != to;
    }
}

/* Goes through the positions of a window; writes the steps that end in it. */
static void count_window(struct job *job, const struct plan_epoch *epoch,
                         const struct plan_window *window, FILE *file)
{
    struct locality_near near = locality_near(&job->plan);
    uint64_t end = window->first_position + window->sample_count;
    for (uint64_t position = window->first_position; position < end; position++) {
        struct plan_location location = plan_location_at(window, position);
        uint64_t step = position / job->plan.global_batch, i = position % job->plan.global_batch;
        job->sources[i] = job->owners[location.window_row] & ASSIGN_READER_MASK;
        if (job->matcher)
            job->destinations[i] = locality_trainer(
                near, plan_row_at(epoch, window->first_row_position + location.window_row));
        if (i + 1 == job->plan.global_batch) {
            count_step(job, epoch->epoch, step);
            write_step(job, file);
        }
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
            count_window(job, &epoch, &window, file);
    }
}

static void print_shape(char **numbers)
{
    struct job job = {.reader_count = (uint32_t)parse_number(numbers[0], ASSIGN_MAX_READERS, usage),
                      .step_count = 1 << 16};
    settle_plan(&job, 1, 1, choose(numbers[4], "fixed", "local"));
    free(job.reader_of_trainer);
    struct round_shape shape;
    struct error err;
    error_clear(&err);
    uint64_t bytes = parse_number(numbers[1], UINT32_MAX, usage);
    const struct round_record record = {.bytes = bytes,
                                        .packed_bytes = bytes < ROUND_ZERO_COPY_BYTES ? bytes : 0};
    const struct round_peers peers = {.readers = job.reader_count, .rings = TRAINERS_PER_READER};
    if (round_shape_choose(&job.plan, &peers, (uint32_t)parse_number(numbers[2], 1 << 20, usage),
                           &record, 0, parse_number(numbers[3], UINT64_MAX, usage), &shape,
                           &err) == STATUS_OK)
        printf("{\"steps\":%u,\"stripes\":%u,\"buffers\":%llu}\n", shape.steps_per_round,
               shape.stripes_per_step,
               (unsigned long long)(shape.in_flight * record.packed_bytes *
                                    (round_max_sent(&job.plan, shape) +
                                     round_max_received(&job.plan, shape, TRAINERS_PER_READER))));
    else
        printf("{\"error\":\"%s\"}\n", err.message);
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "shape") == 0) {
        print_shape(argv + 2);
        return EXIT_SUCCESS;
    }
    if (argc != 8)
        fail(usage);
    bool warm = choose(argv[6], "cold", "warm"), local = choose(argv[7], "fixed", "local");
    struct job job = {.reader_count = (uint32_t)parse_number(argv[2], ASSIGN_MAX_READERS, usage),
                      .step_count = (uint32_t)parse_number(argv[3], 1 << 20, usage)};
    settle_plan(&job, parse_number(argv[4], UINT32_MAX, usage),
                parse_number(argv[5], UINT64_MAX, usage), local);
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
    matcher_free(job.matcher);
    free(job.destinations);
    free(job.sources);
    free(job.owners);
    free(job.counts);
    free(job.reader_of_trainer);
    return EXIT_SUCCESS;
}
