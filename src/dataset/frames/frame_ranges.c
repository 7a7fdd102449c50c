/* See frame_ranges.h. A store is read once: its coordinate rises past the keys that ranges begin
 * and end at, which are sorted. */
#include "dataset/frames/frame_ranges.h"

#include "dataset/fields/select.h"
#include "dataset/frames/frame_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key, and where the first frame of the store that has it, or a later one, is written down. */
struct query {
    int64_t key;
    uint64_t *ret_frame;
};

/* What is known of a range. */
struct found {
    struct frame_key_interval low, high; /* what its ends stand for */
    uint64_t begin, end;                 /* of the store that is read: frames */
    size_t last;                         /* the run that ends last; SIZE_MAX: there is none */
    uint64_t beside; /* a frame behind a range without frames, over all stores; 0: none */
};

struct finding {
    const struct dataset *dataset;
    const char *option, *path;
    const struct range *ranges; /* [count] */
    size_t count;
    struct found *found;            /* [count] */
    struct query *queries;          /* [2 * count] */
    struct frame_coordinate before; /* of the store before, closed */
    bool has_before;
    int64_t least, most; /* keys of all stores */
    uint64_t series;     /* the frame that the series begins at */
    struct frame_ranges result;
    size_t room; /* for runs */
    /* Of the store that is read: */
    struct frame_coordinate *coordinate;
    size_t next; /* query */
    int64_t first, last;
};

/* Reading a store
 * ---------------------------------------------------------------------------------------------- */

static enum status falls(const struct finding *finding, uint64_t frame, int64_t key,
                         struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "item %" PRIu64 " is %s, after %s: ranges need a coordinate that never falls; "
                     "write numbers of frames, or an array of truth values",
                     frame, frame_key_text(finding->coordinate, key).text,
                     frame_key_text(finding->coordinate, finding->last).text);
}

static enum status take_items(void *argument, const struct frame_array *array, uint64_t first,
                              uint64_t count, const void *items, struct error *err)
{
    struct finding *finding = argument;
    (void)array;
    for (uint64_t i = 0; i < count; i++) {
        int64_t key;
        if (!frame_key(finding->coordinate, items, i, &key))
            return error_set(err, STATUS_INVALID,
                             "item %" PRIu64 " is no %s: ranges need one for each frame; write "
                             "numbers of frames, or an array of truth values",
                             first + i, finding->coordinate->is_time ? "time" : "number");
        if (first + i == 0)
            finding->first = key;
        else if (key < finding->last)
            return falls(finding, first + i, key, err);
        finding->last = key;
        for (; finding->next < 2 * finding->count; finding->next++) {
            const struct query *query = &finding->queries[finding->next];
            if (query->key > key)
                break;
            *query->ret_frame = first + i;
        }
    }
    return STATUS_OK;
}

static int compare_queries(const void *a, const void *b)
{
    const struct query *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static bool is_open(struct range_piece piece)
{
    return piece.length == 0;
}

/* The queries of a store: what its calendar makes of the ends. */
static enum status make_queries(struct finding *finding, uint64_t frames, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t r = 0; status == STATUS_OK && r < finding->count; r++) {
        const struct range *range = &finding->ranges[r];
        struct found *found = &finding->found[r];
        found->low = (struct frame_key_interval){INT64_MIN, INT64_MIN};
        found->high = (struct frame_key_interval){INT64_MAX, INT64_MAX};
        found->begin = found->end = frames;
        if (!is_open(range->low))
            status = frame_key_interval(finding->coordinate, range->low, &found->low, err);
        if (status == STATUS_OK && !is_open(range->high))
            status = frame_key_interval(finding->coordinate, range->high, &found->high, err);
        if (status == STATUS_OK && found->low.begin >= found->high.end &&
            found->low.begin > found->high.begin)
            status = error_set(err, STATUS_INVALID, "%s: '%s' ends before it begins",
                               finding->option, text_shown(range->text).text);
        finding->queries[2 * r] = (struct query){found->low.begin, &found->begin};
        finding->queries[2 * r + 1] = is_open(range->high)
                                          ? finding->queries[2 * r]
                                          : (struct query){found->high.end, &found->end};
    }
    if (status == STATUS_OK)
        qsort(finding->queries, 2 * finding->count, sizeof *finding->queries, compare_queries);
    return status;
}

