/* A directory as a store: a key is a path below it, a value is a file.
 *
 * The directory is opened once; keys are opened relative to its descriptor, so that renaming or
 * mounting over its path does not change what a running job reads, and long paths are not walked
 * again for every chunk. Reads are open, pread to the end, close: no stat before, no buffer of our
 * own. Writes go to a temporary name in the same folder, and are renamed when they are complete.
 *
 * Whole large values may be read past the page cache (O_DIRECT): as many whole blocks as there is
 * room for, in one call where the kernel allows; what is left, and where the file ends, is found
 * out by plain reads of the same descriptor. Where the file system refuses, so are all values from
 * then on: the only state that changes after opening.
 */
#include "store/store_internal.h"

#include "store/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NAME_BYTES = 64, OPEN_DIRECTORY = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

struct directory {
    struct store store;
    char *path; /* owned, for messages */
    int fd;
    _Atomic bool direct;
};

static const struct directory *directory_of(const struct store *store)
{
    return (const struct directory *)store;
}

/* Reading
 * ------------------------------------------------------------------------------------------ */

static bool is_absent(int number)
{
    return number == ENOENT || number == ENOTDIR;
}

/* A key may be absent because the whole store is: then its chunks must not pass for missing ones,
 * which readers fill. */
static enum status open_failed(const struct directory *directory, const char *key, int number,
                               struct error *err)
{
    struct stat info;
    bool removed = fstat(directory->fd, &info) == 0 && info.st_nlink == 0;
    if (removed)
        return error_set(err, STATUS_IO, "open '%s/%s': the store was removed while in use",
                         directory->path, key);
    errno = number;
    return error_set_errno(err, is_absent(number) ? STATUS_NOT_FOUND : STATUS_IO, "open '%s/%s'",
                           directory->path, key);
}

/* O_NONBLOCK: a named pipe in a dataset is an error, not a hang; files do not care. */
enum { OPEN_VALUE = O_RDONLY | O_CLOEXEC | O_NONBLOCK };

static enum status open_value(const struct directory *directory, const char *key, int *ret_fd,
                              struct error *err)
{
    int fd = openat(directory->fd, key, OPEN_VALUE);
    if (fd < 0)
        return open_failed(directory, key, errno, err);
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
    if (!atomic_exchange(&mutable->direct, false) || !directory->store.watch)
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

static enum status get(const struct store *store, const char *key, store_begins *begins,
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
            return open_failed(directory, key, errno, err);
        else
            status = read_blocks(directory, key, fd, buffer, capacity, &done, err);
    }
    if (fd < 0)
        status = open_value(directory, key, &fd, err);
    if (fd < 0)
        return status;
    if (!status)
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
    if (!status && size < range->size)
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

static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_value(directory, key, &fd, err);
    if (status)
        return status;
    if (total != STORE_ANY_TOTAL)
        status = check_total(directory, key, fd, total, err);
    for (size_t i = 0; !status && i < count; i++)
        status = read_piece(directory, key, fd, &ranges[i], err);
    close(fd);
    return status;
}

static enum status read_tail(const struct directory *directory, const char *key, int fd,
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

static enum status get_tail(const struct store *store, const char *key, void *buffer, size_t size,
                            uint64_t *ret_total, struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_value(directory, key, &fd, err);
    if (status)
        return status;
    status = read_tail(directory, key, fd, buffer, size, ret_total, err);
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
    if (status) {
        free(text);
        return status;
    }
    text[size] = '\0';
    *ret_text = text;
    *ret_size = size;
    return STATUS_OK;
}

static enum status get_text(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_value(directory, key, &fd, err);
    if (status)
        return status;
    status = read_text(directory, key, fd, limit, ret_text, ret_size, err);
    close(fd);
    return status;
}

/* Looking
 * ------------------------------------------------------------------------------------------ */

/* Modification time and size, stirred: the inode number is not the same on all nodes everywhere. */
static uint64_t version_of(const struct stat *info)
{
    uint64_t version = (uint64_t)info->st_mtim.tv_sec * 1000000000u;
    version += (uint64_t)info->st_mtim.tv_nsec;
    return (version ^ (uint64_t)info->st_size << 40) * 0x9e3779b97f4a7c15u +
           (uint64_t)info->st_size;
}

static enum status stat_value(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    const struct directory *directory = directory_of(store);
    struct stat info;
    if (fstatat(directory->fd, key, &info, 0) < 0)
        return open_failed(directory, key, errno, err);
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_IO, "'%s/%s' is not a file", directory->path, key);
    *ret_info = (struct store_info){(uint64_t)info.st_size, version_of(&info)};
    return STATUS_OK;
}

static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    const struct directory *directory = directory_of(store);
    char *path = realpath(directory->path, NULL);
    if (!path)
        return error_set_errno(err, STATUS_IO, "find the real path of '%s'", directory->path);
    text_append(out, "file://%s\n", path);
    free(path);
    return STATUS_OK;
}

