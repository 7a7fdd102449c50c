/* What a sample of an encoding is: found with the first batch, and kept in the journal's folder.
 * See encoding.h. */
#include "workshop/encode/encoding_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char file_name[] = "encoded", part_name[] = "encoded.part";
enum { LINE_BYTES = 512 };

/* The file
 * ------------------------------------------------------------------------------------------- */

static enum status write_all(int fd, const void *bytes, size_t size, struct error *err)
{
    const char *at = bytes;
    for (size_t left = size; left > 0;) {
        ssize_t put = write(fd, at, left);
        if (put < 0 && errno != EINTR)
            return error_set_errno(err, STATUS_IO, "write '%s' of the journal", file_name);
        at += put > 0 ? put : 0;
        left -= put > 0 ? (size_t)put : 0;
    }
    return STATUS_OK;
}

/* Under the lock. Whole or not at all. */
static enum status write_file(const struct encoding *encoding, int folder, const char *digest,
                              struct error *err)
{
    struct text line = {0};
    int fd = openat(folder, part_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create '%s' in the journal", file_name);
    text_append(&line, "penstock-encoded 1 %s %" PRIu64 " %s %d", digest, encoding->shape[0],
                dtype_name(encoding->dtype), encoding->rank - 1);
    for (int d = 1; d < encoding->rank; d++)
        text_append(&line, " %" PRIu64, encoding->shape[d]);
    text_append(&line, "\n");
    enum status status = write_all(fd, line.data, line.length, err);
    if (status == STATUS_OK)
        status = write_all(fd, encoding->first, encoding->shape[0] * encoding->sample_bytes, err);
    if (status == STATUS_OK && fsync(fd) < 0)
        status = error_set_errno(err, STATUS_IO, "write '%s' of the journal", file_name);
    close(fd);
    if (status == STATUS_OK && renameat(folder, part_name, folder, file_name) < 0)
        status = error_set_errno(err, STATUS_IO, "write '%s' of the journal", file_name);
    text_done(&line);
    return status;
}

static enum status parse_line(struct encoding *encoding, FILE *file, const char *digest,
                              struct error *err)
{
    char line[LINE_BYTES], found[33] = "", dtype[16] = "";
    int end = 0, rank = 0;
    uint64_t count = 0, bytes;
    if (!fgets(line, sizeof line, file) ||
        sscanf(line, "penstock-encoded 1 %32s %" SCNu64 " %15s %d%n", found, &count, dtype, &rank,
               &end) != 4 ||
        rank < 0 || rank >= ENCODERS_MAX_RANK || dtype_by_name(dtype) == DTYPE_NONE)
        return error_set(err, STATUS_CORRUPT, "'%s' of the journal is damaged", file_name);
    if (strcmp(found, digest) != 0)
        return error_set(err, STATUS_INVALID,
                         "the destination was begun with another command or other options for "
                         "encoders; remove it to start anew");
    encoding->dtype = dtype_by_name(dtype);
    encoding->rank = rank + 1;
    encoding->shape[0] = count;
    bytes = dtype_bytes(encoding->dtype);
    char *at = line + end;
    for (int d = 1; d <= rank; d++) {
        encoding->shape[d] = strtoull(at, &at, 10);
        if (!size_multiply(bytes, encoding->shape[d], &bytes) || bytes == 0)
            return error_set(err, STATUS_CORRUPT, "'%s' of the journal is damaged", file_name);
    }
    encoding->sample_bytes = bytes;
    return STATUS_OK;
}

static enum status read_file(struct encoding *encoding, int fd, const char *digest,
                             struct error *err)
{
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return error_set_errno(err, STATUS_IO, "read '%s' of the journal", file_name);
    }
    uint64_t bytes = 0;
    enum status status = parse_line(encoding, file, digest, err);
    if (status == STATUS_OK &&
        (!size_multiply(encoding->sample_bytes, encoding->shape[0], &bytes) ||
         !(encoding->first = malloc(bytes))))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the first batch");
    if (status == STATUS_OK && fread(encoding->first, 1, bytes, file) != bytes)
        status = error_set(err, STATUS_CORRUPT, "'%s' of the journal is damaged", file_name);
    fclose(file);
    return status;
}

/* The first batch
 * ------------------------------------------------------------------------------------------- */

static enum status keep(struct encoding *encoding, const struct encoded *encoded, struct error *err)
{
    encoding->dtype = encoded->dtype;
    encoding->rank = encoded->rank;
    memcpy(encoding->shape, encoded->shape, sizeof encoding->shape);
    encoding->sample_bytes = encoded->bytes / encoded->shape[0];
    enum status status = encoding_check_memory(encoding, err);
    if (status != STATUS_OK)
        return status;
    encoding->first = malloc(encoded->bytes);
    if (!encoding->first)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the first batch");
    memcpy(encoding->first, encoded->data, encoded->bytes);
    return STATUS_OK;
}

static enum status ask_first(struct encoding *encoding, struct error *err)
{
    struct encoded encoded = {0};
    void *reader;
    uint64_t count = min_u64(encoding->plan->options->batch, encoding->sample_count);
    enum status status = encoding_open(encoding, &reader, err);
    if (status != STATUS_OK)
        return status;
    status = encoding_ask(reader, 0, (uint32_t)count, &encoded, err);
    if (status == STATUS_OK)
        status = keep(encoding, &encoded, err);
    encoded_done(&encoded);
    encoding_close(reader);
    return status;
}

/* Under the lock. */
static enum status find(struct encoding *encoding, int folder, const char *digest,
                        struct error *err)
{
    int fd = openat(folder, file_name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return read_file(encoding, fd, digest, err);
    if (errno != ENOENT)
        return error_set_errno(err, STATUS_IO, "open '%s' of the journal", file_name);
    enum status status = ask_first(encoding, err);
    return status != STATUS_OK ? status : write_file(encoding, folder, digest, err);
}

enum status encoding_settle(struct encoding *encoding, int folder_fd, const char *digest,
                            struct target_wish *wish, struct error *err)
{
    int lock = openat(folder_fd, "encoded.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0 && errno == ENOENT)
        return error_set(err, STATUS_NOT_FOUND, "the journal was removed meanwhile");
    while (lock < 0 || flock(lock, LOCK_EX) < 0)
        if (lock < 0 || errno != EINTR) {
            enum status failed = error_set_errno(err, STATUS_IO, "lock the journal's encoders");
            if (lock >= 0)
                close(lock);
            return failed;
        }
    enum status status = find(encoding, folder_fd, digest, err);
    close(lock);
    if (status != STATUS_OK)
        return status;
    wish->dtype = encoding->dtype;
    wish->rank = encoding->rank;
    memcpy(&wish->shape[1], &encoding->shape[1],
           (size_t)(encoding->rank - 1) * sizeof *wish->shape);
    return STATUS_OK;
}
