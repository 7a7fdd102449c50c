/* See frame_runs.h. */
#include "dataset/frames/frame_runs.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>

static enum status grow(struct frame_runs *runs, bool values, struct error *err)
{
    size_t room = runs->room > 0 ? 2 * runs->room : 1024;
    uint64_t *ends = realloc(runs->ends, room * sizeof *ends);
    if (ends)
        runs->ends = ends;
    int64_t *more = ends && values ? realloc(runs->values, room * sizeof *more) : NULL;
    if (more)
        runs->values = more;
    if (!ends || (values && !more))
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu runs of frames", room);
    runs->room = room;
    return STATUS_OK;
}

static enum status append(struct frame_runs *runs, uint64_t end, const int64_t *value,
                          struct error *err)
{
    if (runs->count == runs->room) {
        enum status status = grow(runs, value, err);
        if (status != STATUS_OK)
            return status;
    }
    runs->ends[runs->count] = end;
    if (value)
        runs->values[runs->count] = *value;
    runs->count++;
    return STATUS_OK;
}

enum status frame_runs_add_end(struct frame_runs *runs, uint64_t end, struct error *err)
{
    return append(runs, end, NULL, err);
}

void frame_runs_done(struct frame_runs *runs)
{
    free(runs->ends);
    free(runs->values);
}

/* Ends
 * ---------------------------------------------------------------------------------------------- */

static enum status take_ends(void *argument, const struct frame_array *array, uint64_t first,
                             uint64_t count, const void *items, struct error *err)
{
    struct frame_runs *runs = argument;
    enum status status = STATUS_OK;
    for (uint64_t i = 0; status == STATUS_OK && i < count; i++) {
        int64_t end = dtype_integer(array->view.dtype, items, i);
        uint64_t before = first + i > 0 ? runs->ends[runs->count - 1] - array->first : 0;
        if (end < 0 || (uint64_t)end > array->frames)
            return error_set(err, STATUS_INVALID,
                             "item %" PRIu64 " is %" PRId64 ", but the store has %" PRIu64
                             " frame%s: an item is the frame behind a run of frames",
                             first + i, end, array->frames, count_plural(array->frames));
        if ((uint64_t)end < before)
            return error_set(err, STATUS_INVALID,
                             "ends must rise, but item %" PRIu64 " is %" PRId64 ", after %" PRIu64,
                             first + i, end, before);
        status = append(runs, array->first + (uint64_t)end, NULL, err);
    }
    return status;
}

enum status frame_runs_add_ends(struct frame_runs *runs, const struct frame_array *array, bool open,
                                struct error *err)
{
    enum status status = frame_array_expect_integers(array, err);
    if (status == STATUS_OK)
        status = frame_array_read(array, take_ends, runs, err);
    if (status != STATUS_OK || open || runs->ends[runs->count - 1] == array->first + array->frames)
        return status;
    return frame_array_name(array,
                            error_set(err, STATUS_INVALID,
                                      "the last item is %" PRIu64 ", but the store has %" PRIu64
                                      " frame%s: the last item must be that number",
                                      runs->ends[runs->count - 1] - array->first, array->frames,
                                      count_plural(array->frames)),
                            err);
}

/* Values
 * ---------------------------------------------------------------------------------------------- */

struct taking {
    struct frame_runs *runs;
    bool continues; /* the last run, of the store before, goes on if its value does */
};

static enum status take_values(void *argument, const struct frame_array *array, uint64_t first,
                               uint64_t count, const void *items, struct error *err)
{
    struct taking *taking = argument;
    struct frame_runs *runs = taking->runs;
    enum status status = STATUS_OK;
    for (uint64_t i = 0; status == STATUS_OK && i < count; i++) {
        int64_t value = dtype_integer(array->view.dtype, items, i);
        uint64_t end = array->first + first + i + 1;
        if ((first + i > 0 || taking->continues) && runs->values[runs->count - 1] == value)
            runs->ends[runs->count - 1] = end;
        else
            status = append(runs, end, &value, err);
    }
    return status;
}

struct start {
    int64_t value;
    uint64_t frame;
};

static int compare_starts(const void *a, const void *b)
{
    const struct start *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Finds the first run, from number `from` on, whose value came before. */
static enum status refuse_returns(const struct frame_runs *runs, size_t from,
                                  const struct frame_array *array, struct error *err)
{
    size_t count = runs->count - from;
    struct start *starts = malloc(count * sizeof *starts);
    const struct start *back = NULL;
    if (!starts)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu runs of frames", count);
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = from + i > 0 ? runs->ends[from + i - 1] : 0;
        starts[i] =
            (struct start){runs->values[from + i], begin > array->first ? begin - array->first : 0};
    }
    qsort(starts, count, sizeof *starts, compare_starts);
    for (size_t i = 1; i < count; i++)
        if (starts[i].value == starts[i - 1].value && (!back || starts[i].frame < back->frame))
            back = &starts[i];
    enum status status = STATUS_OK;
    if (back)
        status = frame_array_name(
            array,
            error_set(err, STATUS_INVALID,
                      "%" PRId64 " comes back at frame %" PRIu64
                      ", after other values: frames of one episode must lie one after another",
                      back->value, back->frame),
            err);
    free(starts);
    return status;
}

enum status frame_runs_add_values(struct frame_runs *runs, const struct frame_array *array,
                                  bool continuous, bool once, struct error *err)
{
    struct taking taking = {runs, continuous && runs->count > 0};
    size_t before = runs->count;
    enum status status = frame_array_expect_integers(array, err);
    if (status == STATUS_OK)
        status = frame_array_expect_frames(array, err);
    if (status == STATUS_OK)
        status = frame_array_read(array, take_values, &taking, err);
    if (status != STATUS_OK || !once)
        return status;
    return refuse_returns(runs, taking.continues ? before - 1 : before, array, err);
}
