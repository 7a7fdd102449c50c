/* See page.h. */
#include "store/remote/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct page_format page_s3 = {.root = "ListBucketResult",
                                    .entry = "Contents",
                                    .key = "Key",
                                    .size = "Size",
                                    .folder = "CommonPrefixes",
                                    .folder_key = "Prefix",
                                    .more = "IsTruncated",
                                    .next = "NextContinuationToken"};

const struct page_format page_azure = {.root = "EnumerationResults",
                                       .entry = "Blob",
                                       .key = "Name",
                                       .size = "Content-Length",
                                       .folder = "BlobPrefix",
                                       .folder_key = "Name",
                                       .next = "NextMarker"};

const struct page_format page_hub = {
    .entry = "file", .key = "path", .size = "size", .folder = "directory"};

/* The content of the first element `name` in [at, end); false if there is none. */
static bool find_element(const char *at, const char *end, const char *name, const char **ret_begin,
                         const char **ret_end)
{
    char open[40], close[40];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *begin = memmem(at, (size_t)(end - at), open, strlen(open));
    if (!begin)
        return false;
    begin += strlen(open);
    const char *stop = memmem(begin, (size_t)(end - begin), close, strlen(close));
    if (!stop)
        return false;
    *ret_begin = begin;
    *ret_end = stop;
    return true;
}

/* Appends a character's UTF-8; 0 bytes: no such character. */
static size_t put_character(unsigned long code, char *out)
{
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(marks[count] | code);
    return count;
}

/* What "&name;" stands for; *ret_length is how much of the text it takes. 0: nothing known. */
static size_t put_entity(const char *at, const char *end, char *out, size_t *ret_length)
{
    static const struct {
        const char *name;
        char character;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    size_t left = (size_t)(end - at);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        *ret_length = strlen(known[i].name);
        if (left >= *ret_length && memcmp(at, known[i].name, *ret_length) == 0) {
            out[0] = known[i].character;
            return 1;
        }
    }
    const char *stop = memchr(at, ';', left < 12 ? left : 12);
    if (!stop || left < 4 || at[1] != '#')
        return 0;
    char *parsed;
    bool hex = at[2] == 'x';
    unsigned long code = strtoul(at + (hex ? 3 : 2), &parsed, hex ? 16 : 10);
    *ret_length = (size_t)(stop - at) + 1;
    return parsed == stop ? put_character(code, out) : 0;
}

/* Copies an element's text with its entities resolved; false: too long, or not text. */
static bool copy_text(const char *at, const char *end, char *out, size_t capacity)
{
    size_t used = 0;
    while (at < end) {
        char put[4];
        size_t length = 1, count = 1;
        put[0] = *at;
        if (*at == '&')
            count = put_entity(at, end, put, &length);
        if (*at == '<' || count == 0 || used + count >= capacity)
            return false;
        memcpy(out + used, put, count);
        used += count;
        at += length;
    }
    out[used] = '\0';
    return true;
}

static enum status read_entry(const struct page_format *format, const char *at, const char *end,
                              bool is_prefix, page_entry *entry, void *argument, struct error *err)
{
    char key[PAGE_KEY_BYTES], number[32] = "0";
    const char *begin, *stop;
    char *parsed = number;
    if (!is_prefix && find_element(at, end, "ResourceType", &begin, &stop) && stop - begin == 9 &&
        memcmp(begin, "directory", 9) == 0)
        return STATUS_OK; /* of Azure's accounts with folders */
    if (!find_element(at, end, is_prefix ? format->folder_key : format->key, &begin, &stop) ||
        !copy_text(begin, stop, key, sizeof key))
        return error_set(err, STATUS_CORRUPT, "the listing has an entry without a valid key");
    if (!is_prefix && (!find_element(at, end, format->size, &begin, &stop) ||
                       !copy_text(begin, stop, number, sizeof number)))
        return error_set(err, STATUS_CORRUPT, "the listing has an entry without a size");
    uint64_t bytes = strtoull(number, &parsed, 10);
    if (*parsed || parsed == number || number[0] == '-')
        return error_set(err, STATUS_CORRUPT, "the listing has an entry without a size");
    return entry(key, is_prefix, bytes, argument, err);
}

static enum status read_entries(const struct page_format *format, const char *at, const char *end,
                                bool is_prefix, page_entry *entry, void *argument,
                                struct error *err)
{
    const char *name = is_prefix ? format->folder : format->entry, *begin, *stop;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && find_element(at, end, name, &begin, &stop)) {
        status = read_entry(format, begin, stop, is_prefix, entry, argument, err);
        at = stop;
    }
    return status;
}

static enum status read_more(const struct page_format *format, const char *text, const char *end,
                             struct page *page, struct error *err)
{
    const char *begin, *stop;
    bool has_next = find_element(text, end, format->next, &begin, &stop) && stop > begin;
    const char *mark = begin, *mark_end = stop;
    page->more = format->more ? find_element(text, end, format->more, &begin, &stop) &&
                                    stop - begin == 4 && memcmp(begin, "true", 4) == 0
                              : has_next;
    if (page->more &&
        (!has_next || !copy_text(mark, mark_end, page->next, sizeof page->next) || !page->next[0]))
        return error_set(err, STATUS_CORRUPT,
                         "the listing has further pages, and no token to ask for them");
    return STATUS_OK;
}

enum status page_read(const struct page_format *format, const char *text, page_entry *entry,
                      void *argument, struct page *ret_page, struct error *err)
{
    struct page page = {0};
    const char *end = text + strlen(text);
    if (!format->root) {
        *ret_page = page;
        return page_read_json(format, text, entry, argument, err);
    }
    const char *root = strstr(text, format->root);
    if (!root || root == text || root[-1] != '<')
        return error_set(err, STATUS_CORRUPT, "the answer is not a listing");
    enum status status = read_more(format, text, end, &page, err);
    if (status == STATUS_OK)
        status = read_entries(format, text, end, false, entry, argument, err);
    if (status == STATUS_OK)
        status = read_entries(format, text, end, true, entry, argument, err);
    if (status == STATUS_OK)
        *ret_page = page;
    return status;
}
