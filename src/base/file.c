/* See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file before it has its name. */
struct temporary {
    char folder[PATH_MAX];
    char partial[PATH_MAX]; /* in the folder */
    bool special;           /* `path` is there and is no regular file: nothing is renamed over it */
    mode_t mode;
};

static enum status failed(const char *what, const char *path, struct error *err)
{
    return error_set_errno(err, STATUS_IO, "%s '%s'", what, path);
}

static enum status find_temporary(const char *path, struct temporary *ret_temporary,
                                  struct error *err)
{
    struct stat info;
    uint64_t random = 0;
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    struct temporary temporary = {.mode = 0666};
    if (strlen(path) + 32 >= sizeof temporary.partial || getrandom(&random, sizeof random, 0) < 0)
        return error_set(err, STATUS_IO, "write '%.80s...': the name is too long", path);
    if (stat(path, &info) == 0) {
        temporary.special = !S_ISREG(info.st_mode);
        temporary.mode = info.st_mode & 07777;
    }
    memcpy(temporary.folder, length ? path : ".", length ? length : 1);
    snprintf(temporary.partial, sizeof temporary.partial, "%.*s.%.200s.%08" PRIx32, (int)length,
             path, path + length, (uint32_t)random);
    *ret_temporary = temporary;
    return STATUS_OK;
}

static bool write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno != EINTR)
            return false;
        data += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* Not all file systems can flush a folder: those that cannot say EINVAL. */
static enum status flush_folder(const char *folder, struct error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed("open folder", folder, err);
    bool flushed = fsync(fd) == 0 || errno == EINVAL;
    int number = errno;
    close(fd);
    errno = number;
    return flushed ? STATUS_OK : failed("flush folder", folder, err);
}

static enum status write_special(const char *path, const void *data, size_t size, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return failed("open", path, err);
    bool written = write_all(fd, data, size);
    int number = errno;
    written = close(fd) == 0 && written;
    if (!written)
        errno = number;
    return written ? STATUS_OK : failed("write", path, err);
}

static enum status open_partial(const struct temporary *temporary, int *ret_fd, struct error *err)
{
    int fd = open(temporary->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, temporary->mode);
    if (fd < 0)
        return failed("create", temporary->partial, err);
    *ret_fd = fd;
    return STATUS_OK;
}

static enum status fill_partial(const struct temporary *temporary, const void *data, size_t size,
                                struct error *err)
{
    int fd;
    enum status status = open_partial(temporary, &fd, err);
    if (status != STATUS_OK)
        return status;
    bool written = write_all(fd, data, size) && fsync(fd) == 0;
    int number = errno;
    if (close(fd) != 0 && written) {
        number = errno;
        written = false;
    }
    errno = number;
    return written ? STATUS_OK : failed("write", temporary->partial, err);
}

enum status file_replace(const char *path, const void *data, size_t size, struct error *err)
{
    struct temporary temporary;
    enum status status = find_temporary(path, &temporary, err);
    if (status != STATUS_OK)
        return status;
    if (temporary.special)
        return write_special(path, data, size, err);
    status = fill_partial(&temporary, data, size, err);
    if (status == STATUS_OK && rename(temporary.partial, path) != 0)
        status = failed("rename a temporary file to", path, err);
    if (status != STATUS_OK) {
        unlink(temporary.partial);
        return status;
    }
    return flush_folder(temporary.folder, err);
}

enum status file_check_writable(const char *path, struct error *err)
{
    struct temporary temporary;
    int fd;
    enum status status = find_temporary(path, &temporary, err);
    if (status != STATUS_OK || temporary.special)
        return status;
    status = open_partial(&temporary, &fd, err);
    if (status != STATUS_OK)
        return status;
    close(fd);
    unlink(temporary.partial);
    return STATUS_OK;
}
