/* See missing_dates.h. */
#include "dataset/frames/missing_dates.h"

#include "dataset/fields/small_array.h"
#include "dataset/frames/dates.h"
#include "zarr/hierarchy/group_attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char advice[] =
    "write the numbers of these frames as an array of integers, and set samples.missing to it";

/* Dates
 * ---------------------------------------------------------------------------------------------- */

bool missing_dates_parse(const char *text, int64_t *ret_seconds)
{
    struct date_period period;
    bool is_day = strlen(text) >= strlen("2020-01-08");
    if (!is_day || !date_parse(CALENDAR_GREGORIAN, text, strlen(text), &period))
        return false;
    *ret_seconds = period.begin;
    return true;
}

bool missing_dates_frequency(const char *text, int64_t *ret_seconds)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"", 3600}, {"h", 3600}, {"m", 60}, {"s", 1}, {"d", 86400}, {"D", 86400}};
    char *end;
    long count = strtol(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end > text && strcmp(end, units[i].unit) == 0 && count > 0 && count < 1000000) {
            *ret_seconds = count * units[i].seconds;
            return true;
        }
    return false;
}

/* Frames
 * ---------------------------------------------------------------------------------------------- */

/* The dates of a store's frames. */
struct dates {
    uint64_t count;   /* frames */
    int64_t *seconds; /* [count], rising, owned: the array `dates`; NULL: by start and interval */
    int64_t start, interval;
};

static bool find_frame(const struct dates *dates, int64_t date, uint64_t *ret_frame)
{
    if (!dates->seconds) {
        int64_t since = date - dates->start;
        *ret_frame = (uint64_t)(since / dates->interval);
        return since >= 0 && since % dates->interval == 0 && *ret_frame < dates->count;
    }
    uint64_t low = 0, high = dates->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (dates->seconds[middle] < date)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_frame = low;
    return low < dates->count && dates->seconds[low] == date;
}

static enum status take_dates(const struct zarr_array *array, const unsigned char *items,
                              struct dates *dates, struct error *err)
{
    int64_t unit = dates_unit(array->stored_type);
    if (array->rank != 1 || unit == 0)
        return error_set(err, STATUS_INVALID,
                         "the array 'dates' is %d-dimensional and of %s, and not one-dimensional "
                         "and of datetime64: %s",
                         array->rank,
                         array->stored_type[0] ? array->stored_type : dtype_name(array->dtype),
                         advice);
    dates->count = array->shape[0];
    dates->seconds = calloc(dates->count, sizeof *dates->seconds);
    if (!dates->seconds)
        return error_set(err, STATUS_NO_MEMORY, "no memory for dates");
    for (uint64_t i = 0; i < dates->count; i++) {
        int64_t value = dtype_integer(DTYPE_INT64, items, i);
        bool fits = unit < 0 || !__builtin_mul_overflow(value, unit, &dates->seconds[i]);
        if (unit < 0)
            dates->seconds[i] = value / -unit;
        if (!fits || (i > 0 && dates->seconds[i] <= dates->seconds[i - 1]))
            return error_set(err, STATUS_INVALID,
                             "the array 'dates' does not rise at item %" PRIu64
                             " by a second or more: %s",
                             i, advice);
    }
    return STATUS_OK;
}

static enum status read_text(const struct store *store, enum zarr_format format, const char *name,
                             bool (*parse)(const char *, int64_t *), int64_t *ret_value,
                             struct error *err)
{
    struct zarr_texts texts;
    enum status status = zarr_group_texts(store, format, "", name, &texts, err);
    if (status != STATUS_OK)
        return status;
    if (texts.count != 1)
        status = error_set(err, STATUS_INVALID,
                           "there is neither an array 'dates' nor an attribute '%s', which would "
                           "say which frames these dates are: %s",
                           name, advice);
    else if (!parse(texts.items[0], ret_value))
        status =
            error_set(err, STATUS_INVALID, "the attribute '%s' is '%.40s', which is not read: %s",
                      name, text_shown(texts.items[0]).text, advice);
    zarr_texts_done(&texts);
    return status;
}