/* Runs
 * ---------------------------------------------------------------------------------------------- */

/* Adds frames of a store, or makes the range's last run of the same series longer. */
static enum status add_run(struct finding *finding, size_t r, uint64_t first, uint64_t end,
                           struct error *err)
{
    struct frame_ranges *result = &finding->result;
    struct found *found = &finding->found[r];
    struct frame_range_run *last = found->last < SIZE_MAX ? &result->runs[found->last] : NULL;
    if (last && last->end == first && first > finding->series) {
        last->end = end;
        return STATUS_OK;
    }
    if (result->count == finding->room) {
        size_t room = finding->room > 0 ? 2 * finding->room : 16;
        struct frame_range_run *runs = realloc(result->runs, room * sizeof *runs);
        if (!runs)
            return error_set(err, STATUS_NO_MEMORY, "no memory for %zu runs of frames", room);
        result->runs = runs;
        finding->room = room;
    }
    found->last = result->count;
    result->runs[result->count++] =
        (struct frame_range_run){r, first, end, .begins = first == finding->series};
    return STATUS_OK;
}

static enum status add_runs(struct finding *finding, size_t s, struct error *err)
{
    uint64_t first = finding->dataset->store_frames[s];
    enum status status = STATUS_OK;
    for (size_t r = 0; status == STATUS_OK && r < finding->count; r++) {
        struct found *found = &finding->found[r];
        if (found->begin < found->end)
            status = add_run(finding, r, first + found->begin, first + found->end, err);
        else if (first + found->begin < finding->dataset->frame_count)
            found->beside = first + found->begin;
    }
    return status;
}

static enum status read_store(struct finding *finding, size_t s, struct error *err)
{
    const uint64_t *frames = finding->dataset->store_frames + s;
    int64_t last = finding->last;
    enum status status =
        frame_keys_expect(finding->coordinate, finding->has_before ? &finding->before : NULL, err);
    if (status == STATUS_OK)
        status = make_queries(finding, frames[1] - frames[0], err);
    finding->next = 0;
    if (status == STATUS_OK)
        status = frame_array_read(&finding->coordinate->array, take_items, finding, err);
    if (status != STATUS_OK)
        return status;
    if (!finding->has_before || finding->first < last)
        finding->series = frames[0];
    if (!finding->has_before || finding->first < finding->least)
        finding->least = finding->first;
    if (!finding->has_before || finding->last > finding->most)
        finding->most = finding->last;
    return add_runs(finding, s, err);
}

static enum status find_in_stores(struct finding *finding, struct error *err)
{
    const struct dataset *dataset = finding->dataset;
    enum status status = STATUS_OK;
    for (size_t s = 0; status == STATUS_OK && s < dataset->store_count; s++) {
        struct frame_coordinate coordinate;
        if (dataset->store_frames[s] == dataset->store_frames[s + 1])
            continue;
        status = frame_coordinate_open(dataset, s, finding->option, finding->path,
                                       FRAME_COORDINATE_FRAMES, &coordinate, err);
        if (status != STATUS_OK)
            break;
        finding->coordinate = &coordinate;
        status = read_store(finding, s, err);
        frame_coordinate_done(&coordinate);
        finding->before = coordinate;
        finding->has_before = true;
    }
    return status;
}

/* Checks
 * ---------------------------------------------------------------------------------------------- */

/* INVALID: all that the end stands for lies before the first frame, or behind the last one. */
static enum status check_end(const struct finding *finding, const struct range *range,
                             struct frame_key_interval end, const char *verb, struct error *err)
{
    bool is_before = end.end <= finding->least;
    if (!is_before && end.begin <= finding->most)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID, "%s: '%s' %s %s frame, which is at %s%s", finding->option,
        text_shown(range->text).text, verb, is_before ? "before the first" : "after the last",
        frame_key_text(&finding->before, is_before ? finding->least : finding->most).text,
        range->low.text == range->high.text ? "" : ": an end may be left out");
}

