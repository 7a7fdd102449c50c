/* penstock-bench-anchors: what choosing samples costs at one size, on one core.
 *
 *     penstock-bench-anchors FRAMES
 *
 * Rows of 100 frames, episodes of 1,000. Three ways to choose: windows of 16 steps, padded; a
 * random quarter of the frames (samples.where); and windows where one frame in 32 is
 * missing. Measured are anchors_build(), and look-ups of random places, frames and episodes; and of
 * a plan of these samples, with steps of 256 and the default window: its tables, its epochs, the
 * frames of random positions one at a time, and of positions in order, as rounds are planned.
 *
 * Times are of the processor that the program has. Bytes are the tables, and the most memory that
 * the process has had so far, with the masks and ends that it was given. Prints one JSON object.
 * Judges nothing.
 */
#include "program.h"

#include "anchors/anchors.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/random.h"
#include "base/size.h"
#include "plan/order/tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ROW_LENGTH = 100, EPISODE_LENGTH = 1000, STEPS = 16, LOOK_UPS = 1000000 };
enum { GLOBAL_BATCH = 256, PLANNED_WINDOWS = 4, BLOCK = 256 };

struct case_spec {
    const char *name;
    bool steps, missing, where;
};

static const struct case_spec cases[] = {
    {"windows", true, false, false}, {"where", false, false, true}, {"missing", true, true, false}};

/* Each bit is set with a probability of 2^-draws. */
static uint64_t *make_mask(uint64_t frames, int draws)
{
    uint64_t words = size_divide_up(frames, 64), *mask = malloc(words * sizeof *mask);
    if (!mask)
        fail("out of memory");
    for (uint64_t w = 0; w < words; w++) {
        mask[w] = UINT64_MAX;
        for (int d = 0; d < draws; d++)
            mask[w] &= random_u64(1, (uint64_t)d, w);
    }
    return mask;
}

static uint64_t *make_ends(uint64_t frames, uint64_t *ret_count)
{
    uint64_t count = size_divide_up(frames, EPISODE_LENGTH), *ends = malloc(count * sizeof *ends);
    if (!ends)
        fail("out of memory");
    for (uint64_t i = 0; i < count; i++)
        ends[i] = i + 1 < count ? (i + 1) * EPISODE_LENGTH : frames;
    *ret_count = count;
    return ends;
}

static double peak_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

/* Nanoseconds of one look-up; `sum` keeps the compiler from leaving them out. */
static double time_places(const struct anchors *anchors, uint64_t *sum)
{
    uint64_t start = clock_process_cpu_ns(), rows = anchors_row_count(anchors);
    for (uint64_t i = 0; i < LOOK_UPS; i++) {
        uint64_t bits = random_u64(2, 0, i), row = random_below(bits, rows);
        uint32_t samples = anchors_row_samples(anchors, row);
        if (samples > 0)
            *sum += anchors_frame_at(anchors, row, (uint32_t)bits % samples);
    }
    return (double)(clock_process_cpu_ns() - start) / LOOK_UPS;
}

static double time_frames(const struct anchors *anchors, uint64_t *sum)
{
    uint64_t start = clock_process_cpu_ns(), row;
    for (uint64_t i = 0; i < LOOK_UPS; i++)
        *sum += anchors_offset_of(anchors,
                                  random_below(random_u64(3, 0, i), anchors_frames(anchors)), &row);
    return (double)(clock_process_cpu_ns() - start) / LOOK_UPS;
}

static double time_episodes(const struct anchors *anchors, uint64_t *sum)
{
    uint64_t start = clock_process_cpu_ns();
    for (uint64_t i = 0; i < LOOK_UPS; i++)
        *sum +=
            anchors_episode_of(anchors, random_below(random_u64(4, 0, i), anchors_frames(anchors)))
                .first;
    return (double)(clock_process_cpu_ns() - start) / LOOK_UPS;
}

static double time_positions(const struct plan_epoch *epoch, uint64_t *sum)
{
    uint64_t start = clock_process_cpu_ns();
    for (uint64_t i = 0; i < LOOK_UPS; i++)
        *sum +=
            plan_sample_at(epoch, random_below(random_u64(5, 0, i), epoch->plan.position_count));
    return (double)(clock_process_cpu_ns() - start) / LOOK_UPS;
}

/* The samples of a window, its first positions; returns how many. */
static uint64_t look_up_window(const struct plan_epoch *epoch, uint64_t index, uint64_t *rows,
                               uint64_t *sum)
{
    struct plan_window window;
    struct plan_location locations[BLOCK];
    plan_window_at(&window, epoch, index);
    for (uint64_t i = 0; i < window.row_count; i++)
        rows[i] = window.first_row_position + i;
    plan_rows_at(epoch, rows, window.row_count);
    for (uint64_t done = 0; done < window.sample_count; done += BLOCK) {
        uint64_t count = min_u64(BLOCK, window.sample_count - done);
        plan_locations_at(&window, window.first_position + done, count, locations);
        for (uint64_t i = 0; i < count; i++)
            *sum += plan_frame_at(&epoch->plan, rows[locations[i].window_row], locations[i].offset);
    }
    return window.sample_count;
}

