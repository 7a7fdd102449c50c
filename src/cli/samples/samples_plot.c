/* See samples_plot.h. */
#include "cli/samples/samples_plot.h"

#include "base/float16.h"
#include "base/size.h"
#include "cli/samples/png.h"
#include "run/one_sample.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TILES = 64, /* of a field; the others are counted */
    MOST_PIXELS =
        192, /* along either side of a tile; every so many items are drawn of larger ones */
    MOST_LOOKED = 1 << 22, /* items for the least and the greatest value */
    TILE_HEIGHT = 96,
    LEAST_TILE_WIDTH = 22,
    WIDTH = 1080,
    LEFT = 24,
    GAP = 6,
};

static const char missing_color[] = "#d1642a";

/* A field of the sample, as a trainer gets it. */
struct shown {
    const struct dataset_field *field;
    unsigned char *bytes; /* [sample_bytes], owned */
    double least, greatest;
    /* How a step is drawn: from item `y * y_stride + x * x_stride + c * channel_stride` on. */
    uint64_t height, width, y_stride, x_stride, channel_stride;
    bool is_colored;
    uint64_t first_of; /* only the first of so many planes is drawn; 1: there is one */
};

static uint64_t step_count(const struct dataset_field *field)
{
    return field->step_count > 0 ? field->step_count : 1;
}

/* Items of unequal numbers are no picture. */
static bool has_picture(const struct dataset_field *field)
{
    bool is_uneven = field->source == FIELD_RAGGED && ragged_has_item_shape(field->ragged);
    return field->source != FIELD_MADE && !is_uneven;
}

static int32_t step_at(const struct dataset_field *field, uint64_t k)
{
    return field->step_count > 0 ? field->steps[k] : 0;
}

/* Values
 * ---------------------------------------------------------------------------------------------- */

static double value_at(enum dtype dtype, const unsigned char *items, uint64_t i)
{
    uint16_t half;
    double wide;
    float single;
    switch (dtype) {
    case DTYPE_FLOAT16:
    case DTYPE_BFLOAT16:
        memcpy(&half, items + i * sizeof half, sizeof half);
        return dtype == DTYPE_FLOAT16 ? (double)float16_to_float(half)
                                      : (double)bfloat16_to_float(half);
    case DTYPE_FLOAT32:
    case DTYPE_COMPLEX64: /* the real part */
        memcpy(&single, items + i * dtype_bytes(dtype), sizeof single);
        return (double)single;
    case DTYPE_FLOAT64:
    case DTYPE_COMPLEX128:
        memcpy(&wide, items + i * dtype_bytes(dtype), sizeof wide);
        return wide;
    case DTYPE_BOOL:
        return items[i];
    case DTYPE_UINT64:
        return (double)(uint64_t)dtype_integer(dtype, items, i);
    default:
        return (double)dtype_integer(dtype, items, i);
    }
}

static void find_range(struct shown *shown)
{
    uint64_t count = shown->field->sample_bytes / dtype_bytes(shown->field->dtype);
    uint64_t stride = count / MOST_LOOKED + 1;
    shown->least = INFINITY;
    shown->greatest = -INFINITY;
    for (uint64_t i = 0; i < count; i += stride) {
        double value = value_at(shown->field->dtype, shown->bytes, i);
        if (!isfinite(value))
            continue;
        shown->least = fmin(shown->least, value);
        shown->greatest = fmax(shown->greatest, value);
    }
}

/* The last axes of a step are those of a picture, [height, width, colours] or [colours, height,
 * width]; else of a map, [height, width] or [height]. */
static void find_shape(struct shown *shown)
{
    const struct dataset_field *field = shown->field;
    uint64_t sides[DATASET_MAX_RANK + 1] = {1, 1, 1};
    int n = 0;
    for (int axis = field->step_count > 0; axis < field->rank; axis++)
        if (field->shape[axis] > 1)
            sides[n++] = field->shape[axis];
    uint64_t a = n >= 3 ? sides[n - 3] : 0, b = n >= 2 ? sides[n - 2] : 0;
    uint64_t c = n >= 1 ? sides[n - 1] : 1;
    const uint64_t least = 8; /* smaller things with three channels are no pictures */
    bool is_large = n >= 3 && b >= least && (a >= least || c >= least);
    bool behind = is_large && a >= least && (c == 3 || (c == 4 && field->dtype == DTYPE_UINT8));
    bool before = is_large && !behind && a == 3 && c >= least;
    shown->is_colored = behind || before;
    shown->height = behind ? a : n >= 2 ? b : c;
    shown->width = behind ? b : n >= 2 ? c : 1;
    shown->x_stride = behind ? c : 1;
    shown->y_stride = shown->width * shown->x_stride;
    shown->channel_stride = behind ? 1 : shown->height * shown->width;
    shown->first_of = 1;
    for (int i = 0; i < n - (shown->is_colored ? 3 : 2); i++)
        shown->first_of *= sides[i];
}