static enum status read_dates(const struct dataset *dataset, const struct store *store,
                              enum zarr_format format, uint64_t frames, struct dates *dates,
                              struct error *err)
{
    struct zarr_hierarchy *hierarchy = NULL;
    unsigned char *items = NULL;
    const struct zarr_node *node;
    enum status status = small_array_read(dataset, store, "dates", &hierarchy, &node, &items, err);
    *dates = (struct dates){.count = frames};
    if (status == STATUS_OK) {
        status = take_dates(&node->array, items, dates, err);
        free(items);
        zarr_hierarchy_free(hierarchy);
        return status;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    status = read_text(store, format, "start_date", missing_dates_parse, &dates->start, err);
    return status != STATUS_OK ? status
                               : read_text(store, format, "frequency", missing_dates_frequency,
                                           &dates->interval, err);
}

/* Adds the frames of the dates, numbered from `first` on. */
static enum status add_frames(const struct zarr_texts *missing, const struct dates *dates,
                              uint64_t first, uint64_t **frames, size_t *count, struct error *err)
{
    uint64_t *more = realloc(*frames, (*count + missing->count) * sizeof *more);
    if (!more)
        return error_set(err, STATUS_NO_MEMORY, "no memory for dates");
    *frames = more;
    for (size_t i = 0; i < missing->count; i++) {
        const char *text = missing->items[i];
        uint64_t frame;
        int64_t date;
        if (!missing_dates_parse(text, &date))
            return error_set(err, STATUS_INVALID,
                             "'%.40s' is no date such as 2020-01-08T06:00:00: %s",
                             text_shown(text).text, advice);
        if (!find_frame(dates, date, &frame))
            return error_set(err, STATUS_INVALID, "no frame has the date %.40s: %s",
                             text_shown(text).text, advice);
        more[(*count)++] = first + frame;
    }
    return STATUS_OK;
}

enum status missing_dates_add(const struct dataset *dataset, size_t s, uint64_t first,
                              uint64_t length, uint64_t **frames, size_t *count, struct error *err)
{
    const struct dataset_private *private = dataset->private;
    enum zarr_format format = private->hierarchies[s]->format;
    const char *name;
    const struct store *store = store_joined_at(private->store, s, &name);
    struct zarr_texts missing = {0};
    struct dates dates = {0};
    enum status status = zarr_group_texts(store, format, "", "missing_dates", &missing, err);
    if (status == STATUS_OK && missing.count > 0)
        status = read_dates(dataset, store, format, length, &dates, err);
    if (status == STATUS_OK && missing.count > 0 && dates.count != length)
        status = error_set(err, STATUS_INVALID,
                           "the array 'dates' has %" PRIu64 " dates, and there are %" PRIu64
                           " frames: %s",
                           dates.count, length, advice);
    if (status == STATUS_OK && missing.count > 0)
        status = add_frames(&missing, &dates, first, frames, count, err);
    free(dates.seconds);
    zarr_texts_done(&missing);
    if (status != STATUS_OK)
        return error_prefix(err, status, "store %s: attribute missing_dates: ",
                            dataset_store_text(dataset, s).text);
    return STATUS_OK;
}

/* Samples along another axis than the first are not by date. */
static bool is_by_date(const struct dataset *dataset)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        if (origin->array && origin->own_store == 0 && origin->axis != 0)
            return false;
    }
    return true;
}

enum status missing_dates_find(const struct dataset *dataset, uint64_t **ret_frames,
                               size_t *ret_count, struct error *err)
{
    uint64_t *frames = NULL;
    size_t count = 0;
    enum status status = STATUS_OK;
    for (size_t s = 0; status == STATUS_OK && is_by_date(dataset) && s < dataset->store_count; s++)
        status = missing_dates_add(dataset, s, dataset->store_frames[s],
                                   dataset->store_frames[s + 1] - dataset->store_frames[s], &frames,
                                   &count, err);
    if (status != STATUS_OK || count == 0) {
        free(frames);
        frames = NULL;
    }
    if (status != STATUS_OK)
        return status;
    *ret_frames = frames;
    *ret_count = count;
    return STATUS_OK;
}
