/* A series: how a reader's counters grew over time, for the report. It has room for SERIES_POINTS
 * points. When the room is full, every second point is dropped, and points come half as often from
 * then on. So a run of any length takes the same memory, which is there from the start. Pure; one
 * thread at a time.
 */
#ifndef PENSTOCK_METRICS_SERIES_H
#define PENSTOCK_METRICS_SERIES_H

#include "metrics/verdict.h"

/* What a point has, as in struct metrics_values. All but SERIES_CACHED_ROWS are counters. */
enum series_member {
    SERIES_SAMPLES,
    SERIES_CACHED_ROWS,
    SERIES_BLOCKED, /* and the other causes of enum metrics_cause behind the first one */
    SERIES_MEMBERS = SERIES_BLOCKED + CAUSE_COUNT
};

enum { SERIES_POINTS = 600 };

struct series_point {
    uint64_t at_ns;
    uint64_t values[SERIES_MEMBERS];
};

/* Zero is an empty series. Times are of any clock that does not go back. */
struct series {
    uint32_t count;
    uint64_t spacing_ns; /* between points, at least */
    struct series_point points[SERIES_POINTS];
};

/* Adds a point. The last point of a series is always the newest: a point that comes too early for
 * the spacing takes the place of the last one. */
void series_add(struct series *series, uint64_t at_ns, const struct metrics_values *values);

/* The time from the first point to the last; 0: there is none. */
uint64_t series_duration_ns(const struct series *series);

/* The value `after_ns` after the first point, on a straight line between two points. */
double series_value(const struct series *series, enum series_member member, uint64_t after_ns);

#endif