static void put_color(const struct shown *shown, double value, unsigned char *ret_rgb)
{
    static const unsigned char map[][3] = {
        {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
    const int steps = sizeof map / sizeof map[0] - 1;
    double range = shown->greatest - shown->least;
    double level = range > 0 ? (value - shown->least) / range : 0.5;
    if (!isfinite(value)) {
        memset(ret_rgb, 200, 3);
        return;
    }
    level = fmin(fmax(level, 0), 1) * steps;
    int below = level < steps ? (int)level : steps - 1;
    for (int c = 0; c < 3; c++)
        ret_rgb[c] = (unsigned char)lround(map[below][c] +
                                           (level - below) * (map[below + 1][c] - map[below][c]));
}

static unsigned char brightness(const struct shown *shown, double value)
{
    double range = shown->greatest - shown->least;
    if (shown->field->dtype == DTYPE_UINT8)
        return (unsigned char)value;
    return isfinite(value) && range > 0
               ? (unsigned char)lround(255 * (value - shown->least) / range)
               : 128;
}

static void put_pixel(const struct shown *shown, const unsigned char *items, uint64_t at,
                      unsigned char *ret_rgb)
{
    enum dtype dtype = shown->field->dtype;
    if (!shown->is_colored) {
        put_color(shown, value_at(dtype, items, at), ret_rgb);
        return;
    }
    for (uint64_t c = 0; c < 3; c++)
        ret_rgb[c] = brightness(shown, value_at(dtype, items, at + c * shown->channel_stride));
}

/* Drawing
 * ---------------------------------------------------------------------------------------------- */

/* How many pixels show `items` of them along a side: every so many, or each several times, since
 * programs smooth pictures that they enlarge. */
static uint64_t pixels_of(uint64_t items)
{
    return items > MOST_PIXELS ? MOST_PIXELS : items * size_divide_up(TILE_HEIGHT, items);
}

static enum status append_tile(const struct shown *shown, uint64_t step, struct text *out,
                               struct error *err)
{
    static unsigned char rgb[MOST_PIXELS * MOST_PIXELS * 3];
    const struct dataset_field *field = shown->field;
    const unsigned char *items = shown->bytes + step * (field->sample_bytes / step_count(field));
    uint64_t height = pixels_of(shown->height), width = pixels_of(shown->width);
    for (uint64_t y = 0; y < height; y++)
        for (uint64_t x = 0; x < width; x++)
            put_pixel(shown, items,
                      y * shown->height / height * shown->y_stride +
                          x * shown->width / width * shown->x_stride,
                      rgb + 3 * (y * width + x));
    return png_append_base64(rgb, (uint32_t)width, (uint32_t)height, out, err);
}

static void append_escaped(const char *name, struct text *out)
{
    for (const char *c = name; *c; c++)
        if (*c == '<' || *c == '&')
            text_append(out, "&#%d;", *c);
        else
            text_append_bytes(out, c, 1);
}

static void append_title(const struct shown *shown, int y, struct text *out)
{
    const struct dataset_field *field = shown->field;
    text_append(out, "<text x=\"%d\" y=\"%d\"><tspan font-weight=\"bold\">", LEFT, y);
    append_escaped(text_shown(field->name).text, out);
    text_append(out, "</tspan> %s [", dtype_name(field->dtype));
    for (int d = 0; d < field->rank; d++)
        text_append(out, "%s%" PRIu64, d ? ", " : "", field->shape[d]);
    text_append(out, "]");
    if (shown->least <= shown->greatest)
        text_append(out, ", from %.4g to %.4g", shown->least, shown->greatest);
    if (shown->first_of > 1)
        text_append(out, "; the first of %" PRIu64 " planes", shown->first_of);
    if (field->crop)
        text_append(out, "; random crop as in epoch 0");
    if (step_count(field) > MOST_TILES)
        text_append(out, "; the first %d of %" PRIu64 " steps", MOST_TILES, step_count(field));
    text_append(out, "</text>\n");
}

static int tile_width(const struct shown *shown)
{
    double width = (double)TILE_HEIGHT * (double)shown->width / (double)shown->height;
    return (int)fmin(fmax(width, LEAST_TILE_WIDTH), 2 * TILE_HEIGHT);
}

static enum status draw_field(const struct one_sample *plot, const struct shown *shown, int *y,
                              struct text *out, struct error *err)
{
    int x = LEFT, width = tile_width(shown);
    enum status status = STATUS_OK;
    append_title(shown, *y += 30, out);
    *y += 8;
    for (uint64_t k = 0; k < step_count(shown->field) && k < MOST_TILES && status == STATUS_OK;
         k++) {
        int32_t step = step_at(shown->field, k);
        bool real = one_sample_step_is_real(plot, step);
        if (x + width > WIDTH - LEFT) {
            x = LEFT;
            *y += TILE_HEIGHT + 22;
        }
        text_append(out,
                    "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" opacity=\"%s\" "
                    "preserveAspectRatio=\"none\" image-rendering=\"pixelated\" "
                    "href=\"data:image/png;base64,",
                    x, *y, width, TILE_HEIGHT, real ? "1" : "0.35");
        status = append_tile(shown, k, out, err);
        text_append(out, "\"/>");
        text_append(out,
                    "<rect x=\"%d.5\" y=\"%d.5\" width=\"%d\" height=\"%d\" fill=\"none\" "
                    "stroke=\"%s\"%s/>",
                    x, *y, width - 1, TILE_HEIGHT - 1, real ? "#bbb" : missing_color,
                    real ? "" : " stroke-width=\"2\" stroke-dasharray=\"4 3\"");
        if (shown->field->step_count > 0)
            text_append(out,
                        "<text x=\"%d\" y=\"%d\" font-size=\"10\" text-anchor=\"middle\" "
                        "fill=\"%s\">%s%" PRId32 "</text>",
                        x + width / 2, *y + TILE_HEIGHT + 12, real ? "#333" : missing_color,
                        step > 0 ? "+" : "", step);
        text_append(out, "\n");
        x += width + GAP;
    }
    *y += TILE_HEIGHT + 14;
    return status;
}

static enum status draw_fields(const struct one_sample *plot, const struct one_sample_row *row,
                               int *y, struct text *out, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t f = 0; f < plot->dataset->field_count && status == STATUS_OK; f++) {
        struct shown shown = {.field = &plot->dataset->fields[f]};
        if (!has_picture(shown.field))
            continue;
        shown.bytes = malloc(shown.field->sample_bytes);
        if (!shown.bytes)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a sample of field '%s'",
                             shown.field->name);
        one_sample_take(row, plot, f, shown.bytes);
        find_range(&shown);
        find_shape(&shown);
        status = draw_field(plot, &shown, y, out, err);
        free(shown.bytes);
    }
    return status;
}

