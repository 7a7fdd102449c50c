/* Times of frames: what the numbers of a coordinate of times mean, and dates for people. Inside
 * src/dataset; pure, any thread. */
#ifndef PENSTOCK_DATASET_FRAMES_DATES_H
#define PENSTOCK_DATASET_FRAMES_DATES_H

#include "base/date.h"
#include "dataset/dataset_internal.h"

/* A number n of the coordinate is the time origin + n * unit, in seconds since 1970-01-01 of the
 * calendar. */
struct dates_scale {
    double unit;   /* seconds; 1 where the unit is not known */
    double origin; /* NAN: not known, or in no calendar that is read */
    enum date_calendar calendar;
};

/* Of an array of the stored type `type` ("<M8[ns]": datetime64; else it does not count), with the
 * CF attributes `units` and `calendar`, each of which may be "". */
struct dates_scale dates_scale(const char *type, const char *units, const char *calendar);

/* How many seconds the unit of "<M8[s]" has; negative: how many of the unit a second has; 0: the
 * type is no datetime64 of such a unit. */
int64_t dates_unit(const char *type);

/* The time of a number, in milliseconds, of which the scale's origin is known: of an integer
 * exactly, down to a whole millisecond; of another number the nearest. False: the time is too far
 * away, or none (NaT, NaN). */
bool dates_of_integer(const struct dates_scale *scale, int64_t number, int64_t *ret_time);
bool dates_of_number(const struct dates_scale *scale, double number, int64_t *ret_time);

/* "2016-12-31", "2016-12-31 18:00" or "2016-12-31 18:00:30". False: the time is too far away, or
 * not finite, and ret_date is untouched. */
bool dates_write(enum date_calendar calendar, double seconds, char ret_date[DATASET_DATE_BYTES]);

#endif
