/* A directory as a store: a key is a path below the directory, a value is a file.
 *
 * The directory is opened once, and keys are opened relative to its descriptor. So a running job
 * reads on where another directory is mounted or moved to the path, and long paths are not walked
 * again for every chunk. directory_read.c reads values, directory_write.c writes them. Any thread.
 */
#include "store/directory/directory_internal.h"

#include "base/random.h"
#include "store/directory/file_kind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_DIRECTORY = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

/* Whether the errno `number` means that there is no such file. */
static bool is_absent(int number)
{
    return number == ENOENT || number == ENOTDIR;
}

/* A link whose target is not there: git-annex has such links for files whose content is elsewhere.
 */
static enum status refuse_link(const struct directory *directory, const char *path,
                               struct error *err)
{
    char target[256];
    ssize_t length = readlinkat(directory->fd, path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    return error_set(err, STATUS_IO,
                     "'%s/%s' is a link to '%s', which is not there: get the content (git annex "
                     "get, datalad get), or copy the dataset with its links followed (rsync -L)",
                     directory->path, path, target);
}

/* What is at the place of a folder in front of a key: *ret_is_absent, or a folder. */
static enum status look_at_folder(const struct directory *directory, const char *path,
                                  const char *key, bool *ret_is_absent, struct error *err)
{
    struct stat info;
    *ret_is_absent = fstatat(directory->fd, path, &info, AT_SYMLINK_NOFOLLOW) < 0;
    if (*ret_is_absent && !is_absent(errno))
        return error_set_errno(err, STATUS_IO, "open '%s/%s'", directory->path, path);
    if (*ret_is_absent)
        return STATUS_OK;
    if (S_ISLNK(info.st_mode) && fstatat(directory->fd, path, &info, 0) < 0)
        return refuse_link(directory, path, err);
    if (!S_ISDIR(info.st_mode))
        return error_set(err, STATUS_IO, "'%s/%s' is no folder, and '%s' should lie in it",
                         directory->path, path, key);
    return STATUS_OK;
}

/* Nothing has the name of `key`. Looks at the folders in front, from the last one up to one that is
 * there: then those in front of this one are there, too. So a missing chunk of a sparse array takes
 * one look here. `path` is a copy of the key, and is cut. */
static enum status tell_folders(const struct directory *directory, char *path, const char *key,
                                int number, struct error *err)
{
    bool is_absent = true;
    for (char *slash; is_absent && (slash = strrchr(path, '/'));) {
        *slash = '\0';
        enum status status = look_at_folder(directory, path, key, &is_absent, err);
        if (status != STATUS_OK)
            return status;
    }
    struct stat info;
    if (is_absent && fstat(directory->fd, &info) == 0 && info.st_nlink == 0)
        return error_set(err, STATUS_IO, "open '%s/%s': the store was removed while in use",
                         directory->path, key);
    errno = number;
    return error_set_errno(err, STATUS_NOT_FOUND, "open '%s/%s'", directory->path, key);
}

/* Only what its folder does not name is absent. A link to nothing is there, and so is a file where
 * a folder should be: these are errors, since readers fill missing chunks. */
static enum status tell_absent(const struct directory *directory, const char *key, int number,
                               struct error *err)
{
    char path[PATH_MAX];
    struct stat info;
    if (fstatat(directory->fd, key, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISLNK(info.st_mode))
            return refuse_link(directory, key, err);
        errno = ESTALE; /* it has come meanwhile: another try gets it */
    } else if (is_absent(errno)) {
        if (snprintf(path, sizeof path, "%s", key) < (int)sizeof path)
            return tell_folders(directory, path, key, number, err);
        errno = ENAMETOOLONG;
    }
    return error_set_errno(err, STATUS_IO, "open '%s/%s'", directory->path, key);
}

enum status directory_open_failed(const struct directory *directory, const char *key, int number,
                                  struct error *err)
{
    if (is_absent(number))
        return tell_absent(directory, key, number, err);
    errno = number;
    return error_set_errno(err, STATUS_IO, "open '%s/%s'", directory->path, key);
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
        return directory_open_failed(directory, key, errno, err);
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_IO, "'%s/%s' is not a file", directory->path, key);
    *ret_info = (struct store_info){(uint64_t)info.st_size, version_of(&info), info.st_mtim.tv_sec};
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
    if (status != STATUS_OK)
        return status;
    struct dirent **entries = NULL;
    int count = scandirat(fd, ".", &entries, is_listed, by_name);
    if (count < 0)
        status = error_set_errno(err, STATUS_IO, "list folder '%s/%s'", directory->path, prefix);
    for (int i = 0; i < count; i++) {
        if (status == STATUS_OK)
            status = visit(entries[i]->d_name, is_folder(fd, entries[i]), argument, err);
        free(entries[i]);
    }
    free(entries);
    close(fd);
    return status;
}