static enum status write_picture(const struct one_sample *plot, const struct text *drawn, int y,
                                 const char *path, struct error *err)
{
    FILE *out = fopen(path, "w");
    bool failed = !out;
    if (out) {
        fprintf(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"24\" font-size=\"15\">Sample %" PRIu64
            ", of the episode of frames %" PRIu64 " to %" PRIu64 "</text>\n"
            "%s<text x=\"%d\" y=\"%d\" fill=\"%s\">dashed: a step outside the episode, and what "
            "stands there</text>\n</svg>\n",
            WIDTH, y + 40, LEFT, plot->frame, plot->episode.first, plot->episode.end - 1,
            drawn->data ? drawn->data : "", LEFT, y + 24, missing_color);
        failed = ferror(out) != 0;
        failed = fclose(out) != 0 || failed;
    }
    return failed ? error_set(err, STATUS_IO, "cannot write the picture '%s': %s", path,
                              strerror(errno))
                  : STATUS_OK;
}

enum status samples_plot(const struct one_sample *plot, const char *path, struct error *err)
{
    struct one_sample_row row = {0};
    struct text drawn = {0};
    int y = 24;
    enum status status = one_sample_read_row(plot->dataset, plot->row, &row, err);
    if (status == STATUS_OK)
        status = draw_fields(plot, &row, &y, &drawn, err);
    if (status == STATUS_OK)
        status = write_picture(plot, &drawn, y, path, err);
    text_done(&drawn);
    one_sample_row_done(&row);
    return status;
}
