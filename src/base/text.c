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
    if (size > 0) /* memcpy() takes no NULL */
        memcpy(text->data + text->length, data, size);
    text->length += size;
    text->data[text->length] = '\0';
}

void text_append_shown(struct text *text, const char *foreign)
{
    char out[TEXT_CHARACTER_BYTES];
    size_t taken;
    for (; *foreign; foreign += taken) {
        size_t length = text_show_character(foreign, out, &taken);
        text_append_bytes(text, out, length);
    }
}

void text_append_json(struct text *text, const char *foreign)
{
    char out[TEXT_CHARACTER_BYTES];
    size_t taken;
    text_append_bytes(text, "\"", 1);
    for (; *foreign; foreign += taken) {
        size_t length = text_show_character(foreign, out, &taken);
        if (out[0] == '"' || out[0] == '\\')
            text_append_bytes(text, "\\", 1);
        text_append_bytes(text, out, length);
    }
    text_append_bytes(text, "\"", 1);
}

void text_done(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

void text_forget(struct text *text)
{
    if (text->data)
        explicit_bzero(text->data, text->capacity);
    text_done(text);
}

void text_append_word(struct text *text, const char *foreign)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (*foreign && !foreign[strspn(foreign, plain)]) {
        text_append(text, "%s", foreign);
        return;
    }
    text_append(text, "'");
    for (const char *c = foreign; *c; c++)
        text_append(text, *c == '\'' ? "'\\''" : "%c", *c);
    text_append(text, "'");
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

static bool is_password(const char *authority)
{
    return memchr(authority, '@', strcspn(authority, "/?#")) || has_odd_port(authority);
}

/* In "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net" the container is no user. `end` is that of
 * the scheme. 0: there is no container. */
static size_t container_length(const char *text, const char *end)
{
    bool is_azure = (end - text >= 4 && memcmp(end - 4, "abfs", 4) == 0) ||
                    (end - text >= 5 && memcmp(end - 5, "abfss", 5) == 0);
    size_t name = strspn(end + 3, "abcdefghijklmnopqrstuvwxyz0123456789-$");
    return is_azure && end[3 + name] == '@' ? name + 1 : 0;
}

bool text_has_password(const char *text)
{
    if (strncmp(text, "//", 2) == 0 && is_password(text + 2))
        return true;
    for (const char *at = text; (at = strstr(at, "://")) != NULL;) {
        const char *scheme = at;
        bool is_path = at - text >= 8 && memcmp(at - 8, "icechunk", 8) == 0; /* with a branch */
        at += 3;
        if (!is_path && is_password(at + container_length(text, scheme)))
            return true;
    }
    return false;
}

/* Names of a query's values, as Amazon, Azure, Google and others have them. */
static bool is_secret_name(const char *name, size_t length)
{
    static const char *const words[] = {"sig",    "token",   "secret",     "passw",    "credential",
                                        "apikey", "api_key", "access_key", "accesskey"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strcasestr(name, words[i]);
        if (found && found < name + length)
            return true;
    }
    return false;
}

bool text_has_secret(const char *text)
{
    const char *uri = strstr(text, "://");
    if (text_has_password(text))
        return true;
    for (const char *at = uri ? strpbrk(uri, "?&;#") : NULL; at; at = strpbrk(at, "?&;#")) {
        size_t length = strcspn(++at, "=?&;#");
        if (at[length] == '=' && is_secret_name(at, length))
            return true;
    }
    return false;
}

char *text_after_mark(char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    return strncmp(text, mark, sizeof mark - 1) == 0 ? text + sizeof mark - 1 : text;
}
