/* See options.h: values that are several numbers, from and to text. Pure but for allocating. */
#include "config/options.h"

#include "base/number.h"
#include "dataset/ranges.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHARES = 64 };

/* Digits up to `end`; `preset` where there are none. */
static bool parse_end(const char *text, size_t length, uint64_t preset, uint64_t *ret_value)
{
    *ret_value = preset;
    return length == 0 || number_parse_part(text, length, 0, UINT64_MAX, ret_value);
}

/* By the coordinate of frames. */
static enum status take_range(const char *text, struct config_range *ret_range, struct error *err)
{
    struct config_range by_coordinate = {.text = strdup(text)};
    struct range range;
    if (!by_coordinate.text)
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    if (!range_parse(by_coordinate.text, &range)) {
        config_free_range(&by_coordinate);
        return error_set(err, STATUS_INVALID,
                         "'%s' is not a range of dates such as \"2015-01:2016-06-30T18\" or "
                         "\"time=2015:2016\"",
                         text);
    }
    *ret_range = by_coordinate;
    return STATUS_OK;
}

void config_free_range(struct config_range *range)
{
    free(range->text);
    *range = (struct config_range){0};
}

enum status config_parse_range(const char *text, struct config_range *ret_range, struct error *err)
{
    const char *colon = strchr(text, ':');
    struct config_range range = {0};
    if (!*text) {
        *ret_range = range;
        return STATUS_OK;
    }
    if (range_is_meant(text))
        return take_range(text, ret_range, err);
    if (!colon || !parse_end(text, (size_t)(colon - text), 0, &range.begin) ||
        !parse_end(colon + 1, strlen(colon + 1), UINT64_MAX, &range.end))
        return error_set(err, STATUS_INVALID,
                         "'%s' is not a range: write \"a:b\", with numbers of frames, for those "
                         "from a on and before b, or with dates: \"2015-01:2016-06-30T18\"",
                         text);
    if (range.begin >= range.end)
        return error_set(err, STATUS_INVALID, "'%s' is a range without any frame", text);
    *ret_range = range;
    return STATUS_OK;
}

void config_print_range(const struct config_range *range, struct text *out)
{
    if (range->text || range->end == 0)
        print_quoted(range->text ? range->text : "", out);
    else if (range->end == UINT64_MAX)
        text_append(out, "\"%" PRIu64 ":\"", range->begin);
    else
        text_append(out, "\"%" PRIu64 ":%" PRIu64 "\"", range->begin, range->end);
}

/* "train:2015-01:2016-12": the name goes to the first colon before what looks like a range.
 * *ret_is_range: there is one. */
static enum status parse_range_part(const char *item, struct samples_part *ret_part,
                                    bool *ret_is_range, struct error *err)
{
    const char *colon = strchr(item, ':');
    while (colon && !range_is_meant(colon + 1 + strspn(colon + 1, " ")))
        colon = strchr(colon + 1, ':');
    *ret_is_range = colon && colon > item;
    if (!*ret_is_range)
        return STATUS_OK;
    const char *text = colon + 1 + strspn(colon + 1, " ");
    size_t length = (size_t)(colon - item);
    struct range range;
    if (!range_parse(text, &range))
        return error_set(err, STATUS_INVALID,
                         "part '%.*s' has '%s', which is not a range of dates such as "
                         "\"2015-01:2016-06-30T18\" or \"time=2015:2016\"",
                         (int)length, item, text);
    *ret_part = (struct samples_part){.name = strndup(item, length), .range = strdup(text)};
    if (ret_part->name && ret_part->range)
        return STATUS_OK;
    free((char *)ret_part->name);
    free((char *)ret_part->range);
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

/* "train:0.9". */
static enum status parse_share(const char *item, struct samples_part *ret_part, struct error *err)
{
    const char *colon = strrchr(item, ':');
    char *end = NULL;
    double fraction = colon ? strtod(colon + 1, &end) : 0.0;
    size_t length = colon ? (size_t)(colon - item) : 0;
    while (length > 0 && item[length - 1] == ' ')
        length--;
    if (length == 0 || !colon || end == colon + 1 || *end || !isfinite(fraction))
        return error_set(
            err, STATUS_INVALID,
            "'%s' is not a name and a share: write \"train:0.9,val:0.1\", in YAML also "
            "{train: 0.9, val: 0.1}; or ranges of dates, such as {train: \":2015-12\"}",
            item);
    if (!(fraction > 0.0 && fraction <= 1.0))
        return error_set(err, STATUS_INVALID,
                         "part '%.*s' has a share of %s: a share is above 0 and at most 1",
                         (int)length, item, colon + 1);
    *ret_part = (struct samples_part){.fraction = fraction, .name = strndup(item, length)};
    return ret_part->name ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "out of memory");
}

static enum status add_part(struct config_shares *parts, const char *item, struct error *err)
{
    if (parts->count == MOST_SHARES)
        return error_set(err, STATUS_INVALID, "more than %d parts", MOST_SHARES);
    struct samples_part *part = &parts->parts[parts->count];
    bool is_range;
    enum status status = parse_range_part(item, part, &is_range, err);
    if (status == STATUS_OK && !is_range)
        status = parse_share(item, part, err);
    if (status != STATUS_OK)
        return status;
    parts->count++;
    double sum = 0.0;
    if (is_range != (parts->parts[0].range != NULL))
        return error_set(err, STATUS_INVALID,
                         "part '%s' is a %s and part '%s' a %s: write ranges alone, or shares",
                         parts->parts[0].name, is_range ? "share" : "range", part->name,
                         is_range ? "range" : "share");
    for (size_t i = 0; i < parts->count; i++) {
        sum += parts->parts[i].fraction;
        if (&parts->parts[i] != part && strcmp(parts->parts[i].name, part->name) == 0)
            return error_set(err, STATUS_INVALID, "part '%s' is there twice", part->name);
    }
    if (sum > 1.0 + 1e-9)
        return error_set(err, STATUS_INVALID, "the shares sum up to more than 1 at part '%s'",
                         part->name);
    return STATUS_OK;
}

