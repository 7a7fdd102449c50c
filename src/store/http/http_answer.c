/* See http_answer.h. */
#include "store/http/http_answer.h"

#include "store/http/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Header lines
 * ---------------------------------------------------------------------------------------------- */

/* A number of digits alone, which end in what is no digit. */
static bool take_number(const char **at, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
            return false;
    *ret_value = value;
    return true;
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* "bytes 0-9/100", "bytes 0-9/" followed by '*', and of a 416 "bytes" with '*' and "/100". */
static void read_range(struct http_answer *answer, const char *value)
{
    if (strncasecmp(value, "bytes ", 6) != 0)
        return;
    value += 6;
    uint64_t first = 0, last = 0;
    bool unsatisfied = take_char(&value, '*');
    if (!unsatisfied && !(take_number(&value, &first) && take_char(&value, '-') &&
                          take_number(&value, &last) && last >= first))
        return;
    answer->has_range = !unsatisfied;
    answer->range_first = first;
    answer->range_last = last;
    answer->has_total = take_char(&value, '/') && take_number(&value, &answer->range_all);
}

/* FNV-1a, over all that tells versions apart. */
static void stir(uint64_t *hash, const char *text)
{
    if (*hash == 0)
        *hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        *hash = (*hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
}

/* Copies what can be shown, up to a stop character. */
static void copy_text(char *out, size_t capacity, const char *text, char stop)
{
    size_t used = 0;
    for (; *text && *text != stop && used + 1 < capacity; text++)
        out[used++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
    out[used] = '\0';
}

/* Whether a list of names has one that bytes are encoded by. Writers and servers put other names
 * there, too: how a value was sent ("aws-chunked"), a character set ("utf-8"), "none". */
static bool names_encoding(const char *list)
{
    static const char *const names[] = {"gzip", "x-gzip", "deflate", "br", "zstd", "compress"};
    static const char between[] = ", \t;";
    for (list += strspn(list, between); *list; list += strspn(list, between)) {
        size_t length = strcspn(list, between);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strlen(names[i]) == length && strncasecmp(list, names[i], length) == 0)
                return true;
        list += length;
    }
    return false;
}

static void read_encoding(struct http_answer *answer, const char *value)
{
    copy_text(answer->encoding, sizeof answer->encoding, value, '\r');
    answer->encoded = answer->encoded || names_encoding(value);
    answer->unencoded = !answer->encoded;
}

static void begin_answer(struct http_answer *answer, const char *line)
{
    const char *space = strchr(line, ' ');
    memset(answer, 0, sizeof *answer);
    if (!space)
        return;
    uint64_t status = 0;
    const char *at = space + 1;
    if (take_number(&at, &status) && status < 1000)
        answer->status = (int)status;
    if (take_char(&at, ' '))
        copy_text(answer->reason, sizeof answer->reason, at, '\r');
}

static const char *value_of(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':')
        return NULL;
    line += length + 1;
    return line + strspn(line, " \t");
}

/* What may be shown of a redirect's target. Where an address that was cut ends is not known. */
static void take_location(struct http_answer *answer, const char *value, bool cut)
{
    char shown[sizeof answer->location];
    url_show(shown, sizeof shown, cut && !strpbrk(value, "?#") ? "..." : value);
    copy_text(answer->location, sizeof answer->location, shown, '\0');
}

/* "resolvers";r=0;t=55: what is left, and seconds until there is more. */
static void read_limit(struct http_answer *answer, const char *value)
{
    const char *at = strstr(value, ";t=");
    uint64_t seconds = 0;
    if (!at || answer->status != 429 || answer->retry_after_s > 0)
        return;
    at += 3;
    if (take_number(&at, &seconds))
        answer->retry_after_s = seconds < 3600 ? (uint32_t)seconds : 3600;
}

/* <https://...?limit=1000&cursor=ABC%3D>; rel="next" */
static void take_next(struct http_answer *answer, const char *value, bool cut)
{
    const char *end = strchr(value, '>');
    const char *at = strstr(value, "cursor=");
    bool is_next = end && strstr(end, "rel=\"next\"");
    answer->next_cut = cut && !is_next;
    if (!is_next || !at || at > end)
        return;
    at += strlen("cursor=");
    size_t length = strcspn(at, "&>");
    answer->next_cut = length >= sizeof answer->next;
    if (!answer->next_cut)
        snprintf(answer->next, sizeof answer->next, "%.*s", (int)length, at);
}

void http_answer_line(struct http_answer *answer, const char *bytes, size_t size)
{
    char line[4096];
    const char *value;
    bool cut = size > sizeof line - 1;
    size = cut ? sizeof line - 1 : size;
    memcpy(line, bytes, size);
    line[size] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0)
        begin_answer(answer, line);
    else if ((value = value_of(line, "Content-Length")))
        answer->has_length = take_number(&value, &answer->length);
    else if ((value = value_of(line, "Content-Range")))
        read_range(answer, value);
    else if ((value = value_of(line, "Content-Encoding")))
        read_encoding(answer, value);
    else if ((value = value_of(line, "x-amz-bucket-region")))
        copy_text(answer->region, sizeof answer->region, value, ' ');
    else if ((value = value_of(line, "x-ms-error-code")) ||
             (value = value_of(line, "X-Error-Code")))
        copy_text(answer->code, sizeof answer->code, value, ' ');
    else if ((value = value_of(line, "RateLimit")))
        read_limit(answer, value);
    else if ((value = value_of(line, "ETag")) || (value = value_of(line, "Last-Modified")))
        stir(&answer->version, value);
    else if ((value = value_of(line, "Link")))
        take_next(answer, value, cut);
    else if ((value = value_of(line, "Location")))
        take_location(answer, value, cut);
    else if ((value = value_of(line, "Retry-After"))) {
        uint64_t seconds = 0;
        if (take_number(&value, &seconds) && *value == '\0')
            answer->retry_after_s = seconds < 3600 ? (uint32_t)seconds : 3600;
    }
}

void http_answer_body(struct http_answer *answer, const char *bytes, size_t size)
{
    size_t room = sizeof answer->body - 1 - answer->body_bytes;
    size = size < room ? size : room;
    memcpy(answer->body + answer->body_bytes, bytes, size);
    answer->body_bytes += size;
    answer->body[answer->body_bytes] = '\0';
}

/* The body of an error
 * ---------------------------------------------------------------------------------------------- */

/* The text between <Name> and </Name>, which S3 servers say what is wrong in. */
static bool tagged(const char *body, const char *name, char *out, size_t capacity)
{
    char tag[32];
    snprintf(tag, sizeof tag, "<%s>", name);
    const char *at = strstr(body, tag);
    if (!at)
        return false;
    copy_text(out, capacity, at + strlen(tag), '<');
    return true;
}

void http_answer_describe(const struct http_answer *answer, char *ret_text, size_t capacity)
{
    const char *body = answer->body;
    char code[96], message[320] = "";
    ret_text[0] = '\0';
    if (tagged(body, "Code", code, sizeof code)) {
        tagged(body, "Message", message, sizeof message);
        snprintf(ret_text, capacity, ": %s%s%s", code, message[0] ? ": " : "", message);
        return;
    }
    body += strspn(body, " \t\r\n");
    copy_text(message, sizeof message, body, '\n');
    if (message[0])
        snprintf(ret_text, capacity, ": %s", message);
}

void http_answer_element(const struct http_answer *answer, const char *name, char *ret_text,
                         size_t capacity)
{
    ret_text[0] = '\0';
    tagged(answer->body, name, ret_text, capacity);
}
