/* Whole trees of a directory store: making, emptying, adding up. At the start and the end of a run
 * only; any thread.
 *
 * Trees are walked by descriptor, one open folder a level, and never through symbolic links. So
 * removal does not leave the store, and a sum ends.
 */
#include "store/directory/directory_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 64, OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Called for each entry of a folder, "." and ".." left out. `is_folder` is false for symbolic
 * links. */
typedef enum status visit_entry(int fd, const char *name, bool is_folder, void *argument,
                                struct error *err);

static enum status entry_is_folder(int fd, const struct dirent *entry, bool *ret_is_folder,
                                   struct error *err)
{
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
        struct stat info;
        if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            return error_set_errno(err, STATUS_IO, "stat '%s'", entry->d_name);
        is_folder = S_ISDIR(info.st_mode);
    }
    *ret_is_folder = is_folder;
    return STATUS_OK;
}

static enum status visit_one(DIR *folder, const struct dirent *entry, visit_entry *visit,
                             void *argument, struct error *err)
{
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return STATUS_OK;
    bool is_folder = false;
    enum status status = entry_is_folder(dirfd(folder), entry, &is_folder, err);
    return status != STATUS_OK ? status
                               : visit(dirfd(folder), entry->d_name, is_folder, argument, err);
}

/* Visits the entries of the folder `fd`, which is taken. */
static enum status visit_folder(int fd, visit_entry *visit, void *argument, struct error *err)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        error_set_errno(err, STATUS_IO, "list a folder");
        close(fd);
        return STATUS_IO;
    }
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry)
            status = visit_one(folder, entry, visit, argument, err);
        else if (errno)
            status = error_set_errno(err, STATUS_IO, "list a folder");
        else
            break;
    }
    closedir(folder);
    return status;
}

static enum status open_folder(int parent, const char *name, int depth, int *ret_fd,
                               struct error *err)
{
    if (depth > MAX_DEPTH)
        return error_set(err, STATUS_UNSUPPORTED, "folder '%s' is more than %d levels deep", name,
                         MAX_DEPTH);
    int fd = openat(parent, name, OPEN_FOLDER);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "open folder '%s'", name);
    *ret_fd = fd;
    return STATUS_OK;
}

/* Adding up
 * ---------------------------------------------------------------------------------------- */

struct sum {
    uint64_t bytes, count;
    int depth;
};

static enum status add_entry(int fd, const char *name, bool is_folder, void *argument,
                             struct error *err)
{
    struct sum *sum = argument;
    if (is_folder) {
        int below = -1;
        enum status status = open_folder(fd, name, sum->depth + 1, &below, err);
        if (status != STATUS_OK)
            return status;
        sum->depth++;
        status = visit_folder(below, add_entry, sum, err);
        sum->depth--;
        return status;
    }
    struct stat info;
    if (fstatat(fd, name, &info, 0) < 0)
        return errno == ENOENT ? STATUS_OK : error_set_errno(err, STATUS_IO, "stat '%s'", name);
    if (S_ISREG(info.st_mode)) {
        sum->bytes += (uint64_t)info.st_size;
        sum->count++;
    }
    return STATUS_OK;
}

enum status directory_sum(int fd, const char *path, uint64_t *bytes, uint64_t *count,
                          struct error *err)
{
    struct sum sum = {0};
    enum status status = visit_folder(fd, add_entry, &sum, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "store '%s': ", path);
    *bytes = sum.bytes;
    *count = sum.count;
    return STATUS_OK;
}

/* Removing
 * ----------------------------------------------------------------------------------------- */

struct removal {
    int depth;
    bool folders_only;
};

static enum status remove_entry(int fd, const char *name, bool is_folder, void *argument,
                                struct error *err)
{
    const struct removal *removal = argument;
    if (!is_folder && removal->folders_only)
        return STATUS_OK;
    if (is_folder) {
        int below = -1;
        enum status status = open_folder(fd, name, removal->depth + 1, &below, err);
        struct removal inner = {.depth = removal->depth + 1};
        if (status == STATUS_OK)
            status = visit_folder(below, remove_entry, &inner, err);
        if (status != STATUS_OK)
            return status;
    }
    if (unlinkat(fd, name, is_folder ? AT_REMOVEDIR : 0) < 0)
        return error_set_errno(err, STATUS_IO, "remove '%s'", name);
    return STATUS_OK;
}

/* Removes what lies below `fd`: folders first, so that the root's metadata documents go last and an
 * interrupted removal can be repeated. */
static enum status clear(int fd, const char *path, struct error *err)
{
    enum status status = STATUS_OK;
    for (int pass = 0; pass < 2 && status == STATUS_OK; pass++) {
        struct removal removal = {.folders_only = pass == 0};
        int copy = -1;
        status = open_folder(fd, ".", 0, &copy, err);
        if (status == STATUS_OK)
            status = visit_folder(copy, remove_entry, &removal, err);
    }
    return status != STATUS_OK ? error_prefix(err, status, "store '%s': ", path) : STATUS_OK;
}

/* Making
 * ------------------------------------------------------------------------------------------- */

static enum status mark_not_empty(int fd, const char *name, bool is_folder, void *argument,
                                  struct error *err)
{
    (void)fd, (void)name, (void)is_folder, (void)err;
    *(bool *)argument = true;
    return STATUS_OK;
}

static enum status is_empty(int fd, bool *ret_empty, struct error *err)
{
    int copy = -1;
    bool found = false;
    enum status status = open_folder(fd, ".", 0, &copy, err);
    if (status == STATUS_OK)
        status = visit_folder(copy, mark_not_empty, &found, err);
    if (status == STATUS_OK)
        *ret_empty = !found;
    return status;
}

static bool is_hierarchy(int fd)
{
    static const char *const documents[] = {"zarr.json", ".zgroup", ".zarray", ".zmetadata"};
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++)
        if (faccessat(fd, documents[i], F_OK, 0) == 0)
            return true;
    return false;
}

/* Empties the directory `fd` if the rules of store_create() allow it. */
static enum status make_empty(int fd, const char *path, bool overwrite, struct error *err)
{
    bool empty = false;
    enum status status = is_empty(fd, &empty, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "store '%s': ", path);
    if (empty)
        return STATUS_OK;
    if (!overwrite)
        return error_set(err, STATUS_INVALID,
                         "store '%s' exists and is not empty: choose another path, or replace it "
                         "with --overwrite",
                         path);
    if (!is_hierarchy(fd))
        return error_set(err, STATUS_INVALID,
                         "store '%s' is not empty and has no Zarr metadata at its root, so "
                         "it is not overwritten: choose another path, or remove it yourself",
                         path);
    return clear(fd, path, err);
}

enum status directory_create(const char *path, bool overwrite, struct error *err)
{
    if (mkdir(path, 0777) == 0)
        return STATUS_OK;
    if (errno != EEXIST)
        return error_set_errno(err, STATUS_IO, "create store '%s'", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno == ENOTDIR ? STATUS_INVALID : STATUS_IO,
                               "create store '%s': something else is there", path);
    enum status status = make_empty(fd, path, overwrite, err);
    close(fd);
    return status;
}
