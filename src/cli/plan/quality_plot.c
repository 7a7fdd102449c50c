/* See plan_quality.h: the picture. Sizes of windows stand side by side, each with its memory. */
#include "cli/plan/plan_quality.h"

#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 400, LEFT = 64, RIGHT = 110, TOP = 56, BOTTOM = 72 };

static const char text_color[] = "#333", own_color[] = "#d1642a";

/* A measure that the picture shows, in percent. */
struct line {
    const char *name, *color;
    double (*percent)(const struct quality_report *report, const struct quality *quality);
};

static double percent_of(double measure, double uniform)
{
    return uniform > 0 ? 100 * measure / uniform : 100;
}

static double entropy(const struct quality_report *report, const struct quality *quality)
{
    return percent_of(quality->entropy, report->uniform.entropy);
}

static double distance(const struct quality_report *report, const struct quality *quality)
{
    return percent_of(quality->distance, report->uniform.distance);
}

static double largest_share(const struct quality_report *report, const struct quality *quality)
{
    (void)report;
    return 100 * quality->largest_share;
}

static const struct line lines[] = {
    {"entropy", "#0b6fa4", entropy},
    {"distance", "#6aa84f", distance},
    {"share", "#8a8a8a", largest_share},
};

static double x_of(const struct quality_report *report, size_t i)
{
    double width = WIDTH - LEFT - RIGHT;
    return LEFT + width * ((double)i + 0.5) / (double)report->window_count;
}

static double y_of(double percent)
{
    double shown = percent < 110 ? percent : 110;
    return HEIGHT - BOTTOM - shown / 110 * (HEIGHT - TOP - BOTTOM);
}

static void draw_frame(const struct quality_report *report, FILE *out)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"%s\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"24\" font-size=\"15\">How well samples are mixed: %s samples of "
            "epoch %" PRIu64 "</text>\n"
            "<text x=\"%d\" y=\"44\">entropy and distance: in percent of a uniform shuffle; share: "
            "of a step, from one row</text>\n"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">rows</text>"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">memory</text>\n",
            WIDTH, HEIGHT, text_color, LEFT, count_format(report->samples).text, report->epoch,
            LEFT, LEFT - 8, HEIGHT - BOTTOM + 20, LEFT - 8, HEIGHT - BOTTOM + 38);
    for (int percent = 0; percent <= 100; percent += 25)
        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d%%</text>\n",
                LEFT, WIDTH - RIGHT, y_of(percent), y_of(percent), LEFT - 8, y_of(percent) + 4,
                percent);
}

static void draw_labels(const struct quality_report *report, FILE *out)
{
    for (size_t i = 0; i < report->window_count; i++) {
        const struct quality_window *window = &report->windows[i];
        fprintf(out,
                "<g text-anchor=\"middle\" fill=\"%s\"><text x=\"%.1f\" y=\"%d\">%s</text>"
                "<text x=\"%.1f\" y=\"%d\">%s</text><text x=\"%.1f\" y=\"%d\">%s</text></g>\n",
                window->configured ? own_color : text_color, x_of(report, i), HEIGHT - BOTTOM + 20,
                count_format(window->window_rows).text, x_of(report, i), HEIGHT - BOTTOM + 38,
                size_format(window->least_bytes).text, x_of(report, i), HEIGHT - BOTTOM + 56,
                window->configured ? "this run" : "");
    }
}

/* `number`: of the line, for its name at the right. */
static void draw_line(const struct quality_report *report, const struct line *line, int number,
                      FILE *out)
{
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", line->color);
    for (size_t i = 0; i < report->window_count; i++)
        fprintf(out, "%.1f,%.1f ", x_of(report, i),
                y_of(line->percent(report, &report->windows[i].quality)));
    fprintf(out, "\"/>\n");
    for (size_t i = 0; i < report->window_count; i++)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", x_of(report, i),
                y_of(line->percent(report, &report->windows[i].quality)), line->color);
    fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", WIDTH - RIGHT + 12,
            TOP + 20 * (number + 1), line->color, line->name);
}

enum status plan_quality_plot(const struct quality_report *report, const char *path,
                              struct error *err)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return error_set(err, STATUS_IO, "cannot write the picture '%s': %s", path,
                         strerror(errno));
    draw_frame(report, out);
    draw_labels(report, out);
    for (int i = 0; i < (int)(sizeof lines / sizeof lines[0]); i++)
        draw_line(report, &lines[i], i, out);
    fprintf(out, "</svg>\n");
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return error_set(err, STATUS_IO, "cannot write the picture '%s': %s", path,
                         strerror(errno));
    return STATUS_OK;
}