static enum status check_range(const struct finding *finding, size_t r, struct error *err)
{
    const struct range *range = &finding->ranges[r];
    const struct found *found = &finding->found[r];
    bool is_one = range->low.text == range->high.text;
    enum status status = STATUS_OK;
    char before[DATASET_DATE_BYTES], behind[DATASET_DATE_BYTES];
    if (!is_open(range->low))
        status = check_end(finding, range, found->low, is_one ? "lies" : "begins", err);
    if (status == STATUS_OK && !is_open(range->high))
        status = check_end(finding, range, found->high, is_one ? "lies" : "ends", err);
    if (status != STATUS_OK || found->last < SIZE_MAX)
        return status;
    if (found->beside == 0)
        return error_set(err, STATUS_INVALID, "%s: '%s' has no frame", finding->option,
                         text_shown(range->text).text);
    dataset_date(finding->dataset, finding->path, found->beside - 1, before);
    dataset_date(finding->dataset, finding->path, found->beside, behind);
    return error_set(err, STATUS_INVALID,
                     "%s: '%s' has no frame: frame %" PRIu64 " is at %s, and frame %" PRIu64
                     " at %s",
                     finding->option, text_shown(range->text).text, found->beside - 1, before,
                     found->beside, behind);
}

/* The one array that all ranges name, or the sample axis's own. */
static enum status find_array(const struct finding *finding, const struct dataset_options *options,
                              char ret_path[2 * ZARR_PATH_BYTES], struct error *err)
{
    struct range_piece array = finding->ranges[0].array;
    char name[ZARR_PATH_BYTES];
    for (size_t r = 1; r < finding->count; r++) {
        struct range_piece other = finding->ranges[r].array;
        if (other.length != array.length || memcmp(other.text, array.text, array.length) != 0)
            return error_set(err, STATUS_INVALID,
                             "%s: '%s' and '%s' are by two arrays: all ranges are by one",
                             finding->option, text_shown(finding->ranges[0].text).text,
                             text_shown(finding->ranges[r].text).text);
    }
    if (array.length > 0) {
        snprintf(name, sizeof name, "%.*s", (int)array.length, array.text);
        snprintf(ret_path, 2 * ZARR_PATH_BYTES, "%s", select_path(options, name).text);
        return STATUS_OK;
    }
    enum status status = frame_coordinate_find(finding->dataset, ret_path, err);
    return status != STATUS_OK ? error_prefix(err, status, "%s: '%s': ", finding->option,
                                              text_shown(finding->ranges[0].text).text)
                               : STATUS_OK;
}

static int compare_runs(const void *a, const void *b)
{
    const struct frame_range_run *x = a, *y = b;
    if (x->range != y->range)
        return x->range < y->range ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

enum status frame_ranges_find(const struct dataset *dataset, const struct dataset_options *options,
                              const char *option, const struct range *ranges, size_t count,
                              struct frame_ranges *ret, struct error *err)
{
    char path[2 * ZARR_PATH_BYTES];
    struct finding finding = {.dataset = dataset,
                              .option = option,
                              .path = path,
                              .ranges = ranges,
                              .count = count,
                              .found = calloc(count, sizeof *finding.found),
                              .queries = calloc(2 * count, sizeof *finding.queries)};
    enum status status = finding.found && finding.queries
                             ? find_array(&finding, options, path, err)
                             : error_set(err, STATUS_NO_MEMORY, "no memory for ranges of frames");
    for (size_t r = 0; finding.found && r < count; r++)
        finding.found[r].last = SIZE_MAX;
    if (status == STATUS_OK)
        status = find_in_stores(&finding, err);
    for (size_t r = 0; status == STATUS_OK && r < count; r++)
        status = check_range(&finding, r, err);
    if (status == STATUS_OK && !(finding.result.array = strdup(path)))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for ranges of frames");
    free(finding.found);
    free(finding.queries);
    if (status != STATUS_OK) {
        frame_ranges_done(&finding.result);
        return status;
    }
    qsort(finding.result.runs, finding.result.count, sizeof *finding.result.runs, compare_runs);
    *ret = finding.result;
    return STATUS_OK;
}

void frame_ranges_done(struct frame_ranges *ranges)
{
    free(ranges->runs);
    free(ranges->array);
    *ranges = (struct frame_ranges){0};
}
