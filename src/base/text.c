/* See text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct text *text, size_t more)
{
    size_t need = text->length + more + 1;
    if (need <= text->capacity)
        return;
    size_t capacity = text->capacity ? text->capacity : 128;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data) {
        fprintf(stderr, "penstock: out of memory for a text of %zu bytes\n", capacity);
        abort();
    }
    text->data = data;
    text->capacity = capacity;
}

void text_append(struct text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length > 0) {
        reserve(text, (size_t)length);
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void text_append_bytes(struct text *text, const void *data, size_t size)
{
    reserve(text, size);
    memcpy(text->data + text->length, data, size);
    text->length += size;
    text->data[text->length] = '\0';
}

/* The character that `at` begins with: its bytes, 0 if these are no UTF-8. */
static size_t take_character(const unsigned char *at, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = at[0] < 0x80       ? 1
                   : at[0] >> 5 == 6  ? 2
                   : at[0] >> 4 == 14 ? 3
                   : at[0] >> 3 == 30 ? 4
                                      : 0;
    uint32_t code = bytes > 1 ? at[0] & (0x7f >> bytes) : at[0];

    for (size_t i = 1; i < bytes; i++) {
        if (at[i] >> 6 != 2)
            return 0; /* a NUL, too */
        code = code << 6 | (at[i] & 0x3f);
    }
    *ret_code = code;
    bool valid = bytes > 0 && code >= least[bytes] && code <= 0x10ffff && code >> 11 != 0x1b;
    return valid ? bytes : 0;
}

/* Not control characters (C0, DEL, C1), nor what ends lines or turns the direction of writing. */
static bool is_shown(uint32_t code)
{
    bool turns = (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                 (code >= 0x2066 && code <= 0x2069) || code == 0x061c;
    return code >= 0x20 && (code < 0x7f || code >= 0xa0) && !turns;
}

/* One character of `at` as it is shown, at `out`, which has room for SHOWN_BYTES; returns its
 * length, and how many bytes of `at` it stands for. */
enum { SHOWN_BYTES = 8 };
static size_t show(const char *at, char *out, size_t *ret_taken)
{
    uint32_t code = 0;
    size_t bytes = take_character((const unsigned char *)at, &code);

    *ret_taken = bytes ? bytes : 1;
    if (bytes && is_shown(code)) {
        memcpy(out, at, bytes);
        return bytes;
    }
    if (bytes && code > 0xff)
        return (size_t)snprintf(out, SHOWN_BYTES, "\\u%04x", code & 0xffff);
    return (size_t)snprintf(out, SHOWN_BYTES, "\\x%02x", bytes ? code : (unsigned char)*at);
}

void text_append_shown(struct text *text, const char *foreign)
{
    char out[SHOWN_BYTES];
    size_t taken;

    for (; *foreign; foreign += taken) {
        size_t length = show(foreign, out, &taken);

        text_append_bytes(text, out, length);
    }
}

void text_append_json(struct text *text, const char *foreign)
{
    char out[SHOWN_BYTES];
    size_t taken;

    text_append_bytes(text, "\"", 1);
    for (; *foreign; foreign += taken) {
        size_t length = show(foreign, out, &taken);

        if (out[0] == '"' || out[0] == '\\')
            text_append_bytes(text, "\\", 1);
        text_append_bytes(text, out, length);
    }
    text_append_bytes(text, "\"", 1);
}

bool text_is_plain(const char *foreign)
{
    char out[SHOWN_BYTES];
    size_t taken;

    for (; *foreign; foreign += taken) {
        size_t length = show(foreign, out, &taken);

        if (length != taken || memcmp(out, foreign, length) != 0)
            return false;
    }
    return true;
}

void text_show(char *text, size_t capacity, const char *foreign)
{
    char out[SHOWN_BYTES];
    size_t used = 0, taken;

    for (; *foreign; foreign += taken) {
        size_t length = show(foreign, out, &taken);

        if (used + length >= capacity)
            break;
        memcpy(text + used, out, length);
        used += length;
    }
    text[used] = '\0';
}

struct shown_text text_shown(const char *foreign)
{
    struct shown_text shown = {""};

    text_show(shown.text, sizeof shown.text, foreign);
    return shown;
}

void text_done(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

void text_list_put(struct text *list, const char *item)
{
    if (list->length > 0)
        text_append(list, ",");
    for (; *item; item++) {
        bool counts = *item == ',' || (*item == '\\' && strchr(",\\", item[1])); /* or the end */
        text_append(list, counts ? "\\%c" : "%c", *item);
    }
}

bool text_list_take(const char **at, struct text *ret_item)
{
    const char *c = *at;

    text_done(ret_item);
    if (!c || !*c)
        return false;
    for (; *c && *c != ','; c++) {
        if (*c == '\\' && (c[1] == ',' || c[1] == '\\'))
            c++;
        text_append(ret_item, "%c", *c);
    }
    text_append_bytes(ret_item, "", 0);
    *at = *c ? c + 1 : c;
    return true;
}

/* Whether "me:a" of "me:a/b@host" is no "host:80". */
static bool has_odd_port(const char *authority)
{
    size_t length = strcspn(authority, "/?#,");
    const char *host = *authority == '[' ? authority + strcspn(authority, "],/?#") : authority;
    const char *colon = memchr(host, ':', length - (size_t)(host - authority));
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

    return colon && (digits == 0 || colon + 1 + digits != authority + length);
}

bool text_has_password(const char *text)
{
    for (const char *at = text; (at = strstr(at, "://")) != NULL;) {
        at += 3;
        if (memchr(at, '@', strcspn(at, "/?#")) || has_odd_port(at))
            return true;
    }
    return false;
}
