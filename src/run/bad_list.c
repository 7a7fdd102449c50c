/* See bad_list.h. */
#include "run/bad_list.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Numbers but 0: open addressing, at most half full. */
struct number_set {
    uint64_t *buckets;
    uint64_t capacity, count;
};

struct bad_list {
    char *path; /* "": none */
    uint64_t fingerprint, max_samples;
    struct number_set lines;   /* hashes of what begins the lines */
    struct number_set chunks;  /* the same, of those that were added here */
    struct number_set samples; /* numbers plus 1 */
    struct text text;
    bool changed;
};

static uint64_t *find(const struct number_set *set, uint64_t number)
{
    uint64_t at = XXH3_64bits(&number, sizeof number) % set->capacity;
    while (set->buckets[at] && set->buckets[at] != number)
        at = (at + 1) % set->capacity;
    return &set->buckets[at];
}

static bool grow(struct number_set *set)
{
    struct number_set larger = {.capacity = set->capacity ? 2 * set->capacity : 64,
                                .count = set->count};
    larger.buckets = calloc(larger.capacity, sizeof *larger.buckets);
    if (!larger.buckets)
        return false;
    for (uint64_t i = 0; i < set->capacity; i++)
        if (set->buckets[i])
            *find(&larger, set->buckets[i]) = set->buckets[i];
    free(set->buckets);
    *set = larger;
    return true;
}

/* False: no memory. */
static bool add(struct number_set *set, uint64_t number, bool *ret_new)
{
    if (2 * (set->count + 1) > set->capacity && !grow(set))
        return false;
    uint64_t *bucket = find(set, number);
    *ret_new = *bucket == 0;
    set->count += *ret_new;
    *bucket = number;
    return true;
}

static enum status no_memory(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no memory to list bad chunks");
}

static uint64_t hash_of(const char *text, size_t length)
{
    return XXH3_64bits(text, length) | 1;
}

/* Keeps a line of the file if it is whole and of this dataset. */
static bool keep_line(struct bad_list *list, const char *line, size_t length)
{
    static const char end_of_key[] = "],\"reader\":"; /* no string of JSON has this within */
    char start[48];
    snprintf(start, sizeof start, "{\"dataset\":\"%016" PRIx64 "\",", list->fingerprint);
    const char *end = memmem(line, length, end_of_key, sizeof end_of_key - 1);
    bool is_new = false;
    if (length < strlen(start) || memcmp(line, start, strlen(start)) != 0 || !end)
        return true;
    if (!add(&list->lines, hash_of(line, (size_t)(end - line)), &is_new))
        return false;
    if (is_new)
        text_append_bytes(&list->text, line, length);
    return true;
}

static enum status keep_lines(struct bad_list *list, const char *text, size_t size,
                              struct error *err)
{
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) + 1 : size;
        if (end && !keep_line(list, text, length))
            return no_memory(err);
        text += length;
        size -= length;
    }
    return STATUS_OK;
}

static enum status read_file(struct bad_list *list, struct error *err)
{
    FILE *file = fopen(list->path, "re");
    if (!file && errno == ENOENT)
        return STATUS_OK;
    if (!file)
        return error_set_errno(err, STATUS_IO, "errors.report: open '%s'", list->path);
    char *text = malloc(BAD_LIST_MAX_BYTES + 1);
    size_t size = text ? fread(text, 1, BAD_LIST_MAX_BYTES + 1, file) : 0;
    enum status status = STATUS_OK;
    if (!text)
        status = no_memory(err);
    else if (ferror(file))
        status = error_set_errno(err, STATUS_IO, "errors.report: read '%s'", list->path);
    else if (size > BAD_LIST_MAX_BYTES)
        status = error_set(err, STATUS_INVALID,
                           "errors.report: '%s' is longer than %d bytes: it is not a list of bad "
                           "chunks; move it away",
                           list->path, BAD_LIST_MAX_BYTES);
    else
        status = keep_lines(list, text, size, err);
    free(text);
    fclose(file);
    return status;
}

