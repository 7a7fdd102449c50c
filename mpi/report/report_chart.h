/* Charts of the report's page, as SVG that stands in HTML: a frame with axes, and lines, areas or
 * bars in it. Colours are classes of the page's style. Pure. */
#ifndef PENSTOCK_MPI_REPORT_REPORT_CHART_H
#define PENSTOCK_MPI_REPORT_REPORT_CHART_H

#include "base/text.h"

#include <stdint.h>

enum chart_unit { CHART_COUNT, CHART_BYTES, CHART_PERCENT };

struct chart {
    const char *id, *label; /* label: what the chart shows, for those who cannot see it */
    enum chart_unit unit;   /* of the vertical axis */
    double most;            /* the greatest value */
    double seconds;         /* the horizontal axis is time; 0: bars */
    uint64_t first, bars;   /* the bars' numbers */
    double top;             /* of the vertical axis; set by chart_begin() */
};

/* Appends the frame and the axes. */
void chart_begin(struct chart *chart, struct text *out);

/* A line through `count` values at equal distances. */
void chart_line(const struct chart *chart, const double *values, uint32_t count, const char *style,
                struct text *out);

/* The area between `low` and `high`. */
void chart_area(const struct chart *chart, const double *low, const double *high, uint32_t count,
                const char *style, struct text *out);

/* One bar, `part` of `parts` that stand side by side at index `i`. */
void chart_bar(const struct chart *chart, uint64_t i, uint32_t part, uint32_t parts, double value,
               const char *style, struct text *out);

void chart_end(struct text *out);

#endif
