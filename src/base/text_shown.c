/* Text from outside as it may be shown; see text.h. */
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

size_t text_show_character(const char *foreign, char out[TEXT_CHARACTER_BYTES], size_t *ret_taken)
{
    uint32_t code = 0;
    size_t bytes = take_character((const unsigned char *)foreign, &code);
    *ret_taken = bytes ? bytes : 1;
    if (bytes && is_shown(code)) {
        memcpy(out, foreign, bytes);
        return bytes;
    }
    if (bytes && code > 0xff)
        return (size_t)snprintf(out, TEXT_CHARACTER_BYTES, "\\u%04x", code & 0xffff);
    return (size_t)snprintf(out, TEXT_CHARACTER_BYTES, "\\x%02x",
                            bytes ? code : (unsigned char)*foreign);
}

bool text_is_plain(const char *foreign)
{
    char out[TEXT_CHARACTER_BYTES];
    size_t taken;
    for (; *foreign; foreign += taken) {
        size_t length = text_show_character(foreign, out, &taken);
        if (length != taken || memcmp(out, foreign, length) != 0)
            return false;
    }
    return true;
}

void text_show(char *text, size_t capacity, const char *foreign)
{
    char out[TEXT_CHARACTER_BYTES];
    size_t used = 0, taken;
    for (; *foreign; foreign += taken) {
        size_t length = text_show_character(foreign, out, &taken);
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
