/* See assume.h. */
#include "cli/assume.h"

#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "1.5gbit": bytes a second; 0: it is not such a text. */
static uint64_t bits_parse(const char *text)
{
    static const struct {
        const char *unit;
        double bits;
    } units[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};
    char *end;
    double number = strtod(text, &end);
    if (end == text || !(number > 0) || !isfinite(number) || number > 1e6)
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0)
            return (uint64_t)ceil(number * units[i].bits / 8);
    return 0;
}

static enum status rate_parse(const char *text, uint64_t *ret_rate, struct error *err)
{
    char size[64];
    uint64_t rate = bits_parse(text);
    size_t length = strlen(text);
    if (rate == 0 && length > 2 && length < sizeof size && strcmp(text + length - 2, "/s") == 0) {
        snprintf(size, sizeof size, "%.*s", (int)length - 2, text);
        if (size_parse(size, &rate, NULL) != STATUS_OK)
            rate = 0;
    }
    if (rate == 0)
        return error_set(err, STATUS_INVALID, "'%s' is not a rate like 1gbit or 2GB/s", text);
    *ret_rate = rate;
    return STATUS_OK;
}

static enum status part_parse(const char *part, struct run_rates *rates, struct error *err)
{
    const struct {
        const char *name;
        uint64_t *rate; /* 0: not given */
    } known[] = {{"link=", &rates->link}, {"store=", &rates->store}, {"decode=", &rates->decode}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(part, known[i].name, strlen(known[i].name)) == 0 && *known[i].rate)
            return error_set(err, STATUS_INVALID, "%s is given twice", known[i].name);
        else if (strncmp(part, known[i].name, strlen(known[i].name)) == 0)
            return rate_parse(part + strlen(known[i].name), known[i].rate, err);
    return error_set(err, STATUS_INVALID, "'%s': rates are link=, store= and decode=", part);
}

enum status assume_parse(const char *text, struct run_rates *rates, struct error *err)
{
    struct run_rates read = *rates;
    enum status status = STATUS_OK;
    for (bool more = true; more && status == STATUS_OK;) {
        char part[80];
        int length = (int)strcspn(text, ",");
        snprintf(part, sizeof part, "%.*s", length, text);
        status = part_parse(part, &read, err);
        more = text[length] == ',';
        text += length + more;
    }
    if (status == STATUS_OK)
        *rates = read;
    return status;
}
