/* Writing values to a directory: under a temporary name in the same folder, renamed when complete.
 * Any thread. */
#include "store/directory/directory_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name beside `key` that no other writer on any node will choose. */
static char *partial_name(const char *key)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return NULL;
    const char *slash = strrchr(key, '/');
    int folder_length = slash ? (int)(slash - key) + 1 : 0;
    char *name = NULL;
    if (asprintf(&name, "%.*s" DIRECTORY_PARTIAL_PREFIX "%016" PRIx64, folder_length, key, random) <
        0)
        return NULL;
    return name;
}

/* Makes the folders of `key`, a copy that is ours to change and comes back as it was. */
static enum status make_folders(const struct directory *directory, char *key, struct error *err)
{
    for (char *slash = strchr(key, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(directory->fd, key, 0777) < 0 && errno != EEXIST)
            return error_set_errno(err, STATUS_IO, "make folder '%s/%s'", directory->path, key);
        *slash = '/';
    }
    return STATUS_OK;
}

/* Opens the new file `name`, making its folders only if they are missing. */
static enum status open_new(const struct directory *directory, char *name, int *ret_fd,
                            struct error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = openat(directory->fd, name, flags, 0666);
    if (fd < 0 && errno == ENOENT) {
        enum status status = make_folders(directory, name, err);
        if (status != STATUS_OK)
            return status;
        fd = openat(directory->fd, name, flags, 0666);
    }
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create '%s/%s'", directory->path, name);
    *ret_fd = fd;
    return STATUS_OK;
}

/* Writes everything and closes `fd`, whatever happens. */
static enum status write_whole(const struct directory *directory, const char *key, int fd,
                               const void *data, size_t size, struct error *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t put = write(fd, (const char *)data + done, size - done);
        if (put >= 0) {
            done += (size_t)put;
        } else if (errno != EINTR) {
            error_set_errno(err, STATUS_IO, "write '%s/%s' at byte %zu of %zu", directory->path,
                            key, done, size);
            close(fd);
            return STATUS_IO;
        }
    }
    if (close(fd) < 0)
        return error_set_errno(err, STATUS_IO, "close '%s/%s'", directory->path, key);
    return STATUS_OK;
}

enum status directory_put(const struct store *store, const char *key, const void *data, size_t size,
                          struct error *err)
{
    const struct directory *directory = directory_of(store);
    char *name = partial_name(key);
    if (!name)
        return error_set_errno(err, STATUS_NO_MEMORY, "name a temporary file for '%s/%s'",
                               directory->path, key);
    int fd = -1;
    enum status status = open_new(directory, name, &fd, err);
    if (status != STATUS_OK)
        goto free_name;
    status = write_whole(directory, key, fd, data, size, err);
    if (status == STATUS_OK && renameat(directory->fd, name, directory->fd, key) < 0)
        status = error_set_errno(err, STATUS_IO, "rename to '%s/%s'", directory->path, key);
    if (status != STATUS_OK)
        unlinkat(directory->fd, name, 0);
free_name:
    free(name);
    return status;
}
