/* See report_chart.h. */
#include "report/report_chart.h"

#include "base/size.h"

#include <inttypes.h>
#include <math.h>

enum { WIDTH = 720, HEIGHT = 220, LEFT = 76, RIGHT = 12, TOP = 12, BOTTOM = 30 };
enum { TICKS = 5, MOST_BARS_NUMBERED = 16 };

/* 1, 2 or 5 times a power of ten, so that TICKS of them or fewer reach `most`. */
static double tick_of(double most)
{
    if (most <= 0)
        return 1;
    double least = most / TICKS, power = pow(10, floor(log10(least)));
    double steps = least / power;
    return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

static double y_of(const struct chart *chart, double value)
{
    double share = value < 0 ? 0 : value > chart->top ? 1 : value / chart->top;
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

/* `share` of the width. */
static double x_of(double share)
{
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

/* Of a size the largest unit that is not above it, so that ticks are round in it. */
static double unit_of(const struct chart *chart)
{
    double unit = 1;
    if (chart->unit == CHART_BYTES)
        while (unit * 1024 <= chart->most)
            unit *= 1024;
    return unit;
}

static void append_value(const struct chart *chart, double value, struct text *out)
{
    if (chart->unit == CHART_BYTES)
        text_append(out, "%s", size_format((uint64_t)value).text);
    else if (chart->unit == CHART_PERCENT)
        text_append(out, "%.0f%%", value);
    else if (chart->top < TICKS)
        text_append(out, "%.3g", value);
    else
        text_append(out, "%s", count_format((uint64_t)(value + 0.5)).text);
}

static void append_times(double seconds, struct text *out)
{
    const double minute = 60, hour = 3600;
    double unit = seconds >= 3 * hour ? hour : seconds >= 5 * minute ? minute : 1;
    const char *name = unit == hour ? "h" : unit == minute ? "min" : "s";
    double tick = tick_of(seconds / unit);
    for (double at = 0; at * unit <= seconds * 0.999; at += tick)
        text_append(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g %s</text>",
                    x_of(at * unit / seconds), HEIGHT - BOTTOM + 18, at, name);
}

static void append_numbers(const struct chart *chart, struct text *out)
{
    uint64_t every = 1 + (chart->bars - 1) / MOST_BARS_NUMBERED;
    for (uint64_t i = 0; i < chart->bars; i += every)
        text_append(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s%" PRIu64 "</text>",
                    x_of(((double)i + 0.5) / (double)chart->bars), HEIGHT - BOTTOM + 18,
                    i ? "" : "epoch ", chart->first + i);
}

void chart_begin(struct chart *chart, struct text *out)
{
    double unit = unit_of(chart), tick = unit * tick_of(chart->most / unit);
    chart->top = tick * fmax(1, ceil(chart->most / tick));
    text_append(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" viewBox=\"0 0 %d %d\" "
                "role=\"img\" aria-label=\"%s\" data-top=\"%.6f\" data-height=\"%d\" "
                "data-base=\"%d\" data-seconds=\"%.6f\">\n",
                chart->id, WIDTH, HEIGHT, chart->label, chart->top, HEIGHT - TOP - BOTTOM,
                HEIGHT - BOTTOM, chart->seconds);
    for (double at = 0; at <= chart->top * 1.001; at += tick) {
        text_append(out,
                    "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                    LEFT, WIDTH - RIGHT, y_of(chart, at), y_of(chart, at), LEFT - 8,
                    y_of(chart, at) + 4);
        append_value(chart, at, out);
        text_append(out, "</text>\n");
    }
    if (chart->seconds > 0)
        append_times(chart->seconds, out);
    else if (chart->bars > 0)
        append_numbers(chart, out);
    text_append(out, "\n");
}

/* The middle of the i-th of `count` stretches. */
static void append_point(const struct chart *chart, uint32_t i, uint32_t count, double value,
                         struct text *out)
{
    text_append(out, "%.1f,%.2f ", x_of((i + 0.5) / count), y_of(chart, value));
}

void chart_line(const struct chart *chart, const double *values, uint32_t count, const char *style,
                struct text *out)
{
    text_append(out, "<polyline class=\"line %s\" points=\"", style);
    for (uint32_t i = 0; i < count; i++)
        append_point(chart, i, count, values[i], out);
    text_append(out, "\"/>\n");
}

void chart_area(const struct chart *chart, const double *low, const double *high, uint32_t count,
                const char *style, struct text *out)
{
    text_append(out, "<polygon class=\"area %s\" points=\"", style);
    for (uint32_t i = 0; i < count; i++)
        append_point(chart, i, count, high[i], out);
    for (uint32_t i = count; i > 0; i--)
        append_point(chart, i - 1, count, low[i - 1], out);
    text_append(out, "\"/>\n");
}

void chart_bar(const struct chart *chart, uint64_t i, uint32_t part, uint32_t parts, double value,
               const char *style, struct text *out)
{
    const double filled = 0.7, widest = 60;
    double place = (x_of(1) - x_of(0)) / (double)chart->bars;
    double width = fmin(place * filled, widest * parts);
    double x = x_of(((double)i + 0.5) / (double)chart->bars) - width / 2 + part * width / parts;
    double y = y_of(chart, value);
    text_append(out,
                "<rect class=\"area %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">"
                "<title>epoch %" PRIu64 ": ",
                style, x, y, width / parts, HEIGHT - BOTTOM - y, chart->first + i);
    append_value(chart, value, out);
    text_append(out, "</title></rect>\n");
}

void chart_end(struct text *out)
{
    text_append(out, "</svg>\n");
}
