/* See frame_times.h. */
#include "dataset/frames/frame_times.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the usual difference: what a difference may be off. */
static const double tolerance = 0.25;

static bool same(double a, double b)
{
    return !(a < b || a > b) && isfinite(a) && isfinite(b);
}

static enum status append(struct frame_times *times, double difference, double time, uint64_t frame,
                          struct error *err)
{
    struct frame_times_run *last = times->count > 0 ? &times->runs[times->count - 1] : NULL;
    if (last && same(last->difference, difference)) {
        last->count++;
        return STATUS_OK;
    }
    if (times->count == times->room) {
        size_t room = times->room > 0 ? 2 * times->room : 64;
        struct frame_times_run *runs = realloc(times->runs, room * sizeof *runs);
        if (!runs)
            return error_set(err, STATUS_NO_MEMORY, "no memory for %zu runs of times", room);
        times->runs = runs;
        times->room = room;
    }
    times->runs[times->count++] = (struct frame_times_run){difference, time, frame, 1};
    return STATUS_OK;
}

/* Reading
 * ---------------------------------------------------------------------------------------------- */

struct taking {
    struct frame_times *times;
    struct dates_scale scale;       /* of the store */
    struct zarr_encoding *encoding; /* of the store */
    bool continuous;
};

/* Exact for integers: nanoseconds since 1970 have more digits than a double. */
static double difference_of(const struct frame_times *times, bool is_integer, int64_t integer,
                            double number)
{
    int64_t exact;
    if (is_integer && !__builtin_sub_overflow(integer, times->integer, &exact))
        return (double)exact;
    return number - times->number;
}

/* From the last frame of the store before to the first one of this store. */
static enum status cross(const struct taking *taking, double number, double *ret_difference,
                         struct error *err)
{
    const struct frame_times *times = taking->times;
    const struct zarr_encoding *before = &times->encoding, *here = taking->encoding;
    *ret_difference = INFINITY;
    if (!taking->continuous)
        return STATUS_OK;
    if (isfinite(times->scale.origin) && isfinite(taking->scale.origin) &&
        date_calendars_agree(times->scale.calendar, taking->scale.calendar))
        *ret_difference = taking->scale.origin - times->scale.origin + number * taking->scale.unit -
                          times->number * times->scale.unit;
    else if (strcmp(before->units, here->units) == 0 &&
             strcmp(before->calendar, here->calendar) == 0)
        *ret_difference = (number - times->number) * taking->scale.unit;
    else
        return error_set(err, STATUS_INVALID,
                         "its times, in '%s', cannot be compared with those of the store before, "
                         "in '%s', which samples.continuous needs",
                         text_shown(here->units).text, text_shown(before->units).text);
    return STATUS_OK;
}

static enum status take_times(void *argument, const struct frame_array *array, uint64_t first,
                              uint64_t count, const void *items, struct error *err)
{
    const struct taking *taking = argument;
    struct frame_times *times = taking->times;
    enum dtype dtype = array->view.dtype;
    bool is_integer = dtype_is_integer(dtype);
    double origin = isfinite(taking->scale.origin) ? taking->scale.origin : 0;
    enum status status = STATUS_OK;
    for (uint64_t i = 0; status == STATUS_OK && i < count; i++) {
        int64_t integer = is_integer ? dtype_integer(dtype, items, i) : 0;
        double number = frame_array_number(array, items, i), difference;
        if (first + i > 0)
            difference = difference_of(times, is_integer, integer, number) * taking->scale.unit;
        else if (array->first > 0)
            status = cross(taking, number, &difference, err);
        if (status == STATUS_OK && array->first + first + i > 0)
            status = append(times, difference, origin + number * taking->scale.unit,
                            array->first + first + i, err);
        times->integer = integer;
        times->number = number;
    }
    return status;
}

enum status frame_times_add(struct frame_times *times, const struct frame_array *array,
                            bool continuous, struct error *err)
{
    struct zarr_encoding encoding;
    enum status status = frame_array_expect_numbers(array, err);
    zarr_node_encoding(array->node, &encoding);
    struct taking taking = {
        times, dates_scale(array->node->array.stored_type, encoding.units, encoding.calendar),
        &encoding, continuous};
    if (status == STATUS_OK)
        status = frame_array_expect_frames(array, err);
    if (status == STATUS_OK)
        status = frame_array_read(array, take_times, &taking, err);
    times->scale = taking.scale;
    times->encoding = encoding;
    return status;
}

/* Jumps
 * ---------------------------------------------------------------------------------------------- */

static int compare_differences(const void *a, const void *b)
{
    const struct frame_times_run *x = a, *y = b;
    return (x->difference > y->difference) - (x->difference < y->difference);
}

enum status frame_times_settle(struct frame_times *times, struct error *err)
{
    struct frame_times_run *sorted = malloc((times->count + 1) * sizeof *sorted);
    uint64_t total = 0, before = 0;
    size_t count = 0;
    if (!sorted)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu runs of times", times->count);
    for (size_t i = 0; i < times->count; i++)
        if (isfinite(times->runs[i].difference)) {
            sorted[count++] = times->runs[i];
            total += times->runs[i].count;
        }
    qsort(sorted, count, sizeof *sorted, compare_differences);
    times->usual = 0;
    for (size_t i = 0; i < count; i++) {
        before += sorted[i].count;
        times->usual = sorted[i].difference;
        if (2 * before >= total)
            break;
    }
    free(sorted);
    return STATUS_OK;
}

bool frame_times_jumps(const struct frame_times *times, const struct frame_times_run *run)
{
    return !(fabs(run->difference - times->usual) <= tolerance * fabs(times->usual));
}

enum status frame_times_runs(struct frame_times *times, uint64_t frame_count,
                             struct frame_runs *runs, struct error *err)
{
    enum status status = frame_times_settle(times, err);
    for (size_t i = 0; status == STATUS_OK && i < times->count; i++) {
        const struct frame_times_run *run = &times->runs[i];
        for (uint64_t k = 0; status == STATUS_OK && frame_times_jumps(times, run) && k < run->count;
             k++)
            status = frame_runs_add_end(runs, run->first + k, err);
    }
    return status != STATUS_OK ? status : frame_runs_add_end(runs, frame_count, err);
}

void frame_times_done(struct frame_times *times)
{
    free(times->runs);
    *times = (struct frame_times){0};
}
