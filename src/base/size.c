/* See size.h. */
#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    double bytes;
} units[] = {
    {"", 1},
    {"b", 1},
    {"k", 1024},
    {"kib", 1024},
    {"kb", 1e3},
    {"m", 1048576},
    {"mib", 1048576},
    {"mb", 1e6},
    {"g", 1073741824},
    {"gib", 1073741824},
    {"gb", 1e9},
    {"t", 1099511627776.0},
    {"tib", 1099511627776.0},
    {"tb", 1e12},
    {"pib", 1125899906842624.0},
    {"pb", 1e15},
    {"eib", 1152921504606846976.0},
    {"eb", 1e18},
};

enum status size_parse(const char *text, uint64_t *ret_bytes, struct error *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value < 0)
        return error_set(err, STATUS_INVALID, "'%s' is not a size: write e.g. 512MiB or 32GiB",
                         text);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(end, units[i].name) != 0)
            continue;
        double bytes = value * units[i].bytes;
        if (bytes > 9.2e18)
            return error_set(err, STATUS_INVALID, "'%s' is more than 2^63 bytes", text);
        *ret_bytes = (uint64_t)bytes;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "'%s': unknown unit '%s': use KiB, MiB, GiB, TiB, PiB, EiB", text, end);
}

struct size_text size_format(uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct size_text ret;
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof names / sizeof names[0]) {
        value /= 1024;
        unit++;
    }
    int digits = unit == 0 ? 0 : value < 10 ? 2 : 1;
    snprintf(ret.text, sizeof ret.text, "%.*f %s", digits, value, names[unit]);
    return ret;
}

struct size_text count_format(uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    struct size_text ret;
    size_t out = 0;
    for (int i = 0; i < length && out + 2 < sizeof ret.text; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            ret.text[out++] = ',';
        ret.text[out++] = digits[i];
    }
    ret.text[out] = '\0';
    return ret;
}

bool rate_is_known(double seconds)
{
    return seconds >= 0.05;
}

struct size_text rate_format(uint64_t bytes, double seconds)
{
    struct size_text text = {""};
    if (rate_is_known(seconds))
        snprintf(text.text, sizeof text.text, ", %.40s/s",
                 size_format((uint64_t)((double)bytes / seconds)).text);
    return text;
}

struct size_text rate_format_count(uint64_t count, const char *unit, double seconds)
{
    struct size_text text = {""};
    if (rate_is_known(seconds))
        snprintf(text.text, sizeof text.text, ", %.30s %.10s/s",
                 count_format((uint64_t)((double)count / seconds + 0.5)).text, unit);
    return text;
}

struct size_text count_each(uint64_t count, const char *noun)
{
    struct size_text text;
    if (count == 1)
        snprintf(text.text, sizeof text.text, "the %.7s", noun);
    else
        snprintf(text.text, sizeof text.text, "each of the %.26s %.7ss", count_format(count).text,
                 noun);
    return text;
}
