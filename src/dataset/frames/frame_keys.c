/* See frame_keys.h. */
#include "dataset/frames/frame_keys.h"

#include "base/number.h"
#include "zarr/hierarchy/attributes.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_integer(const struct frame_coordinate *coordinate)
{
    return dtype_is_integer(coordinate->array.view.dtype);
}

enum status frame_keys_expect(const struct frame_coordinate *coordinate,
                              const struct frame_coordinate *before, struct error *err)
{
    const struct zarr_node *node = coordinate->array.node;
    struct zarr_encoding encoding;
    enum status status = STATUS_OK;
    zarr_node_encoding(node, &encoding);
    if (*encoding.scale_factor || *encoding.add_offset)
        status = error_set(err, STATUS_INVALID,
                           "its items are scaled (scale_factor, add_offset), which ranges do not "
                           "take: write numbers of frames, or another array");
    else if (coordinate->is_time && !isfinite(coordinate->scale.origin))
        status =
            error_set(err, STATUS_INVALID,
                      "its dates cannot be read, of %s '%s' in the calendar '%s': write "
                      "numbers of frames, or another array",
                      *encoding.units ? "units" : "type",
                      text_shown(*encoding.units ? encoding.units : node->array.stored_type).text,
                      *encoding.calendar ? text_shown(encoding.calendar).text : "standard");
    else if (before && (before->is_time != coordinate->is_time ||
                        (coordinate->is_time ? !date_calendars_agree(before->scale.calendar,
                                                                     coordinate->scale.calendar)
                                             : is_integer(before) != is_integer(coordinate))))
        status = error_set(err, STATUS_INVALID,
                           "it cannot be compared with '%s', which is of another kind or calendar",
                           before->array.view.path);
    return status == STATUS_OK ? status : frame_array_name(&coordinate->array, status, err);
}

/* Keys
 * ---------------------------------------------------------------------------------------------- */

/* The bits of a number are in the order of numbers if those of negative ones are turned around.
 * There are two zeros, of which the sum is one. */
static int64_t key_of_real(double number)
{
    int64_t bits;
    number += 0.0;
    memcpy(&bits, &number, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

static double real_of_key(int64_t key)
{
    double number;
    int64_t bits = key < 0 ? key ^ INT64_MAX : key;
    memcpy(&number, &bits, sizeof number);
    return number;
}

bool frame_key(const struct frame_coordinate *coordinate, const void *items, uint64_t i,
               int64_t *ret_key)
{
    const struct frame_array *array = &coordinate->array;
    int64_t integer = is_integer(coordinate) ? dtype_integer(array->view.dtype, items, i) : 0;
    double number = frame_array_number(array, items, i);
    if (coordinate->is_time)
        return is_integer(coordinate) ? dates_of_integer(&coordinate->scale, integer, ret_key)
                                      : dates_of_number(&coordinate->scale, number, ret_key);
    *ret_key = is_integer(coordinate) ? integer : key_of_real(number);
    return !isnan(number);
}

double frame_key_distance(const struct frame_coordinate *coordinate, int64_t a, int64_t b)
{
    bool is_whole = coordinate->is_time || is_integer(coordinate);
    return is_whole ? (double)((uint64_t)b - (uint64_t)a) : real_of_key(b) - real_of_key(a);
}

struct frame_key_text frame_key_text(const struct frame_coordinate *coordinate, int64_t key)
{
    struct frame_key_text text = {"?"};
    if (coordinate->is_time)
        (void)!dates_write(coordinate->scale.calendar, floor((double)key / 1000), text.text);
    else if (is_integer(coordinate))
        snprintf(text.text, sizeof text.text, "%" PRId64, key);
    else
        snprintf(text.text, sizeof text.text, "%.10g", real_of_key(key));
    return text;
}

/* Ends of ranges
 * ---------------------------------------------------------------------------------------------- */

static struct frame_key_interval of_integers(const char *text, double number)
{
    char *end;
    errno = 0;
    int64_t integer = strtoll(text, &end, 10);
    if (*end == '\0' && errno == 0 && integer < INT64_MAX)
        return (struct frame_key_interval){integer, integer + 1};
    if (fabs(number) >= 0x1p62)
        return (struct frame_key_interval){number < 0 ? INT64_MIN : INT64_MAX,
                                           number < 0 ? INT64_MIN : INT64_MAX};
    return (struct frame_key_interval){(int64_t)ceil(number), (int64_t)floor(number) + 1};
}

static enum status number_interval(const struct frame_coordinate *coordinate,
                                   struct range_piece piece,
                                   struct frame_key_interval *ret_interval, struct error *err)
{
    char text[64];
    double number;
    snprintf(text, sizeof text, "%.*s", (int)piece.length, piece.text);
    if (!number_parse_real(text, -HUGE_VAL, HUGE_VAL, &number))
        return frame_array_name(&coordinate->array,
                                error_set(err, STATUS_INVALID,
                                          "it has no dates (neither datetime64, nor units such as "
                                          "'hours since 1900-01-01'), but '%s' is no number",
                                          text),
                                err);
    if (is_integer(coordinate)) {
        *ret_interval = of_integers(text, number);
        return STATUS_OK;
    }
    if (coordinate->array.view.dtype == DTYPE_FLOAT32)
        number = (double)(float)number;
    int64_t key = key_of_real(number);
    *ret_interval = (struct frame_key_interval){key, key + 1};
    return STATUS_OK;
}

enum status frame_key_interval(const struct frame_coordinate *coordinate, struct range_piece piece,
                               struct frame_key_interval *ret_interval, struct error *err)
{
    struct date_period period;
    if (!coordinate->is_time)
        return number_interval(coordinate, piece, ret_interval, err);
    if (!date_parse(coordinate->scale.calendar, piece.text, piece.length, &period))
        return frame_array_name(
            &coordinate->array,
            error_set(err, STATUS_INVALID,
                      "'%.*s' is no date of its calendar, such as 2015-06-30T18", (int)piece.length,
                      piece.text),
            err);
    *ret_interval = (struct frame_key_interval){period.begin * 1000, period.end * 1000};
    return STATUS_OK;
}
