/* See text_rows.h. */
#include "workshop/ingest/text_rows.h"

#include "base/size.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_BYTES = 65536 };

static enum status no_memory(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no memory for rows of numbers");
}

/* NumPy's files: magic, version, length of the header, and the header: a Python dict.
 * ------------------------------------------------------------------------------------------- */

static enum status bad_npy(struct error *err, const char *what)
{
    return error_set(err, STATUS_INVALID, "not an .npy file of rows of floats: %s", what);
}

static enum status read_npy_header(FILE *file, char *header, struct error *err)
{
    unsigned char start[12];
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0)
        return bad_npy(err, "the file begins otherwise");
    size_t length = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, file) != 2)
            return bad_npy(err, "the header is cut short");
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length >= HEADER_BYTES || fread(header, 1, length, file) != length)
        return bad_npy(err, "the header is cut short");
    header[length] = '\0';
    return STATUS_OK;
}

static enum status parse_npy_header(const char *header, struct text_rows *rows, struct error *err)
{
    const char *descr = strstr(header, "'descr'"), *shape = strstr(header, "'shape'");
    if (!descr || !shape || !(descr = strstr(descr, ": '")))
        return bad_npy(err, "the header is damaged");
    descr += 3;
    if (strncmp(descr, "<f2", 3) == 0)
        rows->dtype = DTYPE_FLOAT16;
    else if (strncmp(descr, "<f4", 3) == 0)
        rows->dtype = DTYPE_FLOAT32;
    else if (strncmp(descr, "<f8", 3) == 0)
        rows->dtype = DTYPE_FLOAT64;
    else
        return bad_npy(err, "the values are neither float16, float32 nor float64");
    if (strstr(header, "'fortran_order': True"))
        return bad_npy(err, "the array is in Fortran order; save numpy.ascontiguousarray() of it");
    int end = 0;
    if (sscanf(shape, "'shape': (%" SCNu64 ", %" SCNu64 "%n", &rows->count, &rows->length, &end) !=
            2 ||
        shape[end] != ')' || rows->length == 0)
        return bad_npy(err, "the array has other than two axes");
    return STATUS_OK;
}

/* Whether the rest of the file has so many bytes; asked before there is memory for them. */
static bool has_bytes(FILE *file, uint64_t bytes)
{
    struct stat info;
    off_t at = ftello(file);
    return fstat(fileno(file), &info) == 0 && at >= 0 && info.st_size >= at &&
           (uint64_t)(info.st_size - at) >= bytes;
}

static enum status read_npy(FILE *file, struct text_rows *rows, struct error *err)
{
    char *header = malloc(HEADER_BYTES);
    uint64_t items, bytes = 0;
    if (!header)
        return no_memory(err);
    enum status status = read_npy_header(file, header, err);
    if (status == STATUS_OK)
        status = parse_npy_header(header, rows, err);
    free(header);
    if (status != STATUS_OK)
        return status;
    if (!size_multiply(rows->count, rows->length, &items) ||
        !size_multiply(items, dtype_bytes(rows->dtype), &bytes))
        return bad_npy(err, "its shape is too large");
    if (!has_bytes(file, bytes))
        return bad_npy(err, "the file ends early");
    rows->values = malloc(bytes + 1);
    if (!rows->values)
        return no_memory(err);
    if (fread(rows->values, 1, bytes, file) != bytes)
        return bad_npy(err, "the file ends early");
    return STATUS_OK;
}

/* CSV
 * ------------------------------------------------------------------------------------------- */

/* Appends the numbers of a line; false: there is something else. */
static bool take_numbers(char *line, float *values, uint64_t most, uint64_t *ret_count)
{
    uint64_t count = 0;
    char *rest = line, *cell;
    line[strcspn(line, "\r\n")] = '\0';
    while ((cell = strsep(&rest, ","))) {
        char *end = NULL;
        errno = 0;
        float value = strtof(cell, &end);
        bool is_too_large = errno == ERANGE && isinf(value);
        if (end == cell || is_too_large || end[strspn(end, " \t")] != '\0' || count == most)
            return false;
        values[count++] = value;
    }
    *ret_count = count;
    return true;
}

static enum status append_row(struct text_rows *rows, const float *values, uint64_t *capacity,
                              struct error *err)
{
    size_t bytes = rows->length * sizeof *values;
    if (rows->count == *capacity) {
        uint64_t wanted = *capacity ? 2 * *capacity : 256;
        unsigned char *grown = realloc(rows->values, wanted * bytes);
        if (!grown)
            return no_memory(err);
        rows->values = grown;
        *capacity = wanted;
    }
    memcpy(rows->values + rows->count++ * bytes, values, bytes);
    return STATUS_OK;
}

static enum status read_csv(FILE *file, struct text_rows *rows, struct error *err)
{
    enum { MOST_NUMBERS = 65536 };
    float *values = malloc(MOST_NUMBERS * sizeof *values);
    char *line = NULL;
    size_t room = 0;
    uint64_t capacity = 0, count = 0, number = 0;
    ssize_t length;
    enum status status = values ? STATUS_OK : no_memory(err);
    rows->dtype = DTYPE_FLOAT32;
    while (status == STATUS_OK && (length = getline(&line, &room, file)) >= 0) {
        bool is_first = number++ == 0, is_text = strlen(line) == (size_t)length;
        if (is_text && line[strspn(line, " \t\r\n")] == '\0')
            continue;
        if (!is_text ||
            !take_numbers(is_first ? text_after_mark(line) : line, values, MOST_NUMBERS, &count)) {
            if (!is_first || !is_text)
                status = error_set(err, STATUS_INVALID, "line %" PRIu64 " is not a row of numbers",
                                   number);
            continue;
        }
        if (rows->length == 0)
            rows->length = count;
        if (count != rows->length)
            status =
                error_set(err, STATUS_INVALID,
                          "line %" PRIu64 " has %" PRIu64 " numbers, and the first row %" PRIu64,
                          number, count, rows->length);
        else
            status = append_row(rows, values, &capacity, err);
    }
    free(line);
    free(values);
    return status;
}

/* Both
 * ------------------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end)
{
    size_t length = strlen(path), end_length = strlen(end);
    return length > end_length && strcmp(path + length - end_length, end) == 0;
}

enum status text_rows_read(const char *path, uint64_t wanted, struct text_rows *ret_rows,
                           struct error *err)
{
    *ret_rows = (struct text_rows){0};
    bool is_npy = ends_with(path, ".npy");
    FILE *file = fopen(path, "re");
    enum status status = STATUS_OK;
    if (!file)
        status = error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "open");
    else if (is_npy)
        status = read_npy(file, ret_rows, err);
    else if (ends_with(path, ".csv"))
        status = read_csv(file, ret_rows, err);
    else
        status = error_set(err, STATUS_INVALID, "neither .npy nor .csv");
    if (file)
        fclose(file);
    if (status == STATUS_OK && ret_rows->count != wanted)
        status = error_set(err, STATUS_INVALID,
                           "%" PRIu64 " rows, and the list has %" PRIu64
                           " videos: each video has a row, those that are left out, too",
                           ret_rows->count, wanted);
    if (status != STATUS_OK)
        text_rows_done(ret_rows);
    return status != STATUS_OK ? error_prefix(err, status, "--text '%s': ", path) : STATUS_OK;
}

void text_rows_done(struct text_rows *rows)
{
    free(rows->values);
    *rows = (struct text_rows){0};
}
