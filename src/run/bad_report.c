/* See bad_report.h. */
#include "run/bad_report.h"

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
    uint64_t *slots;
    uint64_t capacity, count;
};

struct bad_report {
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
    while (set->slots[at] && set->slots[at] != number)
        at = (at + 1) % set->capacity;
    return &set->slots[at];
}

static bool grow(struct number_set *set)
{
    struct number_set larger = {.capacity = set->capacity ? 2 * set->capacity : 64,
                                .count = set->count};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (uint64_t i = 0; i < set->capacity; i++)
        if (set->slots[i])
            *find(&larger, set->slots[i]) = set->slots[i];
    free(set->slots);
    *set = larger;
    return true;
}

/* False: no memory. */
static bool add(struct number_set *set, uint64_t number, bool *ret_new)
{
    if (2 * (set->count + 1) > set->capacity && !grow(set))
        return false;
    uint64_t *slot = find(set, number);
    *ret_new = *slot == 0;
    set->count += *ret_new;
    *slot = number;
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
static bool keep_line(struct bad_report *report, const char *line, size_t length)
{
    static const char end_of_key[] = "],";
    char start[48];
    snprintf(start, sizeof start, "{\"dataset\":\"%016" PRIx64 "\",", report->fingerprint);
    const char *end = memmem(line, length, end_of_key, sizeof end_of_key - 1);
    bool is_new = false;
    if (length < strlen(start) || memcmp(line, start, strlen(start)) != 0 || !end)
        return true;
    if (!add(&report->lines, hash_of(line, (size_t)(end - line)), &is_new))
        return false;
    if (is_new)
        text_append_bytes(&report->text, line, length);
    return true;
}

static enum status keep_lines(struct bad_report *report, const char *text, size_t size,
                              struct error *err)
{
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) + 1 : size;
        if (end && !keep_line(report, text, length))
            return no_memory(err);
        text += length;
        size -= length;
    }
    return STATUS_OK;
}

static enum status read_file(struct bad_report *report, struct error *err)
{
    FILE *file = fopen(report->path, "re");
    if (!file && errno == ENOENT)
        return STATUS_OK;
    if (!file)
        return error_set_errno(err, STATUS_IO, "errors.report: open '%s'", report->path);
    char *text = malloc(BAD_REPORT_MAX_BYTES + 1);
    size_t size = text ? fread(text, 1, BAD_REPORT_MAX_BYTES + 1, file) : 0;
    enum status status = STATUS_OK;
    if (!text)
        status = no_memory(err);
    else if (ferror(file))
        status = error_set_errno(err, STATUS_IO, "errors.report: read '%s'", report->path);
    else if (size > BAD_REPORT_MAX_BYTES)
        status = error_set(err, STATUS_INVALID,
                           "errors.report: '%s' is longer than %d bytes: it is not a list of bad "
                           "chunks; move it away",
                           report->path, BAD_REPORT_MAX_BYTES);
    else
        status = keep_lines(report, text, size, err);
    free(text);
    fclose(file);
    return status;
}

enum status bad_report_new(const char *path, uint64_t fingerprint, uint64_t max_samples,
                           struct bad_report **ret_report, struct error *err)
{
    struct bad_report *report = calloc(1, sizeof *report);
    if (!report || !(report->path = strdup(path))) {
        free(report);
        return no_memory(err);
    }
    report->fingerprint = fingerprint;
    report->max_samples = max_samples;
    report->changed = true;
    enum status status = STATUS_OK;
    if (*path)
        status = file_check_writable(path, err);
    if (status)
        status = error_prefix(err, status, "errors.report: ");
    else if (*path)
        status = read_file(report, err);
    if (status) {
        bad_report_free(report);
        return status;
    }
    *ret_report = report;
    return STATUS_OK;
}

void bad_report_free(struct bad_report *report)
{
    if (!report)
        return;
    free(report->lines.slots);
    free(report->chunks.slots);
    free(report->samples.slots);
    text_done(&report->text);
    free(report->path);
    free(report);
}

/* The line's start, which tells it from others, up to the samples' end. */
static void append_key(const struct bad_report *report, const struct bad_chunk *bad,
                       struct text *out)
{
    text_append(out, "{\"dataset\":\"%016" PRIx64 "\",\"array\":", report->fingerprint);
    text_append_json(out, bad->array);
    text_append(out, ",\"chunk\":\"%s\",\"samples\":[%" PRIu64 ",%" PRIu64, bad->chunk.text,
                bad->first_sample, bad->first_sample + bad->sample_count);
}

static void append_line(struct bad_report *report, const struct text *key,
                        const struct bad_chunk *bad, int reader, const char *node)
{
    text_append_bytes(&report->text, key->data, key->length);
    text_append(&report->text, "],\"reader\":%d,\"node\":", reader);
    text_append_json(&report->text, node);
    text_append(&report->text, ",\"error\":");
    text_append_json(&report->text, bad->cause.message);
    text_append(&report->text, "}\n");
    report->changed = true;
}

static enum status count_samples(struct bad_report *report, const struct bad_chunk *bad, int reader,
                                 const char *node, struct error *err)
{
    bool is_new;
    for (uint64_t i = 0; i < bad->sample_count; i++) {
        if (!add(&report->samples, bad->first_sample + i + 1, &is_new))
            return no_memory(err);
        if (report->samples.count <= report->max_samples)
            continue;
        if (err)
            *err = bad->cause;
        return error_prefix(err, (enum status)bad->cause.status,
                            "more than errors.max_bad %" PRIu64
                            " bad samples; the last, of reader %d on %s: ",
                            report->max_samples, reader, node);
    }
    return STATUS_OK;
}

enum status bad_report_add(struct bad_report *report, const struct bad_chunk *bad, int reader,
                           const char *node, struct error *err)
{
    struct text key = {0};
    bool new_line = false, new_here = false;
    append_key(report, bad, &key);
    uint64_t hash = hash_of(key.data, key.length);
    enum status status = STATUS_OK;
    if (!add(&report->lines, hash, &new_line) || !add(&report->chunks, hash, &new_here))
        status = no_memory(err);
    if (!status && new_line)
        append_line(report, &key, bad, reader, node);
    if (!status && new_here)
        status = count_samples(report, bad, reader, node, err);
    if (!status && report->text.length > BAD_REPORT_MAX_BYTES) {
        if (err)
            *err = bad->cause;
        status = error_prefix(err, (enum status)bad->cause.status,
                              "more bad chunks than errors.report may list; the last: ");
    }
    text_done(&key);
    return status;
}

uint64_t bad_report_samples(const struct bad_report *report)
{
    return report->samples.count;
}

enum status bad_report_write(struct bad_report *report, struct error *err)
{
    if (!report->changed || !*report->path)
        return STATUS_OK;
    enum status status = file_replace(report->path, report->text.data ? report->text.data : "",
                                      report->text.length, err);
    if (status)
        return error_prefix(err, status, "errors.report: ");
    report->changed = false;
    return STATUS_OK;
}
