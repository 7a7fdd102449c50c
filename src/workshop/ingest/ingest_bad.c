/* Segments that cannot be decoded, though their video could be read. See ingest_internal.h. */
#include "workshop/ingest/ingest_internal.h"

#include "workshop/making/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status bad_segments_start(struct bad_segments *bad, int folder_fd, uint32_t part,
                               uint64_t segment_count, struct error *err)
{
    bad->folder_fd = folder_fd;
    bad->part = part;
    bad->are_bad = calloc(segment_count + 1, sizeof *bad->are_bad);
    if (!bad->are_bad)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " segments",
                         segment_count);
    pthread_mutex_init(&bad->mutex, NULL);
    return STATUS_OK;
}

static void take(struct bad_segments *bad, uint64_t segment, const char *reason)
{
    if (bad->are_bad[segment])
        return;
    bad->are_bad[segment] = true;
    bad->count++;
    text_append(&bad->reasons, "%" PRIu64 " %s\n", segment, reason);
}

static enum status append_line(const struct bad_segments *bad, uint64_t segment, const char *reason,
                               struct error *err)
{
    char name[32], line[JOURNAL_LINE_BYTES];
    snprintf(name, sizeof name, "bad.%u", bad->part);
    int length = snprintf(line, sizeof line, "\n%" PRIu64 " %s\n", segment, reason);
    int fd = openat(bad->folder_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    bool wrong = fd < 0 || write(fd, line, (size_t)length) != length;
    enum status status = STATUS_OK;
    if (wrong)
        status = error_set_errno(err, STATUS_IO, "write '%s' in the journal", name);
    if (fd >= 0)
        close(fd);
    return status;
}

enum status bad_segments_add(struct bad_segments *bad, uint64_t segment, const char *reason,
                             struct error *err)
{
    pthread_mutex_lock(&bad->mutex);
    enum status status = append_line(bad, segment, reason, err);
    if (status == STATUS_OK)
        take(bad, segment, reason);
    pthread_mutex_unlock(&bad->mutex);
    return status;
}

struct bad_lines {
    struct bad_segments *bad;
    uint64_t segment_count;
};

static void take_line(void *argument, char *line)
{
    const struct bad_lines *lines = argument;
    char *reason = NULL;
    uint64_t segment = strtoull(line, &reason, 10);
    line[strcspn(line, "\n")] = '\0';
    if (*reason == ' ' && segment < lines->segment_count)
        take(lines->bad, segment, reason + 1);
}

enum status bad_segments_read(struct bad_segments *bad, uint64_t segment_count, struct error *err)
{
    struct bad_lines lines = {bad, segment_count};
    return journal_read_lines(bad->folder_fd, "bad.", take_line, &lines, err);
}

void bad_segments_done(struct bad_segments *bad)
{
    if (bad->are_bad)
        pthread_mutex_destroy(&bad->mutex);
    free(bad->are_bad);
    text_done(&bad->reasons);
}
