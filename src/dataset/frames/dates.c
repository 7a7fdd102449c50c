/* See dates.h. */
#include "dataset/frames/dates.h"

#include "zarr/hierarchy/attributes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)DATASET_DATE_BYTES >= (int)DATE_BYTES,
               "dates_write() writes what date_write() does");

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

int64_t dates_unit(const char *type)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"s", 1},  {"ms", -1000}, {"us", -1000000}, {"ns", -1000000000},
                 {"m", 60}, {"h", 3600},   {"D", 86400}};
    char unit[8] = "";
    (void)!sscanf(type, "%*cM8[%7[a-zA-Z]]", unit);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].unit) == 0)
            return units[i].seconds;
    return 0;
}

/* Whether the rest of an origin names no other zone than UTC. */
static bool is_utc(const char *text)
{
    static const char *const names[] = {"", "Z", "UTC", "GMT", "+00:00", "+0:00", "+00", "+0000"};
    text += strspn(text, " ");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    return false;
}

/* Seconds since 1970 of "1979-01-01", "1979-1-1T06:00:00", "1979-1-1 6:0:0.0 UTC". */
static bool parse_origin(enum date_calendar calendar, const char *text, double *ret_seconds)
{
    int year, month, day, hour = 0, minute = 0, end = 0, more = 0;
    double second = 0;
    int64_t days;
    if (sscanf(text, "%d-%d-%d%n", &year, &month, &day, &end) != 3 ||
        !date_days(calendar, year, month, day, &days))
        return false;
    text += end;
    if ((*text == 'T' || *text == ' ') && isdigit((unsigned char)text[1])) {
        (void)!sscanf(text + 1, "%d%n:%d%n:%lf%n", &hour, &more, &minute, &more, &second, &more);
        text += 1 + more;
    }
    if (!is_utc(text) || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        !(second >= 0 && second < 60))
        return false;
    *ret_seconds = (double)(days * 86400 + hour * 3600 + minute * 60) + second;
    return true;
}

struct dates_scale dates_scale(const char *type, const char *units, const char *calendar)
{
    struct dates_scale scale = {.unit = 1, .origin = NAN, .calendar = CALENDAR_GREGORIAN};
    const char *since = strstr(units, " since ");
    int64_t unit = dates_unit(type);
    if (unit != 0) {
        scale.origin = 0;
        scale.unit = unit > 0 ? (double)unit : 1.0 / -(double)unit;
    } else if (since) {
        double seconds = unit_seconds(units, (size_t)(since - units));
        scale.unit = seconds > 0 ? seconds : 1;
        if (seconds > 0 && date_calendar_find(calendar, &scale.calendar))
            (void)!parse_origin(scale.calendar, since + strlen(" since "), &scale.origin);
    }
    return scale;
}

/* Times
 * ---------------------------------------------------------------------------------------------- */

bool dates_of_integer(const struct dates_scale *scale, int64_t number, int64_t *ret_time)
{
    int64_t time, origin = llround(scale->origin * 1000);
    if (number == INT64_MIN) /* NaT */
        return false;
    if (scale->unit < 1e-3) {
        int64_t parts = llround(1e-3 / scale->unit);
        time = number / parts - (number % parts < 0);
    } else if (__builtin_mul_overflow(number, llround(scale->unit * 1000), &time)) {
        return false;
    }
    return !__builtin_add_overflow(time, origin, ret_time);
}

bool dates_of_number(const struct dates_scale *scale, double number, int64_t *ret_time)
{
    double time = (scale->origin + number * scale->unit) * 1000;
    if (!(fabs(time) < 0x1p62))
        return false;
    *ret_time = llround(time);
    return true;
}

bool dates_write(enum date_calendar calendar, double seconds, char ret_date[DATASET_DATE_BYTES])
{
    return isfinite(seconds) && fabs(seconds) < 1e15 &&
           date_write(calendar, (int64_t)floor(seconds + 1e-6), ret_date);
}
