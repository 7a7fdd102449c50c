/* Listings, one page after another (page.h), on the caller's thread. See store.h. */
#include "store/remote/remote_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 8 << 20, ENTRIES_MOST = 1000000 };

/* The first `pages` of what starts with `prefix`, one after another; whether there are more. */
static enum status each_entry(const struct remote *remote, const char *prefix, bool folders,
                              uint64_t pages, page_entry *entry, void *argument, bool *ret_more,
                              struct error *err)
{
    struct page page = {.more = true};
    char *answer = malloc(PAGE_BYTES + 1);
    enum status status =
        answer ? STATUS_OK
               : error_set(err, STATUS_NO_MEMORY, "no memory to list '%s'", remote->uri);
    for (; status == STATUS_OK && page.more && pages > 0; pages--) {
        struct text query = {0};
        char mark[PAGE_MARK_BYTES] = "";
        remote->origin->kind->query(prefix, folders, page.next, &query);
        struct fetch fetch = {.kind = FETCH_QUERY,
                              .key = query.data,
                              .buffer = answer,
                              .capacity = PAGE_BYTES,
                              .ret_mark = mark};
        status = fetch_run(&remote->store, &fetch, 1, err);
        if (status == STATUS_OK) {
            answer[fetch.got] = '\0';
            status = page_read(remote->origin->kind->format, answer, entry, argument, &page, err);
        }
        if (status == STATUS_OK && mark[0]) {
            page.more = true;
            memcpy(page.next, mark, sizeof mark);
        }
        text_done(&query);
    }
    free(answer);
    *ret_more = page.more;
    return status;
}

/* "prefix/" of the store and of `below`. */
static char *whole_prefix(const struct origin *origin, const char *below)
{
    char *prefix = NULL;
    if (asprintf(&prefix, "%s%s%s", origin->prefix, below, *below ? "/" : "") < 0)
        return NULL;
    return prefix;
}

struct names {
    size_t skip; /* bytes of the prefix */
    struct name {
        char *text;
        bool is_prefix;
    } * names;
    size_t count, capacity;
};

static enum status add_name(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                            struct error *err)
{
    struct names *names = argument;
    (void)bytes;
    if (strlen(key) <= names->skip) /* the folder's own marker */
        return STATUS_OK;
    const char *text = key + names->skip;
    size_t length = strcspn(text, "/");
    if (length == 0 || (length <= 2 && strncmp(text, "..", length) == 0))
        return STATUS_OK; /* what no key of a store can reach */
    if (names->count == ENTRIES_MOST)
        return error_set(err, STATUS_INVALID, "more than %d names directly below one prefix",
                         ENTRIES_MOST);
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 64;
        struct name *longer = realloc(names->names, capacity * sizeof *longer);
        if (!longer)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a listing");
        names->names = longer;
        names->capacity = capacity;
    }
    struct name *name = &names->names[names->count];
    *name = (struct name){strndup(text, length), is_prefix};
    if (!name->text)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a listing");
    names->count++;
    return STATUS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

enum status remote_list(const struct remote *remote, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    char *whole = whole_prefix(remote->origin, prefix);
    if (!whole)
        return error_set(err, STATUS_NO_MEMORY, "no memory to list '%s'", remote->uri);
    struct names names = {.skip = strlen(whole)};
    bool more;
    enum status status = each_entry(remote, whole, true, UINT64_MAX, add_name, &names, &more, err);
    if (status == STATUS_OK && names.count == 0)
        status = error_set(err, STATUS_NOT_FOUND, "list '%s/%s': nothing lies there", remote->uri,
                           prefix);
    if (names.count > 0)
        qsort(names.names, names.count, sizeof *names.names, by_name);
    for (size_t i = 0; status == STATUS_OK && i < names.count; i++)
        status = visit(names.names[i].text, names.names[i].is_prefix, argument, err);
    for (size_t i = 0; i < names.count; i++)
        free(names.names[i].text);
    free(names.names);
    free(whole);
    return status;
}

static enum status add_size(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                            struct error *err)
{
    struct store_usage *sum = argument;
    (void)key;
    if (is_prefix)
        return STATUS_OK;
    if (__builtin_add_overflow(sum->bytes, bytes, &sum->bytes))
        return error_set(err, STATUS_CORRUPT, "the listing's sizes exceed 2^64 bytes");
    sum->count++;
    return STATUS_OK;
}

enum status remote_usage(const struct remote *remote, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err)
{
    struct store_usage sum = {0};
    char *whole = whole_prefix(remote->origin, prefix);
    if (!whole)
        return error_set(err, STATUS_NO_MEMORY, "no memory to list '%s'", remote->uri);
    uint64_t pages = most / PAGE_ENTRIES;
    enum status status =
        each_entry(remote, whole, false, pages > 0 ? pages : 1, add_size, &sum, &sum.more, err);
    free(whole);
    if (status == STATUS_OK && sum.count == 0)
        status = error_set(err, STATUS_NOT_FOUND, "list '%s/%s': nothing lies there", remote->uri,
                           prefix);
    if (status == STATUS_OK)
        *ret_usage = sum;
    return status;
}