enum status bad_list_new(const char *path, uint64_t fingerprint, uint64_t max_samples,
                         struct bad_list **ret_list, struct error *err)
{
    struct bad_list *list = calloc(1, sizeof *list);
    if (!list || !(list->path = strdup(path))) {
        free(list);
        return no_memory(err);
    }
    list->fingerprint = fingerprint;
    list->max_samples = max_samples;
    list->changed = true;
    enum status status = STATUS_OK;
    if (*path)
        status = file_check_writable(path, err);
    if (status != STATUS_OK)
        status = error_prefix(err, status, "errors.report: ");
    else if (*path)
        status = read_file(list, err);
    if (status != STATUS_OK) {
        bad_list_free(list);
        return status;
    }
    *ret_list = list;
    return STATUS_OK;
}

void bad_list_free(struct bad_list *list)
{
    if (!list)
        return;
    free(list->lines.buckets);
    free(list->chunks.buckets);
    free(list->samples.buckets);
    text_done(&list->text);
    free(list->path);
    free(list);
}

/* The line's start, which tells it from others, up to the samples' end. */
static void append_key(const struct bad_list *list, const struct bad_chunk *bad, struct text *out)
{
    text_append(out, "{\"dataset\":\"%016" PRIx64 "\",", list->fingerprint);
    if (bad->source >= 0)
        text_append(out, "\"source\":%" PRId32 ",", bad->source);
    text_append(out, "\"array\":");
    text_append_json(out, bad->array);
    text_append(out, ",\"chunk\":\"%s\",\"samples\":[%" PRIu64 ",%" PRIu64, bad->chunk.text,
                bad->first_sample, bad->first_sample + bad->sample_count);
}

static void append_line(struct bad_list *list, const struct text *key, const struct bad_chunk *bad,
                        int reader, const char *node)
{
    text_append_bytes(&list->text, key->data, key->length);
    text_append(&list->text, "],\"reader\":%d,\"node\":", reader);
    text_append_json(&list->text, node);
    text_append(&list->text, ",\"error\":");
    text_append_json(&list->text, bad->cause.message);
    text_append(&list->text, "}\n");
    list->changed = true;
}

/* Sources of a mix have samples of the same numbers. */
static uint64_t sample_number(const struct bad_chunk *bad, uint64_t i)
{
    return (uint64_t)(bad->source + 1) << 56 ^ (bad->first_sample + i + 1);
}

static enum status count_samples(struct bad_list *list, const struct bad_chunk *bad, int reader,
                                 const char *node, struct error *err)
{
    bool is_new;
    for (uint64_t i = 0; i < bad->sample_count; i++) {
        if (!add(&list->samples, sample_number(bad, i), &is_new))
            return no_memory(err);
        if (list->samples.count <= list->max_samples)
            continue;
        if (err)
            *err = bad->cause;
        return error_prefix(err, (enum status)bad->cause.status,
                            "more than errors.max_bad %" PRIu64
                            " bad samples; the last, of reader %d on %s: ",
                            list->max_samples, reader, node);
    }
    return STATUS_OK;
}

enum status bad_list_add(struct bad_list *list, const struct bad_chunk *bad, int reader,
                         const char *node, struct error *err)
{
    struct text key = {0};
    bool new_line = false, new_here = false;
    append_key(list, bad, &key);
    uint64_t hash = hash_of(key.data, key.length);
    enum status status = STATUS_OK;
    if (!add(&list->lines, hash, &new_line) || !add(&list->chunks, hash, &new_here))
        status = no_memory(err);
    if (status == STATUS_OK && new_line)
        append_line(list, &key, bad, reader, node);
    if (status == STATUS_OK && new_here)
        status = count_samples(list, bad, reader, node, err);
    if (status == STATUS_OK && list->text.length > BAD_LIST_MAX_BYTES) {
        if (err)
            *err = bad->cause;
        status = error_prefix(err, (enum status)bad->cause.status,
                              "more bad chunks than errors.report may list; the last: ");
    }
    text_done(&key);
    return status;
}

uint64_t bad_list_samples(const struct bad_list *list)
{
    return list->samples.count;
}

enum status bad_list_write(struct bad_list *list, struct error *err)
{
    if (!list->changed || !*list->path)
        return STATUS_OK;
    enum status status =
        file_replace(list->path, list->text.data ? list->text.data : "", list->text.length, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "errors.report: ");
    list->changed = false;
    return STATUS_OK;
}
