/* See left.h. */
#include "job/left.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, PIECE_BYTES = 16384, LINE_BYTES = 64 };

static bool has_end(const struct text *text)
{
    return text->length >= 2 && memcmp(text->data + text->length - 2, ".\n", 2) == 0 &&
           (text->length == 2 || text->data[text->length - 3] == '\n');
}

/* Up to the line of a dot: whether the other end is closed then is the launcher's business. */
static enum status read_text(int fd, size_t most, struct text *ret_text, struct error *err)
{
    char piece[PIECE_BYTES];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (!has_end(ret_text)) {
        if (poll(&ready, 1, PATIENCE_MS) == 0)
            return error_set(err, STATUS_TIMEOUT, "--left: no line '.' has come within %d s",
                             PATIENCE_MS / 1000);
        ssize_t count = read(fd, piece, PIECE_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set_errno(err, STATUS_IO, "--left");
        if (count == 0)
            return error_set(
                err, STATUS_IO,
                "--left: the list ends without a line '.': whoever passes it on was cut "
                "short; start the readers again");
        text_append_bytes(ret_text, piece, (size_t)count);
        if (ret_text->length > most)
            return error_set(err, STATUS_INVALID, "--left: more than %zu bytes", most);
    }
    return STATUS_OK;
}

static enum status parse(char *text, uint64_t trainers, uint64_t end, uint64_t *ret_left,
                         uint32_t *ret_locality, uint32_t *ret_trainers, struct error *err)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && strcmp(line, ".") != 0;
         line = strtok_r(NULL, "\n", &rest)) {
        uint64_t rank, cursor;
        char more;
        if (sscanf(line, "locality %" SCNu32 "%c", ret_locality, &more) == 1 && *ret_locality > 0)
            continue;
        if (sscanf(line, "trainers %" SCNu32 "%c", ret_trainers, &more) == 1 && *ret_trainers > 0)
            continue;
        if (sscanf(line, "left %" SCNu64 " %" SCNu64 "%c", &rank, &cursor, &more) != 2 ||
            rank >= trainers || cursor > end)
            return error_set(
                err, STATUS_INVALID,
                "--left: '%.*s' is no 'left RANK CURSOR' of this run, no 'locality NUMBER', and no "
                "'trainers NUMBER'",
                LINE_BYTES, line);
        ret_left[rank] = cursor + 1;
    }
    return STATUS_OK;
}

static enum status read_file(const char *path, size_t most, struct text *ret_text,
                             struct error *err)
{
    if (strcmp(path, "-") == 0)
        return read_text(STDIN_FILENO, most, ret_text, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                               "--left: open '%s'", path);
    enum status status = read_text(fd, most, ret_text, err);
    close(fd);
    return status;
}

enum status left_share(const struct comm *comm, const char *path, uint64_t trainers, uint64_t end,
                       uint64_t *ret_left, uint32_t *ret_locality, uint32_t *ret_trainers,
                       struct error *err)
{
    struct text text = {0};
    enum status status = STATUS_OK;
    if (path && comm->rank == 0)
        status = read_file(path, (size_t)(trainers + 3) * LINE_BYTES, &text, err);
    status = comm_agree(comm, status, err);
    if (status == STATUS_OK) {
        void *bytes = text.data;
        size_t size = text.data ? text.length + 1 : 0;
        comm_share(comm, &bytes, &size);
        if (size > 0)
            status = parse(bytes, trainers, end, ret_left, ret_locality, ret_trainers, err);
        if (comm->rank != 0)
            free(bytes);
        status = comm_agree(comm, status, err);
    }
    text_done(&text);
    return status;
}