enum status config_parse_shares(const char *text, struct config_shares *ret_parts,
                                struct error *err)
{
    struct config_shares parts = {.text = strdup(text),
                                  .parts = calloc(MOST_SHARES, sizeof *parts.parts)};
    struct text item = {0};
    enum status status =
        parts.text && parts.parts ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "out of memory");
    while (status == STATUS_OK && text_list_take(&text, &item))
        status = add_part(&parts, item.data ? item.data : "", err);
    text_done(&item);
    if (status != STATUS_OK)
        config_free_shares(&parts);
    else
        *ret_parts = parts;
    return status;
}

void config_free_shares(struct config_shares *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        free((char *)parts->parts[i].name);
        free((char *)parts->parts[i].range);
    }
    free(parts->parts);
    free(parts->text);
    *parts = (struct config_shares){0};
}

static bool parse_step(const char *text, const char *end, int64_t *ret_step)
{
    char *stop;
    errno = 0;
    *ret_step = strtoll(text, &stop, 10);
    while (*stop == ' ' && stop < end)
        stop++;
    return stop == end && stop > text && errno == 0;
}

static enum status refuse_steps(const char *text, struct error *err)
{
    return error_set(
        err, STATUS_INVALID,
        "'%s' is not a list of steps: write \"-1:15\", for those from -1 on and before "
        "15, or [0, 6, 12]",
        text);
}

/* `steps` has room for DATASET_MAX_STEPS. */
static enum status add_step(int32_t *steps, size_t *count, int64_t step, struct error *err)
{
    if (step < -DATASET_MAX_STEP || step > DATASET_MAX_STEP)
        return error_set(err, STATUS_INVALID, "step %" PRId64 " is out of range; it takes %d to %d",
                         step, -DATASET_MAX_STEP, DATASET_MAX_STEP);
    if (*count == DATASET_MAX_STEPS)
        return error_set(err, STATUS_INVALID, "more than %d steps", DATASET_MAX_STEPS);
    if (*count > 0 && step <= steps[*count - 1])
        return error_set(err, STATUS_INVALID,
                         "step %" PRId64 " comes after %" PRId32 ": steps are in rising order",
                         step, steps[*count - 1]);
    steps[(*count)++] = (int32_t)step;
    return STATUS_OK;
}

static enum status add_range(const char *text, const char *colon, int32_t *steps, size_t *count,
                             struct error *err)
{
    enum status status = STATUS_OK;
    int64_t begin, end;
    if (!parse_step(text, colon, &begin) ||
        !parse_step(colon + 1, colon + 1 + strlen(colon + 1), &end))
        return refuse_steps(text, err);
    if (begin >= end)
        return error_set(err, STATUS_INVALID, "'%s' is a range without any step", text);
    for (int64_t step = begin; step < end && status == STATUS_OK; step++)
        status = add_step(steps, count, step, err);
    return status;
}

static enum status add_list(const char *text, int32_t *steps, size_t *count, struct error *err)
{
    size_t length = strlen(text);
    bool bracketed = length > 1 && text[0] == '[' && text[length - 1] == ']';
    const char *end = text + length - bracketed;
    enum status status = STATUS_OK;
    for (const char *at = text + bracketed; at <= end && status == STATUS_OK;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        int64_t step;
        if (!parse_step(at, stop, &step))
            return refuse_steps(text, err);
        status = add_step(steps, count, step, err);
        at = stop + 1;
    }
    return status;
}

enum status config_parse_steps(const char *text, int32_t **ret_steps, size_t *ret_count,
                               struct error *err)
{
    int32_t *steps = calloc(DATASET_MAX_STEPS, sizeof *steps);
    const char *colon = strchr(text, ':');
    size_t count = 0;
    if (!steps)
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    enum status status =
        colon ? add_range(text, colon, steps, &count, err) : add_list(text, steps, &count, err);
    int32_t *fitting = status != STATUS_OK ? NULL : realloc(steps, count * sizeof *steps);
    if (!fitting) {
        free(steps);
        return status != STATUS_OK ? status : error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    *ret_steps = fitting;
    *ret_count = count;
    return STATUS_OK;
}

void config_print_steps(const int32_t *steps, size_t count, struct text *out)
{
    if (count > 1 && (int64_t)steps[count - 1] - steps[0] == (int64_t)count - 1) {
        text_append(out, "\"%" PRId32 ":%" PRId32 "\"", steps[0], steps[count - 1] + 1);
        return;
    }
    for (size_t i = 0; i < count; i++)
        text_append(out, "%s%" PRId32, i == 0 ? "[" : ", ", steps[i]);
    text_append(out, "]");
}

void config_print_real(double number, struct text *out)
{
    char digits[32];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        double again = strtod(digits, NULL);
        if (again >= number && again <= number)
            break;
    }
    text_append(out, "%s", digits);
}

enum status config_refuse_secret(struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "a uri with a user, a password or a signature in it: credentials are taken "
                     "from the environment and files alone (AWS_ACCESS_KEY_ID, "
                     "~/.aws/credentials)");
}

enum status config_put_text(const char **member, const char *value, struct error *err)
{
    if (text_has_secret(value))
        return config_refuse_secret(err);
    char *copy = strdup(value);
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    free((char *)*member);
    *member = copy;
    return STATUS_OK;
}
