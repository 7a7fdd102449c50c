/* See json.h. The tokener takes a text in pieces, and its flags may change between pieces: what a
 * newer json-c refuses for no good reason goes in without STRICT. That is the inside of a string,
 * or the digits of an integer, where STRICT forbids nothing else. */
#include "zarr/metadata/json.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum {
    RELAXED = JSON_TOKENER_VALIDATE_UTF8 | JSON_TOKENER_ALLOW_TRAILING_CHARS,
    STRICT = RELAXED | JSON_TOKENER_STRICT,
    SHORT_DIGITS = 18 /* so many fit into 64 bits */
};

struct reading {
    struct json_tokener *tokener;
    struct json_object *value;
    size_t offset;
    enum json_tokener_error outcome;
};

/* Whether the reading goes on behind these bytes. */
static bool feed(struct reading *reading, const char *text, size_t size, int flags)
{
    if (size == 0)
        return true;
    json_tokener_set_flags(reading->tokener, flags);
    reading->value = json_tokener_parse_ex(reading->tokener, text, (int)size);
    reading->outcome = json_tokener_get_error(reading->tokener);
    reading->offset += json_tokener_get_parse_end(reading->tokener);
    return reading->outcome == json_tokener_continue;
}

/* The end of a string whose inside starts, or goes on, here: its quote, or the text's end. */
static size_t string_end(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < size ? at : size;
}

static size_t digits_end(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

/* Whether the digits are all of an integer, but for its sign: one that is too long for STRICT. */
static bool is_long_integer(const char *text, size_t size, size_t begin, size_t end)
{
    return end - begin > SHORT_DIGITS && text[begin] != '0' &&
           (begin == 0 || !strchr(".eE+", text[begin - 1])) &&
           (end == size || !strchr(".eE", text[end]));
}

/* Feeds the digits as they are. An integer's value is known with what follows it: a blank. */
static bool feed_integer(struct reading *reading, const char *digits, size_t size)
{
    bool goes_on = feed(reading, digits, size, RELAXED);
    size_t offset = reading->offset;
    goes_on = goes_on && feed(reading, " ", 1, RELAXED);
    reading->offset = offset;
    return goes_on;
}

static void read_pieces(struct reading *reading, const char *text, size_t size)
{
    size_t fed = 0, at = 0;
    bool quoted = false, goes_on = true;
    while (goes_on && at < size) {
        char c = text[at];
        size_t end = at + 1;
        if (quoted && c == '\\') {
            end = at + 2 < size ? at + 2 : size;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && c == '\'') { /* which json-c takes around names */
            if (feed(reading, text + fed, at - fed, STRICT))
                reading->outcome = json_tokener_error_parse_unexpected;
            return;
        } else if (quoted && ((unsigned char)c < ' ' || (unsigned char)c > '~')) {
            end = string_end(text, size, at);
            goes_on = feed(reading, text + fed, at - fed, STRICT) &&
                      feed(reading, text + at, end - at, RELAXED);
            fed = end;
        } else if (!quoted && c >= '0' && c <= '9') {
            end = digits_end(text, size, at);
            if (is_long_integer(text, size, at, end)) {
                goes_on = feed(reading, text + fed, at - fed, STRICT) &&
                          feed_integer(reading, text + at, end - at);
                fed = end;
            }
        }
        at = end;
    }
    if (goes_on)
        feed(reading, text + fed, size - fed, STRICT);
}

static const char *problem_of(struct reading *reading, const char *text, size_t size)
{
    if (reading->outcome == json_tokener_continue)
        return "it ends early";
    if (reading->outcome != json_tokener_success)
        return json_tokener_error_desc(reading->outcome);
    while (reading->offset < size && text[reading->offset] &&
           strchr(" \t\r\n", text[reading->offset]))
        reading->offset++;
    return reading->offset < size ? "something follows the document" : NULL;
}

const char *json_read(const char *text, size_t size, int max_depth, struct json_object **ret_value,
                      size_t *ret_offset)
{
    struct reading reading = {.outcome = json_tokener_continue};
    const char *problem = "it is too long";
    *ret_offset = 0;
    if (size > INT_MAX)
        return problem;
    reading.tokener = json_tokener_new_ex(max_depth);
    if (!reading.tokener)
        return "out of memory";
    read_pieces(&reading, text, size);
    json_tokener_free(reading.tokener);
    problem = problem_of(&reading, text, size);
    *ret_offset = reading.offset;
    if (!problem)
        *ret_value = reading.value;
    else
        json_object_put(reading.value);
    return problem;
}