static enum status visit_names(DIR *folder, const struct directory *directory, const char *prefix,
                               store_visit_name *visit, void *argument, struct error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno)
            return error_set_errno(err, STATUS_IO, "list folder '%s/%s'", directory->path, prefix);
        if (!entry)
            return STATUS_OK;
        enum status status = is_listed(entry) ? visit(entry->d_name, 0, argument, err) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
    }
}

static enum status names(const struct store *store, const char *prefix, store_visit_name *visit,
                         void *argument, struct error *err)
{
    const struct directory *directory = directory_of(store);
    int fd = -1;
    enum status status = open_prefix(directory, prefix, &fd, err);
    if (status != STATUS_OK)
        return status;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        error_set_errno(err, STATUS_IO, "list folder '%s/%s'", directory->path, prefix);
        close(fd);
        return STATUS_IO;
    }
    status = visit_names(folder, directory, prefix, visit, argument, err);
    closedir(folder);
    return status;
}

static enum status stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                         struct error *err)
{
    const struct directory *directory = directory_of(store);
    struct stat info;
    if (fstatat(directory->fd, prefix[0] ? prefix : ".", &info, 0) < 0)
        return error_set_errno(err, is_absent(errno) ? STATUS_NOT_FOUND : STATUS_IO,
                               "stat folder '%s/%s'", directory->path, prefix);
    const uint64_t facts[] = {(uint64_t)info.st_ino, (uint64_t)info.st_ctim.tv_sec,
                              (uint64_t)info.st_ctim.tv_nsec, (uint64_t)info.st_size};
    *ret_stamp = 0;
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        *ret_stamp = random_u64(*ret_stamp, facts[i], i);
    return STATUS_OK;
}

static enum status usage(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err)
{
    const struct directory *directory = directory_of(store);
    struct store_usage sum = {0};
    int fd = -1;
    (void)most;
    enum status status = open_prefix(directory, prefix, &fd, err);
    if (status == STATUS_OK)
        status = directory_sum(fd, directory->path, &sum.bytes, &sum.count, err);
    if (status != STATUS_OK)
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
    .get = directory_get,
    .get_ranges = directory_get_ranges,
    .get_suffix = directory_get_suffix,
    .get_text = directory_get_text,
    .put = directory_put,
    .list = list,
    .names = names,
    .stamp = stamp,
    .usage = usage,
    .stat = stat_value,
    .identify = identify,
    .free = free_directory,
};

/* Why `path` could not be opened as a directory; `number` is the errno of that. */
static enum status not_a_directory(const char *path, int number, struct error *err)
{
    struct stat info;
    if (number == ENOENT && lstat(path, &info) == 0)
        return error_set(err, STATUS_NOT_FOUND,
                         "store '%s' is a link to a directory that is not there", path);
    bool is_file = number == ENOTDIR && stat(path, &info) == 0;
    const char *kind = is_file ? file_kind(path) : NULL;
    if (kind)
        return error_set(err, STATUS_INVALID, "store '%s' is %s", path, kind);
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