static double time_in_order(const struct plan_epoch *epoch, uint64_t *sum)
{
    uint64_t *rows = malloc(epoch->plan.window_rows * sizeof *rows), done = 0;
    if (!rows)
        fail("out of memory");
    uint64_t start = clock_process_cpu_ns();
    for (uint64_t w = 0; w < epoch->plan.window_count && done < LOOK_UPS; w++)
        done += look_up_window(epoch, w, rows, sum);
    free(rows);
    return (double)(clock_process_cpu_ns() - start) / (double)done;
}

/* Prints the figures of a plan. */
static void measure_plan(const struct anchors *anchors, uint64_t *sum)
{
    const struct plan_options options = {.sample_count = anchors_count(anchors),
                                         .row_length = ROW_LENGTH,
                                         .anchors = anchors,
                                         .seed = 17,
                                         .shuffle = true,
                                         .global_batch = GLOBAL_BATCH,
                                         .last = PLAN_PARTIAL,
                                         .trainer_count = 1};
    struct plan plan;
    struct plan_epoch epoch;
    struct error err;
    error_clear(&err);
    uint64_t start = clock_process_cpu_ns();
    check(plan_init(&plan, &options, &err), &err);
    uint64_t epochs = plan_epochs_at_once(&plan, PLANNED_WINDOWS);
    check(plan_tables_new(&plan, epochs, 1, &err), &err);
    double plan_s = (double)(clock_process_cpu_ns() - start) / 1e9;
    start = clock_process_cpu_ns();
    plan_epoch_init(&epoch, &plan, 0);
    double epoch_s = (double)(clock_process_cpu_ns() - start) / 1e9;
    double position_ns = time_positions(&epoch, sum), order_ns = time_in_order(&epoch, sum);
    printf(",\"window_rows\":%" PRIu64
           ",\"plan_mb\":%.1f,\"plan_s\":%.3f,\"epoch_s\":%.3f,\"position_ns\":%.0f,"
           "\"order_ns\":%.1f",
           plan.window_rows, (double)plan_tables_bytes(&plan, epochs, 1) / 1e6, plan_s, epoch_s,
           position_ns, order_ns);
    plan_tables_free(plan.tables);
}

static void measure(const struct case_spec *spec, uint64_t frames)
{
    int32_t steps[STEPS];
    for (int32_t i = 0; i < STEPS; i++)
        steps[i] = i - 1;
    const uint64_t store_frames[] = {0, frames};
    uint64_t episodes, *ends = make_ends(frames, &episodes), sum = 0;
    uint64_t *mask = spec->where     ? make_mask(frames, 2)
                     : spec->missing ? make_mask(frames, 5)
                                     : NULL;
    const struct anchors_options options = {.store_frames = store_frames,
                                            .store_count = 1,
                                            .row_length = ROW_LENGTH,
                                            .episode_ends = ends,
                                            .episode_count = episodes,
                                            .steps = spec->steps ? steps : NULL,
                                            .step_count = spec->steps ? STEPS : 0,
                                            .stride = 1,
                                            .pad_before = spec->steps ? 1 : 0,
                                            .pad_after = spec->steps ? 7 : 0,
                                            .blocked = spec->missing ? mask : NULL,
                                            .wanted = spec->where ? mask : NULL};
    struct anchors_counts counts;
    struct anchors *anchors;
    struct error err;

    error_clear(&err);
    uint64_t start = clock_process_cpu_ns();
    check(anchors_build(&options, &anchors, &counts, &err), &err);
    double build_s = (double)(clock_process_cpu_ns() - start) / 1e9;
    free(mask);
    free(ends);
    double place_ns = time_places(anchors, &sum), frame_ns = time_frames(anchors, &sum),
           episode_ns = time_episodes(anchors, &sum);
    printf("%s\"%s\":{\"samples\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"episodes\":%" PRIu64
           ",\"build_s\":%.3f,\"table_mb\":%.1f,\"place_ns\":%.0f,"
           "\"frame_ns\":%.0f,\"episode_ns\":%.0f",
           spec == cases ? "" : ",", spec->name, counts.samples, anchors_row_count(anchors),
           episodes, build_s, (double)anchors_bytes(anchors) / 1e6, place_ns, frame_ns, episode_ns);
    measure_plan(anchors, &sum);
    printf(",\"peak_mb\":%.1f,\"checksum\":%" PRIu64 "}", peak_mb(), sum);
    anchors_free(anchors);
}

int main(int argc, char **argv)
{
    static const char usage[] = "usage: penstock-bench-anchors FRAMES";
    uint64_t frames = parse_number(argc == 2 ? argv[1] : "", UINT64_MAX, usage);
    printf("{\"frames\":%" PRIu64 ",", frames);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        measure(&cases[i], frames);
    printf("}\n");
    return EXIT_SUCCESS;
}
