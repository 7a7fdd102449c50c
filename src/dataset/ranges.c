/* See ranges.h. */
#include "dataset/ranges.h"

#include "base/date.h"
#include "base/number.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one end is. */
enum end_kind {
    END_NONE,   /* nothing that can be an end */
    END_OPEN,   /* left out */
    END_DATE,   /* a date with a '-' */
    END_YEAR,   /* four digits */
    END_NUMBER, /* any other number */
};

static enum end_kind kind_of(struct range_piece piece)
{
    char copy[64];
    double number;
    if (piece.length == 0)
        return END_OPEN;
    if (date_is_meant(piece.text, piece.length))
        return piece.length == 4 ? END_YEAR : END_DATE;
    if (piece.length >= sizeof copy)
        return END_NONE;
    memcpy(copy, piece.text, piece.length);
    copy[piece.length] = '\0';
    return number_parse_real(copy, -INFINITY, INFINITY, &number) ? END_NUMBER : END_NONE;
}

/* Whether two ends make a range; of one value both are this. */
static bool is_pair(enum end_kind low, enum end_kind high, bool is_named)
{
    bool has_date = low == END_DATE || high == END_DATE;
    if (low == END_NONE || high == END_NONE || (low == END_OPEN && high == END_OPEN))
        return false;
    return has_date ? low != END_NUMBER && high != END_NUMBER : is_named;
}

/* Divides "low:high", or takes one value. */
static bool divide(const char *text, bool is_named, struct range *range)
{
    struct range_piece whole = {text, strlen(text)};
    range->low = range->high = whole;
    if (whole.length > 0 && is_pair(kind_of(whole), kind_of(whole), is_named))
        return true;
    for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        range->low = (struct range_piece){text, (size_t)(colon - text)};
        range->high = (struct range_piece){colon + 1, strlen(colon + 1)};
        if (is_pair(kind_of(range->low), kind_of(range->high), is_named))
            return true;
    }
    return false;
}

bool range_parse(const char *text, struct range *ret_range)
{
    const char *sign = strchr(text, '=');
    struct range range = {.text = text, .array = {text, sign ? (size_t)(sign - text) : 0}};
    if ((sign && sign == text) || !divide(sign ? sign + 1 : text, sign != NULL, &range))
        return false;
    *ret_range = range;
    return true;
}

/* "dddd-d", where a range may also begin with ':' or a year and ':'. */
static bool begins_with_date(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 4 && text[4] == '-')
        return isdigit((unsigned char)text[5]);
    return (digits == 0 || digits == 4) && text[digits] == ':' &&
           strspn(text + digits + 1, "0123456789") == 4 && text[digits + 5] == '-';
}

bool range_is_meant(const char *text)
{
    struct range range;
    const char *sign = strchr(text, '=');
    bool is_value = sign && sign[1] && sign[1 + strspn(sign + 1, "0123456789+-:.TZe ")] == '\0';
    return is_value || begins_with_date(text) || range_parse(text, &range);
}

/* Lists
 * ---------------------------------------------------------------------------------------------- */

static enum status add_range(struct range_list *list, const char *text, struct error *err)
{
    struct range *ranges = realloc(list->ranges, (list->count + 1) * sizeof *ranges);
    list->ranges = ranges ? ranges : list->ranges;
    char **texts = realloc(list->texts, (list->count + 1) * sizeof *texts);
    list->texts = texts ? texts : list->texts;
    char *copy = strdup(text);
    if (!ranges || !texts || !copy) {
        free(copy);
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    texts[list->count] = copy;
    if (range_parse(copy, &ranges[list->count++]))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "'%s' is neither a date nor a range of dates, such as 2015-06-30, "
                     "2015-01:2016-06-30T18 or time=2015:2016; an array of such a name is written "
                     "/NAME",
                     text_shown(text).text);
}

enum status range_list_read(const char *list, struct range_list *ret_list, struct error *err)
{
    struct range_list read = {0};
    struct text item = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &item)) {
        const char *text = item.data ? item.data : "";
        text += strspn(text, " ");
        if (read.count == 0 && !range_is_meant(text))
            break;
        status = add_range(&read, text, err);
    }
    text_done(&item);
    if (status == STATUS_OK)
        *ret_list = read;
    else
        range_list_done(&read);
    return status;
}

void range_list_done(struct range_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->texts[i]);
    free(list->texts);
    free(list->ranges);
    *list = (struct range_list){0};
}
