/* Values of a directory: open, pread to the end, close; no stat before, no buffer of our own. Any
 * thread.
 *
 * Large values may be read whole past the page cache (O_DIRECT): as many whole blocks as there is
 * room for, in one call where the kernel allows. Plain reads of the same descriptor then find the
 * rest of the file, and its end. If the file system refuses O_DIRECT, all values are read plainly
 * from then on. Nothing else in a directory store changes after opening.
 */
#include "store/directory/directory_internal.h"

#include "store/kind/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* O_NONBLOCK: a named pipe in a dataset is an error, not a hang; files do not care. */
enum { OPEN_VALUE = O_RDONLY | O_CLOEXEC | O_NONBLOCK };

static enum status open_value(const struct directory *directory, const char *key, int *ret_fd,
                              struct error *err)
{
    int fd = openat(directory->fd, key, OPEN_VALUE);
    if (fd < 0)
        return directory_open_failed(directory, key, errno, err);
    *ret_fd = fd;
    return STATUS_OK;
}

static enum status read_failed(const struct directory *directory, const char *key, size_t at,
                               struct error *err)
{
    return error_set_errno(err, STATUS_IO, "read '%s/%s' at byte %zu", directory->path, key, at);
}

/* Reads up to `size` bytes at `offset`; less only at the end of the file. */
static enum status read_range(const struct directory *directory, const char *key, int fd,
                              void *buffer, size_t size, off_t offset, size_t *ret_size,
                              struct error *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (char *)buffer + done, size - done, offset + (off_t)done);
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return read_failed(directory, key, (size_t)offset + done, err);
    }
    *ret_size = done;
    return STATUS_OK;
}

static enum status too_long(const struct directory *directory, const char *key, int fd,
                            size_t capacity, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat '%s/%s'", directory->path, key);
    return error_set(err, STATUS_CORRUPT, "'%s/%s' has %jd bytes, at most %zu can be right",
                     directory->path, key, (intmax_t)info.st_size, capacity);
}

/* The file from byte `done` on, which must end within `capacity`. One byte more is asked for, into
 * memory of its own: a value of just the capacity, as raw chunks are, ends there, and needs no
 * second read to know. */
static enum status read_rest(const struct directory *directory, const char *key, int fd,
                             void *buffer, size_t capacity, size_t done, size_t *ret_size,
                             struct error *err)
{
    ssize_t got;
    do {
        char more;
        struct iovec parts[] = {{(char *)buffer + done, capacity - done}, {&more, 1}};
        got = preadv(fd, parts, 2, (off_t)done);
        if (got > 0)
            done += (size_t)got;
        else if (got < 0 && errno != EINTR)
            return read_failed(directory, key, done, err);
    } while (got < 0 || (got > 0 && done < capacity));
    if (done > capacity)
        return too_long(directory, key, fd, capacity, err);
    *ret_size = done;
    return STATUS_OK;
}

/* No more direct reads: said once. */
static void refuse_direct(const struct directory *directory, const char *key)
{
    struct directory *mutable = (struct directory *)directory;
    struct error note;
    if (!atomic_exchange(&mutable->direct, false))
        return;
    error_set(&note, STATUS_UNSUPPORTED,
              "store.direct: '%s/%s': the file system refuses O_DIRECT: this store is read through "
              "the page cache; set store.direct to false",
              directory->path, key);
    store_watch_note(directory->store.watch, &note);
}

static bool fits_direct(const struct directory *directory, const void *buffer, size_t capacity)
{
    return directory->direct && capacity >= STORE_DIRECT_BYTES &&
           (uintptr_t)buffer % STORE_DIRECT_ALIGNMENT == 0;
}

/* Reads whole blocks from the start, as many as are there and fit; *ret_size is how many bytes that
 * were. `fd` was opened with O_DIRECT, and is left without it. */
static enum status read_blocks(const struct directory *directory, const char *key, int fd,
                               void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    size_t room = capacity / STORE_DIRECT_ALIGNMENT * STORE_DIRECT_ALIGNMENT, done = 0;
    while (done < room && done % STORE_DIRECT_ALIGNMENT == 0) {
        ssize_t got = pread(fd, (char *)buffer + done, room - done, (off_t)done);
        if (got == 0)
            break;
        if (got > 0) {
            done += (size_t)got;
        } else if (errno == EINVAL) {
            refuse_direct(directory, key);
            break;
        } else if (errno != EINTR) {
            return read_failed(directory, key, done, err);
        }
    }
    if (fcntl(fd, F_SETFL, OPEN_VALUE) < 0)
        return read_failed(directory, key, done, err);
    *ret_size = done;
    return STATUS_OK;
}

