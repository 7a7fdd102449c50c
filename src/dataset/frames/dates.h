/* Times of frames: what the numbers of a coordinate of times mean, and dates for people. Inside
 * src/dataset; pure, any thread. */
#ifndef PENSTOCK_DATASET_FRAMES_DATES_H
#define PENSTOCK_DATASET_FRAMES_DATES_H

#include "dataset/dataset_internal.h"

/* A number n of the coordinate is the time origin + n * unit, in seconds since 1970. */
struct dates_scale {
    double unit;   /* seconds; 1 where the unit is not known */
    double origin; /* NAN: not known, or not in a calendar that we live by */
};

/* Of an array of the stored type `type` ("<M8[ns]": datetime64; else it does not count), with the
 * CF attributes `units` and `calendar`, each of which may be "". */
struct dates_scale dates_scale(const char *type, const char *units, const char *calendar);

/* "2016-12-31", or "2016-12-31 18:00". False: the time is too far away, or not finite, and ret_date
 * is untouched. */
bool dates_write(double seconds, char ret_date[DATASET_DATE_BYTES]);

#endif
