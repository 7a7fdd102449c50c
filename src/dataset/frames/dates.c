/* Dates of frames, for people: where the sample axis has coordinates of times, as CF has them
 * ("hours since 1979-01-01"). See dataset.h. */
#include "dataset/frames/dates.h"

#include "dataset/fields/coordinates.h"
#include "dataset/frames/missing_dates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Before, the calendar of most files is another one than ours. */
enum { FIRST_YEAR = 1583 };

static double unit_seconds(const char *unit, size_t length)
{
    static const struct {
        const char *names;
        double seconds;
    } units[] = {{" days day d ", 86400},
                 {" hours hour hrs hr h ", 3600},
                 {" minutes minute mins min ", 60},
                 {" seconds second secs sec s ", 1},
                 {" milliseconds millisecond msecs msec ms ", 1e-3},
                 {" microseconds microsecond us ", 1e-6},
                 {" nanoseconds nanosecond ns ", 1e-9}};
    char word[ZARR_ATTRIBUTE_BYTES];
    snprintf(word, sizeof word, " %.*s ", (int)length, unit);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strstr(units[i].names, word))
            return units[i].seconds;
    return 0;
}

/* Seconds since 1970 of "1979-01-01", "1979-1-1T06:00:00". */
static bool parse_origin(const char *text, double *ret_seconds)
{
    struct tm date = {0};
    double second = 0;
    int fields = sscanf(text, "%d-%d-%d%*1[ T]%d:%d:%lf", &date.tm_year, &date.tm_mon,
                        &date.tm_mday, &date.tm_hour, &date.tm_min, &second);
    if (fields < 3 || date.tm_year < FIRST_YEAR || date.tm_year > 9999 || date.tm_mon < 1 ||
        date.tm_mon > 12)
        return false;
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    *ret_seconds = (double)timegm(&date) + second;
    return true;
}

static bool is_ours(const char *calendar)
{
    return !*calendar || strcmp(calendar, "standard") == 0 || strcmp(calendar, "gregorian") == 0 ||
           strcmp(calendar, "proleptic_gregorian") == 0;
}

struct dates_scale dates_scale(const char *type, const char *units, const char *calendar)
{
    struct dates_scale scale = {.unit = 1, .origin = NAN};
    const char *since = strstr(units, " since ");
    int64_t unit = missing_dates_unit(type);
    if (unit != 0) {
        scale.origin = 0;
        scale.unit = unit > 0 ? (double)unit : 1.0 / -(double)unit;
    } else if (since) {
        double seconds = unit_seconds(units, (size_t)(since - units));
        scale.unit = seconds > 0 ? seconds : 1;
        if (seconds > 0 && is_ours(calendar))
            (void)!parse_origin(since + strlen(" since "), &scale.origin);
    }
    return scale;
}

bool dates_write(double seconds, char ret_date[DATASET_DATE_BYTES])
{
    time_t whole = isfinite(seconds) && fabs(seconds) < 1e12 ? (time_t)floor(seconds + 1e-6) : 0;
    struct tm date;
    if (whole == 0 || !gmtime_r(&whole, &date) || date.tm_year + 1900 < FIRST_YEAR)
        return false;
    bool is_day = date.tm_hour == 0 && date.tm_min == 0;
    strftime(ret_date, DATASET_DATE_BYTES, is_day ? "%Y-%m-%d" : "%Y-%m-%d %H:%M", &date);
    return true;
}

static void write_date(const struct coordinates *times, uint64_t index,
                       char ret_date[DATASET_DATE_BYTES])
{
    struct dates_scale scale = dates_scale("", times->units, times->calendar);
    if (times->values)
        (void)!dates_write(scale.origin + times->values[index] * scale.unit, ret_date);
}

void dataset_date(const struct dataset *dataset, uint64_t frame, char ret_date[DATASET_DATE_BYTES])
{
    const struct dataset_private *private = dataset->private;
    size_t store = 0;
    ret_date[0] = '\0';
    while (private->first_frame[store + 1] <= frame)
        store++;
    for (size_t i = 0; i < dataset->field_count && !ret_date[0]; i++) {
        const struct field_origin *origin = &private->origins[i];
        const char *name;
        struct coordinates times;
        if (!origin->array || origin->index)
            continue;
        const struct zarr_node *node =
            zarr_hierarchy_find(private->hierarchies[store], origin->array->array.path);
        if (!node || coordinates_read(dataset, store_joined_at(private->store, store, &name), node,
                                      origin->axis, &times, NULL) != STATUS_OK)
            continue;
        write_date(&times, frame - private->first_frame[store], ret_date);
        coordinates_done(&times);
    }
}