enum status directory_get(const struct store *store, const char *key, store_begins *begins,
                          void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    const struct directory *directory = directory_of(store);
    (void)begins;
    enum status status = STATUS_OK;
    size_t done = 0;
    int fd = -1;
    if (fits_direct(directory, buffer, capacity)) {
        fd = openat(directory->fd, key, OPEN_VALUE | O_DIRECT);
        if (fd < 0 && errno == EINVAL)
            refuse_direct(directory, key);
        else if (fd < 0)
            return directory_open_failed(directory, key, errno, err);
        else
            status = read_blocks(directory, key, fd, buffer, capacity, &done, err);
    }
    if (fd < 0)
        status = open_value(directory, key, &fd, err);
    if (fd < 0)
        return status;
    if (status == STATUS_OK)
        status = read_rest(directory, key, fd, buffer, capacity, done, ret_size, err);
    close(fd);
    return status;
}

static enum status ends_early(const struct directory *directory, const char *key, uint64_t end,
                              uint64_t total, struct error *err)
{
    return error_set(err, STATUS_CORRUPT,
                     "'%s/%s' has %" PRIu64 " bytes, %" PRIu64 " are needed: it was cut short",
                     directory->path, key, total, end);
}

/* A piece that lies inside the file. */
static enum status read_piece(const struct directory *directory, const char *key, int fd,
                              const struct store_range *range, struct error *err)
{
    size_t size = 0;
    if (range->offset > INT64_MAX - range->size)
        return error_set(err, STATUS_CORRUPT, "'%s/%s': no file has %zu bytes at byte %" PRIu64,
                         directory->path, key, range->size, range->offset);
    enum status status = read_range(directory, key, fd, range->buffer, range->size,
                                    (off_t)range->offset, &size, err);
    if (status == STATUS_OK && size < range->size)
        status = ends_early(directory, key, range->offset + range->size, range->offset + size, err);
    return status;
}

/* `total` is what the file has to have. */
static enum status check_total(const struct directory *directory, const char *key, int fd,
                               uint64_t total, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat '%s/%s'", directory->path, key);
    if (S_ISREG(info.st_mode) && (uint64_t)info.st_size != total)
        return error_set(err, STATUS_CORRUPT,
                         "'%s/%s' has %jd bytes instead of %" PRIu64
                         ": it was cut short, or written for another array",
                         directory->path, key, (intmax_t)info.st_size, total);
    return STATUS_OK;
}

enum status directory_get_ranges(const struct store *store, const char *key,
                                 const struct store_range *ranges, size_t count, uint64_t total,
                                 struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_value(directory, key, &fd, err);
    if (status != STATUS_OK)
        return status;
    if (total != STORE_ANY_TOTAL)
        status = check_total(directory, key, fd, total, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = read_piece(directory, key, fd, &ranges[i], err);
    close(fd);
    return status;
}

static enum status read_suffix(const struct directory *directory, const char *key, int fd,
                               void *buffer, size_t size, uint64_t *ret_total, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat '%s/%s'", directory->path, key);
    uint64_t total = (uint64_t)info.st_size;
    if (total < size)
        return ends_early(directory, key, size, total, err);
    *ret_total = total;
    return read_piece(directory, key, fd, &(struct store_range){total - size, size, buffer}, err);
}

enum status directory_get_suffix(const struct store *store, const char *key, void *buffer,
                                 size_t size, uint64_t *ret_total, struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_value(directory, key, &fd, err);
    if (status != STATUS_OK)
        return status;
    status = read_suffix(directory, key, fd, buffer, size, ret_total, err);
    close(fd);
    return status;
}

/* Allocates by the file's size: `limit` is an upper bound for documents that are mostly far
 * smaller. */
static enum status read_text(const struct directory *directory, const char *key, int fd,
                             size_t limit, char **ret_text, size_t *ret_size, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat '%s/%s'", directory->path, key);
    if ((uintmax_t)info.st_size > limit)
        return too_long(directory, key, fd, limit, err);
    size_t capacity = (size_t)info.st_size, size = 0;
    char *text = malloc(capacity + 1);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the %zu bytes of '%s/%s'", capacity,
                         directory->path, key);
    enum status status = read_rest(directory, key, fd, text, capacity, 0, &size, err);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    text[size] = '\0';
    *ret_text = text;
    *ret_size = size;
    return STATUS_OK;
}

enum status directory_get_text(const struct store *store, const char *key, size_t limit,
                               char **ret_text, size_t *ret_size, struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_value(directory, key, &fd, err);
    if (status != STATUS_OK)
        return status;
    status = read_text(directory, key, fd, limit, ret_text, ret_size, err);
    close(fd);
    return status;
}
