/* See video_file.h. */
#include "workshop/ingest/video_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 32768 };

struct file {
    int fd;
    struct video_reads *reads;
};

static int fail(struct file *file)
{
    if (file->reads->failed == 0)
        file->reads->failed = errno;
    return AVERROR(errno);
}

static int read_some(void *argument, uint8_t *bytes, int size)
{
    struct file *file = argument;
    ssize_t got;
    do
        got = read(file->fd, bytes, (size_t)size);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return fail(file);
    return got == 0 ? AVERROR_EOF : (int)got;
}

/* A place before the file's beginning is a mistake of the video, and not of the disk. */
static int64_t seek_to(void *argument, int64_t offset, int whence)
{
    struct file *file = argument;
    struct stat info;
    if (whence == AVSEEK_SIZE)
        return fstat(file->fd, &info) == 0 ? (int64_t)info.st_size : fail(file);
    off_t at = lseek(file->fd, offset, whence & ~AVSEEK_FORCE);
    if (at < 0)
        return errno == EINVAL ? AVERROR(EINVAL) : fail(file);
    return at;
}

static enum status check_file(int fd, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return error_set_errno(err, STATUS_IO, "open");
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_UNSUPPORTED, "this is a %s, and not a file",
                         S_ISDIR(info.st_mode) ? "folder" : "device or a pipe");
    if (info.st_size == 0)
        return error_set(err, STATUS_CORRUPT, "the file is empty");
    return STATUS_OK;
}

/* Without waiting for who writes to a pipe. */
static enum status open_file(const char *path, int *ret_fd, struct error *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        bool is_bad_path = errno == ENOENT || errno == ENOTDIR || errno == ELOOP ||
                           errno == ENAMETOOLONG || errno == ENXIO;
        return error_set_errno(err, is_bad_path ? STATUS_NOT_FOUND : STATUS_IO, "open");
    }
    enum status status = check_file(fd, err);
    if (status != STATUS_OK)
        close(fd);
    else
        *ret_fd = fd;
    return status;
}

enum status video_file_open(const char *path, struct video_reads *reads, AVIOContext **ret_io,
                            struct error *err)
{
    int fd = -1;
    enum status status = open_file(path, &fd, err);
    if (status != STATUS_OK)
        return status;
    struct file *file = malloc(sizeof *file);
    uint8_t *buffer = av_malloc(BUFFER_BYTES);
    AVIOContext *io = NULL;
    if (file && buffer) {
        *file = (struct file){fd, reads};
        io = avio_alloc_context(buffer, BUFFER_BYTES, 0, file, read_some, NULL, seek_to);
    }
    if (!io) {
        av_free(buffer);
        free(file);
        close(fd);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a video");
    }
    *ret_io = io;
    return STATUS_OK;
}

void video_file_close(AVIOContext *io)
{
    if (!io)
        return;
    struct file *file = io->opaque;
    close(file->fd);
    free(file);
    av_freep(&io->buffer);
    avio_context_free(&io);
}

/* Files of playlists
 * ------------------------------------------------------------------------------------------- */

static int open_named(AVFormatContext *format, AVIOContext **ret_io, const char *url, int flags,
                      AVDictionary **options)
{
    static const char prefix[] = "file:";
    struct video_reads *reads = format->opaque;
    struct error err;
    (void)options;
    if (!reads)
        return AVERROR(ENOSYS);
    if (strncmp(url, prefix, sizeof prefix - 1) == 0)
        url += sizeof prefix - 1;
    else if (strchr(url, ':'))
        return AVERROR_PROTOCOL_NOT_FOUND;
    if (flags & AVIO_FLAG_WRITE)
        return AVERROR(EROFS);
    enum status status = video_file_open(url, reads, ret_io, &err);
    if (status == STATUS_IO && reads->failed == 0)
        reads->failed = err.system_errno;
    return status == STATUS_OK ? 0 : status == STATUS_NO_MEMORY ? AVERROR(ENOMEM) : AVERROR(ENOENT);
}

static int close_named(AVFormatContext *format, AVIOContext *io)
{
    (void)format;
    video_file_close(io);
    return 0;
}

void video_file_serve(AVFormatContext *format, struct video_reads *reads)
{
    format->opaque = reads;
    format->io_open = open_named;
    format->io_close2 = close_named;
}