/* Writing
 * ------------------------------------------------------------------------------------------ */

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
        if (status)
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

static enum status put(const struct store *store, const char *key, const void *data, size_t size,
                       struct error *err)
{
    const struct directory *directory = directory_of(store);
    char *name = partial_name(key);
    if (!name)
        return error_set_errno(err, STATUS_NO_MEMORY, "name a temporary file for '%s/%s'",
                               directory->path, key);
    int fd = -1;
    enum status status = open_new(directory, name, &fd, err);
    if (status)
        goto free_name;
    status = write_whole(directory, key, fd, data, size, err);
    if (!status && renameat(directory->fd, name, directory->fd, key) < 0)
        status = error_set_errno(err, STATUS_IO, "rename to '%s/%s'", directory->path, key);
    if (status)
        unlinkat(directory->fd, name, 0);
free_name:
    free(name);
    return status;
}

/* Listing
 * ------------------------------------------------------------------------------------------ */

static enum status open_prefix(const struct directory *directory, const char *prefix, int *ret_fd,
                               struct error *err)
{
    int fd = openat(directory->fd, prefix[0] ? prefix : ".", OPEN_DIRECTORY);
    if (fd < 0)
        return error_set_errno(err, is_absent(errno) ? STATUS_NOT_FOUND : STATUS_IO,
                               "open folder '%s/%s'", directory->path, prefix);
    *ret_fd = fd;
    return STATUS_OK;
}

static int is_listed(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
           strncmp(entry->d_name, DIRECTORY_PARTIAL_PREFIX, strlen(DIRECTORY_PARTIAL_PREFIX)) != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_folder(int fd, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    struct stat info;
    return fstatat(fd, entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static enum status list(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_prefix(directory, prefix, &fd, err);
    if (status)
        return status;
    struct dirent **entries = NULL;
    int count = scandirat(fd, ".", &entries, is_listed, by_name);
    if (count < 0)
        status = error_set_errno(err, STATUS_IO, "list folder '%s/%s'", directory->path, prefix);
    for (int i = 0; i < count; i++) {
        if (!status)
            status = visit(entries[i]->d_name, is_folder(fd, entries[i]), argument, err);
        free(entries[i]);
    }
    free(entries);
    close(fd);
    return status;
}

static enum status usage(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err)
{
    const struct directory *directory = directory_of(store);
    struct store_usage sum = {0};
    int fd = -1;
    (void)most;
    enum status status = open_prefix(directory, prefix, &fd, err);
    if (!status)
        status = directory_sum(fd, directory->path, &sum.bytes, &sum.count, err);
    if (status)
        return status;
    *ret_usage = sum;
    return STATUS_OK;
}

/* Opening
 * ------------------------------------------------------------------------------------------ */

static void free_directory(struct store *store)
{
    struct directory *directory = (struct directory *)store;
    close(directory->fd);
    free(directory->path);
    free(directory);
}

static const struct store_operations operations = {
    .get = get,
    .get_ranges = get_ranges,
    .get_tail = get_tail,
    .get_text = get_text,
    .put = put,
    .list = list,
    .usage = usage,
    .stat = stat_value,
    .identify = identify,
    .free = free_directory,
};

static bool has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text), suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

/* Why `path` could not be opened as a directory; `number` is the errno of that. */
static enum status not_a_directory(const char *path, int number, struct error *err)
{
    struct stat info;
    bool is_file = number == ENOTDIR && stat(path, &info) == 0;
    if (is_file && has_suffix(path, ".zip"))
        return error_set(err, STATUS_UNSUPPORTED,
                         "store '%s': zip stores are not supported: unpack it to a directory",
                         path);
    if (is_file)
        return error_set(err, STATUS_INVALID,
                         "store '%s' is a file: name the directory that holds the Zarr hierarchy",
                         path);
    errno = number;
    if (is_absent(number))
        return error_set(err, STATUS_NOT_FOUND, "store '%s': no such directory", path);
    return error_set_errno(err, STATUS_IO, "open store '%s'", path);
}

enum status directory_open(const char *path, const struct store_options *options,
                           struct store **ret_store, struct error *err)
{
    int fd = open(path, OPEN_DIRECTORY);
    if (fd < 0)
        return not_a_directory(path, errno, err);
    struct directory *directory = calloc(1, sizeof *directory);
    char *copy = strdup(path);
    if (!directory || !copy) {
        close(fd);
        free(directory);
        free(copy);
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", path);
    }
    *directory = (struct directory){.store = {.operations = &operations, .watch = options->watch},
                                    .path = copy,
                                    .fd = fd,
                                    .direct = options->settings->direct};
    *ret_store = &directory->store;
    return STATUS_OK;
}
