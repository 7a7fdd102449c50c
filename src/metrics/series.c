/* See series.h. */
#include "metrics/series.h"

static void thin_out(struct series *series)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < series->count; i += 2)
        series->points[kept++] = series->points[i];
    uint64_t spacing_ns = series_duration_ns(series) / SERIES_POINTS;
    series->count = kept;
    series->spacing_ns = 2 * (spacing_ns > series->spacing_ns ? spacing_ns : series->spacing_ns);
}

void series_add(struct series *series, uint64_t at_ns, const struct metrics_values *values)
{
    struct series_point *points = series->points;
    if (series->count > 1 && at_ns - points[series->count - 2].at_ns < series->spacing_ns)
        series->count--;
    if (series->count == SERIES_POINTS)
        thin_out(series);
    points[series->count++] = (struct series_point){
        .at_ns = at_ns,
        .values = {[SERIES_SAMPLES] = values->samples,
                   [SERIES_CACHED_ROWS] = values->cached_rows,
                   [SERIES_BLOCKED + CAUSE_STORAGE] = values->blocked_storage_ns,
                   [SERIES_BLOCKED + CAUSE_DECODE] = values->blocked_decode_ns,
                   [SERIES_BLOCKED + CAUSE_MEMORY] = values->blocked_memory_ns,
                   [SERIES_BLOCKED + CAUSE_NETWORK] = values->blocked_network_ns,
                   [SERIES_BLOCKED + CAUSE_TRANSFORM] = values->blocked_transform_ns,
                   [SERIES_BLOCKED + CAUSE_TRAINERS] = values->blocked_trainers_ns,
                   [SERIES_BLOCKED + CAUSE_PLANNING] = values->blocked_planning_ns},
    };
}

uint64_t series_duration_ns(const struct series *series)
{
    return series->count ? series->points[series->count - 1].at_ns - series->points[0].at_ns : 0;
}

double series_value(const struct series *series, enum series_member member, uint64_t after_ns)
{
    const struct series_point *points = series->points;
    uint32_t next = 0;
    while (next < series->count && points[next].at_ns - points[0].at_ns < after_ns)
        next++;
    if (series->count == 0)
        return 0;
    if (next == 0 || next == series->count)
        return (double)points[next ? next - 1 : 0].values[member];
    const struct series_point *before = &points[next - 1], *after = &points[next];
    double low = (double)before->values[member], high = (double)after->values[member];
    double share = (double)(points[0].at_ns + after_ns - before->at_ns) /
                   (double)(after->at_ns - before->at_ns);
    return low + share * (high - low);
}
